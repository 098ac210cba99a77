"""Rails and their addresses: deterministic, without overlap, the same as the address manager will give.

Each rail owns a /18 of 10.240.0.0/12. Every node takes the next block of two addresses of it in the order of
the plan's nodes; the manager's first address of a block is the switch's end of the link (gateway index 0),
the second is the node's.
"""

from __future__ import annotations

import ipaddress

from rackwright.catalog import Machine
from rackwright.catalog.entries import FabricNics
from rackwright.plan.fabric import Rail

SPACE = ipaddress.ip_network("10.240.0.0/12")
"""Private space that cluster networks rarely use; 64 rails of 8,192 nodes."""
RAIL_PREFIX = 18
NODE_PREFIX = 31


def rail_subnet(index: int) -> ipaddress.IPv4Network:
    """The subnet of rail ``index``; rails never overlap."""
    base = int(SPACE.network_address) + index * 2 ** (32 - RAIL_PREFIX)
    return ipaddress.IPv4Network((base, RAIL_PREFIX))


def node_address(rail: int, node: int) -> str:
    """Address with prefix of node number ``node`` (from 0) on ``rail``: the second of its block."""
    subnet = rail_subnet(rail)
    if not 0 <= node < 2 ** (NODE_PREFIX - RAIL_PREFIX):
        raise ValueError(f"a rail holds {2 ** (NODE_PREFIX - RAIL_PREFIX)} nodes, not node {node}")
    address = ipaddress.IPv4Address(int(subnet.network_address) + 2 * node + 1)
    return f"{address}/{NODE_PREFIX}"


def rails(nics: FabricNics) -> tuple[Rail, ...]:
    """One rail a NIC index."""
    return tuple(
        Rail(
            index=nic.rail,
            hca=nic.hca,
            netdev=nic.netdev,
            pci_address=nic.pci_address,
            subnet=str(rail_subnet(nic.rail)),
            node_prefix=NODE_PREFIX,
            resource=f"rail_{nic.rail}",
            network=f"rail-{nic.rail}",
        )
        for nic in nics.nics
    )


def addresses(machine: Machine, node: int) -> tuple[str, ...]:
    """All rail addresses of node number ``node``, in rail order."""
    if machine.fabric is None:
        return ()
    return tuple(node_address(nic.rail, node) for nic in machine.fabric.nics)
