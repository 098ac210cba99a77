"""A small client of a cluster's API server, for what must be known before anything is declared."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from stacks.kubeconfig import Connection

TIMEOUT_S = 15
AT_ONCE = 8
APPLY = "application/apply-patch+yaml"
One = TypeVar("One")
Answer = TypeVar("Answer")


class ApiError(Exception):
    """The server's refusal. ``status`` is its HTTP status, 0 where it did not answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Api:
    """Requests with the credentials of a context. Paths are the server's own: ``/api/v1/nodes``."""

    def __init__(self, way: Connection) -> None:
        self.way = way
        self._local = threading.local()

    def get(self, path: str) -> Any:
        return self._request("GET", path)

    def find(self, path: str) -> Any:
        """The object at ``path``, or None where there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def post(self, path: str, body: object) -> Any:
        return self._request("POST", path, body)

    def try_apply(self, path: str, body: object, manager: str) -> Any:
        """What a server-side apply by ``manager`` with force would make of the object; nothing is changed."""
        query = f"?dryRun=All&force=true&fieldManager={manager}"
        return self._request("PATCH", path + query, body, APPLY)

    def each(self, ask: Callable[[One], Answer], items: Iterable[One]) -> list[Answer]:
        """``ask`` for every item, several at once, in the order given."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(ask, items))

    def _request(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        data = None if body is None else json.dumps(body)
        headers = {**self.way.headers, "Accept": "application/json", "Content-Type": kind}
        url = urlsplit(self.way.server)
        for last in (False, True):
            used = self._connection()
            try:
                used.request(method, url.path.rstrip("/") + path, data, headers)
                response = used.getresponse()
                status, text = response.status, response.read().decode(errors="replace")
                break
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                # The server may close a connection that was kept open; a fresh one tells whether it answers.
                if last:
                    raise ApiError(0, _said(error)) from None
        if status >= 400:
            raise ApiError(status, _message(text))
        try:
            return json.loads(text)
        except ValueError:
            raise ApiError(0, f"no JSON in its answer to {method} {path}") from None

    def _connection(self) -> http.client.HTTPConnection:
        kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if kept is None:
            kept = self._local.connection = _connect(self.way)
        return kept

    def _drop(self) -> None:
        kept = getattr(self._local, "connection", None)
        if kept is not None:
            kept.close()
            self._local.connection = None


class _Secure(http.client.HTTPSConnection):
    """HTTPS to a server whose certificate may be for another name than its address."""

    name: str | None = None

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        tunnel: str | None = getattr(self, "_tunnel_host", None)
        host = self.name or tunnel or self.host
        self.sock = self._context.wrap_socket(self.sock, server_hostname=host)  # type: ignore[attr-defined]


def _connect(way: Connection) -> http.client.HTTPConnection:
    url = urlsplit(way.server)
    host, secure = url.hostname or "", url.scheme == "https"
    port = url.port or (443 if secure else 80)
    proxy = urlsplit(way.proxy or _proxy(url.scheme, host) or "")
    to = (proxy.hostname, proxy.port or 3128) if proxy.hostname else (host, port)
    if not secure:
        return http.client.HTTPConnection(*to, timeout=TIMEOUT_S)
    made = _Secure(*to, timeout=TIMEOUT_S, context=way.tls)
    made.name = way.name
    if proxy.hostname:
        made.set_tunnel(host, port)
    return made


def _proxy(scheme: str, host: str) -> str | None:
    return None if proxy_bypass(host) else getproxies().get(scheme)


def _said(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip()[:200] or "no reason given"
