"""Ports and counters of RDMA devices: ibstat, ibstatus, rdma link, rdma statistic, sysfs, perfquery.

ibstat prints a block per device and port with decimal lids and the rate in Gb/s; ibstatus prints
``state: 4: ACTIVE`` (the number is dropped), hexadecimal lids and ``rate: 400 Gb/sec (4X NDR)``.  Both name
the link layer, which is Ethernet for RoCE; lids are 0 there.  ``rdma link`` has a text and a JSON (``-j``)
form and names the net device.  sysfs is read as printed by ``grep -r . /sys/class/infiniband`` (a path, a
colon, the content).

Traps: ibstat ends with ``ibpanic`` and keeps what it printed before; a down port shows a low rate (40) that
says nothing; the order of devices is mlx5_0, mlx5_1, mlx5_10, ...
"""

from __future__ import annotations

import re
from typing import Any

from checks.parsers._core import Facts, Reading, parser
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._json import integer, load, peek
from checks.parsers._values import clean, na, to_number


def _port(device: str, port: int | None) -> Facts:
    return {
        "device": device,
        "port": port,
        "state": None,
        "physical_state": None,
        "rate_gbps": None,
        "link_layer": None,
        "lid": None,
        "sm_lid": None,
        "firmware": None,
    }


def _name(port: Facts) -> str:
    return f"{port['device']} port {port['port']}" if port["port"] is not None else str(port["device"])


def port_problems(reading: Reading, ports: list[Facts]) -> None:
    """A port that is not active; an active InfiniBand port without a subnet manager."""
    for port in ports:
        state, physical = port.get("state"), port.get("physical_state")
        bad_state = isinstance(state, str) and state.upper() != "ACTIVE"
        bad_physical = isinstance(physical, str) and physical.upper().replace("_", "") != "LINKUP"
        where = _name(port)
        if bad_state or bad_physical:
            reading.problem("ib-link", where, f"{where}: state {state}, physical state {physical}")
        elif port.get("link_layer") == "InfiniBand" and port.get("sm_lid") in (0, 0xFFFF):
            reading.problem("ib-sm", where, f"{where}: no subnet manager (SM lid {port['sm_lid']})")


def _number(reading: Reading, where: str, text: str) -> Any:
    absent = na(text)
    if absent:
        return absent
    value = to_number(text)
    if value is None:
        reading.unknown(text, where)
    return value


def _rate(reading: Reading, where: str, text: str) -> Any:
    absent = na(text)
    if absent:
        return absent
    match = re.match(r"^(\d+(?:[.,]\d+)?)\s*(?:(?:Gb/sec|Gbps|Gb/s)\b.*|\(.*\))?$", text)
    if not match:
        reading.unknown(text, where)
        return None
    return to_number(match.group(1))


# --- ibstat -------------------------------------------------------------------------------------------------

_CA = re.compile(r"^CA '([^']+)'\s*$")
_CA_PORT = re.compile(r"^\s*Port (\d+):\s*$")
_PAIR = re.compile(r"^\s+([A-Za-z][\w /.-]*?):\s*(.*?)\s*$")
_LAYERS = ("InfiniBand", "Ethernet", "Unspecified", "Unknown")


def _check_layer(reading: Reading, port: Facts) -> None:
    layer = port["link_layer"] or "-"
    if layer not in _LAYERS and any(known.startswith(layer) for known in _LAYERS):
        reading.truncated(f"cut: link layer {layer}", _name(port))


_IBSTAT_NEEDS = ("state", "physical state", "rate", "base lid", "sm lid", "link layer")


def _sniff_ibstat(text: str) -> int:
    if re.search(r"^CA '[^']+'", text, re.M):
        return 95
    return 40 if re.search(r"^\s+Port \d+:\s*\n\s+State: ", text, re.M) else 0


@parser("ibstat", "ibstat", ("ibstat",), _sniff_ibstat)
def parse_ibstat(text: str) -> Reading:
    reading = Reading({"ports": None})
    cas: list[tuple[str, dict[str, str], list[tuple[int, dict[str, str]]]]] = []
    target: dict[str, str] | None = None
    for line in text.split("\n"):
        if not line.strip():
            continue
        ca, port, pair = _CA.match(line), _CA_PORT.match(line), _PAIR.match(line)
        error = error_code(line)
        if ca:
            cas.append((ca.group(1), {}, []))
            target = cas[-1][1]
        elif port and cas:
            target = {}
            cas[-1][2].append((int(port.group(1)), target))
        elif error and not pair:
            reading.reject(error[0], error[1], line.strip())
        elif pair and target is not None:
            key = pair.group(1).lower()
            if key in target:
                reading.contradiction(f"stands twice: {line.strip()}", cas[-1][0])
            target[key] = pair.group(2)
        else:
            reading.unknown(line)
    if not cas:
        reading.problems.clear()
        nothing_read(reading, text, "ibstat")
        return reading
    ports: list[Facts] = []
    for device, head, found in cas:
        _ibstat_device(reading, device, head, found, ports)
    names = [ca[0] for ca in cas]
    if len(set(names)) != len(names):
        reading.contradiction("a device stands twice")
    reading.facts["ports"] = ports
    port_problems(reading, ports)
    return reading


def _ibstat_device(
    reading: Reading,
    device: str,
    head: dict[str, str],
    found: list[tuple[int, dict[str, str]]],
    ports: list[Facts],
) -> None:
    if "number of ports" not in head or "firmware version" not in head:
        reading.truncated(f"{device} without Number of ports or Firmware version", device)
    elif head["number of ports"] != str(len(found)):
        reading.truncated(f"{device} has {head['number of ports']} ports, {len(found)} are printed", device)
    for number, fields in found:
        port = _port(device, number)
        where = _name(port)
        missing = [name for name in _IBSTAT_NEEDS if not fields.get(name)]
        if missing:
            reading.truncated(f"{where} without {', '.join(missing)}", where)
        port["state"] = fields.get("state") or None
        port["physical_state"] = fields.get("physical state") or None
        port["link_layer"] = fields.get("link layer") or None
        _check_layer(reading, port)
        if fields.get("rate"):
            port["rate_gbps"] = _rate(reading, where, fields["rate"])
        if fields.get("base lid"):
            port["lid"] = _number(reading, where, fields["base lid"])
        if fields.get("sm lid"):
            port["sm_lid"] = _number(reading, where, fields["sm lid"])
        firmware = head.get("firmware version")
        port["firmware"] = (na(firmware) or clean(firmware)) if firmware else None
        ports.append(port)


# --- ibstatus -----------------------------------------------------------------------------------------------

_STATUS = re.compile(r"^Infiniband device '([^']+)' port (\d+) status:\s*$", re.I)
_STATUS_NEEDS = ("base lid", "sm lid", "state", "phys state", "rate", "link_layer")


def _sniff_ibstatus(text: str) -> int:
    return 95 if re.search(r"^Infiniband device '[^']+' port \d+ status", text, re.M | re.I) else 0


def _numbered(value: str) -> str:
    return re.sub(r"^\d+:\s*", "", value.strip())


@parser("ibstatus", "ibstatus", ("ibstatus",), _sniff_ibstatus)
def parse_ibstatus(text: str) -> Reading:
    reading = Reading({"ports": None})
    blocks: list[tuple[str, int, dict[str, str]]] = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        head, pair, error = _STATUS.match(line), _PAIR.match(line), error_code(line)
        if head:
            blocks.append((head.group(1), int(head.group(2)), {}))
        elif error and not pair:
            reading.reject(error[0], error[1], line.strip())
        elif pair and blocks:
            key = pair.group(1).lower()
            if key in blocks[-1][2]:
                reading.contradiction(f"stands twice: {line.strip()}", blocks[-1][0])
            blocks[-1][2][key] = pair.group(2)
        else:
            reading.unknown(line)
    if not blocks:
        reading.problems.clear()
        nothing_read(reading, text, "ibstatus")
        return reading
    ports: list[Facts] = []
    for device, number, fields in blocks:
        port = _port(device, number)
        where = _name(port)
        missing = [name for name in _STATUS_NEEDS if not fields.get(name)]
        if missing:
            reading.truncated(f"{where} without {', '.join(missing)}", where)
        for fact, name in (("state", "state"), ("physical_state", "phys state")):
            if fields.get(name):
                port[fact] = _numbered(fields[name]) or None
                if not port[fact]:
                    reading.truncated(f"{where}: {name} is cut", where)
        port["link_layer"] = fields.get("link_layer") or None
        _check_layer(reading, port)
        if fields.get("rate"):
            port["rate_gbps"] = _rate(reading, where, fields["rate"])
        for fact, name in (("lid", "base lid"), ("sm_lid", "sm lid")):
            if fields.get(name):
                port[fact] = _number(reading, where, fields[name])
        ports.append(port)
    _no_repeats(reading, ports)
    reading.facts["ports"] = ports
    port_problems(reading, ports)
    return reading


def _no_repeats(reading: Reading, ports: list[Facts]) -> None:
    names = [_name(port) for port in ports]
    if len(set(names)) != len(names):
        reading.contradiction("a port stands twice")


# --- rdma link ----------------------------------------------------------------------------------------------

_RDMA_TEXT = re.compile(r"^(?:\d+(?:/\d+)?:\s*|link\s+)([\w.-]+)/(\d+|-):?\s+(.*)$")


def _rdma_words(rest: str) -> dict[str, str]:
    words = rest.split()
    return dict(zip(words[::2], words[1::2], strict=False))


def _sniff_rdma_link(text: str) -> int:
    if re.search(r"^(?:link|\d+/\d+:) [\w.-]+/\d+:? .*\bstate \w+ physical_state \w+", text, re.M):
        return 95
    value = peek(text) if text.lstrip()[:1] == "[" else None
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return 90 if {"ifname", "physical_state"} <= set(value[0]) else 0
    return 0


@parser("rdma-link", "rdma link", ("rdma -j link", "rdma link"), _sniff_rdma_link, document=True)
def parse_rdma_link(text: str) -> Reading:
    reading = Reading({"ports": None})
    ports: list[Facts] = []
    if text.lstrip()[:1] in "[{":
        value = load(reading, text)
        if not isinstance(value, list):
            if reading.understood:
                nothing_read(reading, text, "rdma link")
            return reading
        for item in value:
            if not isinstance(item, dict) or not isinstance(item.get("ifname"), str):
                reading.unknown(str(item)[:200])
                continue
            ports.append(_rdma_port(item["ifname"], integer(item.get("port")), item))
    else:
        for line in text.split("\n"):
            match = _RDMA_TEXT.match(line)
            if match:
                number = int(match.group(2)) if match.group(2).isdigit() else None
                ports.append(_rdma_port(match.group(1), number, _rdma_words(match.group(3))))
            elif line.strip():
                error = error_code(line)
                reading.reject(*error, line.strip()) if error else reading.unknown(line)
        if not ports:
            reading.problems.clear()
            nothing_read(reading, text, "rdma link")
            return reading
    for port in ports:
        for fact in ("state", "physical_state"):
            if port[fact] is None:
                reading.truncated(f"{_name(port)} without {fact}", _name(port))
    _no_repeats(reading, ports)
    reading.facts["ports"] = ports
    port_problems(reading, ports)
    return reading


def _rdma_port(device: str, number: int | None, fields: dict[str, Any]) -> Facts:
    def word(name: str) -> str | None:
        value = fields.get(name)
        return value if isinstance(value, str) and value else None

    return {
        "device": device,
        "port": number,
        "state": word("state"),
        "physical_state": word("physical_state"),
        "netdev": word("netdev"),
    }


# --- rdma statistic -----------------------------------------------------------------------------------------


def _sniff_rdma_statistic(text: str) -> int:
    if re.search(r"^link [\w.-]+/\d+ (?!state|subnet_prefix)\w+ \d+ ", text, re.M):
        return 90
    value = peek(text) if text.lstrip()[:1] == "[" else None
    if isinstance(value, list) and value and isinstance(value[0], dict):
        first = value[0]
        plain = {"ifname", "port"} <= set(first) and "physical_state" not in first
        return 85 if plain and sum(isinstance(item, int) for item in first.values()) > 2 else 0
    return 0


@parser(
    "rdma-statistic",
    "rdma statistic",
    ("rdma -j statistic", "rdma statistic"),
    _sniff_rdma_statistic,
    document=True,
)
def parse_rdma_statistic(text: str) -> Reading:
    reading = Reading({"devices": None})
    devices: list[Facts] = []
    if text.lstrip()[:1] in "[{":
        value = load(reading, text)
        if not isinstance(value, list):
            if reading.understood:
                nothing_read(reading, text, "rdma statistic")
            return reading
        for item in value:
            if not isinstance(item, dict) or not isinstance(item.get("ifname"), str):
                reading.unknown(str(item)[:200])
                continue
            if {"physical_state", "flags"} & set(item):
                reading.unknown(f"{item['ifname']} is no counter object")
            counters = {
                name: count
                for name, count in item.items()
                if integer(count) is not None and name not in ("port", "ifindex")
            }
            devices.append(
                {"device": item["ifname"], "port": integer(item.get("port")), "counters": counters}
            )
    else:
        for line in text.split("\n"):
            match = _RDMA_TEXT.match(line)
            if match:
                words = _rdma_words(match.group(3))
                bad = [name for name, count in words.items() if not count.isdigit()]
                if bad or len(match.group(3).split()) % 2:
                    reading.truncated(f"not all counters have a number: {line.strip()[-80:]}", match.group(1))
                numbers = {
                    name: int(count) for name, count in words.items() if count.isdigit() and len(count) < 40
                }
                devices.append({"device": match.group(1), "port": int(match.group(2)), "counters": numbers})
            elif line.strip():
                error = error_code(line)
                reading.reject(*error, line.strip()) if error else reading.unknown(line)
        if not devices:
            reading.problems.clear()
            nothing_read(reading, text, "rdma statistic")
            return reading
    for device in devices:
        if not device["counters"]:
            reading.truncated(f"{device['device']} without counters", device["device"])
    reading.facts["devices"] = devices
    return reading


# --- sysfs --------------------------------------------------------------------------------------------------

_SYSFS = re.compile(r"^(?:\S*?\binfiniband/|\./)?([\w.-]+)/(?:ports/(\d+)/)?([\w/.-]+?):\s?(.*)$")
_SYSFS_NUMBERS = ("lid", "sm_lid")


def _sniff_sysfs(text: str) -> int:
    if re.search(r"^\S*/ports/\d+/(?:state|rate|phys_state|link_layer|counters/\w+):", text, re.M):
        return 90
    return 80 if re.search(r"^\S*infiniband/[\w.-]+/\S+:", text, re.M) else 0


@parser("infiniband-sysfs", "/sys/class/infiniband", ("grep -r . /sys/class/infiniband/",), _sniff_sysfs)
def parse_infiniband_sysfs(text: str) -> Reading:
    reading = Reading({"ports": None})
    firmware: dict[str, str] = {}
    ports: dict[tuple[str, int], Facts] = {}
    matched = 0
    for line in text.split("\n"):
        match = _SYSFS.match(line)
        if not match:
            if line.strip() and not re.match(r"^grep: |^cat: ", line):
                reading.unknown(line)
            continue
        matched += 1
        device, number, name, value = match.groups()
        if number is None:
            if name == "fw_ver":
                firmware[device] = value.strip()
            continue
        port = ports.setdefault(
            (device, int(number)), {**_port(device, int(number)), "netdev": None, "counters": {}}
        )
        _sysfs_value(reading, port, name, value.strip())
    if not matched or not (ports or firmware):
        reading.problems.clear()
        nothing_read(reading, text, "/sys/class/infiniband")
        return reading
    for (device, _), port in ports.items():
        port["firmware"] = firmware.get(device)
        where = _name(port)
        if not port["counters"] or port["state"] is not None:
            for fact in ("state", "physical_state", "rate_gbps", "link_layer"):
                if port[fact] is None:
                    reading.truncated(f"{where} without {fact}", where)
        if not port["counters"]:
            port["counters"] = None
    for device in firmware:
        if not any(key[0] == device for key in ports):
            reading.truncated(f"{device} without ports", device)
    reading.facts["ports"] = list(ports.values())
    port_problems(reading, list(ports.values()))
    return reading


def _sysfs_value(reading: Reading, port: Facts, name: str, value: str) -> None:
    where = _name(port)
    if name == "state":
        port["state"] = _numbered(value) or None
    elif name == "phys_state":
        port["physical_state"] = _numbered(value) or None
    elif name == "rate":
        port["rate_gbps"] = _rate(reading, where, value)
    elif name == "link_layer":
        port["link_layer"] = value or None
        _check_layer(reading, port)
    elif name in _SYSFS_NUMBERS:
        port[name] = _number(reading, where, value)
    elif name.startswith("gid_attrs/ndevs/") and value:
        port["netdev"] = port["netdev"] or value
    elif "counters/" in name:
        count = to_number(value)
        if count is not None:
            port["counters"][name.rsplit("/", 1)[1]] = count


# --- perfquery ----------------------------------------------------------------------------------------------

_PERF_HEAD = re.compile(r"^#\s*Port (?:extended )?counters:\s*Lid (\d+) port (\d+)", re.I)
_PERF_LINE = re.compile(r"^(\w+):\.*\s*(0x[0-9a-fA-F]+|\d+)\s*$")
_PERF_LAST = ("QP1Dropped", "PortXmitWait", "PortMulticastRcvPkts", "PortRcvPkts", "VL15Dropped")


def _sniff_perfquery(text: str) -> int:
    return 95 if re.search(r"^# Port (?:extended )?counters: Lid", text, re.M) else 0


@parser("perfquery", "perfquery", ("perfquery -x", "perfquery"), _sniff_perfquery)
def parse_perfquery(text: str) -> Reading:
    reading = Reading({"lid": None, "port": None, "counters": None})
    reports: list[Facts] = []
    for line in text.split("\n"):
        head, pair = _PERF_HEAD.match(line), _PERF_LINE.match(line)
        if head:
            reports.append({"lid": int(head.group(1)), "port": int(head.group(2)), "counters": {}})
        elif pair and reports:
            name = pair.group(1)
            if name in reports[-1]["counters"]:
                reading.contradiction(f"stands twice: {line.strip()}")
            reports[-1]["counters"][name] = to_number(pair.group(2))
        elif line.strip():
            error = error_code(line)
            reading.reject(*error, line.strip()) if error else reading.unknown(line)
    if not reports:
        reading.problems.clear()
        nothing_read(reading, text, "perfquery")
        return reading
    for report in reports:
        select = report["counters"].pop("PortSelect", None)
        for name in ("CounterSelect", "CounterSelect2"):
            report["counters"].pop(name, None)
        where = f"lid {report['lid']} port {report['port']}"
        if select not in (None, report["port"]):
            reading.contradiction(f"PortSelect is {select}", where)
        if not any(name in report["counters"] for name in _PERF_LAST):
            reading.truncated("the last counters are missing", where)
        wanted = {"SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors"}
        missing = wanted - set(report["counters"])
        if missing and missing != wanted:
            reading.truncated(f"counters missing: {', '.join(sorted(missing))}", where)
    reading.facts.update(reports[0])
    if len(reports) > 1:
        reading.facts["reports"] = reports
    return reading
