"""What the judges share: findings and how they become one outcome, absent values, versions, sections."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from checks.capture import CommandOutput
from checks.parsers import NA, Problem
from checks.registry import Command, expectation
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.plan import HostExpectation, NotApplicable, Plan, Pool, Rack
from rackwright.verdict import Load, Outcome, Status, passed, warned


class Context(Protocol):
    """What the runner tells a judge besides the capture. ``rack`` is None except for rack checks."""

    @property
    def plan(self) -> Plan: ...
    @property
    def pool(self) -> Pool: ...
    @property
    def rack(self) -> Rack | None: ...
    @property
    def expectations(self) -> HostExpectation: ...
    @property
    def unreachable(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class Finding:
    """One thing that keeps a check from passing, and the part that it is about (``gpu 3``, or "")."""

    status: Status
    where: str
    text: str


def fault(where: str, text: str) -> Finding:
    return Finding(Status.FAIL, where, text)


def unread(where: str, text: str) -> Finding:
    return Finding(Status.ERROR, where, text)


def notice(where: str, text: str) -> Finding:
    return Finding(Status.WARN, where, text)


_WORST = (Status.FAIL, Status.ERROR, Status.WARN)


def verdict(
    findings: Iterable[Finding], *, actual: str, expected: str, message: str = "", load: Load | None = None
) -> Outcome:
    """One outcome: the worst finding decides, all are named. Without any it is a pass."""
    found = list(findings)
    if not found:
        return passed(actual, expected, message=message, load=load)
    status = next(s for s in _WORST if any(f.status is s for f in found))
    groups: dict[str, list[str]] = {}
    for finding in sorted(found, key=lambda f: _WORST.index(f.status)):
        groups.setdefault(finding.text, []).append(finding.where)
    lines = [f"{listing([w for w in wheres if w])}: {text}".lstrip(": ") for text, wheres in groups.items()]
    where = tuple(dict.fromkeys(f.where for f in found if f.status is status and f.where))
    return Outcome(
        status=status, expected=expected, actual=actual, message="; ".join(lines), where=where, load=load
    )


def at_full_load(outcome: Outcome, load: Load) -> Outcome:
    """A pass stands only for a reading at full load; below it the line stays open."""
    if outcome.status is not Status.PASS or load is Load.FULL:
        return outcome
    note = f"open: measured at {load.value}" + (" load" if load is Load.PARTIAL else "")
    return warned(outcome.actual, outcome.expected, f"{note}. {outcome.message}".rstrip(". "), load=load)


_REFUSED = ("permission", "access blocked", "denied")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def absent(where: str, name: str, value: Any) -> Finding:
    """Why ``value`` (None or NA) is no reading: a refusal or a missing line is no measurement; a card that
    answers N/A to what the plan counts on does not have it."""
    if isinstance(value, NA):
        if any(word in value.reason.lower() for word in _REFUSED):
            return unread(where, f"{name} reads {value.reason}")
        return fault(where, f"{name} reads {value.reason}")
    if value is None:
        return unread(where, f"{name} is not in the output")
    return unread(where, f"{name} reads {value!r}, which is no value of its kind")


@dataclass(frozen=True)
class Range:
    """What a sensor or counter of this kind can read at all; anything else is a broken reading, not a value.

    Both ends are possible values.
    """

    low: float
    high: float
    unit: str = ""

    def odd(self, where: str, name: str, value: float) -> list[Finding]:
        """A finding where ``value`` cannot be a reading, else nothing."""
        if self.low <= value <= self.high:
            return []
        unit = f" {self.unit}" if self.unit else ""
        limits = f"{self.low:g} to {self.high:g}{unit}"
        return [unread(where, f"{name} reads {value:g}{unit}, which is implausible ({limits} is possible)")]


SILICON = Range(5.0, 130.0, "°C")
"""A die in a running machine is warmer than the room's frost limit and off before it is hotter than this."""
AIR = Range(1.0, 90.0, "°C")
COUNT = Range(0, float("inf"))


def reading(where: str, name: str, value: Any, possible: Range) -> list[Finding]:
    """Why ``value`` is no reading: not a number, or none that is possible; nothing where it is one."""
    return possible.odd(where, name, value) if is_number(value) else [absent(where, name, value)]


ON_OFF = {True: "on", False: "off"}


def spread(values: Iterable[Any]) -> str:
    """What the GPUs show, for a table: one value, or each with its count."""
    texts = [shown(v) for v in values]
    counts = {t: texts.count(t) for t in dict.fromkeys(texts)}
    return ", ".join(t if len(counts) == 1 else f"{n} × {t}" for t, n in counts.items())


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return ON_OFF[value]
    if isinstance(value, NA):
        return value.reason
    return "nothing" if value is None else f"{value:g}" if is_number(value) else str(value)


def leaf(context: Context, path: str) -> Any:
    """A second expectation of a check: its value, or ``NotApplicable``.

    Raises:
        NotMeasured: the plan does not have it.
    """
    value = expectation(context.expectations, path)
    if value is None:
        raise NotMeasured(f"the plan has no value at expectations.{context.pool.name}.{path}")
    return value


def applies(value: Any) -> bool:
    return not isinstance(value, NotApplicable)


def unit_state(view: HostView, command: Command) -> str:
    """A systemd unit's ActiveState, or "" where there is no such unit.

    Raises:
        NotMeasured: systemd did not say.
    """
    properties = view.facts(command)["properties"]
    load, active = properties.get("LoadState"), properties.get("ActiveState")
    if not load or not active:
        raise NotMeasured(f"`{command.shell}` does not say whether the unit is there and active")
    return "" if load == "not-found" else str(active)


def gpus(view: HostView, command: Command) -> list[tuple[str, Mapping[str, Any]]]:
    """(``gpu 3``, facts) for every GPU that the output shows.

    Raises:
        NotMeasured: it shows none.
    """
    found = view.facts(command).get("gpus") or []
    if not found:
        raise NotMeasured(f"`{command.shell}` shows no GPU")
    return [
        (f"gpu {gpu['index'] if is_number(gpu.get('index')) else position}", gpu)
        for position, gpu in enumerate(found)
    ]


def problems(view: HostView, command: Command, *codes: str) -> list[Problem]:
    """What the parser found wrong whatever the plan says, under the given codes."""
    return [p for p in view.parsed(command).problems if p.code in codes]


_AROUND = 160
"""How much of a line is shown before and after the words that matter; a line may be megabytes long."""


_HEAD = 20_000
"""A tool that cannot work says so at once; what follows is what it measured."""


def line_with(phrases: Sequence[str], out: CommandOutput) -> str:
    """The line near the head of an output, errors first, that holds one of ``phrases`` (in lower case, met in
    any); empty where none does."""
    for whole in (out.stderr, out.stdout):
        text = whole[:_HEAD]
        low = text.lower()
        if any(phrase in low for phrase in phrases) and (
            found := re.search("|".join(map(re.escape, phrases)), text, re.I)
        ):
            start = max(text.rfind("\n", 0, found.start()) + 1, found.start() - _AROUND)
            end = text.find("\n", found.end())
            return text[start : min(end if end >= 0 else len(text), found.end() + _AROUND)].strip()
    return ""


def version_key(text: str) -> tuple[int, ...]:
    """``560.35.03`` as numbers.

    Raises:
        NotMeasured: it is no version.
    """
    match = re.match(r"^v?(\d+(?:\.\d+)*)", text.strip())
    if match is None:
        raise NotMeasured(f"{text!r} is no version")
    return tuple(int(part) for part in match.group(1).split("."))


def at_least(version: str, minimum: str) -> bool:
    have, need = version_key(version), version_key(minimum)
    width = max(len(have), len(need))
    return have + (0,) * (width - len(have)) >= need + (0,) * (width - len(need))


def sections(text: str) -> dict[str, str]:
    """The parts of an output that a loop printed, each under a line ``== name``.

    Raises:
        NotMeasured: it begins in the middle of a part, or a part stands twice.
    """
    parts: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("== "):
            name = line[3:].strip()
            if name in parts:
                raise NotMeasured(f"the output holds two parts {name!r}")
            parts[name] = []
        elif name:
            parts[name].append(line)
        elif line.strip():
            raise NotMeasured(f"the output begins in the middle: {line.strip()[:60]!r}")
    return {name: "\n".join(lines) + "\n" for name, lines in parts.items()}


def csv_rows(view: HostView, command: Command) -> list[dict[str, str]]:
    """Rows of an ``nvidia-smi --query-… --format=csv`` output, by query name without unit.

    Raises:
        NotMeasured: a row has another width than the header, or the parser refuses the output.
    """
    if command.parser:
        view.facts(command)
    lines = [line for line in view.text(command).splitlines() if line.strip()]
    header, *rows = csv.reader(lines, skipinitialspace=True)
    names = [re.sub(r"\s*\[[^\]]*\]\s*$", "", cell).strip() for cell in header]
    for row in rows:
        if len(row) != len(names):
            raise NotMeasured(f"a row of `{command.shell}` has {len(row)} cells under {len(names)} columns")
    return [dict(zip(names, (cell.strip() for cell in row), strict=True)) for row in rows]


Paths = tuple[tuple[tuple[str, ...], str], ...]
_ONCE_BYTES = 100_000


def paths(text: str, pattern: str) -> Paths:
    """``grep -H .`` over sysfs: (groups of ``pattern`` in the path, value) per line that matches.

    Hosts of one kind print the same, so the last texts are remembered.
    """
    return _paths_once(text, pattern) if len(text) <= _ONCE_BYTES else _paths(text, pattern)


def _paths(text: str, pattern: str) -> Paths:
    found = []
    search = re.compile(pattern).search
    for line in text.splitlines():
        path, _, value = line.partition(":")
        if match := search(path):
            found.append((match.groups(), value.strip()))
    return tuple(found)


_paths_once = lru_cache(maxsize=256)(_paths)
