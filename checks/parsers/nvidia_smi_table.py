"""``nvidia-smi`` without options: the table of GPUs.

Two lines per GPU (three since MIG, driver 450): index, name, persistence, bus id, ECC errors; fan,
temperature, power, memory, utilisation; MIG mode.  The product's name is cut to its column.  After it come
the tables of MIG devices and processes, whose rows also begin with a GPU's number.

Traps: ``ERR!`` glued to the bar, ``Not Supported`` in the memory cell (GB10), Driver-Model (WDDM, TCC)
instead of persistence on Windows, ``Off`` and ``On`` in the ECC column, KMD and CUDA UMD Version in the
title of driver 610.  Read on drivers 418 to 610.
"""

from __future__ import annotations

import re

from checks.parsers._core import NA, Facts, Reading, parser
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._nvidia import BUS_ID, check_indices, check_repeats, gpu_problems, new_gpu
from checks.parsers._values import na, to_bool, to_number

_TITLE = re.compile(r"NVIDIA-SMI\s+(\S+)")
_DRIVER = re.compile(r"(?:Driver|KMD) Version:\s*(\S+)")
_CUDA = re.compile(r"CUDA(?: UMD)? Version:\s*(\S+)")
_FIRST = re.compile(
    r"^\|\s*(\d+)\s+(\S.*?)\s+(On|Off|WDDM|TCC|MCDM|N/A|ERR!)?\s*\|\s*"
    rf"({BUS_ID}|N/A|ERR!)\s+(\S+)\s*\|\s*(\S.*?)\s*\|\s*$"
)
_SECOND = re.compile(
    r"^\|\s*(\d+\s?%|N/A|ERR!|\S+)\s+(-?\d+C|N/A|ERR!|\S+)\s+(P\d+|N/A|ERR!|\?\S*|\S+)\s+"
    r"(\S+|Unknown Error)\s*/\s*(\S+|Unknown Error)\s*\|\s*(\S.*?)\s*\|\s*(\S.*?)\s*\|\s*$"
)
_MEMORY = re.compile(r"^(\S+)\s*/\s*(\S+)$")
_RULE = re.compile(r"^[|+][-=+]+[|+]$")


def _sniff(text: str) -> int:
    if re.search(r"^\|\s*NVIDIA-SMI\s", text, re.M):
        return 95
    return 50 if re.search(r"\|\s*GPU\s+Name\s.*\|\s*Bus-Id", text) else 0


def _value(reading: Reading, where: str, text: str, unit: str) -> int | float | NA | None:
    """The number in a cell like ``69W``; a number without its unit was cut."""
    absent = na(text)
    if absent:
        return absent
    match = re.fullmatch(rf"(-?\d+(?:[.,]\d+)?)\s*{unit}", text.strip())
    if not match:
        reading.unknown(text, where)
        return None
    return to_number(match.group(1))


@parser("nvidia-smi-table", "nvidia-smi (table)", ("nvidia-smi",), _sniff)
def parse_nvidia_smi_table(text: str) -> Reading:
    reading = Reading({"driver_version": None, "cuda_version": None, "gpus": None})
    lines = text.split("\n")
    title = next((line for line in lines if _TITLE.search(line) and line.lstrip().startswith("|")), None)
    heading = any(re.search(r"\|\s*GPU\s+Name\s", line) for line in lines)
    if title is None and not heading:
        nothing_read(reading, text, "nvidia-smi")
        return reading
    if title is None:
        reading.truncated("the title with the versions is missing")
    else:
        driver, cuda = _DRIVER.search(title), _CUDA.search(title)
        reading.facts["driver_version"] = na(driver.group(1)) or driver.group(1) if driver else None
        reading.facts["cuda_version"] = na(cuda.group(1)) or cuda.group(1) if cuda else None
        if not driver or not title.rstrip().endswith("|"):
            reading.truncated(f"the title is cut: {title.strip()}")
    if not heading:
        reading.truncated("the heading of the table is missing")
    gpus, closed, mig_row = _read_rows(reading, lines)
    reading.facts["gpus"] = gpus
    if not gpus:
        reading.truncated("a table without GPUs")
    elif not closed:
        reading.truncated("the table's last line is missing")
    for position, gpu in enumerate(gpus):
        where = f"gpu {gpu['index']}"
        if gpu["temperature_c"] is None and gpu["fan_percent"] is None and gpu["memory_used_mib"] is None:
            reading.truncated(f"GPU {gpu['index']} has no second line", where)
        if mig_row and gpu["mig_current"] is None:
            reading.truncated(f"GPU {gpu['index']} has no MIG line", where)
        gpu_problems(reading, where, gpu)
        del position
    check_indices(reading, gpus)
    check_repeats(reading, gpus)
    return reading


def _read_rows(reading: Reading, lines: list[str]) -> tuple[list[Facts], bool, bool]:
    """The GPUs, whether the table was closed, and whether it has a line for MIG."""
    gpus: list[Facts] = []
    in_table = closed = done = False
    mig_row = any(re.search(r"\|\s*MIG M\.\s*\|\s*$", line) for line in lines)
    state = 0  # 0: between GPUs, 1: after the first line, 2: after the second
    for line in lines:
        stripped = line.strip()
        if not stripped:
            if in_table and gpus and closed:
                done = True
            continue
        error = None if stripped.startswith(("|", "+")) else error_code(line)
        if error:
            reading.problem(error[0], error[1], stripped)
            continue
        if done or re.match(r"^\|\s*(?:MIG devices|Processes):", stripped):
            done = done or bool(gpus)
            continue
        if re.match(r"^\|=+[+|]", stripped) and not in_table:
            in_table = True
            continue
        if not in_table:
            continue
        if _RULE.match(stripped):
            if state == 1:
                reading.truncated(f"GPU {gpus[-1]['index']} has no second line", f"gpu {gpus[-1]['index']}")
            closed, state = True, 0
            continue
        first = _FIRST.match(stripped)
        if first:
            if state:
                reading.truncated("the line between two GPUs is missing")
            gpus.append(_first_line(first))
            closed, state = False, 1
            continue
        second = _SECOND.match(stripped)
        if second and state == 1:
            _second_line(reading, gpus[-1], second)
            state = 2
            continue
        third = re.match(r"^\|\s*\|\s*\|\s*(\S.*?)?\s*\|$", stripped)
        if third and state == 2:
            cell = third.group(1) or ""
            mode = to_bool(cell)
            gpus[-1]["mig_current"] = na(cell) if mode is None else mode
            if mode is None and not na(cell):
                reading.unknown(line, f"gpu {gpus[-1]['index']}")
            continue
        reading.unknown(line)
    return gpus, closed, mig_row


def _first_line(match: re.Match[str]) -> Facts:
    index, product, mode, bus_id, _display, ecc = match.groups()
    gpu = new_gpu()
    gpu["index"] = int(index)
    gpu["product"] = na(product) or product
    gpu["mig_devices"] = None
    gpu["pci_bus_id"] = na(bus_id) or bus_id
    if mode in {"On", "Off"}:
        gpu["persistence_mode"] = mode == "On"
    elif mode in {"ERR!", "N/A"}:
        gpu["persistence_mode"] = NA(mode)
    if ecc in {"On", "Off"}:
        gpu["ecc_current"] = ecc == "On"
        gpu["ecc_uncorrected_volatile"] = NA(ecc)
    else:
        number = to_number(ecc)
        gpu["ecc_uncorrected_volatile"] = NA(ecc) if number is None else number
    return gpu


def _second_line(reading: Reading, gpu: Facts, match: re.Match[str]) -> None:
    where = f"gpu {gpu['index']}"
    fan, temperature, _state, draw, cap, memory, _use = match.groups()
    gpu["fan_percent"] = _value(reading, where, fan, "%")
    gpu["temperature_c"] = _value(reading, where, temperature, "C")
    gpu["power_draw_w"] = _value(reading, where, draw, "W")
    gpu["power_limit_w"] = _value(reading, where, cap, "W")
    absent = na(memory)
    pair = _MEMORY.match(memory)
    if absent or pair is None:
        if absent is None:
            reading.unknown(memory, where)
        gpu["memory_used_mib"] = gpu["memory_total_mib"] = absent
        return
    gpu["memory_used_mib"] = _value(reading, where, pair.group(1), "MiB")
    gpu["memory_total_mib"] = _value(reading, where, pair.group(2), "MiB")
