"""Host keys as OpenSSH keeps them: read, matched and compared, without trusting anything new."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from remote.sshlib import paramiko

DEFAULT_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts")


def host_label(address: str, port: int) -> str:
    """The name under which OpenSSH files a server's key."""
    return address if port == 22 else f"[{address}]:{port}"


def fingerprint(blob: bytes) -> str:
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


@dataclass(frozen=True)
class Entry:
    names: tuple[str, ...]
    key_type: str
    blob: bytes
    marker: str = ""
    place: str = ""

    def matches(self, label: str) -> bool:
        if self.names[0].startswith("|1|"):
            return _hashed_match(self.names[0], label)
        found = False
        for pattern in self.names:
            if pattern.startswith("!") and _pattern_match(pattern[1:], label):
                return False
            found = found or _pattern_match(pattern, label)
        return found


def _pattern_match(pattern: str, label: str) -> bool:
    if pattern == label:
        return True
    if not any(c in pattern for c in "*?"):
        return False
    return fnmatch.fnmatchcase(label, pattern.replace("[", "[[]"))


def _hashed_match(name: str, label: str) -> bool:
    try:
        _, _, salt, wanted = name.split("|")
        digest = hmac.new(base64.b64decode(salt), label.encode(), hashlib.sha1).digest()
        return hmac.compare_digest(digest, base64.b64decode(wanted))
    except (ValueError, binascii.Error):
        return False


@dataclass
class KnownHosts:
    """Entries of one or more files. Looking up a plain name costs no scan."""

    files: tuple[Path, ...] = ()
    _plain: dict[str, list[Entry]] = field(default_factory=dict)
    _patterns: list[Entry] = field(default_factory=list)

    @classmethod
    def load(cls, files: Sequence[Path]) -> KnownHosts:
        known = cls(files=tuple(files))
        for path in files:
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            for number, line in enumerate(text.splitlines(), 1):
                entry = parse_line(line, f"{path}:{number}")
                if entry:
                    known.add(entry)
        return known

    def add(self, entry: Entry) -> None:
        special = entry.names[0].startswith("|1|") or any(c in n for n in entry.names for c in "*?!")
        if special:
            self._patterns.append(entry)
            return
        for name in entry.names:
            self._plain.setdefault(name, []).append(entry)

    def entries(self, label: str) -> list[Entry]:
        return [*self._plain.get(label, []), *(e for e in self._patterns if e.matches(label))]

    def types(self, label: str) -> list[str]:
        """Key types known for this server, so that it can be asked for one of them."""
        return list(dict.fromkeys(e.key_type for e in self.entries(label) if not e.marker))


def parse_line(line: str, place: str) -> Entry | None:
    """One line of a known_hosts file; None for comments and for lines that are not understood."""
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if len(words) < 3:
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except (ValueError, binascii.Error):
        return None
    return Entry(tuple(words[0].split(",")), words[1], blob, marker, place)


class HostKeyUnknown(paramiko.SSHException):
    """Nobody has vouched for this server's key."""

    def __init__(self, label: str, blob: bytes, key_type: str) -> None:
        super().__init__(f"host key of {label} is not known ({key_type} {fingerprint(blob)})")


class HostKeyChanged(paramiko.SSHException):
    """The server shows another key than the one on record."""

    def __init__(self, label: str, blob: bytes, known: Entry, *, revoked: bool = False) -> None:
        self.label = label
        self.place = known.place
        what = "is revoked" if revoked else "has CHANGED"
        super().__init__(
            f"host key of {label} {what}: it shows {fingerprint(blob)}, {known.place} has "
            f"{fingerprint(known.blob)}"
        )


class StrictPolicy(paramiko.MissingHostKeyPolicy):
    """Accepts a server only if its key is on record."""

    def __init__(self, known: KnownHosts, label: str) -> None:
        self._known = known
        self._label = label

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        verify(self._known, self._label, key.get_name(), key.asbytes())


def verify(known: KnownHosts, label: str, key_type: str, blob: bytes) -> None:
    """Nothing, if the key is on record.

    Raises:
        HostKeyChanged: another key of this type is on record, or this one is revoked.
        HostKeyUnknown: no key is on record.
    """
    entries = known.entries(label)
    for entry in entries:
        if entry.marker == "@revoked" and entry.blob == blob:
            raise HostKeyChanged(label, blob, entry, revoked=True)
    plain = [e for e in entries if not e.marker]
    if any(e.blob == blob for e in plain):
        return
    if plain:
        same = [e for e in plain if e.key_type == key_type]
        raise HostKeyChanged(label, blob, (same or plain)[0])
    raise HostKeyUnknown(label, blob, key_type)


def resolve_files(override: str | Iterable[str] | None) -> tuple[Path, ...]:
    names = DEFAULT_FILES if override is None else ((override,) if isinstance(override, str) else override)
    return tuple(Path(name).expanduser() for name in names)
