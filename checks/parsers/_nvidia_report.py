"""The facts of one GPU in a full report, the same from ``nvidia-smi -q`` (text) and ``-q -x`` (XML).

A format supplies where each fact stands and how a place is looked up; what the value must look like, which
of several places counts, and how error counters add up is said once, here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from checks.parsers._core import NA, Facts, Reading
from checks.parsers._nvidia import Values, first_number, new_gpu, number_sum

KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "product": ("text", ()),
    "uuid": ("text", ()),
    "persistence_mode": ("boolean", ()),
    "mig_current": ("boolean", ()),
    "mig_pending": ("boolean", ()),
    "ecc_current": ("boolean", ()),
    "ecc_pending": ("boolean", ()),
    "remapped_pending": ("boolean", ()),
    "remap_failure": ("boolean", ()),
    "remapped_uncorrectable": ("number", ()),
    "retired_pending": ("boolean", ()),
    "retired_single_bit": ("number", ()),
    "retired_double_bit": ("number", ()),
    "temperature_c": ("number", ("C",)),
    "temperature_tlimit_c": ("number", ("C",)),
    "memory_temperature_c": ("number", ("C",)),
    "fan_percent": ("number", ("%",)),
    "pcie_gen_current": ("number", ()),
    "pcie_gen_max": ("number", ()),
    "pcie_gen_device_max": ("number", ()),
    "pcie_gen_host_max": ("number", ()),
    "pcie_width_current": ("number", ("x", "X")),
    "pcie_width_max": ("number", ("x", "X")),
    "fabric_state": ("text", ()),
    "fabric_status": ("text", ()),
    "fabric_clique": ("number", ()),
    "fabric_health": ("text", ()),
    "memory_total_mib": ("number", ("MiB", "MB")),
    "memory_used_mib": ("number", ("MiB", "MB")),
    "recovery_action": ("text", ()),
    "vbios": ("text", ()),
    "gsp_firmware": ("text", ()),
    "compute_mode": ("text", ()),
    "fabric_cluster_uuid": ("text", ()),
}
"""Fact to (kind of value, units of which one must follow the number)."""
FABRIC_FLAGS = (
    "bandwidth",
    "route_recovery_in_progress",
    "route_unhealthy",
    "access_timeout_recovery",
    "incorrect_configuration",
)
REPAIR_FLAGS = ("channel_repair_pending", "tpc_repair_pending", "unrepairable_memory")
RESET_FLAGS = ("reset_required", "drain_and_reset_recommended")

Counter = tuple[str, str | None]
"""An error counter as printed: its name in lower case with underscores, its value."""


class Report(Protocol):
    """One GPU's part of a report."""

    reading: Reading
    where: str

    def fact(self, name: str) -> str | None:
        """What is printed for the fact ``name``, or None."""

    def power_draws(self) -> Iterable[str | None]:
        """The GPU's own draw, in the order in which the readings count."""

    def power_limit(self) -> str | None:
        """The limit that is in force."""

    def error_counters(self, scope: str, *, corrected: bool) -> Sequence[Counter] | NA | None:
        """The counters of ``scope`` (volatile, aggregate), of corrected errors or of the others; of old
        boards the single- or double-bit ones, with ``total`` among them. NA or None where there is no list.
        """


def gpu_facts(report: Report, address: str | None) -> Facts:
    """Every fact of one GPU but its clocks' reasons, which each format nests in its own way."""
    gpu = new_gpu()
    values = Values(report.reading, report.where)
    gpu["pci_bus_id"] = address
    for name, (kind, units) in KINDS.items():
        printed = report.fact(name)
        if kind == "text":
            gpu[name] = values.text(printed)
        elif kind == "boolean":
            gpu[name] = values.boolean(printed)
        else:
            gpu[name] = values.number(printed, units)
    gpu["power_draw_w"] = first_number(values.number(draw, ("W",)) for draw in report.power_draws())
    gpu["power_limit_w"] = values.number(report.power_limit(), ("W",))
    for scope in ("volatile", "aggregate"):
        gpu[f"ecc_uncorrected_{scope}"] = _uncorrected(report, values, scope)
    gpu["ecc_corrected_volatile"] = _corrected(report, values)
    return gpu


def is_counter(name: str, *, corrected: bool) -> bool:
    """Whether ``name`` counts errors of that kind ("uncorrectable" contains "correctable")."""
    return ("uncorrectable" not in name and "correctable" in name) if corrected else "uncorrectable" in name


def _corrected(report: Report, values: Values) -> int | float | NA | None:
    """Corrected errors since the last reset, as far as they are printed."""
    counters = report.error_counters("volatile", corrected=True)
    if counters is None or isinstance(counters, NA):
        return counters
    named = dict(counters)
    if "total" in named:
        return values.number(named["total"])
    return number_sum(values.number(value) for value in named.values())


def _uncorrected(report: Report, values: Values, scope: str) -> int | float | NA | None:
    """Uncorrectable errors: the printed double-bit total, else the sum of what is printed as a number."""
    counters = report.error_counters(scope, corrected=False)
    if counters is None or isinstance(counters, NA):
        return counters
    names = [name for name, _ in counters]
    if len(set(names)) != len(names):
        report.reading.contradiction(f"{scope} counters stand twice", report.where)
    if "total" in names:
        printed = values.number(dict(counters)["total"])
        parts = [values.number(value) for name, value in counters if name != "total"]
        return first_number([number_sum(parts), printed]) if isinstance(printed, NA) else printed
    split = any("parity" in name or "secded" in name for name in names)
    wanted = {"dram_uncorrectable"} | (
        {"sram_uncorrectable_parity", "sram_uncorrectable_secded"} if split else {"sram_uncorrectable"}
    )
    if not wanted <= set(names):
        missing = ", ".join(sorted(wanted - set(names)))
        report.reading.truncated(f"{scope} ECC errors without {missing}", report.where)
    return number_sum(values.number(value) for _, value in counters)
