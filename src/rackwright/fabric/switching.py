"""How many switches a fabric takes: a two-tier Clos, rails on leaves of their own, not oversubscribed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rackwright.catalog import Catalog, SwitchEntry
from rackwright.catalog.switch_entries import INFINIBAND
from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.fabric import qos
from rackwright.fabric.switches import OS
from rackwright.plan.fabric import Switching
from rackwright.workload import FabricChoice

SPINE_ASN = 4_200_000_000
"""First of the private 32-bit numbers (RFC 6996); spines share it, each leaf has its own (RFC 7938)."""
MIB = 2**20


def chosen(catalog: Catalog, choice: FabricChoice, rate_gbps: int, kind: str) -> SwitchEntry | None:
    """The switch that the workload names, or the first that has ports of the NICs' rate and runs its system.

    ``kind``: of the fabric; InfiniBand's switches have no system to choose.

    None where none is named and the catalog has none of that rate.

    Raises:
        InputErrors: no such system or switch, or one that does not fit.
    """
    system = INFINIBAND if kind == INFINIBAND else choice.switch_os
    if system not in OS and system != INFINIBAND:
        raise InputErrors(unknown_os("fabric.switch_os", system))
    if choice.switch is None:
        fits = [s for s in catalog.switches.values() if s.rate_gbps.value == rate_gbps]
        return next((s for s in fits if system in s.names), None)
    entry = catalog.switch(choice.switch)
    problems = []
    if system not in entry.names:
        problems.append(
            Problem(
                "fabric.switch_os",
                f"must be a system that {entry.name} runs: {listing(sorted(entry.names))}",
                f'"{system}"',
                "its configuration is written for it",
                "choose one of them, or another switch",
            )
        )
    if entry.rate_gbps.value != rate_gbps:
        problems.append(
            Problem(
                "fabric.switch",
                f"must have ports of the NICs' {rate_gbps} Gb/s",
                f"{entry.name}, {entry.rate_gbps.value:g} Gb/s",
                "a NIC and its port run at one rate",
                "choose another: rackwright catalog list switch",
            )
        )
    if problems:
        raise InputErrors(problems)
    return entry


def unknown_os(where: str, system: str) -> Problem:
    """The problem that there is no configuration for ``system``."""
    return Problem(
        where,
        f"must be a switch operating system that there is a configuration for: {listing(sorted(OS))}"
        f"{nearest(system, OS)}",
        f'"{system}"',
        "both ends of every cable are configured from the one profile",
        "choose one of them, or add src/rackwright/fabric/switches/<os>.py",
    )


def switching(
    entry: SwitchEntry, choice: FabricChoice, *, rails: int, nodes: int, kind: str = "roce"
) -> Switching:
    """The switches for ``nodes`` nodes of ``rails`` rails.

    Spines are shared by all rails while each can reach every leaf; beyond that each rail has its own plane,
    and traffic between rails stays inside the nodes, over NVLink.

    Raises:
        InputErrors: more nodes than two tiers can join.
    """
    ports = int(entry.ports.value)
    down = ports // 2
    groups = -(-nodes // down)
    planes = 1 if rails * groups <= ports else rails
    leaves = rails * groups // planes
    # Nodes fill leaf after leaf, so that one more moves no cable; one leaf a rail needs no more uplinks than
    # it will soon have hosts.
    uplinks = down if groups > 1 else min(down, 1 << (nodes - 1).bit_length())
    spines = 0 if leaves == 1 else _spines(uplinks, leaves, ports)
    if spines is None:
        raise InputErrors(
            Problem(
                "hardware.nodes",
                f"must be at most {ports * down}, which two tiers of {ports}-port switches join",
                str(nodes),
                "a third tier is not planned here",
                "split the workload over several fabrics, or name a switch with more ports",
            )
        )
    of_kind: dict[str, Any] = {
        "asn": SPINE_ASN,
        "loopbacks": choice.loopbacks,
        "mtu": qos.SWITCH_MTU,
        "buffer_bytes": int(entry.buffer.value * MIB) if entry.buffer else None,
    }
    if kind == INFINIBAND:
        of_kind = {"host_cable_m": choice.host_cable_m, "uplink_cable_m": choice.uplink_cable_m}
    return Switching(
        os=INFINIBAND if kind == INFINIBAND else choice.switch_os,
        switch=entry.id,
        ports=ports,
        hosts_per_leaf=down,
        uplinks_per_leaf=uplinks if spines else 0,
        groups=groups,
        planes=planes,
        spines=spines,
        **of_kind,
    )


def _spines(uplinks: int, leaves: int, ports: int) -> int | None:
    """The fewest spines over which ``uplinks`` spread evenly and whose ports reach all ``leaves``."""
    return next((n for n in _divisors(uplinks) if leaves * (uplinks // n) <= ports), None)


def _divisors(number: int) -> Iterable[int]:
    return (n for n in range(1, number + 1) if number % n == 0)
