"""Checks of power, air and the management controller."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from checks.areas._load import LOAD_TOOLS, least, load_of
from checks.areas._read import (
    AIR,
    Context,
    applies,
    at_full_load,
    csv_rows,
    fault,
    is_number,
    notice,
    problems,
    unread,
    verdict,
)
from checks.commands import BMC_POWER, BMC_PSU, BMC_SEL, BMC_SENSORS, SMI_LOAD
from checks.parsers import NA
from checks.registry import Scope, check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.plan import Plan
from rackwright.verdict import Load, Outcome, Severity, could_not_measure, failed, passed, warned

LEAST_OF_IDLE, MOST_OF_FULL = 0.3, 3.0
"""A BMC's reading below this share of the planned idle power, or above this multiple of the planned full
load, is a broken sensor (our own rule: 1 W, 65535 W): it is no measurement."""


def _plausible(view: HostView, watts: float, plan: Plan) -> str:
    """Why ``watts`` cannot be this host's power, or "". A host draws at least what its GPUs draw."""
    node = next((p for p in plan.pools if any(n.name == view.name for n in p.nodes)), None)
    try:
        rows = csv_rows(view, SMI_LOAD)
    except NotMeasured:
        rows = []
    gpus = sum(float(m.group(1)) for r in rows if (m := _WATTS.match(r.get("power.draw", ""))))
    # GPUs are read a moment before the BMC, whose reading is an average: three quarters allows for both.
    floor = max(0.75 * gpus, LEAST_OF_IDLE * node.idle_w_per_node if node else 0.0)
    ceiling = MOST_OF_FULL * (_planned(plan, view.name) or float("inf"))
    if watts < floor:
        return f"the BMC reads {watts:g} W, implausible for a host that draws at least {floor:.0f} W"
    if watts > ceiling:
        return f"the BMC reads {watts:g} W, implausible: more than {MOST_OF_FULL:g} × the planned full load"
    return ""


_WATTS = re.compile(r"^(\d+(?:\.\d+)?)\s*W?$")


def _planned(plan: Plan, node: str) -> float | None:
    """What the plan counts for a node at full load."""
    for pool in plan.pools:
        if any(n.name == node for n in pool.nodes):
            expectation = plan.expectations.get(pool.name)
            watts = expectation.power.full_load_w if expectation else None
            return watts if isinstance(watts, int | float) else pool.full_load_w_per_node
    return None


def _measured(view: HostView, plan: Plan) -> float | str:
    """Watts that the BMC reads, or why there is no reading."""
    try:
        power = view.facts(BMC_POWER)["power_w"]
    except NotMeasured as problem:
        return str(problem)
    if is_number(power) and power > 0:
        return _plausible(view, power, plan) or float(power)
    return power.reason if isinstance(power, NA) else "the BMC reads 0 W, which is no reading"


@check(
    id="power-rack-budget",
    title="Rack's full-load power below its rating",
    severity=Severity.CRITICAL,
    commands=[BMC_POWER, *LOAD_TOOLS],
    expects="power.factor",
    scope=Scope.RACK,
    remedy="sudo nvidia-smi -pl WATTS"
    "  # on every host of the rack; or move hosts: set site.rack.max_nodes in the workload and size again",
    reversible=True,
    source="deployment checklist, hardware: full-load node power × 1.2 < rack rating; openbmc#3257",
    ids=["H1"],
)
def rack_budget(views: Sequence[HostView], want: float, context: Context) -> Outcome:
    """A rack that exceeds its rating trips its breaker at the first peak and takes all of its hosts down.
    Only readings at full load prove it; a host that cannot be read counts with its planned full load."""
    rack = context.rack
    if rack is None:
        raise NotMeasured("the plan does not know this rack")
    expected = f"× {want:g} < {_kw(rack.rating_w)}"
    nodes = tuple(dict.fromkeys((*rack.nodes, *(v.name for v in views))))
    planned = {node: _planned(context.plan, node) for node in nodes}
    unknown = [node for node, watts in planned.items() if watts is None]
    if unknown:
        return could_not_measure(f"the plan gives no full load of {listing(unknown)}", expected=expected)
    full = sum(watts for watts in planned.values() if watts is not None)
    if full * want >= rack.rating_w:
        note = f"{len(nodes)} hosts are planned with {_kw(full)}, × {want:g} is {_kw(full * want)}"
        return failed(f"{_kw(full)} planned", expected, note, where=nodes)
    return _measure(views, planned, want, context)


def _measure(
    views: Sequence[HostView],
    planned: dict[str, float | None],
    factor: float,
    context: Context,
) -> Outcome:
    rating = context.rack.rating_w if context.rack else 0.0
    expected = f"× {factor:g} < {_kw(rating)}"
    if not applies(context.expectations.power.bmc):
        total = sum(w for w in planned.values() if w is not None)
        note = "open: these hosts have no BMC that reads power; only the planned full load was compared"
        return warned(f"{_kw(total)} planned", expected, note)
    readings = {view.name: _measured(view, context.plan) for view in views}
    read = {name: value for name, value in readings.items() if isinstance(value, float)}
    silent = {name: value for name, value in readings.items() if isinstance(value, str)}
    assumed = {name: watts or 0.0 for name, watts in planned.items() if name not in read}
    total = sum(read.values()) + sum(assumed.values())
    load = least([load_of(view, context) for view in views if view.name in read]) if read else None
    absent = [name for name in assumed if name not in silent]
    note = f"planned full load is used for {listing(absent)}, not measured" if absent else ""
    actual = f"{_kw(total)}" + (f", {len(read)} of {len(planned)} hosts measured" if assumed else "")
    if total * factor >= rating:
        reason = f"{_kw(total)} × {factor:g} is {_kw(total * factor)}"
        at = f" at {load.value}" if load in (Load.IDLE, Load.PARTIAL) else ""
        return failed(actual, expected, f"{reason}{at}. {note}".rstrip(". "), where=tuple(planned), load=load)
    if silent or load is None:
        why = "; ".join(f"{name}: {reason}" for name, reason in silent.items()) or "no host gave a reading"
        return could_not_measure(why, expected=expected, actual=actual)
    if absent and load is Load.FULL:
        return warned(actual, expected, f"open: {note}", load=load)
    return at_full_load(passed(actual, expected, message=note, load=load), load)


def _kw(watts: float) -> str:
    return f"{watts / 1000:.2f} kW"


_SUPPLY = re.compile(r"(?:\bPSU?|Power Supply|PS)[ _-]?(\d+)", re.I)
_BAD_SUPPLY = re.compile(
    r"failure detected|predictive failure|\blost\b|degraded|out-of-range|config(?:uration)? error",
    re.I,
)


@check(
    id="power-psu",
    title="All power supplies present and redundant",
    severity=Severity.MAJOR,
    commands=[BMC_PSU],
    expects="power.psu_count",
    remedy="sudo ipmitool sdr type 'Power Supply'; sudo ipmitool sel elist | grep -i power"
    "  # check the cord and its feed, then exchange the supply",
    reversible=True,
    source="gcm check_sensors; preflight practice: sensors without a reading do not count as present",
)
def supplies(view: HostView, want: int) -> Outcome:
    """With one supply gone the next loss is an outage, and the chassis may brake the GPUs at once."""
    present: set[str] = set()
    found = []
    for sensor in view.facts(BMC_PSU)["sensors"] or []:
        name, value = str(sensor["name"]), sensor["value"]
        number = _SUPPLY.search(name)
        text = value if isinstance(value, str) else ""
        if number and ("presence detected" in text.lower() or (is_number(value) and value > 0)):
            present.add(number.group(1))
        status = str(sensor["status"] or "")
        bad = _BAD_SUPPLY.search(text) or (status.lower() in ("cr", "nr") and "status")
        if bad:
            found.append(fault(name, text or f"status {status}"))
    told = {f.where for f in found}
    found += [fault(p.where, p.text) for p in problems(view, BMC_PSU, "bmc-sensors") if p.where not in told]
    if len(present) < want:
        found.append(fault("", f"{len(present)} of {want} supplies are present"))
    return verdict(found, actual=f"{len(present)} present", expected=f"{want} present, redundant")


_INLET = re.compile(r"inlet|ambient|\bfront\b|intake", re.I)
_OUTLET = re.compile(r"exhaust|outlet|\brear\b", re.I)


@check(
    id="thermal-delta",
    title="Difference between outlet and inlet air at full load",
    severity=Severity.MAJOR,
    commands=[BMC_SENSORS, *LOAD_TOOLS],
    expects="power.inlet_outlet_delta_c",
    remedy="sudo ipmitool sdr type Temperature; sudo ipmitool sdr type Fan"
    "  # blanking panels, filters, fan profile, cables in the air stream",
    reversible=True,
    source="deployment checklist, hardware: inlet/outlet difference < 15 °C",
    ids=["H2"],
)
def thermal_delta(view: HostView, want: float, context: Context) -> Outcome:
    """A large difference means too little air for the heat: GPUs throttle at the next warm day. Only a
    reading at full load proves the airflow."""
    load = load_of(view, context)
    inlet, outlet = _temperatures(view, _INLET), _temperatures(view, _OUTLET)
    if not inlet or not outlet:
        missing = " and ".join(n for n, v in (("inlet", inlet), ("outlet", outlet)) if not v)
        raise NotMeasured(f"the BMC has no {missing} temperature that can be read")
    for sensor, value in (inlet | outlet).items():
        for odd in AIR.odd(sensor, "air temperature", value):
            raise NotMeasured(f"{odd.where}: {odd.text}")
    delta = max(outlet.values()) - min(inlet.values())
    if delta <= 0:
        raise NotMeasured(
            f"the outlet reads {max(outlet.values()):g} °C, not warmer than the inlet with "
            f"{min(inlet.values()):g} °C: implausible (sensors that are swapped, or read something else)"
        )
    found = (
        []
        if delta < want
        else [fault("", f"{max(outlet, key=outlet.__getitem__)} is {delta:g} °C above inlet")]
    )
    actual = f"{delta:g} °C ({min(inlet.values()):g} to {max(outlet.values()):g})"
    return at_full_load(verdict(found, actual=actual, expected=f"< {want:g} °C", load=load), load)


def _temperatures(view: HostView, name: re.Pattern[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for sensor in view.facts(BMC_SENSORS)["sensors"] or []:
        unit = str(sensor["unit"] or "").lower()
        if name.search(str(sensor["name"])) and is_number(sensor["value"]) and _is_celsius(unit):
            found[str(sensor["name"])] = float(sensor["value"])
    return found


def _is_celsius(unit: str) -> bool:
    return unit in ("c", "°c") or "degrees c" in unit


SEL_ASKED = 200
"""How many events the command asks for; a log that gives as many may hold more."""


@check(
    id="bmc-sel",
    title="No critical event in the BMC's log",
    severity=Severity.MAJOR,
    commands=[BMC_SEL],
    expects="power.bmc",
    remedy="sudo ipmitool sel elist > sel-$(hostname).txt && sudo ipmitool sel clear"
    "  # after the part that it names was mended",
    reversible=False,
    source="gcm check_ipmitool",
)
def event_log(view: HostView, want: bool) -> Outcome:
    """The BMC sees what the host cannot: bus errors, memory errors, supplies and fans. An event that is still
    asserted is a fault that nobody has mended."""
    if not want:
        return verdict([unread("", "the plan says false; it should say why this does not apply")],
                       actual="", expected="")  # fmt: skip
    last: dict[tuple[Any, Any], dict[str, Any]] = {}
    events = view.facts(BMC_SEL)["events"]
    for event in events:
        last[event["sensor"], event["text"]] = event
    found = []
    for event in last.values():
        text = f"{event['text'] or 'an event without text'} ({event['time'] or 'no time'})"
        if event["severity"] == "critical":
            found.append(fault(str(event["sensor"]), text))
        elif event["severity"] == "warn":
            found.append(notice(str(event["sensor"]), text))
    critical = sum(f.status.value == "fail" for f in found)
    since = events[0]["time"] if len(events) >= SEL_ASKED else None
    note = f"only the last {SEL_ASKED} events were read, since {since or 'an unknown time'}"
    return verdict(
        found,
        actual=f"{critical} critical, {len(found) - critical} warnings in {len(events)} events",
        expected="no critical event",
        message=note if len(events) >= SEL_ASKED and not found else "",
    )
