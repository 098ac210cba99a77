"""The way to a cluster, as kubectl finds it: a context with its certificates and credentials."""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackwright.errors import CannotRun, Problem, RackwrightError, listing
from rackwright.yamlio import load_yaml

PLUGIN_TIMEOUT_S = 60
Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Connection:
    """``server``: URL, a path included. ``name``: what its certificate must be for, where that differs."""

    server: str
    tls: ssl.SSLContext | None
    name: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    proxy: str | None = None


def files(environment: Mapping[str, str] | None = None) -> list[Path]:
    """The kubeconfig's files in order; what an earlier one says wins."""
    named = (os.environ if environment is None else environment).get("KUBECONFIG", "")
    paths = [Path(part) for part in named.split(os.pathsep) if part]
    return paths or [Path.home() / ".kube" / "config"]


def connection(context: str, paths: Sequence[Path] | None = None) -> Connection:
    """How ``context`` is reached.

    Raises:
        CannotRun: there is no such context, or its certificates or credentials cannot be had.
    """
    found = files() if paths is None else paths
    known = {kind: _entries(found, kind) for kind in ("contexts", "clusters", "users")}
    chosen = _named(known["contexts"], "context", context, found)
    cluster = _named(known["clusters"], "cluster", chosen.get("cluster"), found)
    user = _named(known["users"], "user", chosen["user"], found) if chosen.get("user") else {}
    try:
        return _connection(cluster, user)
    except RackwrightError:
        raise
    except (OSError, ValueError, KeyError, subprocess.SubprocessError, binascii.Error) as error:
        raise CannotRun(
            Problem(
                f"kubeconfig context {context}",
                "must hold certificates and credentials that can be used",
                f"{type(error).__name__}: {error}".splitlines()[0],
                "the cluster cannot be asked what it is",
                f"try it: kubectl --context {context} get namespace kube-system",
            )
        ) from None


def _entries(paths: Sequence[Path], kind: str) -> dict[str, Entry]:
    """Entries of one kind by name; paths in them are from their file's folder."""
    word = kind.removesuffix("s")
    found: dict[str, Entry] = {}
    for path in paths:
        if not path.is_file():
            continue
        data = load_yaml(path).data
        for entry in (data.get(kind) or []) if isinstance(data, Mapping) else []:
            if isinstance(entry, Mapping) and isinstance(entry.get(word), Mapping):
                found.setdefault(str(entry.get("name")), {**entry[word], "": path.parent})
    return found


def _named(entries: Mapping[str, Entry], kind: str, name: object, paths: Sequence[Path]) -> Entry:
    if name in entries:
        return entries[str(name)]
    raise CannotRun(
        Problem(
            f"kubeconfig {os.pathsep.join(map(str, paths))}",
            f"must have the {kind} {name}",
            listing(sorted(entries)) or "none",
            "the cluster that is meant cannot be reached",
            "kubectl config get-contexts; another file: export KUBECONFIG=FILE",
        )
    )


def _connection(cluster: Entry, user: Entry) -> Connection:
    server = str(cluster["server"])
    user = {**user, **_from_plugin(user)}
    return Connection(
        server.rstrip("/"),
        _tls(cluster, user) if server.startswith("https:") else None,
        cluster.get("tls-server-name"),
        _headers(user),
        cluster.get("proxy-url"),
    )


def _tls(cluster: Entry, user: Entry) -> ssl.SSLContext:
    with _file(cluster, "certificate-authority") as authority:
        context = ssl.create_default_context(cafile=authority)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    with _file(user, "client-certificate") as certificate, _file(user, "client-key") as key:
        if certificate:
            context.load_cert_chain(certificate, key)
    return context


@contextmanager
def _file(entry: Entry, key: str) -> Iterator[str | None]:
    """A path to what ``key`` names or, as base64, ``key-data`` holds."""
    if data := entry.get(f"{key}-data"):
        with tempfile.NamedTemporaryFile() as kept:  # for its owner's eyes, gone once it is read
            kept.write(base64.b64decode(data, validate=True))
            kept.flush()
            yield kept.name
    elif path := entry.get(key):
        yield str(Path(entry[""]) / path)
    else:
        yield None


def _headers(user: Entry) -> dict[str, str]:
    token = user.get("token")
    if path := user.get("tokenFile"):
        token = (Path(user[""]) / path).read_text(encoding="utf-8").strip()
    if token:
        return {"Authorization": f"Bearer {token}"}
    if "username" in user:
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _from_plugin(user: Entry) -> dict[str, Any]:
    """What a credential plugin (of a cloud, an identity provider) answers."""
    plugin = user.get("exec")
    if not plugin:
        return {}
    asked = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    extra = {item["name"]: item["value"] for item in plugin.get("env") or []}
    command = str(plugin["command"])
    here = str(Path(user[""]) / command) if "/" in command else command
    done = subprocess.run(
        [here, *map(str, plugin.get("args") or [])],
        env={**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=PLUGIN_TIMEOUT_S,
    )  # fmt: skip
    status = json.loads(done.stdout)["status"]
    found = {"token": status.get("token")}
    for key, name in (("clientCertificateData", "client-certificate"), ("clientKeyData", "client-key")):
        if status.get(key):
            found[f"{name}-data"] = base64.b64encode(status[key].encode()).decode()
    return {key: value for key, value in found.items() if value}
