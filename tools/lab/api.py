"""A small client of the API server: the lab makes its nodes with it, tests read and break objects with it."""

from __future__ import annotations

import http.client
import json
import select
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

TIMEOUT_S = 20
MANAGER = "rackwright-lab"


class ApiError(Exception):
    """The server's refusal. ``status`` is its HTTP status, 0 where it did not answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Api:
    """Requests as the administrator of a lab. Paths are the server's own: ``/api/v1/nodes``.

    For one thread: all requests use one connection, as whoever waits for something asks many times a second.
    """

    def __init__(self, server: str, ca: Path, certificate: Path, key: Path) -> None:
        self.server = server
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._tls.load_cert_chain(certificate, key)
        address = urlsplit(server)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=TIMEOUT_S, context=self._tls
        )

    def request(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        data = None if body is None else json.dumps(body).encode()
        connection = self._connection
        if connection.sock is not None and select.select([connection.sock], [], [], 0)[0]:
            connection.close()  # nothing was asked, so it can only say that the server closed it
        try:
            connection.request(method, path, data, {"Content-Type": kind})
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ApiError(0, str(error) or type(error).__name__) from None
        if response.status >= 400:
            raise ApiError(response.status, text[:2000])
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
