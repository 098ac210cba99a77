"""Fetches the host keys of servers and adds those a person accepted to a known_hosts file."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rackwright.inventory import Host
from remote.hostkeys import HostKeyChanged, HostKeyUnknown, fingerprint, verify
from remote.transport import Network, UnreachableError


@dataclass(frozen=True)
class Found:
    """A server's key: ``new``, ``known`` (on record), ``changed`` (another is on record) or ``failed``."""

    host: str
    state: Literal["new", "known", "changed", "failed"]
    text: str
    line: str = ""
    file: Path = Path()


def fetch(network: Network, host: Host) -> Found:
    """The server's key, compared with the record; never raises for what a host does."""
    try:
        at, key = network.host_key(host)
    except UnreachableError as error:
        return Found(host.name, "failed", f"{error.problem}; {error.next}")
    name, blob = key.get_name(), key.asbytes()
    shown = f"{at.label}  {name}  {fingerprint(blob)}"
    try:
        verify(network.known(at.known_hosts_files), at.label, name, blob)
    except HostKeyUnknown:
        line = f"{at.label} {name} {base64.b64encode(blob).decode()}\n"
        return Found(host.name, "new", shown, line, at.known_hosts_files[0])
    except HostKeyChanged as error:
        return Found(host.name, "changed", str(error))
    return Found(host.name, "known", shown)


def record(found: Sequence[Found]) -> None:
    """Append the keys, one line each; what the file holds already is left as it is."""
    for path in sorted({item.file for item in found}):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lines = list(dict.fromkeys(item.line for item in found if item.file == path))
        old = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        glue = "\n" if old and not old.endswith("\n") else ""
        with path.open("a", encoding="utf-8") as file:
            file.write(glue + "".join(lines))
        with contextlib.suppress(OSError):
            path.chmod(0o600)
