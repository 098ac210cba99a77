"""Ethernet: ``ip link`` (text and ``-j``), ``ethtool -S``, ``mlnx_qos -i``.

``ip link`` prints two lines per link (and indented lines for virtual functions, which are no links);
``mlnx_qos`` prints the trust state, the DSCP map as lists per priority, and PFC as a row of 0 and 1 under
a row of priorities; it prints no MTU.  Priorities are read from the row above, not by position.
"""

from __future__ import annotations

import re
from typing import Any

from checks.parsers._core import Facts, Reading, parser
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._json import integer, load, peek
from checks.parsers._values import to_number

_LINK = re.compile(r"^(\d+):\s+([^\s:@]+)(?:@([^\s:]+))?:\s+<([^>]*)>\s*(.*)$")
_TYPE = re.compile(r"^\s+(?:altname\s+\S+|link/(\w+)\b.*)$")


def _sniff_ip(text: str) -> int:
    if re.search(r"^\d+:\s+[^\s:]+:\s+<[A-Z_,0-9]*>\s+mtu \d+", text, re.M):
        return 95
    value = peek(text) if text.lstrip()[:1] == "[" else None
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return 90 if {"ifname", "mtu", "flags"} <= set(value[0]) else 0
    return 0


@parser("ip-link", "ip link", ("ip -j link show", "ip link show"), _sniff_ip, document=True)
def parse_ip_link(text: str) -> Reading:
    reading = Reading({"links": None})
    links: list[Facts] = []
    if text.lstrip()[:1] in "[{":
        value = load(reading, text)
        if not isinstance(value, list):
            if reading.understood:
                nothing_read(reading, text, "ip link")
            return reading
        for item in value:
            if isinstance(item, dict) and isinstance(item.get("ifname"), str):
                links.append(_json_link(reading, item))
            elif item != {}:  # older iproute2 prints {} for links that a filter left out
                reading.unknown(str(item)[:200])
    else:
        for line in text.split("\n"):
            if line.strip():
                _text_line(reading, links, line)
        if not links:
            reading.problems.clear()
            nothing_read(reading, text, "ip link")
            return reading
    for link in links:
        for fact in ("state", "mtu", "link_type"):
            if link[fact] is None:
                reading.truncated(f"{link['name']} without {fact}", link["name"])
    names = [link["name"] for link in links]
    if len(set(names)) != len(names):
        reading.contradiction("a link stands twice")
    reading.facts["links"] = links
    return reading


def _json_link(reading: Reading, item: dict[str, Any]) -> Facts:
    def word(name: str) -> str | None:
        value = item.get(name)
        return value if isinstance(value, str) and value else None

    return {
        "name": item["ifname"],
        "state": word("operstate"),
        "mtu": integer(item.get("mtu")),
        "link_type": word("link_type"),
    }


def _text_line(reading: Reading, links: list[Facts], line: str) -> None:
    head = _LINK.match(line)
    if head:
        words = head.group(5).split()
        fields = dict(zip(words[::2], words[1::2], strict=False))
        mtu = fields.get("mtu", "")
        link: Facts = {
            "name": head.group(2),
            "state": fields.get("state"),
            "mtu": int(mtu) if mtu.isdigit() and len(mtu) < 12 else None,
            "link_type": None,
        }
        links.append(link)
        return
    kind = _TYPE.match(line)
    if kind and links:
        if kind.group(1) and links[-1]["link_type"] is None:
            links[-1]["link_type"] = kind.group(1)
        return
    if re.match(r"^\s+\S", line) and links:
        return
    error = error_code(line)
    reading.reject(*error, line.strip()) if error else reading.unknown(line)


# --- ethtool -S ---------------------------------------------------------------------------------------------

_COUNTER = re.compile(r"^\s+(\S.*?):\s*(-?\d+)\s*$")


def _sniff_ethtool(text: str) -> int:
    return 95 if re.search(r"^NIC statistics:", text, re.M) else 0


@parser("ethtool-S", "ethtool -S", ("ethtool -S IFACE",), _sniff_ethtool)
def parse_ethtool_statistics(text: str) -> Reading:
    reading = Reading({"counters": None})
    if not _sniff_ethtool(text):
        nothing_read(reading, text, "ethtool -S")
        return reading
    counters: dict[str, int] = {}
    for line in text.split("\n"):
        match = _COUNTER.match(line)
        if match and len(match.group(2)) < 40:
            name = match.group(1)
            if name in counters and counters[name] != int(match.group(2)):
                reading.contradiction(f"stands twice: {line.strip()}")
            counters[name] = int(match.group(2))
        elif line.strip() and not line.startswith("NIC statistics:"):
            error = error_code(line)
            if error:
                reading.reject(*error, line.strip())
            elif not re.match(r"^\s+\S[^:]*:?\s*$", line) or line.rstrip().endswith(":"):
                reading.unknown(line)
            else:
                reading.unknown(line)
    if not counters:
        reading.truncated("no counters")
    reading.facts["counters"] = counters
    return reading


# --- mlnx_qos -----------------------------------------------------------------------------------------------


_TRUST = re.compile(r"^Priority trust state:\s*(\S*)$")
_MAPPING = re.compile(r"^prio:(\d+)\s+dscp:([\d,\s]*)$")
_MTU = re.compile(r"^MTU:\s*(\d{1,6})$", re.I)


def _sniff_qos(text: str) -> int:
    return 95 if re.search(r"^\s*Priority trust state:|^\s*PFC configuration:", text, re.M) else 0


@parser("mlnx-qos", "mlnx_qos -i", ("mlnx_qos -i IFACE",), _sniff_qos)
def parse_mlnx_qos(text: str) -> Reading:
    reading = Reading({"trust": None, "pfc_enabled": None, "dscp_map": None, "mtu": None})
    facts = reading.facts
    if not _sniff_qos(text):
        nothing_read(reading, text, "mlnx_qos")
        return reading
    dscp: dict[str, int] = {}
    header: list[int] | None = None
    in_map = has_map = in_pfc = False
    for line in text.split("\n"):
        stripped = line.strip()
        trust = _TRUST.match(stripped)
        mapping = _MAPPING.match(stripped)
        mtu = _MTU.match(stripped)
        if trust:
            facts["trust"] = trust.group(1).lower() or None
        elif mtu:
            facts["mtu"] = int(mtu.group(1))
        elif stripped.startswith("dscp2prio mapping"):
            in_map = has_map = True
        elif mapping and in_map:
            _map_line(reading, dscp, int(mapping.group(1)), mapping.group(2))
        elif stripped == "PFC configuration:":
            in_map, in_pfc = False, True
        elif in_pfc and re.match(r"^priority\s+\d", stripped):
            header = [int(word) for word in stripped.split()[1:] if word.isdigit()]
        elif in_pfc and re.match(r"^enabled\b", stripped):
            _pfc(reading, header, stripped.split()[1:])
        elif re.match(r"^tc:\s*\d+", stripped):
            in_pfc = False
        elif error_code(line):
            code, where = error_code(line) or ("", "")
            reading.reject(code, where, stripped)
        elif in_map and stripped and (stripped.startswith("prio") or not re.match(r"\w[\w ()]*:", stripped)):
            reading.unknown(line)
    if facts["trust"] is None:
        reading.truncated("no trust state")
    elif facts["trust"] not in {"pcp", "dscp", "both", "port"}:
        reading.unknown(f"trust state {facts['trust']}")
    if facts["pfc_enabled"] is None:
        reading.truncated("no PFC row")
    if has_map or dscp:
        facts["dscp_map"] = {key: dscp[key] for key in sorted(dscp, key=int)}
        if len(dscp) != 64:
            reading.truncated(f"the DSCP map has {len(dscp)} of 64 entries")
    elif facts["trust"] == "dscp":
        reading.truncated("trust is dscp, but there is no DSCP map")
    if not re.search(r"^\s*tc:\s*\d+", text, re.M):
        reading.truncated("no traffic classes")
    return reading


def _map_line(reading: Reading, dscp: dict[str, int], priority: int, listed: str) -> None:
    for word in listed.split(","):
        if not word.strip():
            continue
        number = to_number(word)
        if not isinstance(number, int) or not 0 <= number < 64 or not 0 <= priority < 8:
            reading.unknown(f"prio:{priority} dscp:{listed}")
            return
        if dscp.setdefault(str(number), priority) != priority:
            reading.contradiction(f"DSCP {number} has two priorities")


def _pfc(reading: Reading, header: list[int] | None, cells: list[str]) -> None:
    if header is None or sorted(header) != list(range(8)):
        reading.truncated("the PFC table has no row of eight priorities")
        return
    if len(cells) != 8 or any(cell not in {"0", "1"} for cell in cells):
        reading.truncated(f"PFC row: enabled {' '.join(cells)}")
        return
    enabled = dict(zip(header, (cell == "1" for cell in cells), strict=True))
    reading.facts["pfc_enabled"] = [enabled[priority] for priority in range(8)]
