"""macOS: ``system_profiler -json``, ``sw_vers``, ``sysctl`` and ``pmset -g``. None needs a GNU tool."""

from __future__ import annotations

import re
from typing import Any

from checks.parsers._core import Facts, Reading, parser
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._json import load, peek
from checks.parsers._values import na, split_number

_UNITS = {"MB": 1, "GB": 1024, "TB": 1024 * 1024}


def _hardware(value: Any) -> dict[str, Any] | None:
    entries = value.get("SPHardwareDataType") if isinstance(value, dict) else None
    if isinstance(entries, list) and len(entries) == 1 and isinstance(entries[0], dict):
        return entries[0]
    return None


def _sniff_profiler(text: str) -> int:
    return 92 if '"SPHardwareDataType"' in text and _hardware(peek(text)) is not None else 0


@parser(
    "system-profiler", "system_profiler -json", ("system_profiler -json SPHardwareDataType",),
    _sniff_profiler, document=True,
)  # fmt: skip
def parse_system_profiler(text: str) -> Reading:
    """chip, machine, memory_mib, gpu_cores, metal (all None where not printed)."""
    facts: Facts = {"chip": None, "machine": None, "memory_mib": None, "gpu_cores": None, "metal": None}
    reading = Reading(facts)
    value = load(reading, text)
    hardware = _hardware(value)
    if hardware is None:
        if reading.understood:
            nothing_read(reading, text, "system_profiler -json")
        return reading
    facts["chip"] = _text(hardware.get("chip_type") or hardware.get("cpu_type"))
    facts["machine"] = _text(hardware.get("machine_model"))
    memory = split_number(str(hardware.get("physical_memory", "")))
    if memory is None or memory[1].upper() not in _UNITS:
        reading.truncated(f"physical_memory: {hardware.get('physical_memory')}")
    else:
        facts["memory_mib"] = int(memory[0] * _UNITS[memory[1].upper()])
    displays = value.get("SPDisplaysDataType")
    chips = (
        [d for d in displays if isinstance(d, dict) and "sppci_model" in d]
        if isinstance(displays, list)
        else []
    )
    if chips:
        cores = split_number(str(chips[0].get("sppci_cores", "")))
        facts["gpu_cores"] = int(cores[0]) if cores else None
        facts["metal"] = _text(chips[0].get("spdisplays_mtlgpufamilysupport"))
    return reading


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


_VERSION = re.compile(r"^(ProductName|ProductVersion|ProductVersionExtra|BuildVersion):\s*(\S.*?)\s*$")


def _sniff_sw_vers(text: str) -> int:
    return 90 if re.search(r"^ProductVersion:\s", text, re.M) else 0


@parser("sw-vers", "sw_vers", ("sw_vers",), _sniff_sw_vers)
def parse_sw_vers(text: str) -> Reading:
    reading = Reading({"product": None, "version": None, "build": None})
    names = {"ProductName": "product", "ProductVersion": "version", "BuildVersion": "build"}
    for line in text.split("\n"):
        match = _VERSION.match(line)
        if match and match[1] in names:
            reading.facts[names[match[1]]] = match[2]
        elif line.strip() and not match:
            reading.unknown(line)
    for fact in ("product", "version", "build"):
        if reading.facts[fact] is None:
            reading.truncated(f"no {fact}")
    version = reading.facts["version"]
    if isinstance(version, str) and not re.fullmatch(r"\d+(?:\.\d+)*", version):
        reading.unknown(f"ProductVersion: {version}")
    return reading


_ASSIGNED = re.compile(r"^([a-z][\w.]*)\s*[:=]\s*(.*?)\s*$")


def _sniff_sysctl(text: str) -> int:
    return 80 if re.search(r"^(?:hw\.memsize|iogpu\.\w+)\s*[:=]\s", text, re.M) else 0


@parser("mac-sysctl", "sysctl NAME … (macOS)", ("sysctl hw.memsize iogpu.wired_limit_mb",), _sniff_sysctl)
def parse_sysctl(text: str) -> Reading:
    """``values``: by name, a whole number where it is one, else text. An unknown name is no value."""
    values: dict[str, Any] = {}
    reading = Reading({"values": values})
    for line in text.split("\n"):
        match = _ASSIGNED.match(line)
        if match is None:
            if line.strip():
                error = error_code(line)
                reading.reject(error[0] if error else "output-unknown", "output", line.strip())
            continue
        if match[1] in values:
            reading.contradiction(f"{match[1]} stands twice")
        number = re.fullmatch(r"-?\d{1,20}", match[2])
        values[match[1]] = int(match[2]) if number else na(match[2]) or match[2]
    if not values and reading.understood:
        nothing_read(reading, text, "sysctl")
    return reading


_SETTING = re.compile(r"^\s+([A-Za-z][\w ]*?)\s+(\d+)(?:\s+\(.*\))?\s*$")
_PMSET_HEAD = re.compile(
    r"^(?:System-wide power settings|Currently in use|Active Profiles|[A-Z][\w ]*Power):?\s*\*?$"
)


def _sniff_pmset(text: str) -> int:
    return (
        88
        if re.search(r"^(?:System-wide power settings|Currently (?:in use|drawing from)).*", text, re.M)
        else 0
    )


@parser("pmset", "pmset -g", ("pmset -g",), _sniff_pmset)
def parse_pmset(text: str) -> Reading:
    """``settings``: minutes or switches by name; of ``Currently in use`` only."""
    settings: dict[str, int] = {}
    reading = Reading({"settings": settings})
    if not _sniff_pmset(text):
        nothing_read(reading, text, "pmset -g")
        return reading
    current = False
    for line in text.split("\n"):
        if _PMSET_HEAD.match(line.strip()) and not line.startswith(" "):
            current = line.startswith("Currently in use")
            continue
        match = _SETTING.match(line)
        if match is None:
            if line.strip():
                reading.unknown(line)
        elif current:
            if match[1] in settings:
                reading.contradiction(f"{match[1]} stands twice")
            settings[match[1]] = int(match[2])
    if not settings and reading.understood:
        reading.truncated("no settings in use")
    return reading
