"""What a long run shows on standard error while it goes: a line a host, and a sign of life between them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from checks.capture import Capture
    from rackwright.verdict import Result

SILENCE_S = 30.0
"""Seconds without a finished host after which a log gets a line about those that are still running."""
_TICK_S = 1.0
_NAMED = 60


class Progress:
    """One line a host as it finishes; on a terminal a counter below them, in a log a line in long silences.

    It may be told things from one thread; its own thread only prints.
    """

    _MARKS = (("fail", "✗"), ("error", "!"), ("warn", "~"))

    def __init__(
        self, total: int, *, quiet: bool, forks: int = 32, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total, self._forks, self._quiet, self._clock = total, forks, quiet, clock
        self._counter = sys.stderr.isatty() and not quiet
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._tier, self._done, self._waiting = 0, 0, {}  # type: tuple[int, int, dict[str, None]]
        self._begin = self._said = clock()

    def start(self, checks: int, captures: Path | None) -> None:
        from checks.report.text import plural

        if self._quiet:
            return
        verb = f"judging the captures in {captures}" if captures else "collecting"
        click.echo(f"{plural(self._total, 'host')}, {plural(checks, 'check')}: {verb}", err=True)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def tier(self, number: int, hosts: Sequence[str]) -> None:
        """A tier begins with these hosts."""
        from checks.report.text import plural

        with self._lock:
            if (number or len(hosts) != self._total) and not self._quiet:
                self._clear()
                click.echo(f"tier {number}: {plural(len(hosts), 'host')}", err=True)
            self._tier, self._done, self._waiting = number, 0, dict.fromkeys(hosts)
            self._begin = self._said = self._clock()

    def host(self, capture: Capture, results: Sequence[Result]) -> None:
        with self._lock:
            self._done += 1
            self._waiting.pop(capture.host, None)
            if not self._quiet:
                self._clear()
                click.echo(self._line(capture, results), err=True)
                self._said = self._clock()
                self._count()

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(2)
        with self._lock:
            self._clear()

    def sign_of_life(self) -> str:
        """How far the tier is, who is still running, and about how long it takes, in one line."""
        from checks.report.text import duration, folded

        passed = self._clock() - self._begin
        total = self._done + len(self._waiting)
        running = list(self._waiting)[: self._forks] if len(self._waiting) <= self._forks else []
        said = f"{self._done}/{total} hosts after {duration(passed)}"
        if running:
            said += f"; waiting for {folded(running, _NAMED)}"
        if self._done and self._waiting:
            said += f"; about {duration(passed / self._done * len(self._waiting))} left"
        return said

    def _watch(self) -> None:
        while not self._over.wait(_TICK_S):
            with self._lock:
                if self._counter:
                    self._clear()
                    self._count()
                elif self._waiting and self._clock() - self._said >= SILENCE_S:
                    click.echo(self.sign_of_life(), err=True)
                    self._said = self._clock()

    def _line(self, capture: Capture, results: Sequence[Result]) -> str:
        head = f"[{self._done}/{self._done + len(self._waiting)}] {capture.host}"
        if capture.problem:
            return f"{head}: not reached: {capture.problem}"
        counts = {s: sum(r.status == s for r in results) for s in ("pass", "fail", "error", "warn")}
        words = [f"{counts['pass']} pass"]
        words += [f"{counts[s]} {s}" for s, _ in self._MARKS if counts[s]]
        return f"{head}: {', '.join(words)} ({capture.seconds:.1f} s)"

    def _count(self) -> None:
        if self._counter and self._waiting:
            click.echo(f"\r{self.sign_of_life()}"[:100], nl=False, err=True)

    def _clear(self) -> None:
        if self._counter:
            click.echo("\r\x1b[K", nl=False, err=True)
