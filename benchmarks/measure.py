"""Runs a command as a whole process: wall seconds, CPU seconds of it and its children, memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """``wall`` and ``cpu`` in seconds; ``peak_mib``: the most memory that the process had resident."""

    wall: float
    cpu: float
    peak_mib: float = 0.0


def cost_of(
    argv: Sequence[str],
    *,
    cwd: Path,
    log: Path,
    env: Mapping[str, str] | None = None,
    ok: Sequence[int] = (0,),
    limit_s: float = 900,
) -> Cost:
    """What one run cost. Output goes to ``log``.

    Raises:
        RuntimeError: it ended with a status not in ``ok``, or ran past ``limit_s``.
    """
    with log.open("wb") as out:
        began = time.monotonic()
        process = subprocess.Popen(
            list(argv), cwd=cwd, env={**_usual(), **(env or {})}, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - began > limit_s:
                process.kill()
                os.wait4(process.pid, 0)
                raise RuntimeError(f"{argv[0]} ran past {limit_s:.0f} s; see {log}")
            time.sleep(0.005)
        wall = time.monotonic() - began
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    if code not in ok:
        raise RuntimeError(f"{' '.join(argv[:6])} … ended with status {code}; see {log}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _usual() -> dict[str, str]:
    """The environment, in which Python may keep compiled modules as it does for everyone."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def medians(costs: Sequence[Cost]) -> Cost:
    return Cost(*(statistics.median(getattr(c, name) for c in costs) for name in ("wall", "cpu", "peak_mib")))
