"""Checks of Cambricon cards: cnmon. A card of two chips is listed as two."""

from __future__ import annotations

from collections.abc import Iterable

from checks.areas._devices import (
    Device,
    at_most,
    below,
    counted,
    driver_of,
    each,
    exactly,
    listed,
    on_bus,
    widest,
)
from checks.areas._devices import at_least as not_less
from checks.areas._load import load_of
from checks.areas._read import (
    COUNT,
    SILICON,
    Context,
    Finding,
    absent,
    at_full_load,
    at_least,
    fault,
    is_number,
    shown,
    spread,
    verdict,
)
from checks.commands import LSPCI
from checks.registry import check
from checks.vendor_commands import CNMON
from checks.view import HostView
from rackwright.verdict import Outcome, Severity

NOUN = "card"


@check(
    id="mlu-count",
    title="All Cambricon chips present",
    severity=Severity.CRITICAL,
    commands=[CNMON, LSPCI],
    expects="device.chips",
    remedy="cnmon info; sudo lspci -D -d cabc:  # power-cycle the host; a card that stays away is exchanged",
    reversible=False,
    source="preflight practice: count per tool and bus; cnmon outputs list an MLU370-X8 as two chips",
)
def count(view: HostView, want: int, context: Context) -> Outcome:
    """A chip that is missing leaves its group without a member: the engine does not start."""
    chips, seen = len(listed(view, CNMON, NOUN)), on_bus(view, context)
    found = counted("chip", "cnmon", chips, seen, context.expectations.gpu.count, chips_wanted=want)
    return verdict(found, actual=f"cnmon {chips}", expected=f"{want}")


@check(
    id="mlu-model",
    title="Cambricon model as planned",
    severity=Severity.CRITICAL,
    commands=[CNMON],
    expects="gpu.product",
    remedy="cnmon info -t  # MLU370-X4 and -X8 are different cards: exchange it, or correct the plan",
    reversible=False,
    source="gpud#1206: exact names",
)
def model(view: HostView, want: str) -> Outcome:
    """X4 and X8 differ by half of their memory and compute: the exact name decides, never a part of it."""
    devices = listed(view, CNMON, NOUN)
    found = each(devices, exactly("model", "product", want))
    return verdict(found, actual=spread(d["product"] for _, d in devices), expected=want)


@check(
    id="mlu-memory",
    title="Cambricon memory is whole",
    severity=Severity.CRITICAL,
    commands=[CNMON],
    expects="device.memory_min_mib",
    remedy="cnmon info -m  # a chip that shows less is exchanged",
    reversible=False,
    source="the plan's layout counts on this memory; cnmon: 23,374 MiB a chip of an MLU370-X8",
)
def memory(view: HostView, want: int) -> Outcome:
    """A chip that shows less memory than the planned model has holds fewer weights than planned."""
    devices = listed(view, CNMON, NOUN)
    found = each(devices, not_less("memory", "memory_total_mib", want, COUNT, " MiB"))
    return verdict(
        found, actual=f"{spread(d['memory_total_mib'] for _, d in devices)} MiB", expected=f"≥ {want} MiB"
    )


@check(
    id="mlu-driver",
    title="Cambricon driver new enough",
    severity=Severity.CRITICAL,
    commands=[CNMON],
    expects="device.driver_min",
    remedy="sudo dpkg -i cambricon-mlu-driver-*.deb && sudo reboot",
    reversible=False,
    source="cnmon outputs of MLU370-X8 with an LLM engine: 5.10.13",
)
def driver(view: HostView, want: str) -> Outcome:
    """The engine's image asks for a driver of its own age; an older one fails at the first kernel."""
    version = driver_of(view, [CNMON])
    found = [] if at_least(version, want) else [fault("", f"driver {version} is older than {want}")]
    return verdict(found, actual=version, expected=f"≥ {want}")


@check(
    id="mlu-temperature",
    title="Hottest Cambricon chip below its limit at full load",
    severity=Severity.CRITICAL,
    commands=[CNMON],
    expects="gpu.temperature_max_c",
    remedy="cnmon info -e  # while a soak runs; check fans and airflow",
    reversible=True,
    source="deployment checklist, hardware: hottest GPU < 85 °C",
    ids=["H3"],
)
def temperature(view: HostView, want: float, context: Context) -> Outcome:
    """Above it cards throttle and age. Only a reading at full load proves the cooling."""
    load = load_of(view, context)
    devices = listed(view, CNMON, NOUN)
    found = each(devices, below("chip", "temperature_c", want, SILICON, " °C"))
    hottest = widest(devices, "temperature_c")
    outcome = verdict(found, actual=f"hottest {shown(hottest)} °C", expected=f"< {want:g} °C", load=load)
    return at_full_load(outcome, load)


@check(
    id="mlu-idle",
    title="No foreign memory on the Cambricon chips",
    severity=Severity.MAJOR,
    commands=[CNMON],
    expects="gpu.memory_used_max_mib",
    remedy="cnmon info -p; sudo kill PID",
    reversible=False,
    source="gcm (memory in use before a job)",
)
def idle(view: HostView, want: int) -> Outcome:
    """Memory that somebody else holds makes the engine fail at start. A chip that works is not judged."""
    devices = listed(view, CNMON, NOUN)
    return idle_memory(devices, want)


def idle_memory(devices: list[tuple[str, Device]], want: int) -> Outcome:
    """Memory in use on devices that do not work."""

    def judge(where: str, device: Device) -> Iterable[Finding]:
        busy = device["utilisation_percent"]
        if not is_number(busy):
            yield absent(where, "utilisation", busy)
        elif busy <= 0:
            yield from at_most("memory used", "memory_used_mib", want, COUNT, " MiB")(where, device)

    resting = [(w, d) for w, d in devices if d["utilisation_percent"] == 0]
    most = widest(resting, "memory_used_mib")
    actual = f"at most {shown(most)} MiB on idle devices" if resting else f"{len(devices)} devices work"
    return verdict(each(devices, judge), actual=actual, expected=f"≤ {want} MiB on an idle device")
