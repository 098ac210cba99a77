"""AMD GPUs: ``rocm-smi --json``, ``rocm-smi`` text, ``amd-smi --json``.

rocm-smi's JSON is an object of ``card0``, ``card1``, ... and ``system``, all values strings; its keys changed
with the versions (Average Graphics Package Power, Current Socket Graphics Package Power, ...).  The text form
prints ``GPU[0] : label: value`` lines or a concise table.  amd-smi prints a list of objects (since ROCm 6.4
under ``gpu_data``) whose numbers are ``{"value": 40, "unit": "W"}``; hotspot is the junction.  There is no
junction on some consumer boards.
"""

from __future__ import annotations

import re
from typing import Any

from checks.parsers._core import NA, Facts, Reading, is_number, parser
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._json import load, peek
from checks.parsers._values import clean, na, split_number

_GPU = (
    "index",
    "product",
    "temperature_junction_c",
    "temperature_memory_c",
    "power_w",
    "memory_total_mib",
    "numa_node",
    "ecc_uncorrected",
    "ecc_corrected",
    "ecc_deferred",
    "pci_bus_id",
    "pci_id",
    "power_limit_w",
    "power_limit_max_w",
    "throttle",
    "utilisation_percent",
    "memory_used_mib",
    "pcie_gen_current",
    "pcie_width_current",
    "pcie_width_max",
    "compute_partition",
    "memory_partition",
)
_POWER = re.compile(r"(?:average|current)\b.*\bpackage power \(w\)", re.I)
_PRODUCT = ("device name", "card series", "card model", "market name")


def _new(index: int) -> Facts:
    return {**dict.fromkeys(_GPU), "index": index}


def _number(reading: Reading, where: str, value: Any) -> int | float | NA | None:
    if value is None:
        return None
    if is_number(value):
        return value
    text = str(value)
    absent = na(text)
    if absent:
        return absent
    found = split_number(text)
    if found is None:
        if text.strip() and not any(char.isdigit() for char in text):
            return NA(text.strip())
        reading.unknown(text, where)
        return None
    number = found[0]
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _apply(reading: Reading, gpu: Facts, label: str, value: Any) -> None:
    """Take one labelled value of rocm-smi (JSON or text)."""
    where = f"gpu {gpu['index']}"
    name = label.strip().rstrip(":").lower()
    if name == "temperature (sensor junction) (c)":
        gpu["temperature_junction_c"] = _number(reading, where, value)
    elif name == "temperature (sensor memory) (c)":
        gpu["temperature_memory_c"] = _number(reading, where, value)
    elif _POWER.fullmatch(name):
        found = _number(reading, where, value)
        if not is_number(gpu["power_w"]):
            gpu["power_w"] = found if found is not None else gpu["power_w"]
    elif name == "vram total memory (b)":
        size = _number(reading, where, value)
        gpu["memory_total_mib"] = size // 2**20 if isinstance(size, int) else size
    elif name == "gpu use (%)":
        gpu["utilisation_percent"] = _number(reading, where, value)
    elif name == "max graphics package power (w)":
        gpu["power_limit_w"] = _number(reading, where, value)
    elif name == "pci bus":
        gpu["pci_bus_id"] = na(str(value)) or clean(str(value)) or None
    elif name == "vram total used memory (b)":
        used = _number(reading, where, value)
        gpu["memory_used_mib"] = used // 2**20 if isinstance(used, int) else used
    elif name in {"(topology) numa node", "numa node"}:
        gpu["numa_node"] = _number(reading, where, value)
    elif name in _PRODUCT:
        text = clean(str(value))
        named = gpu["product"] if isinstance(gpu["product"], str) else ""
        if not named or (named.startswith("0x") and not text.startswith("0x")):
            gpu["product"] = na(text) or text or None
    elif re.search(r"\b(?:uncorrectable|ue)\b.*\b(?:count|errors?)?", name) and "uncorrectable" in name:
        gpu["ecc_uncorrected"] = _number(reading, where, value)
    elif "correctable" in name:
        gpu["ecc_corrected"] = _number(reading, where, value)


def _finish(reading: Reading, gpus: list[Facts]) -> None:
    indices = [gpu["index"] for gpu in gpus]
    if len(set(indices)) != len(indices):
        reading.contradiction(f"GPU indices repeat: {indices}")
    elif len(indices) > 1 and sorted(indices) != list(range(min(indices), min(indices) + len(indices))):
        reading.truncated(f"GPU indices have a gap: {indices}")
    for gpu in gpus:
        errors = gpu["ecc_uncorrected"]
        if is_number(errors) and errors > 0:
            where = f"gpu {gpu['index']}"
            reading.problem("gpu-ecc-errors", where, f"{where}: {errors} uncorrectable ECC errors")


def _sniff_rocm_json(text: str) -> int:
    return 95 if re.search(r'"card\d+"\s*:\s*\{', text) and text.lstrip()[:400].find("{") >= 0 else 0


@parser("rocm-smi-json", "rocm-smi --json", ("rocm-smi -a --json",), _sniff_rocm_json, document=True)
def parse_rocm_smi_json(text: str) -> Reading:
    reading = Reading({"driver_version": None, "gpus": None})
    value = load(reading, text)
    cards = (
        {
            name: card
            for name, card in value.items()
            if re.fullmatch(r"card\d{1,6}", name) and isinstance(card, dict)
        }
        if isinstance(value, dict)
        else {}
    )
    if not isinstance(value, dict) or not (cards or "system" in value):
        if reading.understood:
            nothing_read(reading, text, "rocm-smi --json")
        return reading
    gpus: list[Facts] = []
    for name, card in cards.items():
        gpu = _new(int(name[4:]))
        for label in _PRODUCT:
            for key, item in card.items():
                if key.strip().lower() == label:
                    _apply(reading, gpu, key, item)
        for key, item in card.items():
            if key.strip().lower() not in _PRODUCT:
                _apply(reading, gpu, key, item)
        gpus.append(gpu)
    system = value.get("system")
    driver = (
        next((system[key] for key in system if key.lower() == "driver version"), None)
        if isinstance(system, dict)
        else None
    )
    if driver is not None:
        reading.facts["driver_version"] = na(str(driver)) or clean(str(driver))
    reading.facts["gpus"] = gpus
    _finish(reading, gpus)
    return reading


_LINE = re.compile(r"^GPU\[(\d{1,6})\]\s*:\s*(.+?):\s*(.*?)\s*$")
_DRIVER = re.compile(r"^\s*Driver version:\s*(\S.*?)\s*$", re.I)


def _sniff_rocm(text: str) -> int:
    if re.search(r"^GPU\[\d+\]\s*:", text, re.M) or "End of ROCm SMI Log" in text:
        return 90
    return 85 if "ROCm System Management Interface" in text else 0


@parser("rocm-smi", "rocm-smi (text)", ("rocm-smi", "rocm-smi --showtoponuma"), _sniff_rocm)
def parse_rocm_smi(text: str) -> Reading:
    reading = Reading({"driver_version": None, "gpus": None})
    gpus: dict[int, Facts] = {}
    lines = text.split("\n")
    header: list[str] = []
    for line in lines:
        stripped = line.strip()
        match, driver = _LINE.match(line), _DRIVER.match(line)
        if match:
            gpu = gpus.setdefault(int(match.group(1)), _new(int(match.group(1))))
            _apply(reading, gpu, match.group(2), match.group(3))
        elif driver:
            reading.facts["driver_version"] = na(driver.group(1)) or driver.group(1)
        elif re.match(r"^(?:Device|GPU)\s+.*\b(?:Temp|Power|AvgPwr)\b", line):
            header = [line]
        elif header and re.match(r"^\s*\(?.*\((?:Junction|Edge|DieEdge|Socket)", line):
            header.append(line)
        elif header and re.match(r"^\d+\s", line):
            _concise(reading, gpus, " ".join(header), line)
        elif stripped and error_code(line):
            code, where = error_code(line) or ("", "")
            reading.problem(code, where, stripped)
    if not gpus:
        reading.problems.clear()
        nothing_read(reading, text, "rocm-smi")
        return reading
    if "End of ROCm SMI Log" not in text:
        reading.truncated("the line End of ROCm SMI Log is missing")
    reading.facts["gpus"] = [gpus[index] for index in sorted(gpus)]
    first = reading.facts["gpus"][0]
    for gpu in reading.facts["gpus"][1:]:
        differ = [name for name in _GPU if (gpu[name] is None) != (first[name] is None)]
        if differ and gpu["product"] == first["product"]:
            reading.truncated(f"GPU {gpu['index']} and GPU {first['index']} differ in {', '.join(differ)}")
    _finish(reading, reading.facts["gpus"])
    return reading


def _concise(reading: Reading, gpus: dict[int, Facts], header: str, line: str) -> None:
    index = int(line.split(maxsplit=1)[0][:6])
    gpu = gpus.setdefault(index, _new(index))
    where = f"gpu {index}"
    heat = re.search(r"(\d+(?:[.,]\d+)?)\s*°?[cC]\b", line)
    if heat and re.search(r"\(Junction\)", header, re.I):
        gpu["temperature_junction_c"] = _number(reading, where, heat.group(1))
    power = re.search(r"\b(\d+(?:[.,]\d+)?)W\b", line)
    if power:
        gpu["power_w"] = _number(reading, where, power.group(1))
    if not heat and not power and not re.search(r"N/A|unsupported", line, re.I):
        reading.truncated(f"cut: {line.strip()}", where)


# --- amd-smi ------------------------------------------------------------------------------------------------

_AMD_PARTS = {
    "asic",
    "bus",
    "vram",
    "driver",
    "power",
    "temperature",
    "ecc",
    "mem_usage",
    "numa",
    "usage",
    "bdf",
    "board",
}


def _gpu_list(value: Any) -> list[Any] | None:
    if isinstance(value, dict):
        value = value.get("gpu_data")
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return value if all("gpu" in item and _AMD_PARTS & set(item) for item in value) else None
    return None


def _sniff_amd_smi(text: str) -> int:
    return 90 if '"gpu"' in text and _gpu_list(peek(text)) is not None else 0


def _dig(item: Any, *path: str) -> Any:
    """The value at ``path``: the number of a value-and-unit object."""
    for name in path:
        item = item.get(name) if isinstance(item, dict) else None
    if isinstance(item, dict) and "value" in item:
        return item["value"]
    return None if isinstance(item, dict | list) else item


def _unit(item: Any, *path: str) -> str:
    for name in path:
        item = item.get(name) if isinstance(item, dict) else None
    return str(item.get("unit", "")) if isinstance(item, dict) else ""


@parser(
    "amd-smi-json",
    "amd-smi --json",
    ("amd-smi metric --json", "amd-smi static --json"),
    _sniff_amd_smi,
    document=True,
)
def parse_amd_smi(text: str) -> Reading:
    reading = Reading({"driver_version": None, "gpus": None})
    value = load(reading, text)
    listed = _gpu_list(value)
    if listed is None:
        if reading.understood:
            nothing_read(reading, text, "amd-smi --json")
        return reading
    gpus: list[Facts] = []
    drivers: list[Any] = []
    for item in listed:
        number = item["gpu"]
        if not isinstance(number, int) or isinstance(number, bool):
            reading.unknown(f"gpu: {number}")
            continue
        gpus.append(_amd_gpu(reading, number, item))
        drivers.append(_dig(item, "driver", "version"))
    named = {str(driver) for driver in drivers if driver is not None}
    if len(named) > 1:
        reading.contradiction(f"several driver versions: {', '.join(sorted(named))}")
    elif named:
        driver = named.pop()
        reading.facts["driver_version"] = na(driver) or driver
    reading.facts["gpus"] = gpus
    _finish(reading, gpus)
    return reading


_LIMITS = ("socket_power", "current_power", "power_cap")
_GENERATIONS: dict[float, int] = {2.5: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}
"""GT/s a lane, by PCIe generation."""


def _word(item: Any, *path: str) -> str | NA | None:
    """The text at ``path``."""
    value = _dig(item, *path)
    return None if value is None else na(str(value)) or clean(str(value)) or None


def _pci_id(item: Any) -> str | NA | None:
    """``0x1002`` and ``0x74a1`` as lspci writes them: ``1002:74a1``."""
    vendor, device = _word(item, "asic", "vendor_id"), _word(item, "asic", "device_id")
    if not isinstance(vendor, str) or not isinstance(device, str):
        return vendor if isinstance(vendor, NA) else device if isinstance(device, NA) else None
    found = [re.fullmatch(r"0x([0-9a-fA-F]{1,4})", word) for word in (vendor, device)]
    return ":".join(match[1].lower().zfill(4) for match in found if match) if all(found) else NA(device)


def _amd_gpu(reading: Reading, number: int, item: dict[str, Any]) -> Facts:
    gpu = _new(number)
    where = f"gpu {number}"

    def first(*paths: tuple[str, ...]) -> int | float | NA | None:
        absent: NA | None = None
        for path in paths:
            found = _number(reading, where, _dig(item, *path))
            if is_number(found):
                return found
            absent = absent or (found if isinstance(found, NA) else None)
        return absent

    product = _dig(item, "asic", "market_name") or _dig(item, "board", "product_name")
    gpu["product"] = (na(str(product)) or clean(str(product))) if product else None
    gpu["temperature_junction_c"] = first(("temperature", "hotspot"), ("temperature", "junction"))
    gpu["temperature_memory_c"] = first(
        ("temperature", "mem"), ("temperature", "vram"), ("temperature", "memory")
    )
    gpu["power_w"] = first(
        ("power", "socket_power"), ("power", "current_socket_power"), ("power", "average_socket_power")
    )
    for path in (("mem_usage", "total_vram"), ("vram", "size"), ("vram", "vram_size"), ("vram", "size_mb")):
        size = first(path)
        if size is None:
            continue
        scale = {"GB": 1024, "KB": 1 / 1024, "B": 1 / 2**20}.get(_unit(item, *path).upper(), 1)
        gpu["memory_total_mib"] = int(size * scale) if isinstance(size, int | float) else size
        if is_number(size):
            break
    gpu["numa_node"] = first(("numa", "node"))
    gpu["ecc_deferred"] = first(("ecc", "total_deferred_count"))
    gpu["power_limit_w"] = first(
        ("limit", "socket_power"), ("limit", "current_power"), ("limit", "power_cap")
    )
    gpu["power_limit_max_w"] = first(("limit", "max_power"))
    gpu["utilisation_percent"] = first(("usage", "gfx_activity"), ("usage", "gfx_usage"))
    gpu["memory_used_mib"] = first(("mem_usage", "used_vram"))
    gpu["pcie_width_current"] = first(("pcie", "width"), ("pcie", "current_width"))
    gpu["pcie_width_max"] = first(("bus", "max_pcie_width"))
    rate = first(("pcie", "speed"), ("pcie", "current_speed"))
    if is_number(rate):
        rate = _GENERATIONS.get(rate / 1000 if rate > 1000 else rate) or NA(f"{rate:g} GT/s")
    gpu["pcie_gen_current"] = rate
    gpu["pci_bus_id"] = _word(item, "bus", "bdf") or _word(item, "bdf")
    gpu["pci_id"] = _pci_id(item)
    gpu["throttle"] = _word(item, "power", "throttle_status")
    gpu["compute_partition"] = _word(item, "partition", "accelerator_partition") or _word(
        item, "partition", "compute_partition"
    )
    gpu["memory_partition"] = _word(item, "partition", "memory_partition")
    gpu["ecc_uncorrected"] = first(("ecc", "total_uncorrectable_count"), ("ecc", "total_uncorrectable"))
    gpu["ecc_corrected"] = first(("ecc", "total_correctable_count"), ("ecc", "total_correctable"))
    return gpu
