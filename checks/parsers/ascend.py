"""Ascend beside ``npu-smi info``: its ``-t ecc``, and hccn_tool's link and net health, once a device.

The collector prints every device under a line ``== NAME``, and ``== end`` when it came to the last.
"""

from __future__ import annotations

import re
from typing import Any

from checks.parsers._core import NA, Facts, Reading, parser
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._values import na, to_number

_HEAD = re.compile(r"^== (\S+)$")
_PAIR = re.compile(r"^\s*([A-Za-z][\w /.-]*?)\s*:\s*(.*?)\s*$")


def _parts(reading: Reading, text: str) -> dict[str, list[str]]:
    """The lines under each heading; a text without its end is cut."""
    parts: dict[str, list[str]] = {}
    name = ""
    for line in text.split("\n"):
        head = _HEAD.match(line.strip())
        if head:
            name = head[1]
            if name in parts:
                reading.contradiction(f"{name} stands twice")
            parts.setdefault(name, [])
        elif line.strip():
            if not name:
                reading.unknown(line)
            else:
                parts[name].append(line)
    if "end" not in parts:
        reading.truncated("the line == end is missing")
    elif parts["end"]:
        reading.unknown(parts["end"][0])
    parts.pop("end", None)
    return parts


_COUNTS = {
    "hbm single bit error count": "corrected",
    "hbm double bit error count": "uncorrected",
    "hbm single bit aggregate total err cnt": "corrected_aggregate",
    "hbm double bit aggregate total err cnt": "uncorrected_aggregate",
    "hbm single bit isolated pages count": "isolated_single",
    "hbm double bit isolated pages count": "isolated_double",
}
_NEEDED = ("corrected", "uncorrected")


def _sniff_ecc(text: str) -> int:
    return 90 if re.search(r"^\s*HBM (?:Single|Double) Bit Error Count\s*:", text, re.M) else 0


@parser("npu-smi-ecc", "npu-smi info -t ecc of every chip", ("npu-smi info -t ecc",), _sniff_ecc)
def parse_ecc(text: str) -> Reading:
    """``devices[]``: index, chip, and the counts of HBM errors and isolated pages."""
    reading = Reading({"devices": None})
    if not _sniff_ecc(text):
        nothing_read(reading, text, "npu-smi info -t ecc")
        return reading
    devices = []
    for name, lines in _parts(reading, text).items():
        index, _, chip = name.partition("/")
        if not (index.isdigit() and (not chip or chip.isdigit())):
            reading.unknown(f"== {name}")
            continue
        device: Facts = {"index": int(index), "chip": int(chip or 0)}
        device |= dict.fromkeys(_COUNTS.values())
        where = f"npu {name}"
        said: set[str] = set()
        for line in lines:
            _count(reading, where, device, line, said)
        lacking = [fact for fact in _NEEDED if device[fact] is None]
        if lacking:
            reading.truncated(f"{', '.join(lacking)} missing", where)
        if isinstance(device["uncorrected"], int) and device["uncorrected"] > 0:
            reading.problem("npu-ecc", where, f"{where}: {device['uncorrected']} double bit errors")
        devices.append(device)
    reading.facts["devices"] = devices
    return reading


def _count(reading: Reading, where: str, device: Facts, line: str, said: set[str]) -> None:
    pair = _PAIR.match(line)
    error = error_code(line)
    if error:
        reading.reject(error[0], where, line.strip())
        return
    if pair is None:
        reading.unknown(line, where)
        return
    name = pair[1].lower()
    _once(reading, where, name, said)
    fact = _COUNTS.get(name)
    if fact is None:
        return
    number: Any = to_number(pair[2])
    if number is None:
        number = na(pair[2])
    if number is None or isinstance(number, float):
        reading.unknown(line, where)
        number = None
    device[fact] = number


def _once(reading: Reading, where: str, name: str, said: set[str]) -> None:
    """A device that says a thing twice is two devices, the heading between them lost."""
    if name in said:
        reading.contradiction(f"{name} stands twice", where)
    said.add(name)


_LINK = re.compile(r"^\s*link status\s*:\s*(\S+)\s*$", re.I)
_HEALTH = re.compile(r"^\s*net health status\s*:\s*(\S.*?)\s*$", re.I)


def _sniff_link(text: str) -> int:
    return 90 if re.search(r"^\s*link status\s*:", text, re.M | re.I) else 0


@parser("hccn-link", "hccn_tool -link and -net_health of every device", ("hccn_tool -link -g",), _sniff_link)
def parse_link(text: str) -> Reading:
    """``devices[]``: index, link (``UP`` or ``DOWN``), net_health (as printed, or na)."""
    reading = Reading({"devices": None})
    if not _sniff_link(text):
        nothing_read(reading, text, "hccn_tool")
        return reading
    devices = []
    for name, lines in _parts(reading, text).items():
        if not name.isdigit():
            reading.unknown(f"== {name}")
            continue
        where = f"npu {name}"
        device: Facts = {"index": int(name), "link": None, "net_health": None}
        said: set[str] = set()
        for line in lines:
            link, health = _LINK.match(line), _HEALTH.match(line)
            if link:
                _once(reading, where, "link status", said)
                device["link"] = _word(reading, where, link[1].upper())
            elif health:
                _once(reading, where, "net health status", said)
                device["net_health"] = na(health[1]) or health[1]
            else:
                error = error_code(line)
                reading.reject(error[0] if error else "output-unknown", where, line.strip())
        for fact, what in (("link", "the link's state"), ("net_health", "the net health")):
            if device[fact] is None:
                reading.truncated(f"{what} is missing", where)
        if device["link"] == "DOWN":
            reading.problem("npu-network", where, f"{where}: link DOWN")
        devices.append(device)
    reading.facts["devices"] = devices
    return reading


def _word(reading: Reading, where: str, word: str) -> str | NA | None:
    if word in {"UP", "DOWN"}:
        return word
    absent = na(word)
    if absent is None:
        reading.unknown(f"link status: {word}", where)
    return absent
