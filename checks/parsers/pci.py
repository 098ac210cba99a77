"""``lspci`` (plain, ``-n``, ``-nn``, ``-v`` to ``-vvv``, with or without domain) and its ACS lines.

Speed and width are the current ones (``LnkSta``); ``LnkCap`` says what could be.  ``ACSCtl`` says what is
switched on, ``ACSCap`` what could be.  Capabilities need root: ``<access denied>`` makes them not available.
"""

from __future__ import annotations

import re
from typing import Any

from checks.parsers._core import NA, Facts, Reading, parser, shorten
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._values import to_number

_DEVICE = re.compile(r"^((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\s+(.*)$")
_NN = re.compile(r"^(.*?)\s*\[([0-9a-fA-F]{4})\](?:\s*[-:]|:)\s*(.*)$")
_N = re.compile(r"^(?:\"?)([0-9a-fA-F]{4}):\s+([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\b")
_IDS = re.compile(r"\[([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\]")
_LINK = re.compile(r"^\s+LnkSta:\s*Speed\s+(\S+?)(?:GT/s)?(?:\s*\([^)]*\))?,\s*Width\s+x?(\d+|unknown)", re.I)
_ACS_CTL = re.compile(r"^\s*ACSCtl:\s*(.*)$")
_REDIRECT = re.compile(r"\b(?:ReqRedir|CmpltRedir)\+")
_DENIED = re.compile(r"Capabilities:\s*<access denied>", re.I)


def _sniff_lspci(text: str) -> int:
    lines = [line for line in text.split("\n")[:400] if line.strip()]
    heads = sum(bool(_DEVICE.match(line)) and bool(_head_like(line)) for line in lines)
    plain = sum(not line[0].isspace() for line in lines)
    return 85 if heads and heads * 3 >= plain * 2 else 0


def _head_like(line: str) -> bool:
    match = _DEVICE.match(line)
    rest = match.group(2) if match else ""
    return bool(re.match(r"[A-Za-z0-9].*:\s|[0-9a-fA-F]{4}: [0-9a-fA-F]{4}:", rest))


def _sniff_acs(text: str) -> int:
    if not re.search(r"^\s*ACSCtl:", text, re.M):
        return 0
    lines = [line for line in text.split("\n")[:400] if line.strip()]
    own = sum(bool(re.match(r"^\s*ACSC(?:tl|ap):", line) or _DEVICE.match(line)) for line in lines)
    acs = sum(bool(re.match(r"^\s*ACSC(?:tl|ap):", line)) for line in lines)
    return 90 if acs and own == len(lines) and acs * 3 >= own else 0


def _head(reading: Reading, address: str, rest: str) -> Facts:
    device: Facts = {
        "address": address,
        "class": None,
        "vendor_id": None,
        "device_id": None,
        "link_speed_gts": None,
        "link_width": None,
    }
    numeric, named = _N.match(rest), _NN.match(rest)
    if numeric:
        device["class"] = numeric.group(1).lower()
        device["vendor_id"], device["device_id"] = numeric.group(2).lower(), numeric.group(3).lower()
    elif named:
        device["class"] = named.group(1)
        ids = _IDS.findall(named.group(3))
        if ids:
            device["vendor_id"], device["device_id"] = ids[-1][0].lower(), ids[-1][1].lower()
    elif re.search(r": \S", rest):
        device["class"] = rest.split(": ", 1)[0].strip()
    else:
        reading.unknown(f"{address} {rest}", address)
    return device


@parser(
    "lspci",
    "lspci",
    ("lspci -D -nn", "lspci -vvv"),
    _sniff_lspci,
)
def parse_lspci(text: str) -> Reading:
    return _parse(text, "lspci")


@parser("lspci-acs", "ACS lines of lspci -vvv", ("lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'",), _sniff_acs)
def parse_lspci_acs(text: str) -> Reading:
    reading = _parse(text, "lspci -vvv")
    if reading.facts["acs_redirect"] is None and reading.understood:
        reading.truncated("no ACSCtl line")
    return reading


def _parse(text: str, what: str) -> Reading:
    reading = Reading({"devices": None, "acs_redirect": None, "capabilities_denied": []})
    devices: list[Facts] = []
    redirect: list[str | None] = []
    controls = 0
    denied: str | None = None
    capability: str | None = None
    sections: dict[str, set[str]] = {}
    for line in text.split("\n"):
        if not line.strip():
            continue
        head = _DEVICE.match(line)
        acs = _ACS_CTL.match(line)
        if head:
            devices.append(_head(reading, head.group(1), head.group(2)))
            capability = head.group(1)
            continue
        if acs:
            controls += 1
            if _REDIRECT.search(acs.group(1)):
                redirect.append(capability)
            if len(re.findall(r"\w+[+-]", acs.group(1))) < 7:
                reading.truncated(f"cut: {line.strip()}", capability or "output")
        if line[0].isspace() or acs or re.match(r"^ACSCap:", line):
            if devices:
                for name in ("LnkCap:", "LnkSta:", "ACSCap:", "ACSCtl:"):
                    if line.strip().startswith(name):
                        sections.setdefault(devices[-1]["address"], set()).add(name)
                if _DENIED.search(line):
                    denied = "<access denied>"
                    if devices[-1]["address"] not in reading.facts["capabilities_denied"][-1:]:
                        reading.facts["capabilities_denied"].append(devices[-1]["address"])
                _link(reading, devices[-1], line)
            continue
        error = error_code(line)
        if error:
            reading.reject(error[0], error[1], line.strip())
        elif not re.match(r"^(?:pcilib|lspci|#|--$)", line):
            reading.unknown(line)
    if not devices and not controls:
        reading.problems.clear()
        nothing_read(reading, text, what)
        return reading
    for address, seen in sections.items():
        for cap, status in (("LnkCap:", "LnkSta:"), ("ACSCap:", "ACSCtl:")):
            if cap in seen and status not in seen:
                reading.truncated(f"{address} has {cap} without {status}", address)
    without = [device["address"] for device in devices if device["device_id"] is None]
    if len(without) < len(devices) - len(without):
        for address in without[:5]:
            reading.truncated(f"no [vendor:device] at {address}", address)
    addresses = [device["address"] for device in devices]
    if len(set(addresses)) != len(addresses):
        reading.contradiction("a device stands twice")
    reading.facts["devices"] = devices
    if controls:
        reading.facts["acs_redirect"] = redirect
    elif denied:
        reading.facts["acs_redirect"] = NA(denied)
    if denied:
        for device in devices:
            if device["link_speed_gts"] is None:
                device["link_speed_gts"] = device["link_width"] = NA(denied)
    if redirect:
        named = [address for address in redirect if address]
        listed = f": {', '.join(named)}" if named else ""
        reading.problem("acs", "pci", shorten(f"ACS redirection is on for {len(redirect)} device(s){listed}"))
    return reading


def _link(reading: Reading, device: Facts, line: str) -> None:
    if not line.strip().startswith("LnkSta:"):
        return
    match = _LINK.match(line)
    if not match:
        reading.truncated(f"cut: {line.strip()}", device["address"])
        return

    def value(text: str) -> Any:
        return NA(text) if text.lower() == "unknown" else to_number(text)

    device["link_speed_gts"], device["link_width"] = value(match.group(1)), value(match.group(2))
