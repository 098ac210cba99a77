"""Processes of a lab: each in a session of its own, known by pid and start time."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.rack.farm import Proc, start_time

LIFE_S = 4 * 3600
"""A lab that nobody takes down ends by itself."""


@dataclass(frozen=True)
class Started:
    name: str
    proc: Proc
    argv: tuple[str, ...]

    @property
    def alive(self) -> bool:
        return self.proc.alive


def start(name: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Started:
    bounded = ["timeout", "--kill-after=10", str(LIFE_S), *argv]
    with log.open("ab") as out:
        process = subprocess.Popen(
            bounded, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd="/",
            env={**os.environ, **(env or {})},
        )  # fmt: skip
    return Started(name, Proc(process.pid, start_time(process.pid)), tuple(argv))


def kill(started: Started, sig: signal.Signals = signal.SIGKILL) -> None:
    """Signals the process and what it started: they are one session."""
    if started.alive:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.proc.pid, sig)


def stop(all_of_them: Iterable[Started], grace_s: float = 8.0) -> list[str]:
    """Ends them, politely first; gives the names of those that would not end."""
    left = list(all_of_them)
    for sig, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        for one in left:
            kill(one, sig)
        left = _remaining(left, wait_s)
    return [one.name for one in left]


def wait_gone(started: Started, wait_s: float = 10.0) -> bool:
    """Whether the whole session has ended: its port is free only then."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(started.proc.pid, os.WNOHANG)
        try:
            os.killpg(started.proc.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def _remaining(left: list[Started], wait_s: float) -> list[Started]:
    deadline = time.monotonic() + wait_s
    while left and time.monotonic() < deadline:
        for one in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(one.proc.pid, os.WNOHANG)
        left = [one for one in left if one.alive]
        if left:
            time.sleep(0.05)
    return left


def free_ports(count: int) -> list[int]:
    """Distinct ports that are free now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
