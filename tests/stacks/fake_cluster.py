"""An API server of plain data: what a plan stands on, without a cluster. Refuses every change."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from rackwright.plan import Plan
from stacks.kube_api import Api, ApiError
from stacks.kubeconfig import Connection
from tests.stacks.objects import manifests
from tools.lab.crds import CLUSTER_WIDE, plural
from tools.lab.world import controller

UID = "5a3c9f60-0000-4000-8000-000000000001"
WIDE = {*CLUSTER_WIDE, "Namespace", "Node", "PriorityClass", "CustomResourceDefinition"}
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass
class FakeCluster:
    """``kinds``: apiVersion to kinds; ``objects``: path to content; ``denied``: (verb, resource, namespace)
    that are refused; ``rejects``: path to why an apply of it is refused; ``merged``: path to what an
    apply would make; ``asked``: method and path of each
    request."""

    uid: str = UID
    kinds: dict[str, set[str]] = field(default_factory=dict)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    denied: set[tuple[str, str, str]] = field(default_factory=set)
    rejects: dict[str, str] = field(default_factory=dict)
    merged: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def put(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Adds an object, of a kind that is served from now on; gives it, to be changed at will."""
        made: dict[str, Any] = json.loads(json.dumps(content))
        self.kinds.setdefault(made["apiVersion"], set()).add(made["kind"])
        self.objects[path_of(made)] = made
        return made

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.asked.append((method, path))
        if method == "POST" and path == REVIEWS:
            asked = body["spec"]["resourceAttributes"]
            need = (asked["verb"], asked["resource"], asked.get("namespace", ""))
            return 201, {"status": {"allowed": need not in self.denied}}
        plain = urlsplit(path)
        if method == "PATCH" and "dryRun=All" in plain.query:
            why = self.rejects.get(plain.path)
            return (422, {"message": why}) if why else (200, self.merged.get(plain.path, body))
        return self._read(path) if method == "GET" else (405, {"message": f"{method} would change something"})

    def _read(self, path: str) -> tuple[int, Any]:
        if path in self.objects:
            return 200, self.objects[path]
        version = path.removeprefix("/apis/").removeprefix("/api/")
        if version in self.kinds:
            return 200, {"resources": [_resource(kind) for kind in sorted(self.kinds[version])]}
        group = [v.rpartition("/")[2] for v in self.kinds if v.startswith(f"{version}/")]
        if group:
            return 200, {"versions": [{"version": v} for v in group]}
        if found := re.fullmatch(r"/apis/apps/v1(/namespaces/[^/]+)?/deployments", path):
            place = f"/apis/apps/v1{found[1] or '/namespaces'}/"
            return 200, {
                "items": [o for p, o in self.objects.items() if p.startswith(place) and "/deployments/" in p]
            }
        return 404, {"message": f"{path} not found"}


def path_of(content: Mapping[str, Any]) -> str:
    version, kind, metadata = content["apiVersion"], content["kind"], content["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    space = "" if kind in WIDE else f"/namespaces/{metadata.get('namespace', 'default')}"
    return f"{root}{space}/{plural(kind)}/{metadata['name']}"


def _resource(kind: str) -> dict[str, Any]:
    return {"name": plural(kind), "kind": kind, "namespaced": kind not in WIDE}


def ready_for(plan: Plan) -> FakeCluster:
    """A cluster that lacks nothing of what ``plan`` stands on and holds none of its objects."""
    made = FakeCluster()
    made.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": made.uid}})
    for manifest in manifests(plan):
        if manifest.purpose != "release":
            version = str(manifest.content["apiVersion"])
            made.kinds.setdefault(version, set()).add(manifest.kind)
    for node in (node for pool in plan.pools for node in pool.nodes):
        made.put(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": {}}, "spec": {}}
        )
    assert plan.platform is not None
    for operator in plan.platform.operators:
        made.put({**controller(operator, operator.version), "status": {"availableReplicas": 1}})
    return made


class FakeApi(Api):
    """The client, without a wire."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(Connection("http://fake", None))
        self.cluster = cluster

    def _request(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        status, content = self.cluster.answer(method, path, body)
        if status >= 400:
            raise ApiError(status, content["message"])
        return content


@contextmanager
def served(cluster: FakeCluster, directory: Path) -> Iterator[Path]:
    """``cluster`` on loopback; gives a kubeconfig whose context ``dev`` leads there."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, content = cluster.answer(self.command, self.path, body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = handle_one  # noqa: N815 - names of the standard library

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield kubeconfig(directory, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()


def kubeconfig(directory: Path, server: str, **user: Any) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
    }
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path
