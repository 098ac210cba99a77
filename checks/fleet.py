"""Collects many hosts at once. One failure is one host's; it never delays or ends the others."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from checks.capture import Capture
from checks.collect import Script
from checks.frames import Reader
from rackwright.inventory import Host
from remote.transport import AbortedError, Network, UnreachableError, stream

_MARGIN_S = 6.0
"""What the script leaves of a host's time: for the last command's kill and for the way back."""


def collect_host(network: Network, host: Host, script: Script) -> Capture:
    """Everything ``script`` brings back from ``host``; never raises for what a host does."""
    started, begin = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    deadline = begin + network.settings.deadline_s
    nonce = script.new_nonce()
    reader = Reader(script, nonce)
    problem, next_ = "", ""
    try:
        with network.connect(host, deadline) as client:
            allowed = deadline - time.monotonic() - _MARGIN_S
            text = script.text(nonce, allowed).encode()
            for data in stream(
                client, "sh -s", text, deadline=deadline, max_bytes=network.settings.max_bytes
            ):
                reader.feed(data)
    except UnreachableError as error:
        problem, next_ = error.problem, error.next
    except AbortedError as error:
        problem, next_ = _cut(reader, error.reason, host)
    else:
        problem, next_ = _ending(reader, host)
    # What came before a cut is judged; only a host that gave nothing counts as not reached.
    outputs = reader.finish() if reader.outputs else {}
    return Capture(
        host=host.name,
        started=started,
        seconds=round(time.monotonic() - begin, 3),
        problem=problem if not outputs else "",
        problem_next=next_ if not outputs else "",
        cut=problem if outputs else "",
        outputs=outputs,
    )


def _cut(reader: Reader, reason: str, host: Host) -> tuple[str, str]:
    total = len(reader.script.commands)
    done = total - reader.missing
    return (
        f"collection ended early: {reason}; {done} of {total} commands came back",
        f"run it for this host alone: --limit {host.name}",
    )


def _ending(reader: Reader, host: Host) -> tuple[str, str]:
    if reader.ended:
        return "", ""
    if reader.fatal:
        return f"the collector could not start: {reader.fatal}", f"ssh {host.name}: make /tmp writable"
    if not reader.outputs:
        return (
            "the login works, but no POSIX shell answered (is the login shell restricted, or does it print a "
            "menu?)",
            f"ssh {host.name} 'echo ok | sh -c cat' must print ok and nothing else",
        )
    return _cut(reader, "the script ended before its last line", host)


def collect_all(
    network: Network, jobs: Sequence[tuple[Host, Script]], *, forks: int = 32
) -> Iterator[Capture]:
    """One capture a host, in the order they finish; few wait in memory where they are taken slower."""
    todo: queue.SimpleQueue[tuple[Host, Script]] = queue.SimpleQueue()
    done: queue.Queue[Capture] = queue.Queue(maxsize=max(1, forks))
    for job in jobs:
        todo.put(job)

    def work() -> None:
        while True:
            try:
                host, script = todo.get_nowait()
            except queue.Empty:
                return
            done.put(_guarded(collect_host, network, host, script))

    for _ in range(min(max(1, forks), len(jobs))):
        threading.Thread(target=work, daemon=True).start()
    for _ in jobs:
        yield done.get()


def _guarded(
    collect: Callable[[Network, Host, Script], Capture], network: Network, host: Host, script: Script
) -> Capture:
    try:
        return collect(network, host, script)
    except Exception as error:
        return Capture(
            host=host.name,
            problem=f"the collector failed: {type(error).__name__}: {str(error)[:200]}",
            problem_next="this is a bug; please report it with the message",
        )
