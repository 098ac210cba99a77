"""The fabric drawn out from a plan: every switch with its ports, every cable with both of its ends."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from rackwright.catalog import SwitchEntry, load_catalog
from rackwright.errors import CannotRun, InputErrors, Problem
from rackwright.plan import Fabric, Node, Plan, Qos, Rail, Switching
from rackwright.plan.links import interface


@dataclass(frozen=True)
class Port:
    """One port of a switch in use, and what its cable leads to.

    ``peer_port``: of a switch its port number, of a host the interface. ``address``: of this end, on ports
    to hosts; uplinks have none but the link-local one. ``peer_asn``: of a switch.
    """

    number: int
    name: str
    kind: Literal["host", "uplink"]
    peer: str
    peer_port: str
    cable: str
    cable_m: int
    address: str | None = None
    peer_asn: int | None = None


@dataclass(frozen=True)
class Switch:
    """One switch. ``rail``, ``group``: of a leaf. ``asn``, ``loopback``: 0 and empty in InfiniBand."""

    name: str
    role: Literal["leaf", "spine"]
    asn: int
    loopback: str
    entry: SwitchEntry
    ports: tuple[Port, ...]
    rail: int | None = None
    group: int | None = None

    @property
    def router_id(self) -> str:
        return self.loopback.partition("/")[0]


@dataclass(frozen=True)
class Cable:
    """``a`` is the host, or the leaf; ``b`` the switch above it."""

    name: str
    kind: Literal["host", "uplink"]
    rail: int
    rate_gbps: int
    length_m: int
    a: str
    a_port: str
    a_rack: str
    b: str
    b_port: str


@dataclass(frozen=True)
class Host:
    """One node's rails: interface, own address with prefix, and the address of the switch."""

    node: str
    pool: str
    rack: str
    links: tuple[HostLink, ...]


@dataclass(frozen=True)
class HostLink:
    rail: Rail
    address: str
    gateway: str
    cable: str
    switch: str
    switch_port: str


@dataclass(frozen=True)
class Topology:
    """``switches`` is empty where the plan has none: the catalog knows none of that rate."""

    plan: Plan
    fabric: Fabric
    switches: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    cables: tuple[Cable, ...] = field(default=())

    @cached_property
    def switch_named(self) -> dict[str, Switch]:
        return {switch.name: switch for switch in self.switches}

    @cached_property
    def host_named(self) -> dict[str, Host]:
        return {host.node: host for host in self.hosts}

    @property
    def qos(self) -> Qos:
        assert self.fabric.qos is not None
        return self.fabric.qos

    @property
    def switching(self) -> Switching:
        assert self.fabric.switching is not None
        return self.fabric.switching

    @property
    def configured(self) -> bool:
        """Whether switches have files of their own; InfiniBand's are configured by the subnet manager."""
        return self.fabric.kind == "roce" and self.fabric.switching is not None


def topology(plan: Plan) -> Topology:
    """The fabric of ``plan``.

    Raises:
        CannotRun: the plan has no fabric.
        InputErrors: its switch is not in the catalog.
    """
    fabric = plan.fabric
    if fabric is None:
        raise CannotRun(
            Problem(
                "fabric",
                "must be a section of the plan",
                "nothing",
                "without a scale-out fabric there is nothing to configure",
                "set hardware.fabric to roce or infiniband in the workload, and size again",
            )
        )
    entry = None
    if fabric.switching is not None:
        entry = load_catalog().switch(fabric.switching.switch)
        if fabric.switching.os not in entry.names:
            raise InputErrors(
                Problem(
                    "fabric.switching.os",
                    f"must be a system that {entry.name} runs",
                    f'"{fabric.switching.os}"',
                    "its ports have other names",
                    "size the workload again: rackwright size WORKLOAD.yaml -o plan.yaml",
                )
            )
    return _Builder(plan, fabric, entry).build()


def host_cable(node: str, rail: Rail) -> str:
    """The label of the cable between ``node`` and its switch on ``rail``."""
    return f"{node}-r{rail.index}"


@dataclass
class _Builder:
    plan: Plan
    fabric: Fabric
    entry: SwitchEntry | None
    ports: dict[str, list[Port]] = field(default_factory=dict)
    cables: list[Cable] = field(default_factory=list)

    def build(self) -> Topology:
        hosts = tuple(self._hosts())
        switches: tuple[Switch, ...] = ()
        if self.fabric.switching is not None and self.entry is not None:
            self._uplinks()
            switches = tuple(self._switches())
        return Topology(self.plan, self.fabric, switches, hosts, tuple(self.cables))

    @property
    def switching(self) -> Switching | None:
        return self.fabric.switching

    def _length(self, cable: str) -> int:
        """Metres of a ``host_cable_m`` or ``uplink_cable_m``."""
        return int(getattr(self.fabric.qos or self.switching, cable) or 0)

    def leaf(self, rail: int, group: int) -> str:
        return f"leaf-g{group + 1}-r{rail}"

    def spine(self, plane: int, number: int) -> str:
        assert self.switching is not None
        return f"spine-p{plane}-{number + 1}" if self.switching.planes > 1 else f"spine-{number + 1}"

    def leaf_asn(self, position: int, group: int) -> int:
        assert self.switching is not None
        if self.switching.asn is None:
            return 0
        return self.switching.asn + 1 + group * len(self.fabric.rails) + position

    def _name(self, port: int) -> str:
        assert self.switching is not None and self.entry is not None
        return self.entry.port_name(self.switching.os, port)

    def _hosts(self) -> Iterator[Host]:
        nodes = [(pool, node) for pool in self.plan.pools for node in pool.nodes if node.rail_addresses]
        for number, (pool, node) in enumerate(nodes):
            links = []
            for rail, address in zip(self.fabric.rails, node.rail_addresses, strict=True):
                gateway = str(interface(address).network.network_address)
                cable, leaf, name = host_cable(node.name, rail), "", ""
                if self.switching is not None:
                    group, slot = divmod(number, self.switching.hosts_per_leaf)
                    leaf, name = self.leaf(rail.index, group), self._name(slot + 1)
                    self._host_cable(slot + 1, leaf, rail, node, gateway)
                links.append(HostLink(rail, address, gateway, cable, leaf, name))
            yield Host(node.name, pool.name, node.rack, tuple(links))

    def _host_cable(self, number: int, leaf: str, rail: Rail, node: Node, gateway: str) -> None:
        cable = host_cable(node.name, rail)
        length = self._length("host_cable_m")
        address = f"{gateway}/{rail.node_prefix}"
        name = self._name(number)
        self.ports.setdefault(leaf, []).append(
            Port(number, name, "host", node.name, rail.netdev, cable, length, address)
        )
        self.cables.append(
            Cable(
                cable,
                "host",
                rail.index,
                self.fabric.rate_gbps,
                length,
                node.name,
                rail.netdev,
                node.rack,
                leaf,
                name,
            )
        )

    def _leaves(self) -> Iterator[tuple[int, int, Rail]]:
        """Group, position of the rail and the rail of each leaf."""
        assert self.switching is not None
        for group in range(self.switching.groups):
            for position, rail in enumerate(self.fabric.rails):
                yield group, position, rail

    def _uplinks(self) -> None:
        switching = self.switching
        assert switching is not None
        if not switching.spines:
            return
        length = self._length("uplink_cable_m")
        each = switching.uplinks_per_leaf // switching.spines
        for group, position, rail in self._leaves():
            leaf = self.leaf(rail.index, group)
            plane = position if switching.planes > 1 else 0
            among = group if switching.planes > 1 else group * len(self.fabric.rails) + position
            asn = self.leaf_asn(position, group)
            for number in range(switching.uplinks_per_leaf):
                which, turn = number % switching.spines, number // switching.spines
                spine = self.spine(plane, which)
                lower, upper = switching.ports // 2 + number + 1, among * each + turn + 1
                cable = f"{leaf}-u{number + 1}"
                low, up = self._name(lower), self._name(upper)
                self.ports.setdefault(leaf, []).append(
                    Port(lower, low, "uplink", spine, up, cable, length, None, switching.asn)
                )
                self.ports.setdefault(spine, []).append(
                    Port(upper, up, "uplink", leaf, low, cable, length, None, asn)
                )
                self.cables.append(
                    Cable(
                        cable, "uplink", rail.index, self.fabric.rate_gbps, length, leaf, low, "", spine, up
                    )
                )

    def _switches(self) -> Iterator[Switch]:
        switching = self.switching
        assert switching is not None and self.entry is not None
        network = ipaddress.ip_network(switching.loopbacks) if switching.loopbacks else None

        def loopback(number: int) -> str:
            return f"{network[number]}/32" if network else ""

        number = 1
        for plane in range(switching.planes):
            for which in range(switching.spines):
                name = self.spine(plane, which)
                ports = tuple(sorted(self.ports.get(name, ()), key=lambda p: p.number))
                yield Switch(name, "spine", switching.asn or 0, loopback(number), self.entry, ports)
                number += 1
        for group, position, rail in self._leaves():
            name = self.leaf(rail.index, group)
            ports = tuple(sorted(self.ports.get(name, ()), key=lambda p: p.number))
            yield Switch(
                name,
                "leaf",
                self.leaf_asn(position, group),
                loopback(number),
                self.entry,
                ports,
                rail.index,
                group,
            )
            number += 1
