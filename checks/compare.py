"""What changed between two collections or two runs: hosts, verdicts, facts.

Captures are read one host at a time and only what differs is kept, so a large fleet fits. Readings that move
by themselves (temperatures, power, clocks, counters of use) are no change; what they mean is a verdict.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks.capture import Capture, CommandOutput
from checks.collection import captured
from checks.parsers import parse
from checks.registry import Check, Command
from checks.report.text import natural, one_line, shorten
from checks.runner import read_capture
from rackwright.verdict import Result, Results, Status

_MOVES = re.compile(
    r"temperature|tlimit|power_draw|utili[sz]ation|memory_used|used_mib|^clocks_active|_clock_|fan_(speed|percent)"
    r"|offset|dispersion|skew|delay|uptime|^(free|available|used|use_percent|data_units|power_on|percentage_used)"
    r"|hours|timestamp|^process_|^(time|time_usec|rtc|pid|pstate|refcount|reference|stratum)$"
)
"""Last words of facts' paths that differ from minute to minute."""
_MOVING = frozenset(
    """processes process-states nvidia-smi-apps nvidia-smi-load nvidia-smi-nvlink-errors ipmitool-dcmi modules
    timesync-status chronyc-sources""".split()  # noqa: SIM905
)
"""Commands whose whole output does."""
_IDENTITY = ("index", "name", "device", "netdev", "address", "bus_id", "id", "unit", "key")
_LINES = 3
_SHOWN = 90


@dataclass(frozen=True)
class Change:
    """One difference and the subjects that show it."""

    what: str
    old: str
    new: str
    subjects: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """Everything that differs. ``lost`` and ``back``: hosts that were reached once, with the reason."""

    gone: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    back: Mapping[str, str] = field(default_factory=dict)
    verdicts: tuple[Change, ...] = ()
    facts: tuple[Change, ...] = ()

    @property
    def same(self) -> bool:
        return not (self.gone or self.added or self.lost or self.back or self.verdicts or self.facts)


class _Changes:
    """Equal differences put together as they come."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], list[str]] = {}

    def add(self, what: str, old: str, new: str, subject: str) -> None:
        subjects = self._found.setdefault((what, old, new), [])
        if not subjects or subjects[-1] != subject:
            subjects.append(subject)

    def all(self) -> tuple[Change, ...]:
        changes = (Change(*key, tuple(sorted(s, key=natural))) for key, s in self._found.items())
        return tuple(sorted(changes, key=lambda c: (natural(c.what), -len(c.subjects), c.old, c.new)))


# --- captures ------------------------------------------------------------------------------------------


def of_captures(old: Path, new: Path, registry: Mapping[str, Check]) -> Difference:
    """What two directories of captures differ in, facts only."""
    before, after = captured(old), captured(new)
    commands = {c.key: c for item in registry.values() for c in item.commands}
    changes, lost, back = _Changes(), {}, {}
    for host in sorted(set(before) & set(after), key=natural):
        a, b = read_capture(old, host), read_capture(new, host)
        if a.problem or b.problem:
            if not a.problem:
                lost[host] = b.problem
            elif not b.problem:
                back[host] = a.problem
            continue
        for what, was, now in _facts_changed(a, b, commands):
            changes.add(what, was, now, host)
    return Difference(
        gone=_without(before, after),
        added=_without(after, before),
        lost=lost,
        back=back,
        facts=changes.all(),
    )


def _without(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(one) - set(other), key=natural))


def _facts_changed(
    old: Capture, new: Capture, commands: Mapping[str, Command]
) -> Iterator[tuple[str, str, str]]:
    for key in sorted(old.outputs.keys() & new.outputs.keys()):
        a, b = old.outputs[key], new.outputs[key]
        if _ended(a) != _ended(b):
            yield key, _ended(a), _ended(b)
        elif key not in _MOVING and a.stdout != b.stdout:
            command = commands.get(key)
            yield from _parsed_changed(key, command.parser if command else "", a.stdout, b.stdout)


def _ended(out: CommandOutput) -> str:
    return out.state if out.state != "done" or out.rc in (0, None) else f"status {out.rc}"


def _parsed_changed(key: str, parser: str, old: str, new: str) -> Iterator[tuple[str, str, str]]:
    if not parser:
        yield from _lines_changed(key, old, new)
        return
    one, other = parse(parser, old), parse(parser, new)
    if one.understood != other.understood:
        words = {True: "understood", False: "not understood"}
        yield key, words[one.understood], words[other.understood]
        return
    a, b = dict(_leaves(one.facts)), dict(_leaves(other.facts))
    for path in [*a, *(p for p in b if p not in a)]:
        if a.get(path) != b.get(path):
            yield f"{key} {path}", a.get(path, "not there"), b.get(path, "not there")


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every lasting fact with its path; parts of a list by what identifies them, events by their number."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            if not _MOVES.search(str(name)) and not _is_reading(node, name):
                yield from _leaves(value, f"{path}.{name}" if path else str(name))
    elif isinstance(node, list | tuple):
        if path.rpartition(".")[2] == "events":
            counts = Counter(_kind(event) for event in node)
            yield from ((f"{path} {kind}", f"{count}") for kind, count in counts.items())
            return
        for number, value in enumerate(node):
            yield from _leaves(value, f"{path}[{_named(value, number)}]")
    else:
        yield path, shorten(one_line(str(node)), _SHOWN)


def _is_reading(node: Mapping[str, Any], name: str) -> bool:
    """The value of a sensor, which stands beside its unit."""
    return name == "value" and "unit" in node


def _kind(event: Any) -> str:
    if not isinstance(event, Mapping):
        return "entries"
    words = [str(event[k]) for k in ("kind", "code", "xid", "sensor", "event") if event.get(k) is not None]
    return " ".join(words) or "entries"


def _named(value: Any, number: int) -> str:
    if isinstance(value, Mapping):
        for name in _IDENTITY:
            if isinstance(value.get(name), str | int):
                return str(value[name])
    return str(number)


def _lines_changed(key: str, old: str, new: str) -> Iterator[tuple[str, str, str]]:
    a, b = Counter(old.splitlines()), Counter(new.splitlines())
    was, now = list((a - b).elements()), list((b - a).elements())
    if was or now:
        yield key, _some(was), _some(now)


def _some(lines: list[str]) -> str:
    shown = "; ".join(shorten(one_line(line), _SHOWN) for line in lines[:_LINES])
    return (shown + (f"; {len(lines) - _LINES} lines more" if len(lines) > _LINES else "")) or "not there"


# --- verdicts ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """What a run said, without its evidence: small enough to keep a whole fleet's twice."""

    hosts: tuple[str, ...]
    unreachable: Mapping[str, str]
    verdicts: Mapping[tuple[str, str, str], tuple[str, str]]
    """Check, scope and subject → state and what was found."""

    @classmethod
    def of(cls, results: Results) -> Said:
        return cls(
            results.hosts,
            dict(results.unreachable),
            {(r.check, r.scope, r.subject): (_state(r), _found(r)) for r in results.results},
        )


def _state(result: Result) -> str:
    return "waived" if result.waived is not None else str(result.status)


def _found(result: Result) -> str:
    """What a change of this verdict is told by; a reading that moves by itself tells nothing."""
    if result.load is not None and result.status in (Status.PASS, Status.WARN):
        return ""
    text = result.actual if result.status is Status.PASS else result.message or result.actual
    return shorten(one_line(text), _SHOWN)


def of_results(old: Said, new: Said) -> Difference:
    """What two runs differ in: a state, or what was found where it is not good."""
    changes = _Changes()
    away = {*old.unreachable, *new.unreachable}
    ran = {(check, scope) for check, scope, _ in old.verdicts}
    for key, (state, found) in new.verdicts.items():
        check, scope, subject = key
        before = old.verdicts.get(key)
        known = subject in old.hosts if scope == "host" else True
        if not known or (scope == "host" and subject in away):
            continue
        if before is None:
            if (check, scope) in ran:
                changes.add(check, "no verdict", _told(state, found), subject)
            continue
        bad = state not in ("pass", "not-applicable")
        if before[0] != state or (bad and before[1] != found):
            changes.add(check, _told(*before), _told(state, found), subject)
    for check, scope, subject in old.verdicts.keys() - new.verdicts.keys():
        if scope == "host" and subject in new.hosts and subject not in away:
            changes.add(check, _told(*old.verdicts[check, scope, subject]), "no verdict", subject)
    return Difference(
        gone=_without(old.hosts, new.hosts),
        added=_without(new.hosts, old.hosts),
        lost={h: r for h, r in new.unreachable.items() if h in old.hosts and h not in old.unreachable},
        back={h: r for h, r in old.unreachable.items() if h in new.hosts and h not in new.unreachable},
        verdicts=changes.all(),
    )


def _told(state: str, found: str) -> str:
    return f"{state} ({found})" if found else state


def together(verdicts: Difference, facts: Difference) -> Difference:
    """One picture of two views of the same two runs."""
    return Difference(
        gone=_union(verdicts.gone, facts.gone),
        added=_union(verdicts.added, facts.added),
        lost={**facts.lost, **verdicts.lost},
        back={**facts.back, **verdicts.back},
        verdicts=verdicts.verdicts,
        facts=facts.facts,
    )


def _union(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*one, *other}, key=natural))
