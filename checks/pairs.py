"""Runs the commands that need two hosts: in waves, each host with one other at a time.

A server is started over the connection to its host and is killed with it: its script ends when its standard
input does. Whatever happens to one pair is that pair's result; the others go on.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from checks.capture import Capture, CommandOutput
from checks.parsers import parse_once
from checks.parsers.perftest import MEASURES
from checks.registry import Command
from checks.waves import WAVES_MAX, waves
from rackwright.inventory import Host
from rackwright.plan import Plan
from remote.transport import Network, UnreachableError

_READY_S = 10.0
_GRACE_S = 3.0
_THREADS = 512
_MOST_BYTES = 200_000
_PATH = "PATH=${PATH:-/usr/bin:/bin}:/usr/local/bin:/usr/sbin:/sbin; export PATH; LC_ALL=C; export LC_ALL\n"
OnWave = Callable[[int, int], None]
"""A wave begins: its number from 1, and of how many."""


@dataclass(frozen=True)
class _Part:
    """What the client of a pair found on one rail. ``value``: the measure, None where there is none."""

    device: str
    peer: str
    role: str
    text: str
    value: float | None


@dataclass
class _Member:
    """A host that takes part. ``client`` is None, and ``problem`` says why, where it could not be reached."""

    host: Host
    rails: tuple[str, ...]
    addresses: tuple[str, ...]
    client: Any = None
    problem: str = ""
    parts: dict[str, list[_Part]] = field(default_factory=dict)


def rails(plan: Plan, host: Host) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``device,port`` of every planned rail, and this host's address on each: the rail's own where it has one
    (RoCE), else the host's (InfiniBand: only to exchange what the queue pairs need)."""
    expected = plan.expectations.get(host.pool)
    ports = expected.rdma.ports if expected else None
    if not isinstance(ports, tuple):
        return (), ()
    node = next((n for n in plan.pool(host.pool).nodes if n.name == host.name), None)
    own = node.rail_addresses if node else ()
    found = [
        own[n].partition("/")[0] if n < len(own) and port.link_layer == "Ethernet" else host.address
        for n, port in enumerate(ports)
    ]
    return tuple(f"{p.device},{p.port}" for p in ports), tuple(found)


def exchange(
    network: Network,
    plan: Plan,
    hosts: Sequence[Host],
    commands: Sequence[Command],
    *,
    forks: int = 32,
    deadline_s: float = 1200.0,
    most: int = WAVES_MAX,
    on_wave: OnWave | None = None,
) -> Iterator[Capture]:
    """One capture a host, holding the outputs of ``commands``: what the host and those it met found."""
    deadline = time.monotonic() + deadline_s
    members = {h.name: _Member(h, *rails(plan, h)) for h in hosts}
    at_once = min(max(1, forks, len(members) // 2), _THREADS)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(max_workers=at_once) as threads:
        list(threads.map(lambda member: _connect(network, member, stack, deadline), members.values()))
        rounds = _rounds([m for m in members.values() if m.client is not None and m.rails], most)
        done = 0
        for number, pairs in enumerate(rounds, 1):
            if time.monotonic() > deadline - sum(c.timeout_s for c in commands):
                break
            if on_wave:
                on_wave(number, len(rounds))
            for command in commands:
                test = partial(_pair, command=command, deadline=deadline)
                list(threads.map(test, *zip(*((members[a], members[b]) for a, b in pairs), strict=True)))
            done = number
    for member in members.values():
        cut = "" if done == len(rounds) else f"{done} of {len(rounds)} waves"
        yield _capture(member, members, commands, cut=cut)


def _rounds(members: Sequence[_Member], most: int) -> list[list[tuple[str, str]]]:
    """The waves of all pools at once: a pool has its own network and its own rate."""
    pools: dict[str, list[str]] = {}
    for member in members:
        pools.setdefault(member.host.pool, []).append(member.host.name)
    each = [waves(names, most) for names in pools.values()]
    return [
        [pair for rounds in each if number < len(rounds) for pair in rounds[number]]
        for number in range(max(map(len, each), default=0))
    ]


def _connect(network: Network, member: _Member, stack: contextlib.ExitStack, deadline: float) -> None:
    try:
        member.client = stack.enter_context(network.connect(member.host, deadline))
    except UnreachableError as error:
        member.problem = error.problem


def _capture(
    member: _Member, members: Mapping[str, _Member], commands: Sequence[Command], *, cut: str
) -> Capture:
    outputs = {}
    for command in commands:
        parts = member.parts.get(command.key, [])
        text = "".join(_section(part, member, members[part.peer], command) for part in parts)
        state, note = ("done", "") if not (member.problem or cut) else ("skipped", member.problem or cut)
        outputs[command.key] = CommandOutput(
            key=command.key, command=command.shell, state=state, rc=0 if state == "done" else None,
            stdout=f"{text}== end {len(parts)}\n", stderr=f"not run to its end: {note}" if note else "",
        )  # fmt: skip
    return Capture(host=member.host.name, outputs=outputs)


def _section(part: _Part, member: _Member, peer: _Member, command: Command) -> str:
    """The part, and what its other end measured on that rail with third hosts: it tells whose fault it is."""
    there = [
        "-" if other.value is None else f"{other.value:g}"
        for other in peer.parts.get(command.key, [])
        if other.device == part.device and other.peer != member.host.name
    ]
    words = " ".join(["there", *there])
    return f"== {part.device} {part.peer} {part.role}\n{words}\n{part.text}"


def _pair(server: _Member, client: _Member, command: Command, deadline: float) -> None:
    """Run one command between two hosts; both get what the client found."""
    found = _run(server, client, command, deadline)
    for rail in client.rails:
        device = rail.partition(",")[0]
        text = found.get(device, found.get("", "no result came back\nstatus 1\n"))
        value = _value(command, text)
        here, there = server.host.name, client.host.name
        server.parts.setdefault(command.key, []).append(_Part(device, there, "server", text, value))
        client.parts.setdefault(command.key, []).append(_Part(device, here, "client", text, value))


def _value(command: Command, text: str) -> float | None:
    if not text.rstrip().endswith("status 0"):
        return None
    kind, fact = MEASURES[command.key]
    value = parse_once(kind, text).facts.get(fact)
    return value if isinstance(value, float) else None


def _run(server: _Member, client: _Member, command: Command, deadline: float) -> dict[str, str]:
    """Device to what its client printed; under "" what stands for all of them."""
    end = min(time.monotonic() + command.timeout_s + _READY_S, deadline)
    listening = None
    try:
        listening = _start(server, command, "server", server.addresses)
        _until(listening, b"ready\n", min(time.monotonic() + _READY_S, end))
        asking = _start(client, command, "client", server.addresses)
        try:
            text = _until(asking, None, end)
        finally:
            asking.close()
    except _PairError as error:
        return {"": f"{error}\nstatus 1\n"}
    finally:
        if listening is not None:
            _stop(listening)
    return _by_device(text.decode("utf-8", "replace"))


def _by_device(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("== "):
            name = line[3:]
        elif name:
            found.setdefault(name, []).append(line)
    return {device: "\n".join(lines) + "\n" for device, lines in found.items()}


class _PairError(Exception):
    """One line: why the two hosts could not be tested."""


def script(command: Command, role: str, member_rails: Sequence[str], addresses: Sequence[str]) -> str:
    """The text that one end runs; every value of the plan in it is quoted."""
    words = " ".join(f"{rail},{address}" for rail, address in zip(member_rails, addresses, strict=True))
    values = {"RW_ROLE": role, "RW_RAILS": words, "RW_LIMIT": str(command.timeout_s)}
    return _PATH + "".join(f"{k}={shlex.quote(v)}\n" for k, v in values.items()) + command.shell


def _start(member: _Member, command: Command, role: str, addresses: Sequence[str]) -> Any:
    """A channel on which the script runs by root; its standard input stays open."""
    text = script(command, role, member.rails, addresses)
    run = 'if [ "$(id -u)" = 0 ]; then exec sh -c "$T"; else exec sudo -n sh -c "$T"; fi'
    outer = f"T={shlex.quote(text)}; {run}"
    try:
        channel = member.client.get_transport().open_session(timeout=10)
        channel.exec_command(f"sh -c {shlex.quote(outer)}")
    except Exception as error:  # paramiko's, a socket's, or that the transport is gone
        raise _PairError(f"{member.host.name}: the connection was cut ({type(error).__name__})") from None
    return channel


def _until(channel: Any, mark: bytes | None, end: float) -> bytes:
    """What came before ``mark``, or before the end of the stream.

    Raises:
        _PairError: the time is up, the mark never came, or there was too much.
    """
    data = b""
    while mark is None or mark not in data:
        left = end - time.monotonic()
        if left <= 0:
            raise _PairError("no answer in time")
        channel.settimeout(left)
        try:
            more = channel.recv(65536)
        except TimeoutError:
            continue
        except OSError as error:
            raise _PairError(f"the connection was cut ({error})") from None
        if not more:
            if mark is None:
                return data
            error_text = (
                channel.recv_stderr(4096).decode("utf-8", "replace").strip() or "the server did not start"
            )
            raise _PairError(error_text.splitlines()[0][:160])
        data += more
        if len(data) > _MOST_BYTES:
            raise _PairError("it printed more than can be kept")
    return data


def _stop(channel: Any) -> None:
    """Close the server's standard input, which ends it, and wait a moment until it has."""
    with contextlib.suppress(Exception):
        channel.shutdown_write()
        end = time.monotonic() + _GRACE_S
        while not channel.exit_status_ready() and time.monotonic() < end:
            time.sleep(0.02)
    with contextlib.suppress(Exception):
        channel.close()
