"""A small client of the API server: the lab makes its nodes with it, tests read and break objects with it."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

TIMEOUT_S = 20
MANAGER = "rackwright-lab"


class ApiError(Exception):
    """The server's refusal. ``status`` is its HTTP status, 0 where it did not answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Api:
    """Requests as the administrator of a lab. Paths are the server's own: ``/api/v1/nodes``."""

    def __init__(self, server: str, ca: Path, certificate: Path, key: Path) -> None:
        self.server = server
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._tls.load_cert_chain(certificate, key)

    def request(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.server + path, data=data, method=method, headers={"Content-Type": kind}
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=self._tls) as response:
                text = response.read().decode()
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, error.read().decode(errors="replace")[:2000]) from None
        except OSError as error:
            raise ApiError(0, str(error)) from None
        return json.loads(text) if text[:1] in "{[" else text

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def items(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(path)["items"]
        return found

    def exists(self, path: str) -> bool:
        try:
            self.get(path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def create(self, path: str, content: Mapping[str, Any]) -> None:
        """Creates the object; one that is there already stays."""
        try:
            self.request("POST", path, content)
        except ApiError as error:
            if error.status != 409:
                raise

    def apply(self, path: str, content: Mapping[str, Any]) -> None:
        """Server-side apply, as the lab's own field manager."""
        body = f"{path}?fieldManager={MANAGER}&force=true"
        self.request("PATCH", body, content, "application/apply-patch+yaml")

    def merge(self, path: str, change: Mapping[str, Any]) -> None:
        self.request("PATCH", path, change, "application/merge-patch+json")

    def delete(self, path: str) -> None:
        self.request("DELETE", path)


def from_kubeconfig(path: Path) -> Api:
    """The client of the current context of a kubeconfig that refers to files."""
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    return Api(
        cluster["server"],
        Path(cluster["certificate-authority"]),
        Path(user["client-certificate"]),
        Path(user["client-key"]),
    )
