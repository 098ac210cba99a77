"""The dynamic provider of one host's files and units: create, diff, update, read and delete.

Inputs and outputs have the same keys: ``host`` (how it is reached), ``root``, ``deadline_s``, ``files``,
``modes``, ``state`` (of replicas and nginx), ``script`` (the plan's host.sh, whatever the host's copy is),
and as secrets ``secret_files`` and ``sudo_password``. What a refresh finds takes the place of what was there:
a difference shows as the engine shows any other, line by line.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from pulumi.dynamic import (
    ConfigureRequest,
    CreateResult,
    DiffResult,
    ReadResult,
    ResourceProvider,
    UpdateResult,
)

from rackwright.errors import RackwrightError
from rackwright.hosts import unified
from rackwright.hosts.model import release_id
from rackwright.inventory import Host
from stacks.hosts.over_ssh import DIFFERS, Remote, digest

Props = dict[str, Any]
SECRET_MODE = "0600"  # noqa: S105 - a mode, not a secret
MISSING = "missing"
SERIALIZED = "__provider"
"""The SDK's own input: this class, pickled by name."""


class HostProvider(ResourceProvider):
    """Stateless: everything is in the properties, so that it is pickled by name and never changes."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:
        _tell_plainly()

    def create(self, props: Props) -> CreateResult:
        _put_and_activate(props)
        return CreateResult(id_=props["host"]["name"], outs=_outs(props))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        _put_and_activate(_news)
        return UpdateResult(outs=_outs(_news))

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        moved = ["host"] if _olds.get("host", {}).get("name") != _news["host"]["name"] else []
        changed = [key for key, value in _news.items() if key != SERIALIZED and _olds.get(key) != value]
        if "files" in changed:
            sys.stderr.write(unified(_olds.get("files", {}), _news["files"]))
            sys.stderr.flush()
        return DiffResult(changes=bool(changed or moved), replaces=moved, delete_before_replace=True)

    def read(self, id_: str, props: Props) -> ReadResult:
        remote = _remote(props)
        found = remote.found()
        if found is None:
            return ReadResult(id_="", outs={})
        shown = remote.content() if _differ(found.sums, props["files"]) else {}
        files = {
            path: props["files"][path]
            if path in props["files"] and found.sums[path] == digest(props["files"][path])
            else shown.get(path, DIFFERS)
            for path in found.sums
            if path not in props["secret_files"]
        }
        secret = {
            path: text if found.sums.get(path) == digest(text) else DIFFERS
            for path, text in props["secret_files"].items()
        }
        modes = {path: found.modes.get(path, MISSING) for path in {*props["modes"], *found.modes}}
        outs = {**props, "files": files, "secret_files": secret, "modes": modes, "state": dict(found.state)}
        return ReadResult(id_=id_, outs=outs, inputs=dict(outs))

    def delete(self, _id: str, _props: Props) -> None:
        _remote(_props).remove()


def _differ(sums: Mapping[str, str], files: Mapping[str, str]) -> bool:
    return any(sums.get(path) != digest(text) for path, text in files.items()) or bool(set(sums) - set(files))


def _put_and_activate(props: Props) -> None:
    remote = _remote(props)
    files, modes = {**props["files"], **props["secret_files"]}, dict(props["modes"])
    release = remote.put(release_id(files, modes), files, modes)
    deadline_s = float(props["deadline_s"])
    remote.check(release, deadline_s=deadline_s)
    remote.activate(release, deadline_s=deadline_s)


def _remote(props: Props) -> Remote:
    return Remote(
        host=_host(props["host"]),
        root=props["root"],
        script=props["script"],
        sudo_password=props.get("sudo_password") or "",
    )


def _host(given: Mapping[str, Any]) -> Host:
    """Numbers arrive as floats: the protocol knows no others."""
    return Host(**{**given, **({"port": int(given["port"])} if "port" in given else {})})


def _outs(props: Props) -> Props:
    """The inputs: after an activation they are what stands there."""
    return dict(props)


def _tell_plainly() -> None:
    """In the provider's own process, the SDK answers an error with its traceback; ours explain themselves."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name == "pulumi.dynamic.__main__":
        setattr(main, "traceback", SimpleNamespace(format_exc=_told))  # noqa: B010 - private to the SDK


def _told() -> str:
    error = sys.exc_info()[1]
    return str(error) if isinstance(error, RackwrightError) else traceback.format_exc()
