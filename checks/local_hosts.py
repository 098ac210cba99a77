"""testinfra's ``host`` fixture over the same connections, for your own tests in ``checks/local/``."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
import testinfra.host
from testinfra.backend.base import BaseBackend, CommandResult

from checks.session import Session
from rackwright.inventory import Host
from remote.transport import AbortedError, Network, UnreachableError, execute

_FOREVER_S = 86_400.0


class InventoryBackend(BaseBackend):  # type: ignore[misc]
    """Runs a test's commands on one host of the inventory, each under a deadline."""

    NAME = "rackwright"

    def __init__(self, client: Any, name: str, *, timeout_s: float = 60.0, **options: Any) -> None:
        super().__init__(name, **options)
        self._client = client
        self._timeout_s = timeout_s

    def run(self, command: str, *args: str, **_: Any) -> CommandResult:
        text = self.get_command(command, *args)
        try:
            rc, out, err = execute(self._client, text, timeout_s=self._timeout_s)
        except AbortedError as error:
            raise RuntimeError(f"{self.hostname}: `{text[:80]}`: {error.reason}") from None
        return self.result(rc, self.encode(text), out, err)


class InventoryHosts:
    """A plugin that parametrises ``host`` with the inventory; registered only where there is one."""

    def __init__(self, session: Session, config: pytest.Config) -> None:
        self._session, self._config = session, config
        self._network = Network(session.settings)
        self._opened: dict[str, testinfra.host.Host | str] = {}
        self._open = contextlib.ExitStack()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "host" in metafunc.fixturenames:
            hosts = self._session.inventory.hosts
            metafunc.parametrize("host", hosts, ids=[h.name for h in hosts], indirect=True, scope="module")

    @pytest.fixture(scope="module")
    def host(self, request: pytest.FixtureRequest) -> testinfra.host.Host:
        """testinfra's host, for each host of the inventory."""
        wanted: Host = request.param
        if wanted.name not in self._opened:
            self._opened[wanted.name] = self._connect(wanted)
        found = self._opened[wanted.name]
        if isinstance(found, str):
            pytest.fail(found, pytrace=False)
        return found

    def _connect(self, host: Host) -> testinfra.host.Host | str:
        try:
            client = self._open.enter_context(self._network.connect(host, time.monotonic() + _FOREVER_S))
        except UnreachableError as error:
            return f"{host.name} not reached: {error.problem}; next: {error.next}"
        option = self._config.option
        backend = InventoryBackend(client, host.name, sudo=option.sudo, sudo_user=option.sudo_user)
        return testinfra.host.Host(backend)

    def pytest_unconfigure(self) -> None:
        self._open.close()
