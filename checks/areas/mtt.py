"""Checks of Moore Threads cards: mthreads-gmi."""

from __future__ import annotations

from checks.areas._devices import at_least as not_less
from checks.areas._devices import below, counted, driver_of, each, exactly, listed, on_bus, widest
from checks.areas._load import load_of
from checks.areas._read import COUNT, SILICON, Context, at_full_load, at_least, fault, shown, spread, verdict
from checks.areas.mlu import idle_memory
from checks.commands import LSPCI
from checks.registry import check
from checks.vendor_commands import MTHREADS
from checks.view import HostView
from rackwright.verdict import Outcome, Severity

NOUN = "gpu"


@check(
    id="mtt-count",
    title="All Moore Threads GPUs present",
    severity=Severity.CRITICAL,
    commands=[MTHREADS, LSPCI],
    expects="device.chips",
    remedy="mthreads-gmi; sudo lspci -D -d 1ed5:"
    "  # power-cycle the host; a card that stays away is exchanged",
    reversible=False,
    source="preflight practice: count per tool and bus",
)
def count(view: HostView, want: int, context: Context) -> Outcome:
    """A card that is missing leaves its group without a member: the engine does not start."""
    found_by_tool, seen = len(listed(view, MTHREADS, NOUN)), on_bus(view, context)
    found = counted(
        "GPU", "mthreads-gmi", found_by_tool, seen, context.expectations.gpu.count, chips_wanted=want
    )
    return verdict(found, actual=f"mthreads-gmi {found_by_tool}", expected=f"{want}")


@check(
    id="mtt-model",
    title="Moore Threads model as planned",
    severity=Severity.CRITICAL,
    commands=[MTHREADS],
    expects="gpu.product",
    remedy="mthreads-gmi -q  # S4000 and S5000 are different cards: exchange it, or correct the plan",
    reversible=False,
    source="gpud#1206: exact names",
)
def model(view: HostView, want: str) -> Outcome:
    """S4000 and S5000 differ in memory and compute: the exact name decides, never a part of it."""
    devices = listed(view, MTHREADS, NOUN)
    found = each(devices, exactly("model", "product", want))
    return verdict(found, actual=spread(d["product"] for _, d in devices), expected=want)


@check(
    id="mtt-memory",
    title="Moore Threads memory is whole",
    severity=Severity.CRITICAL,
    commands=[MTHREADS],
    expects="device.memory_min_mib",
    remedy="mthreads-gmi -q -d MEMORY  # a card that shows less is exchanged",
    reversible=False,
    source="the plan's layout counts on this memory; mthreads-gmi: 81,920 MiB of an S5000",
)
def memory(view: HostView, want: int) -> Outcome:
    """A card that shows less memory than the planned model has holds fewer weights than planned."""
    devices = listed(view, MTHREADS, NOUN)
    found = each(devices, not_less("memory", "memory_total_mib", want, COUNT, " MiB"))
    return verdict(
        found, actual=f"{spread(d['memory_total_mib'] for _, d in devices)} MiB", expected=f"≥ {want} MiB"
    )


@check(
    id="mtt-driver",
    title="Moore Threads driver new enough",
    severity=Severity.CRITICAL,
    commands=[MTHREADS],
    expects="device.driver_min",
    remedy="sudo dpkg -i musa_*.deb && sudo reboot",
    reversible=False,
    source="mthreads-gmi outputs of S4000 and S5000 with an LLM engine: 2.7.0 and 3.3.5",
)
def driver(view: HostView, want: str) -> Outcome:
    """The engine's image asks for a driver of its own age; an older one fails at the first kernel."""
    version = driver_of(view, [MTHREADS])
    found = [] if at_least(version, want) else [fault("", f"driver {version} is older than {want}")]
    return verdict(found, actual=version, expected=f"≥ {want}")


@check(
    id="mtt-pcie",
    title="PCIe width of each Moore Threads GPU as planned",
    severity=Severity.CRITICAL,
    commands=[MTHREADS],
    expects="gpu.pcie_width",
    remedy="sudo lspci -vvv -d 1ed5: | grep -E 'LnkCap:|LnkSta:'  # reseat the card or riser, reboot",
    reversible=False,
    source="mthreads-gmi prints 4x(16x): seen in public outputs",
)
def pcie(view: HostView, want: int) -> Outcome:
    """A link that trained with a quarter of its lanes loads weights four times as long, without an error."""
    devices = listed(view, MTHREADS, NOUN)
    found = each(devices, exactly("PCIe width", "pcie_width_current", want))
    return verdict(found, actual=spread(d["pcie_width_current"] for _, d in devices), expected=f"x{want}")


@check(
    id="mtt-temperature",
    title="Hottest Moore Threads GPU below its limit at full load",
    severity=Severity.CRITICAL,
    commands=[MTHREADS],
    expects="gpu.temperature_max_c",
    remedy="mthreads-gmi -q -d TEMPERATURE  # while a soak runs; check fans and airflow",
    reversible=True,
    source="deployment checklist, hardware: hottest GPU < 85 °C",
    ids=["H3"],
)
def temperature(view: HostView, want: float, context: Context) -> Outcome:
    """Above it cards throttle and age. Only a reading at full load proves the cooling."""
    load = load_of(view, context)
    devices = listed(view, MTHREADS, NOUN)
    found = each(devices, below("chip", "temperature_c", want, SILICON, " °C"))
    hottest = widest(devices, "temperature_c")
    outcome = verdict(found, actual=f"hottest {shown(hottest)} °C", expected=f"< {want:g} °C", load=load)
    return at_full_load(outcome, load)


@check(
    id="mtt-idle",
    title="No foreign memory on the Moore Threads GPUs",
    severity=Severity.MAJOR,
    commands=[MTHREADS],
    expects="gpu.memory_used_max_mib",
    remedy="mthreads-gmi -q -d PIDS; sudo kill PID",
    reversible=False,
    source="gcm (memory in use before a job)",
)
def idle(view: HostView, want: int) -> Outcome:
    """Memory that somebody else holds makes the engine fail at start. A card that works is not judged."""
    return idle_memory(listed(view, MTHREADS, NOUN), want)
