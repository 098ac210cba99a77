"""Other vendors: ``npu-smi info`` (Ascend), ``cnmon`` (Cambricon), ``mthreads-gmi``, powermetrics (macOS).

npu-smi prints two lines per chip; a card may have several chips (310, 910C), the first column of the first
line is the card.  Memory and HBM usage stand side by side where there is HBM, glued (``52675/ 65536``); on
910C the second die's power is ``-``; the process table below has rows that also begin with numbers.
mthreads-gmi prints the current width and, in brackets, the largest.  powermetrics prints milliwatts.
"""

from __future__ import annotations

import plistlib
import re
from typing import Any
from xml.parsers.expat import ExpatError

from checks.parsers._card_table import Layout, read_table
from checks.parsers._core import NA, Facts, Reading, is_number, parser
from checks.parsers._errors import nothing_read
from checks.parsers._values import na, to_number

_FACTS = (
    "index",
    "chip",
    "product",
    "health",
    "pci_bus_id",
    "temperature_c",
    "power_w",
    "memory_used_mib",
    "memory_total_mib",
    "ecc_errors",
    "pcie_width_current",
    "pcie_width_max",
    "utilisation_percent",
)
_ADDRESS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"


def _new() -> Facts:
    return dict.fromkeys(_FACTS)


def _version(text: str) -> str:
    return re.sub(r"^[vV](?=\d)", "", text)


def _value(reading: Reading, where: str, text: str) -> Any:
    absent = na(text)
    if absent:
        return absent
    number = to_number(text)
    if number is None:
        reading.unknown(text, where)
    return number


# --- npu-smi ------------------------------------------------------------------------------------------------

_NPU_FIRST = re.compile(r"^\|\s*(\d{1,6})\s+(\S.*?)\s*\|\s*(\S.*?)\s*\|\s*(\S+)\s+(\S+)(?:\s+(.*?))?\s*\|$")
_NPU_SECOND = re.compile(
    rf"^\|\s*(\d{{1,6}})(?:\s+(\S+))?\s*\|\s*({_ADDRESS}|NA|N/A|-)\s*\|\s*(\S+)\s+(.*?)\s*\|$"
)
_NPU = Layout(
    noun="NPU",
    start=re.compile(r"^\+[=+]+\+$|^\|\s*Chip\b.*\bBus-Id"),
    rule=re.compile(r"^\+[-=+]+\+$"),
    end=re.compile(r"^\|\s*NPU\s+Chip\s*\|\s*Process"),
    first=_NPU_FIRST,
    second=_NPU_SECOND,
)
_USAGE = re.compile(r"(\d+|-|NA)\s*/\s*(\d+|-|NA)(?=\s|$)")


def _sniff_npu(text: str) -> int:
    if re.search(r"^\|\s*npu-smi\s", text, re.M):
        return 95
    return 80 if re.search(r"^\|\s*NPU\s+Name\s.*\|\s*Health", text, re.M) else 0


@parser("npu-smi", "npu-smi info", ("npu-smi info",), _sniff_npu)
def parse_npu_smi(text: str) -> Reading:
    reading = Reading({"driver_version": None, "devices": None})
    if not _sniff_npu(text):
        nothing_read(reading, text, "npu-smi info")
        return reading
    version = re.search(r"^\|.*\bVersion:\s*(\S+)\s*\|", text, re.M)
    if version:
        reading.facts["driver_version"] = na(version.group(1)) or _version(version.group(1))
    else:
        reading.truncated("no Version")
    hbm = bool(re.search(r"\|.*HBM-Usage", text))
    if not re.search(r"^\|\s*NPU\s+Name", text, re.M) or not re.search(r"^\|\s*Chip\b.*\bBus-Id", text, re.M):
        reading.truncated("the heading of the table is missing")
    devices = read_table(reading, text, _NPU, _npu_first, lambda r, d, m: _npu_second(r, d, m, hbm))
    reading.facts["devices"] = devices
    pairs = [(device["index"], device["chip"]) for device in devices]
    if len(set(pairs)) != len(pairs):
        reading.contradiction("a chip stands twice")
    _health(reading, devices)
    return reading


def _npu_first(reading: Reading, match: re.Match[str]) -> Facts:
    device = _new()
    device["index"], device["product"] = int(match.group(1)), match.group(2)
    where = f"npu {device['index']}"
    device["health"] = na(match.group(3)) or match.group(3)
    device["power_w"] = _value(reading, where, match.group(4))
    device["temperature_c"] = _value(reading, where, match.group(5))
    return device


def _npu_second(reading: Reading, device: Facts, match: re.Match[str], hbm: bool) -> None:
    where = f"npu {device['index']}"
    device["chip"] = int(match.group(1))
    device["pci_bus_id"] = na(match.group(3)) or match.group(3)
    device["utilisation_percent"] = _value(reading, where, match.group(4))
    usages = _USAGE.findall(match.group(5))
    if len(usages) < (2 if hbm else 1):
        reading.truncated(f"cut: {match.group(0)}", where)
        return
    used, total = usages[-1] if hbm else usages[0]
    device["memory_used_mib"] = _value(reading, where, used)
    device["memory_total_mib"] = _value(reading, where, total)


def _health(reading: Reading, devices: list[Facts]) -> None:
    for device in devices:
        health = device["health"]
        where = f"npu {device['index']} chip {device['chip']}"
        if isinstance(health, NA) or (isinstance(health, str) and health.upper() != "OK"):
            word = health.reason if isinstance(health, NA) else health
            reading.problem("gpu-health", where, f"{where}: health {word}")


# --- cnmon --------------------------------------------------------------------------------------------------

_CN_FIRST = re.compile(
    rf"^\|\s*(\d{{1,6}})\s+(\S+)\s+(\S.*?)\s+(v?\d\S*|N/A)\s*\|\s*({_ADDRESS}|N/A)\s*\|\s*(\S+)\s+(\S+)\s*\|$"
)
_CN_SECOND = re.compile(
    r"^\|\s*(\S+)\s+(\S+)\s+(\d+|N/A)\s*W?\s*/\s*(\d+|N/A)\s*W?\s*\|\s*(\d+|N/A)\s*(?:MiB)?\s*/\s*(\d+|N/A)\s*(MiB)?\s*\|\s*(\S.*?)\s*\|$"
)


_CN = Layout(
    noun="card",
    start=re.compile(r"^\|=[=+]*\|$"),
    rule=re.compile(r"^\+[-+]+\+$"),
    end=re.compile(r"^\|\s*Processes\b|^\|\s*Card\s+.*\bProcess"),
    first=_CN_FIRST,
    second=_CN_SECOND,
    extra=re.compile(r"^\|\s*\|"),
    blank=re.compile(r"^\|[\s|]*\|$|^\|=[=+]*\|$"),
)


def _sniff_cnmon(text: str) -> int:
    return 95 if re.search(r"^\|\s*CNMON\s", text, re.M) else 0


@parser("cnmon", "cnmon", ("cnmon", "cnmon info"), _sniff_cnmon)
def parse_cnmon(text: str) -> Reading:
    reading = Reading({"driver_version": None, "devices": None})
    if not _sniff_cnmon(text):
        nothing_read(reading, text, "cnmon")
        return reading
    driver = re.search(r"^\|\s*CNMON\s.*\bDriver\s+(\S+)\s*\|", text, re.M)
    if driver:
        reading.facts["driver_version"] = na(driver.group(1)) or _version(driver.group(1))
    else:
        reading.truncated("no driver version")
    devices = read_table(reading, text, _CN, _cn_first, _cn_second)
    reading.facts["devices"] = devices
    _indices(reading, devices)
    _ecc(reading, devices, "card")
    return reading


def _cn_first(reading: Reading, match: re.Match[str]) -> Facts:
    device = _new()
    device["index"], device["product"] = int(match.group(1)), match.group(3)
    device["pci_bus_id"] = na(match.group(5)) or match.group(5)
    device["ecc_errors"] = _value(reading, f"card {device['index']}", match.group(7))
    device["utilisation_percent"] = _value(reading, f"card {device['index']}", match.group(6).rstrip("%"))
    return device


def _cn_second(reading: Reading, device: Facts, match: re.Match[str]) -> None:
    where = f"card {device['index']}"
    heat = re.fullmatch(r"(-?\d+)C", match.group(2))
    device["temperature_c"] = int(heat.group(1)) if heat else na(match.group(2))
    if device["temperature_c"] is None:
        reading.unknown(match.group(2), where)
    device["power_w"] = _value(reading, where, match.group(3))
    device["memory_used_mib"] = _value(reading, where, match.group(5))
    device["memory_total_mib"] = _value(reading, where, match.group(6))


def _indices(reading: Reading, devices: list[Facts]) -> None:
    indices = [device["index"] for device in devices]
    if len(indices) > 1 and indices != list(range(len(indices))):
        reading.truncated(f"indices have a gap: {indices}")


def _ecc(reading: Reading, devices: list[Facts], noun: str) -> None:
    for device in devices:
        errors = device["ecc_errors"]
        if is_number(errors) and errors > 0:
            where = f"{noun} {device['index']}"
            reading.problem("gpu-ecc-errors", where, f"{where}: {errors} ECC errors")


# --- mthreads-gmi -------------------------------------------------------------------------------------------

_MT_FIRST = re.compile(
    rf"^\|?\s*(\d{{1,6}})\s+(\S.*?)\s*\|\s*({_ADDRESS}|N/A)\s*\|\s*(\S+)\s+(\d+|N/A)\s*MiB\s*\(\s*(\d+|N/A)\s*MiB\s*\)\s*\|?$"
)
_MT_SECOND = re.compile(
    r"^\|?\s*([A-Za-z]\w*).*?\|\s*(?:(\d+)x\s*\(\s*(\d+)x\s*\)|(N/A|-))\s*\|\s*(-?\d+)\s*C\b(.*)$"
)


_MT = Layout(
    noun="device",
    start=re.compile(r"^\+[-+]+\+?$"),
    rule=re.compile(r"^\+[-+]+\+?$"),
    end=re.compile(r"^\W*Processes\b"),
    first=_MT_FIRST,
    second=_MT_SECOND,
    extra=re.compile(r"^\|\s*\S"),
    blank=re.compile(r"^-+$"),
)


def _sniff_mthreads(text: str) -> int:
    return 95 if re.search(r"^\W*mthreads-gmi\s*:", text, re.M) else 0


@parser("mthreads-gmi", "mthreads-gmi", ("mthreads-gmi",), _sniff_mthreads)
def parse_mthreads_gmi(text: str) -> Reading:
    reading = Reading({"driver_version": None, "devices": None})
    if not _sniff_mthreads(text):
        nothing_read(reading, text, "mthreads-gmi")
        return reading
    driver = re.search(r"Driver Version\s*:\s*(\S+)", text)
    if driver:
        reading.facts["driver_version"] = na(driver.group(1)) or _version(driver.group(1))
    else:
        reading.truncated("no driver version")
    devices = read_table(reading, text, _MT, _mt_first, _mt_second)
    reading.facts["devices"] = devices
    _indices(reading, devices)
    return reading


def _mt_first(reading: Reading, match: re.Match[str]) -> Facts:
    device = _new()
    device["index"], device["product"] = int(match.group(1)), match.group(2)
    device["pci_bus_id"] = na(match.group(3)) or match.group(3)
    where = f"gpu {device['index']}"
    device["memory_used_mib"] = _value(reading, where, match.group(5))
    device["memory_total_mib"] = _value(reading, where, match.group(6))
    device["utilisation_percent"] = _value(reading, where, match.group(4).rstrip("%"))
    return device


def _mt_second(reading: Reading, device: Facts, match: re.Match[str]) -> None:
    device["temperature_c"] = int(match.group(5))
    if match.group(4):
        device["pcie_width_current"] = device["pcie_width_max"] = NA(match.group(4))
        return
    current, largest = int(match.group(2)[:4]), int(match.group(3)[:4])
    device["pcie_width_current"], device["pcie_width_max"] = current, largest
    if current < largest:
        where = f"gpu {device['index']}"
        reading.problem("pcie-link", where, f"{where}: PCIe width {current}x of {largest}x")


# --- powermetrics -------------------------------------------------------------------------------------------

_POWERS = {
    "cpu_power_w": re.compile(r"^CPU Power:\s*(\d+(?:[.,]\d+)?)\s*(mW|W)\s*$", re.M),
    "gpu_power_w": re.compile(r"^GPU Power:\s*(\d+(?:[.,]\d+)?)\s*(mW|W)\s*$", re.M),
    "combined_power_w": re.compile(
        r"^Combined Power(?:\s*\([^)]*\))?:\s*(\d+(?:[.,]\d+)?)\s*(mW|W)\s*$", re.M
    ),
}
_MACHINE = re.compile(r"^Machine model:\s*(\S+)\s*$", re.M)


def _sniff_powermetrics(text: str) -> int:
    if re.search(r"^Machine model: ", text, re.M) or re.search(
        r"^\*\*\* Sampled system activity", text, re.M
    ):
        return 90
    return (
        85
        if "<plist" in text[:600] and ("<key>hw_model</key>" in text or "<key>cpu_power</key>" in text)
        else 0
    )


@parser(
    "powermetrics",
    "powermetrics (macOS)",
    ("powermetrics -n 1 -i 1000 -s cpu_power,gpu_power",),
    _sniff_powermetrics,
    document=True,
)
def parse_powermetrics(text: str) -> Reading:
    reading = Reading({"machine": None, **dict.fromkeys(_POWERS)})
    if "<plist" in text[:600]:
        return _powermetrics_plist(reading, text)
    machine = _MACHINE.search(text)
    found = {fact: pattern.findall(text) for fact, pattern in _POWERS.items()}
    if machine is None and not any(found.values()):
        nothing_read(reading, text, "powermetrics")
        return reading
    if machine:
        reading.facts["machine"] = machine.group(1)
    else:
        reading.truncated("no Machine model")
    for fact, values in found.items():
        if values:
            printed, unit = values[-1]
            number = to_number(printed)
            if number is not None:
                reading.facts[fact] = number / 1000 if unit == "mW" else number
    labels = re.findall(r"^(?:CPU|GPU|ANE|Combined) Power\b[^\n]*$", text, re.M)
    for label in labels:
        if not re.search(r":\s*\d+(?:[.,]\d+)?\s*m?W\s*$", label):
            reading.truncated(f"cut: {label}")
    if not any(found.values()):
        reading.truncated("no power readings")
    parts = [reading.facts[name] for name in _POWERS]
    if all(is_number(part) for part in parts) and parts[0] + parts[1] > parts[2] * 1.05 + 0.1:
        reading.contradiction(f"CPU {parts[0]} W and GPU {parts[1]} W, but {parts[2]} W together")
    return reading


def _powermetrics_plist(reading: Reading, text: str) -> Reading:
    start = text.rfind("<?xml")
    document = text[max(start, 0) :]
    if re.search(r"<!ENTITY", document, re.I) or re.search(r"<!DOCTYPE[^>]*\[", document, re.I):
        reading.unknown("a document type with entities is not read")
        return reading
    try:
        value = plistlib.loads(document.encode(), fmt=plistlib.FMT_XML)
    except (
        ValueError,
        ExpatError,
        plistlib.InvalidFileException,
        OverflowError,
        AttributeError,
        IndexError,
    ) as error:
        reading.truncated(f"the property list is cut or damaged: {error}")
        return reading
    if not isinstance(value, dict):
        reading.unknown("the property list is no dictionary")
        return reading
    machine = value.get("hw_model")
    reading.facts["machine"] = machine if isinstance(machine, str) else None
    processor = value.get("processor")
    inner = processor if isinstance(processor, dict) else value
    for fact, name in (
        ("cpu_power_w", "cpu_power"),
        ("gpu_power_w", "gpu_power"),
        ("combined_power_w", "combined_power"),
    ):
        number = inner.get(name)
        reading.facts[fact] = number / 1000 if is_number(number) else None
    if not any(is_number(reading.facts[fact]) for fact in _POWERS):
        reading.truncated("no power readings")
    return reading
