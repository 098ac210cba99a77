"""What the readers of nvidia-smi's outputs share: the facts of one GPU, and what is wrong with them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from checks.parsers._core import NA, Facts, Reading, is_number
from checks.parsers._values import bare, clean, is_fault, na, split_number, to_bool

GPU_FACTS: tuple[str, ...] = (
    "index",
    "pci_bus_id",
    "product",
    "uuid",
    "persistence_mode",
    "mig_current",
    "mig_pending",
    "ecc_current",
    "ecc_pending",
    "ecc_uncorrected_volatile",
    "ecc_uncorrected_aggregate",
    "remapped_pending",
    "remap_failure",
    "remapped_uncorrectable",
    "retired_pending",
    "retired_single_bit",
    "retired_double_bit",
    "temperature_c",
    "temperature_tlimit_c",
    "memory_temperature_c",
    "fan_percent",
    "power_draw_w",
    "power_limit_w",
    "pcie_gen_current",
    "pcie_gen_max",
    "pcie_gen_device_max",
    "pcie_gen_host_max",
    "pcie_width_current",
    "pcie_width_max",
    "clocks_active_reasons",
    "fabric_state",
    "fabric_status",
    "fabric_clique",
    "fabric_health",
    "memory_total_mib",
    "memory_used_mib",
    "recovery_action",
    "ecc_corrected_volatile",
    "vbios",
    "gsp_firmware",
    "compute_mode",
    "fabric_cluster_uuid",
)

# The bits of clocks_event_reasons.active (nvml.h, nvmlClocksEventReason*).
REASON_BITS: tuple[tuple[int, str], ...] = (
    (0x1, "gpu_idle"),
    (0x2, "applications_clocks_setting"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake_slowdown"),
    (0x100, "display_clocks_setting"),
)
REASON_ORDER = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "display_clocks_setting",
)
_REASON_ALIASES = {
    "idle": "gpu_idle",
    "application_clocks_setting": "applications_clocks_setting",
    "display_clock_setting": "display_clocks_setting",
    "hw_thermal": "hw_thermal_slowdown",
    "hw_power_brake": "hw_power_brake_slowdown",
    "sw_thermal": "sw_thermal_slowdown",
}
_BAD_REASONS = {
    "hw_slowdown": "HW slowdown",
    "hw_thermal_slowdown": "HW thermal slowdown",
    "hw_power_brake_slowdown": "HW power brake slowdown",
    "sw_thermal_slowdown": "SW thermal slowdown",
}

MOST_GPUS = 256
"""No host holds as many; a longer list is damaged, made up, or a recording over time."""
BUS_ID = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"


def new_gpu() -> Facts:
    return dict.fromkeys(GPU_FACTS)


def reason_name(name: str) -> str:
    """NVIDIA's XML name without prefix: ``HW Power Brake Slowdown`` is hw_power_brake_slowdown."""
    name = re.sub(r"^clocks_(?:event|throttle)_reasons?[_.]", "", name.strip().lower())
    name = re.sub(r"[^a-z0-9]+", "_", name).strip("_")
    return _REASON_ALIASES.get(name, name)


def active_reasons(reading: Reading, where: str, pairs: Iterable[tuple[str, str]]) -> list[str] | NA | None:
    """The names whose value is Active; NA where the tool gave no reason a value; None without any."""
    active: list[str] = []
    absent: NA | None = None
    known = 0
    for printed, value in pairs:
        name = reason_name(printed)
        missing = na(value)
        if missing:
            absent = absent or missing
            continue
        state = to_bool(value)
        if state is None:
            reading.unknown(f"{name}: {value}", where)
            continue
        known += 1
        if state:
            active.append(name)
    if known:
        return sorted(set(active), key=lambda n: (REASON_ORDER.index(n) if n in REASON_ORDER else 99, n))
    return absent


def reasons_from_bits(bits: int) -> list[str]:
    names = {name for bit, name in REASON_BITS if bits & bit}
    return [name for name in REASON_ORDER if name in names]


class Values:
    """Turns printed values into facts, and rejects what is neither a value nor a word of absence."""

    def __init__(self, reading: Reading, where: str) -> None:
        self.reading = reading
        self.where = where

    def text(self, value: str | None) -> str | NA | None:
        if value is None:
            return None
        return na(value) or clean(value) or None

    def boolean(self, value: str | None) -> bool | NA | None:
        if value is None:
            return None
        absent = na(value)
        if absent:
            return absent
        state = to_bool(value)
        if state is None:
            self.reading.unknown(value or "(an empty value)", self.where)
        return state

    def number(self, value: str | None, units: Sequence[str] = ()) -> int | float | NA | None:
        """A number; where ``units`` are given one of them must follow (else the value was cut)."""
        if value is None:
            return None
        absent = na(value)
        if absent:
            return absent
        found = split_number(value)
        if found is None:
            word = clean(value)
            if word and not any(c.isdigit() for c in word):
                return NA(word)
            self.reading.unknown(value or "(an empty value)", self.where)
            return None
        number, unit = found
        if units and unit not in units:
            self.reading.truncated(f"unit missing: {clean(value)}", self.where)
            return None
        if not units and unit:
            self.reading.unknown(value, self.where)
            return None
        return number

    def width(self, value: str | None) -> int | float | NA | None:
        return self.number(value, ("x", "X"))


def first_number(candidates: Iterable[int | float | NA | None]) -> int | float | NA | None:
    """The first that is a number, else the first NA, else None."""
    absent: NA | None = None
    for value in candidates:
        if isinstance(value, NA):
            absent = absent or value
        elif value is not None:
            return value
    return absent


def number_sum(values: Iterable[int | float | NA | None]) -> int | float | NA | None:
    """The sum of those that are numbers; NA if none is and one is NA; None for nothing."""
    total: int | float | None = None
    absent: NA | None = None
    for value in values:
        if isinstance(value, NA):
            absent = absent or value
        elif value is not None:
            total = value if total is None else total + value
    return absent if total is None else total


def name_gpu(position: int, gpu: Facts) -> str:
    index = gpu.get("index")
    return f"gpu {index if is_number(index) else position}"


def gpu_problems(reading: Reading, where: str, gpu: Facts, extra: dict[str, Any] | None = None) -> None:
    """Report what is wrong with one GPU whatever the plan says."""
    address = gpu.get("pci_bus_id")
    at = f" ({address})" if isinstance(address, str) else ""

    def report(code: str, text: str) -> None:
        reading.problem(code, where, f"{where}{at}: {text}")

    volatile, aggregate = gpu.get("ecc_uncorrected_volatile"), gpu.get("ecc_uncorrected_aggregate")
    counted = [
        f"{value} {name}"
        for value, name in ((volatile, "volatile"), (aggregate, "aggregate"))
        if is_number(value) and value > 0
    ]
    if counted:
        report("gpu-ecc-errors", f"uncorrectable ECC errors: {', '.join(counted)}")
    if gpu.get("remapped_pending") is True:
        report("gpu-remap", "row remapping pending, the GPU must be reset")
    if gpu.get("remap_failure") is True:
        report("gpu-remap", "row remapping failed")
    if gpu.get("retired_pending") is True:
        report("gpu-retired", "page retirement pending, the GPU must be reset")
    for mode, code, name in (("ecc", "gpu-ecc", "ECC"), ("mig", "gpu-mig", "MIG")):
        now, then = gpu.get(f"{mode}_current"), gpu.get(f"{mode}_pending")
        if isinstance(now, bool) and isinstance(then, bool) and now != then:
            words = ["disabled", "enabled"]
            report(code, f"{name} mode is {words[now]}, but {words[then]} is pending")
    reasons = gpu.get("clocks_active_reasons")
    if isinstance(reasons, list):
        for name in reasons:
            if name in _BAD_REASONS:
                report("gpu-throttle", f"{_BAD_REASONS[name]} active")
    margin = gpu.get("temperature_tlimit_c")
    if is_number(margin) and margin <= 0:
        report("gpu-temperature", f"no margin to the temperature limit ({margin} C)")
    _fabric_problems(report, gpu)
    action = gpu.get("recovery_action")
    if isinstance(action, str) and bare(action) not in {"none", "0"}:
        report("gpu-recovery", f"recovery action asked for: {action}")
    for name, value in gpu.items():
        if is_fault(value):
            code = "gpu-lost" if "gpu" in bare(value.reason) else "gpu-sensor"
            report(code, f"{name} reads {value.reason}")
    for name, value in (extra or {}).items():
        if is_fault(value):
            report("gpu-sensor", f"{name} reads {value.reason}")


def _fabric_problems(report: Any, gpu: Facts) -> None:
    state, status, health = (gpu.get(f"fabric_{name}") for name in ("state", "status", "health"))
    if isinstance(state, str) and state.lower() != "completed":
        report("gpu-fabric", f"fabric state is {state}")
    if isinstance(status, str) and status.lower() != "success" and status.lower() != "nvml_success":
        report("gpu-fabric", f"fabric status is {status}")
    if isinstance(health, str) and health.lower() not in {"healthy", "ok"}:
        report("gpu-fabric", f"fabric health is {health}")


_GOOD_FABRIC = {
    "bandwidth": {"full", "ok"},
    "route_recovery_in_progress": {"false", "no"},
    "route_unhealthy": {"false", "no"},
    "access_timeout_recovery": {"false", "no"},
    "incorrect_configuration": {"none", "false", "no"},
}
_BAD_FLAGS = {
    "sram_threshold_exceeded": ("gpu-ecc-errors", "SRAM error threshold exceeded"),
    "channel_repair_pending": ("gpu-remap", "memory channel repair pending"),
    "tpc_repair_pending": ("gpu-remap", "TPC repair pending"),
    "unrepairable_memory": ("gpu-remap", "unrepairable memory"),
    "reset_required": ("gpu-recovery", "reset required"),
    "drain_and_reset_recommended": ("gpu-recovery", "drain and reset recommended"),
}


def flag_problems(reading: Reading, where: str, flags: dict[str, str | None]) -> None:
    """Report details which are no facts of their own: fabric health flags, repairs, reset flags."""
    for name, value in flags.items():
        if value is None or na(value):
            continue
        word = bare(value)
        if name in _GOOD_FABRIC and word not in _GOOD_FABRIC[name]:
            reading.problem("gpu-fabric", where, f"{where}: fabric health: {name} is {clean(value)}")
        elif name in _BAD_FLAGS and to_bool(value):
            code, text = _BAD_FLAGS[name]
            reading.problem(code, where, f"{where}: {text}")


def check_indices(reading: Reading, gpus: Sequence[Facts]) -> None:
    """Indices must count up from 0 without a gap (a single GPU may be any: the tool was asked for it)."""
    indices = [gpu.get("index") for gpu in gpus]
    if len(indices) < 2 or not all(is_number(index) for index in indices):
        return
    if len(set(indices)) != len(indices):
        reading.contradiction(f"GPU indices repeat: {indices}")
    elif indices != list(range(len(indices))):
        reading.truncated(f"GPU indices have a gap: {indices}")


def check_repeats(reading: Reading, gpus: Sequence[Facts]) -> None:
    """A PCI address belongs to one GPU only."""
    addresses = Counter(gpu["pci_bus_id"] for gpu in gpus if isinstance(gpu.get("pci_bus_id"), str))
    repeated = sorted(address for address, count in addresses.items() if count > 1)
    if repeated:
        reading.contradiction(f"printed for two GPUs: {', '.join(repeated[:8])}")


def version(value: str | None) -> str | NA | None:
    """A version: the first word of the value (driver 610 appends a deprecation notice)."""
    if value is None:
        return None
    absent = na(value)
    if absent:
        return absent
    words = clean(value).split()
    return words[0] if words else None
