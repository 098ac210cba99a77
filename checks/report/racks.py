"""Racks as a person walks past them: what each may draw, draws, and how warm it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from checks.report.findings import LOADS, Registry, display_state, open_readings
from checks.report.text import natural, one_line, shorten
from rackwright.plan import Plan, Rack
from rackwright.verdict import Result, Results, Status

_POWER = re.compile(r"(\d[\d,]*(?:\.\d+)?)\s*(kW|W|Watts)\b")
_HEAT = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:°\s*)?C\b")
_SHORT = 110
"""Characters of a reading in the rack view; the matrix has all of it."""
_WORST = (Status.FAIL, Status.ERROR, Status.WARN, "waived", "open", Status.PASS, Status.NOT_APPLICABLE)


@dataclass(frozen=True)
class Budget:
    """A draw against the rating: ``watts`` × ``factor`` must stay below it. ``percent`` is of the rating."""

    watts: float
    factor: float
    rating_w: float

    @property
    def with_factor_w(self) -> float:
        return self.watts * self.factor

    @property
    def percent(self) -> float:
        return 100 * self.with_factor_w / self.rating_w if self.rating_w else 0.0

    @property
    def fits(self) -> bool:
        return self.with_factor_w < self.rating_w


@dataclass(frozen=True)
class Reading:
    """One verdict on power or temperature, with the load it was taken at."""

    check: str
    subject: str
    state: str
    text: str
    expected: str
    load: str


@dataclass(frozen=True)
class RackView:
    name: str
    site: str
    hosts: tuple[str, ...]
    planned: Budget | None
    measured: Budget | None
    power: tuple[Reading, ...]
    heat: tuple[Reading, ...]
    state: str


def watts_in(text: str) -> float | None:
    """The first power in ``text``, in watts."""
    match = _POWER.search(text)
    if match is None:
        return None
    return float(match.group(1).replace(",", "")) * (1000 if match.group(2) == "kW" else 1)


def celsius_in(text: str) -> float | None:
    """The first temperature in ``text``."""
    match = _HEAT.search(text)
    return float(match.group(1)) if match else None


def rack_views(results: Results, registry: Registry, plan: Plan | None) -> tuple[RackView, ...]:
    """Every rack of the plan; without a plan, every rack that has a verdict."""
    waiting = open_readings(results.results)
    by_subject: dict[str, list[Result]] = {}
    for result in results.results:
        by_subject.setdefault(result.subject, []).append(result)
    if plan is not None:
        racks = [(site.name, rack) for site in plan.sites for rack in site.racks]
    else:
        names = sorted({r.subject for r in results.results if r.scope == "rack"}, key=natural)
        racks = [
            ("", Rack(name=n, rating_w=0, power_factor=0, planned_full_load_w=0, nodes=())) for n in names
        ]

    def readings(subjects: Iterable[str], area: str) -> list[Reading]:
        found = [r for s in subjects for r in by_subject.get(s, ()) if _is_about(r, area)]
        return [_reading(r, display_state(r, waiting)) for r in found]

    views = []
    for site, rack in racks:
        power = [r for r in readings([rack.name], "power") if r.state != Status.NOT_APPLICABLE]
        heat = _hottest(readings([rack.name, *rack.nodes], "heat"))
        views.append(_view(rack, site, power, heat))
    return tuple(views)


def _is_about(result: Result, area: str) -> bool:
    if area == "power":
        return result.scope == "rack" and result.check.startswith("power-")
    return result.check.startswith("thermal-") or "temperature" in result.check


def _reading(result: Result, state: str) -> Reading:
    return Reading(
        check=result.check,
        subject=one_line(result.subject),
        state=state,
        text=shorten(one_line(result.actual or result.message), _SHORT),
        expected=one_line(result.expected),
        load=LOADS[result.load] if result.load else "",
    )


def _hottest(readings: list[Reading]) -> list[Reading]:
    """Of every check the reading that matters most: the worst verdict, then the highest value."""
    checks: dict[str, list[Reading]] = {}
    for reading in readings:
        checks.setdefault(reading.check, []).append(reading)
    checks = {
        check: same
        for check, same in checks.items()
        if any(celsius_in(r.text) is not None or r.state in _WORST[:3] for r in same)
    }
    return [
        min(same, key=lambda r: (_WORST.index(r.state), -(celsius_in(r.text) or -273.0), natural(r.subject)))
        for _, same in sorted(checks.items())
    ]


def _view(rack: Rack, site: str, power: list[Reading], heat: list[Reading]) -> RackView:
    planned = Budget(rack.planned_full_load_w, rack.power_factor, rack.rating_w) if rack.rating_w else None
    drawn = next((w for r in power if r.load and (w := watts_in(r.text)) is not None), None)
    measured = Budget(drawn, rack.power_factor, rack.rating_w) if drawn is not None and planned else None
    states = [r.state for r in power + heat]
    return RackView(
        name=rack.name,
        site=site,
        hosts=rack.nodes,
        planned=planned,
        measured=measured,
        power=tuple(power),
        heat=tuple(heat),
        state=min(states, key=_WORST.index) if states else "not-checked",
    )
