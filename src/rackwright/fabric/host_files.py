"""Host files read back, in the terms of both ends."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rackwright.fabric import hosts
from rackwright.fabric.leaves import Settings, assignments, lines, tree, unreadable, yaml_data


@dataclass(frozen=True)
class QosView:
    """What a pool's hosts are told: as PortView of a switch."""

    source: str
    mtu: int | None
    trust: str
    pfc: tuple[int, ...]
    priorities: tuple[int, ...]
    tos: int | None
    ecn: tuple[int, ...]
    cnp_dscp: int | None
    cnp_priority: int | None
    lines: Mapping[str, int]

    def place(self, key: str) -> str:
        line = self.lines.get(key)
        return f"{self.source}:{line} {key}" if line else f"{self.source} {key}"


@dataclass(frozen=True)
class RailView:
    """One interface of a node."""

    netdev: str
    addresses: tuple[str, ...]
    mtu: int | None
    gateways: tuple[str, ...]
    source: str


def _numbers(text: str, separator: str | None = None) -> list[int]:
    return [int(part) if part.strip().isdigit() else -1 for part in text.split(separator)]


def qos_view(text: str, source: str) -> QosView:
    """Read rail-qos.env; what is missing or no number is None, which agrees with nothing.

    Raises:
        InputErrors: a line is no assignment, or a quote is not closed.
    """
    read = assignments(text, source)
    values = {}
    for key, setting in read.items():
        try:
            values[key] = " ".join(shlex.split(setting.value))
        except ValueError as error:
            raise unreadable(f"{source}:{setting.line}", "KEY=value with quotes closed", str(error)) from None

    def number(key: str) -> int | None:
        text = values.get(key, "")
        return int(text) if text.isdigit() else None

    priorities = [dscp >> 3 for dscp in range(64)]
    for pair in values.get("DSCP_PRIORITY", "").split():
        dscp, _, priority = pair.partition(":")
        if not (dscp.isdigit() and priority.isdigit() and int(dscp) < 64 and int(priority) < 8):
            line = read["DSCP_PRIORITY"].line
            raise unreadable(f"{source}:{line} DSCP_PRIORITY", "pairs of DSCP:priority", repr(pair))
        priorities[int(dscp)] = int(priority)
    flags = values.get("PFC", "").split(",")
    return QosView(
        source=source,
        mtu=number("MTU"),
        trust=values.get("TRUST", ""),
        pfc=tuple(p for p, flag in enumerate(flags) if flag != "0") if len(flags) == 8 else (),
        priorities=tuple(priorities),
        tos=number("TOS"),
        ecn=tuple(_numbers(values.get("ECN_PRIORITIES", ""))),
        cnp_dscp=number("CNP_DSCP"),
        cnp_priority=number("CNP_PRIORITY"),
        lines={key: setting.line or 0 for key, setting in read.items()},
    )


def rail_views(text: str, source: str) -> dict[str, RailView]:
    """Interfaces of a netplan file.

    Raises:
        InputErrors: it is no netplan file.
    """
    data = yaml_data(text, source)
    network = data.get("network") if isinstance(data, dict) else None
    ethernets = network.get("ethernets") if isinstance(network, dict) else None
    if not isinstance(ethernets, dict):
        raise unreadable(source, "a netplan file with network.ethernets", type(ethernets).__name__)
    return {
        str(name): _rail(str(name), stanza if isinstance(stanza, dict) else {}, source)
        for name, stanza in ethernets.items()
    }


def _rail(name: str, stanza: dict[str, Any], source: str) -> RailView:
    mtu = stanza.get("mtu")
    addresses, routes = stanza.get("addresses"), stanza.get("routes")
    return RailView(
        netdev=name,
        addresses=tuple(map(str, addresses)) if isinstance(addresses, list) else (),
        mtu=mtu if isinstance(mtu, int) else None,
        gateways=tuple(str(r["via"]) for r in routes if isinstance(r, dict) and "via" in r)
        if isinstance(routes, list)
        else (),
        source=f"{source} network.ethernets.{name}",
    )


def _netplan_settings(text: str, source: str) -> Settings:
    return tree(yaml_data(text, source))


def _lines(text: str, _source: str) -> Settings:
    return lines(text)


SETTINGS: Mapping[str, Callable[[str, str], Settings]] = {
    hosts.NETPLAN: _netplan_settings,
    hosts.SYSCTL: assignments,
    hosts.QOS_ENV: assignments,
    hosts.LIBRARY_ENV: assignments,
    hosts.UDEV: _lines,
    hosts.UNIT: _lines,
    hosts.SCRIPT: _lines,
}
"""How each host file is read as settings, by its path below a root."""
