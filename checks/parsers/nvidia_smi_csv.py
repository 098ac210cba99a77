"""``nvidia-smi --query-gpu=... --format=csv``: a header of column names with units, a row per GPU.

Columns are taken by name, never by position; a header is therefore required (``noheader`` cannot be read).
Values may carry their unit or not (``nounits``).  Also read: ``--query-remapped-rows``, whose columns map.

Traps: ``[N/A]``, ``[Not Supported]``, ``[Unknown Error]``, ``[Requested functionality has been
deprecated]`` and, for temperature.memory and fabric.*, bare ``N/A``; ``clocks_throttle_reasons`` became
``clocks_event_reasons`` (535); a decimal comma of a wrong locale shifts the columns, so a row of another
width than the header is refused; ``--query-retired-pages`` prints a row per page and is no list of GPUs.
"""

from __future__ import annotations

import csv
import re
from typing import Any

from checks.parsers._core import NA, Facts, Reading, is_number, parser
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._nvidia import (
    MOST_GPUS,
    Values,
    active_reasons,
    check_indices,
    check_repeats,
    first_number,
    flag_problems,
    gpu_problems,
    name_gpu,
    new_gpu,
    number_sum,
    reason_name,
    reasons_from_bits,
    version,
)
from checks.parsers._values import clean, na, split_number

# fact: (kind of value, column names; the first that has a value counts)
_COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "index": ("number", ("index",)),
    "pci_bus_id": ("text", ("pci.bus_id", "gpu_bus_id")),
    "product": ("text", ("name", "gpu_name")),
    "uuid": ("text", ("uuid", "gpu_uuid")),
    "persistence_mode": ("boolean", ("persistence_mode",)),
    "mig_current": ("boolean", ("mig.mode.current",)),
    "mig_pending": ("boolean", ("mig.mode.pending",)),
    "ecc_current": ("boolean", ("ecc.mode.current",)),
    "ecc_pending": ("boolean", ("ecc.mode.pending",)),
    "remapped_pending": ("boolean", ("remapped_rows.pending",)),
    "remap_failure": ("boolean", ("remapped_rows.failure",)),
    "remapped_uncorrectable": ("number", ("remapped_rows.uncorrectable",)),
    "retired_pending": ("boolean", ("retired_pages.pending",)),
    "retired_single_bit": ("number", ("retired_pages.single_bit_ecc.count", "retired_pages.sbe")),
    "retired_double_bit": ("number", ("retired_pages.double_bit.count", "retired_pages.dbe")),
    "temperature_c": ("number", ("temperature.gpu",)),
    "temperature_tlimit_c": ("number", ("temperature.gpu.tlimit",)),
    "memory_temperature_c": ("number", ("temperature.memory",)),
    "fan_percent": ("%", ("fan.speed",)),
    "power_draw_w": ("W", ("power.draw", "power.draw.instant", "power.draw.average")),
    "power_limit_w": ("W", ("power.limit", "enforced.power.limit")),
    "pcie_gen_current": ("number", ("pcie.link.gen.current", "pcie.link.gen.gpucurrent")),
    "pcie_gen_max": ("number", ("pcie.link.gen.max",)),
    "pcie_gen_device_max": ("number", ("pcie.link.gen.gpumax",)),
    "pcie_gen_host_max": ("number", ("pcie.link.gen.hostmax",)),
    "pcie_width_current": ("number", ("pcie.link.width.current",)),
    "pcie_width_max": ("number", ("pcie.link.width.max",)),
    "fabric_state": ("text", ("fabric.state",)),
    "fabric_status": ("text", ("fabric.status",)),
    "fabric_clique": ("number", ("fabric.cliqueid", "fabric.clique_id")),
    "fabric_health": ("text", ("fabric.health.summary",)),
    "memory_total_mib": ("MiB", ("memory.total",)),
    "memory_used_mib": ("MiB", ("memory.used",)),
    "recovery_action": ("text", ("gpu_recovery_action",)),
    "vbios": ("text", ("vbios_version",)),
    "compute_mode": ("text", ("compute_mode",)),
    "fabric_cluster_uuid": ("text", ("fabric.clusteruuid", "fabric.cluster_uuid")),
}
_KNOWN = {name for _, names in _COLUMNS.values() for name in names} | {
    "timestamp",
    "driver_version",
    "kmd_version",
    "count",
    "pstate",
    "serial",
    "compute_cap",
    "utilization.gpu",
    "utilization.memory",
    "memory.free",
    "gpu_serial",
    "clocks.sm",
    "clocks.gr",
    "clocks.mem",
    "remapped_rows.correctable",
}
_PREFIXES = ("clocks_event_reasons", "clocks_throttle_reasons", "ecc.errors.", "clocks.", "remapped_rows.")


def column_name(header: str) -> str:
    """The query name of a header cell: without unit, in lower case."""
    return re.sub(r"\s*\[[^\]]*\]\s*$", "", header.strip().strip('"')).strip().lower()


def _is_known(name: str) -> bool:
    return name in _KNOWN or name.startswith(_PREFIXES)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]


def _header_at(lines: list[str]) -> int | None:
    for number, line in enumerate(lines[:50]):
        if len(line) > 50_000 or ("," not in line and not _is_known(column_name(line))):
            continue
        names = [column_name(cell) for cell in _cells(line)]
        known = sum(_is_known(name) for name in names)
        dotted = sum(bool(re.fullmatch(r"[a-z_0-9]+(?:[._][a-z_0-9]+)+", name)) for name in names)
        if known and max(known, dotted) * 2 >= len(names):
            return number
    return None


def _sniff(text: str) -> int:
    lines = text.split("\n")[:50]
    at = _header_at(lines)
    if at is None:
        return 0
    names = [column_name(cell) for cell in _cells(lines[at])]
    if len(names) == 1 and "." not in names[0] and names[0] not in {"driver_version", "persistence_mode"}:
        return 0
    return 85 if any("." in name or "_" in name for name in names) else 50


def _ecc(values: Values, row: dict[str, str], scope: str) -> int | float | NA | None:
    base = f"ecc.errors.uncorrected.{scope}."
    total = values.number(row.get(f"{base}total"))
    if is_number(total):
        return total

    def counters(*names: str) -> int | float | NA | None:
        return number_sum(values.number(row.get(base + name)) for name in names)

    caches = ("register_file", "l1_cache", "l2_cache", "texture_memory", "cbu")
    memory = first_number([counters("dram"), counters("device_memory")])
    sram = first_number([counters("sram"), counters("sram.parity", "sram.secded"), counters(*caches)])
    return first_number([number_sum([memory, sram]), total])


def _reasons(values: Values, where: str, row: dict[str, str]) -> list[str] | NA | None:
    for prefix in ("clocks_event_reasons", "clocks_throttle_reasons"):
        pairs = [
            (name, value)
            for name, value in row.items()
            if name.startswith(f"{prefix}.") and name.rsplit(".", 1)[1] not in {"active", "supported"}
        ]
        named = active_reasons(values.reading, where, pairs) if pairs else None
        printed = row.get(f"{prefix}.active")
        if printed is None:
            if named is not None:
                return named
            continue
        absent = na(printed)
        if absent:
            return named if named is not None else absent
        mask = re.fullmatch(r"(?:0x)?([0-9A-Fa-f]{1,16})", clean(printed))
        if mask is None:
            values.reading.unknown(printed, where)
            return named
        listed = reasons_from_bits(int(mask.group(1), 16))
        if isinstance(named, list):
            asked = {reason_name(name) for name, _ in pairs}
            if {name for name in listed if name in asked} != set(named):
                values.reading.contradiction(f"{prefix}.active is {printed}, the columns say {named}", where)
        return listed
    return None


def _gpu_facts(reading: Reading, where: str, row: dict[str, str], units: dict[str, str]) -> Facts:
    gpu = new_gpu()
    values = Values(reading, where)
    for fact, (kind, names) in _COLUMNS.items():
        found: list[Any] = []
        for name in names:
            value = row.get(name)
            if value is None:
                continue
            if kind == "text":
                found.append(values.text(value))
            elif kind == "boolean":
                found.append(values.boolean(value))
            elif kind == "number":
                found.append(values.number(value))
            else:
                pair = split_number(value)
                if pair and not pair[1] and not units.get(name):
                    reading.truncated(f"{name} without unit: {value}", where)
                found.append(values.number(value, (kind, "MB") if pair and pair[1] else ()))
        gpu[fact] = next((value for value in found if not isinstance(value, NA) and value is not None), None)
        if gpu[fact] is None and found:
            gpu[fact] = next((value for value in found if value is not None), None)
    gpu["ecc_uncorrected_volatile"] = _ecc(values, row, "volatile")
    gpu["ecc_uncorrected_aggregate"] = _ecc(values, row, "aggregate")
    gpu["clocks_active_reasons"] = _reasons(values, where, row)
    return gpu


@parser(
    "nvidia-smi-csv",
    "nvidia-smi --query-gpu --format=csv",
    (
        "nvidia-smi --query-gpu=index,name,pci.bus_id,driver_version,count --format=csv",
        "nvidia-smi --query-remapped-rows=gpu_bus_id,remapped_rows.pending --format=csv",
    ),
    _sniff,
)
def parse_nvidia_smi_csv(text: str) -> Reading:
    reading = Reading({"columns": None, "driver_version": None, "gpus": None})
    lines = text.split("\n")
    at = _header_at(lines)
    if at is None:
        nothing_read(reading, text, "nvidia-smi --query-gpu csv (a header is needed)")
        return reading
    columns = _cells(lines[at])
    names = [column_name(cell) for cell in columns]
    units = {name: cell[cell.index("[") :] for name, cell in zip(names, columns, strict=True) if "[" in cell}
    reading.facts["columns"] = columns
    if len(set(names)) != len(names):
        reading.contradiction("a column stands twice in the header")
    if any(not name for name in names):
        reading.truncated(f"the header has an empty column: {lines[at]}")
    if "retired_pages.address" in names:
        reading.unknown("a list of retired pages is not a list of GPUs")
    gpus: list[Facts] = []
    rows: list[dict[str, str]] = []
    for number, line in enumerate(lines):
        if number == at or not line.strip():
            continue
        if len(rows) >= MOST_GPUS:
            reading.unknown(f"more than {MOST_GPUS} rows; the rest is not read")
            break
        cells = _cells(line) if len(line) <= 50_000 else []
        if len(cells) == len(columns) and not (len(cells) == 1 and error_code(line)):
            rows.append(dict(zip(names, cells, strict=True)))
            continue
        found = error_code(line)
        if found:
            reading.problem(found[0], found[1], line.strip())
        if found and len(cells) <= 2:
            continue
        if not found and (number < at or re.match(r"\s*(?:warning|note|#)", line, re.I)):
            continue
        reading.unknown(f"{len(cells)} cells under {len(columns)} columns: {line}", f"line {number + 1}")
    for position, row in enumerate(rows):
        index = split_number(row.get("index", ""))
        where = f"gpu {index[0] if index else position}"
        gpu = _gpu_facts(reading, where, row, units)
        gpus.append(gpu)
        where = name_gpu(position, gpu)
        gpu_problems(reading, where, gpu)
        flags: dict[str, str | None] = {
            name.rsplit(".", 1)[1]: value for name, value in row.items() if name.startswith("fabric.health.")
        }
        exceeded = "ecc.errors.uncorrected.aggregate.sram.thresholdexceeded"
        flags["sram_threshold_exceeded"] = row.get(exceeded)
        flag_problems(reading, where, flags)
        if row.get("inforom.checksum_validation", "valid").lower() == "invalid":
            reading.problem("gpu-inforom", where, f"{where}: the inforom's checksum is invalid")
    reading.facts["gpus"] = gpus
    _read_common(reading, rows)
    _same_units(reading, rows, units)
    if not rows:
        reading.truncated("a header without rows")
    check_indices(reading, gpus)
    check_repeats(reading, gpus)
    return reading


def _same_units(reading: Reading, rows: list[dict[str, str]], units: dict[str, str]) -> None:
    """Either every value under a unit carries it or none does (``nounits``); a mixture was cut."""
    with_unit, without = 0, ""
    for row in rows:
        for name in units:
            pair = split_number(row[name])
            if pair is None:
                continue
            if pair[1]:
                with_unit += 1
            else:
                without = f"{name}: {row[name]}"
    if with_unit and without:
        reading.truncated(f"unit missing: {without}")


def _read_common(reading: Reading, rows: list[dict[str, str]]) -> None:
    drivers = {row[name] for row in rows for name in ("driver_version",) if name in row}
    if not drivers:
        drivers = {row["kmd_version"] for row in rows if "kmd_version" in row}
    if len(drivers) > 1:
        reading.contradiction(f"several driver versions: {', '.join(sorted(drivers))}")
    elif drivers:
        reading.facts["driver_version"] = version(drivers.pop())
    counts = {row["count"] for row in rows if "count" in row}
    if counts and counts != {str(len(rows))}:
        reading.contradiction(f"{', '.join(sorted(counts))} GPUs counted, {len(rows)} printed")
