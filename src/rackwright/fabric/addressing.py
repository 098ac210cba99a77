"""Rails and their addresses: deterministic, without overlap, the same as the address manager will give.

Each rail owns a subnet: a /18 of 10.240.0.0/12 where the workload names none. Every node takes the next block
of two addresses of it in the order of the plan's nodes; the manager's first address of a block is the
switch's end of the link (gateway index 0), the second is the node's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from rackwright.catalog.entries import FabricNics
from rackwright.errors import InputErrors, Problem
from rackwright.plan.fabric import Rail

SPACE = ipaddress.ip_network("10.240.0.0/12")
"""Private space that cluster networks rarely use; 64 rails of 8,192 nodes."""
RAIL_PREFIX = 18
NODE_PREFIX = 31


def rail_subnet(index: int) -> ipaddress.IPv4Network:
    """The subnet of rail ``index`` where none is named; rails never overlap."""
    base = int(SPACE.network_address) + index * 2 ** (32 - RAIL_PREFIX)
    return ipaddress.IPv4Network((base, RAIL_PREFIX))


def node_address(subnet: str, node: int) -> str:
    """Address with prefix of node number ``node`` (from 0) on a rail of ``subnet``: the second of its block.

    Raises:
        ValueError: the subnet does not hold so many nodes.
    """
    network = ipaddress.IPv4Network(subnet)
    room = network.num_addresses // 2
    if not 0 <= node < room:
        raise ValueError(f"a rail of {subnet} holds {room} nodes, not node {node}")
    address = ipaddress.IPv4Address(int(network.network_address) + 2 * node + 1)
    return f"{address}/{NODE_PREFIX}"


def rails(nics: FabricNics, count: int | None = None, subnets: Sequence[str] = ()) -> tuple[Rail, ...]:
    """One rail a NIC index; the first ``count``, each of the next of ``subnets`` where some are named.

    Raises:
        InputErrors: more rails than NICs, or subnets that are not one a rail or overlap.
    """
    wanted = len(nics.nics) if count is None else count
    if problems := list(_wrong(nics, wanted, subnets)):
        raise InputErrors(problems)
    return tuple(
        Rail(
            index=nic.rail,
            hca=nic.hca,
            netdev=nic.netdev,
            pci_address=nic.pci_address,
            subnet=subnets[position] if subnets else str(rail_subnet(nic.rail)),
            node_prefix=NODE_PREFIX,
            resource=f"rail_{nic.rail}",
            network=f"rail-{nic.rail}",
        )
        for position, nic in enumerate(nics.nics[:wanted])
    )


def _wrong(nics: FabricNics, wanted: int, subnets: Sequence[str]) -> Iterable[Problem]:
    if wanted > len(nics.nics):
        yield Problem(
            "fabric.rails",
            f"must be at most {len(nics.nics)}, the NICs of a node",
            str(wanted),
            "a rail is one NIC of every node; without a NIC it carries nothing",
            "lower fabric.rails, leave it out to use every NIC, or choose a machine with more NICs",
        )
    if subnets and len(subnets) != wanted:
        yield Problem(
            "fabric.subnets",
            f"must have {wanted} entries, one a rail",
            str(len(subnets)),
            "every rail is a network of its own",
            "name a subnet for each rail, or none",
        )
    yield from overlapping("fabric.subnets", subnets)


def overlapping(where: str, subnets: Sequence[str]) -> Iterable[Problem]:
    """A problem for each pair of ``subnets`` that share an address."""
    networks = [ipaddress.ip_network(s) for s in subnets]
    for i, one in enumerate(networks):
        for j, other in enumerate(networks[:i]):
            if one.overlaps(other):
                yield Problem(
                    f"{where}[{i}]",
                    f"must not overlap {where}[{j}]",
                    f"{one} and {other}",
                    "two links would have one address, and traffic of a rail would leave through another",
                    "give each rail a subnet of its own",
                )


def addresses(of: Iterable[Rail], node: int) -> tuple[str, ...]:
    """All rail addresses of node number ``node``, in rail order.

    Raises:
        InputErrors: a rail's subnet has no room for it.
    """
    try:
        return tuple(node_address(rail.subnet, node) for rail in of)
    except ValueError as error:
        raise InputErrors(
            Problem(
                "fabric.subnets",
                "must hold two addresses a node",
                str(error),
                "each link of a node to its switch takes two addresses",
                "name larger subnets, or leave them out",
            )
        ) from None
