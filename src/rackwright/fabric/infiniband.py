"""InfiniBand: what the subnet manager is told. Its files are rendered here.

Link rates and MTUs are numbered as in the InfiniBand architecture; OpenSM's partition file takes the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from rackwright.errors import InputErrors, Problem
from rackwright.fabric.topology import Topology
from rackwright.plan.fabric import InfinibandSubnet
from rackwright.workload import FabricChoice

RATES: Mapping[int, tuple[str, int, int]] = {
    100: ("EDR", 16, 4),
    200: ("HDR", 17, 4),
    400: ("NDR", 21, 4),
    800: ("XDR", 23, 4),
}
"""Gb/s of a four-lane link: its name, its number, and lanes (IBTA path record; OpenSM's ib_types.h)."""
MTU_4096 = 5
FULL_MEMBER = 0x8000
ROUTING = "ar_updn"
"""Up/down routing with adaptive routing, the engine for trees in OpenSM of MLNX_OFED, DOCA and UFM."""
PARTITIONS = "infiniband/partitions.conf"
OPENSM = "infiniband/opensm.conf"


def subnet(name: str, choice: FabricChoice, rate_gbps: int) -> InfinibandSubnet:
    """The partition of one cluster.

    Raises:
        InputErrors: InfiniBand has no link of that rate.
    """
    if rate_gbps not in RATES:
        raise InputErrors(
            Problem(
                "hardware.machine",
                f"must have NICs of {', '.join(map(str, RATES))} Gb/s for InfiniBand",
                f"{rate_gbps} Gb/s",
                "InfiniBand has no four-lane link of that rate",
                "choose another machine, or hardware.fabric: roce",
            )
        )
    rate, code, width = RATES[rate_gbps]
    return InfinibandSubnet(
        partition=name,
        pkey=choice.pkey,
        rate=rate,
        rate_code=code,
        width=width,
        mtu_code=MTU_4096,
        routing=ROUTING,
        adaptive_routing=True,
    )


def files(fabric: Topology) -> dict[str, str]:
    """OpenSM's partitions and options. UFM takes the partition's line in its partitions.conf.user_ext."""
    net = fabric.fabric.subnet
    assert net is not None
    nodes = ", ".join(host.node for host in fabric.hosts)
    partitions = f"""\
# Partitions of {fabric.plan.header.name}. Nodes: {nodes}.
# Everybody is a full member of both: NCCL and UCX take the first key of a port, the default one, and two
# limited members of it could not talk. To wall a cluster off, name its port GUIDs (ibstat -p) instead of ALL
# below, make ALL limited above, and give the libraries the index of the key (NCCL_IB_PKEY, UCX_IB_PKEY).
Default=0x7fff, ipoib, mtu={net.mtu_code}, rate={net.rate_code}: ALL=full, SELF=full;
{net.partition}=0x{net.pkey:04x}, ipoib, mtu={net.mtu_code}, rate={net.rate_code}, defmember=full: ALL=full;
"""
    options = f"""\
# Options of OpenSM that differ from its defaults; merge into /etc/opensm/opensm.conf.
# {net.routing}: trees, with adaptive routing (OpenSM of DOCA and UFM; the distribution's has updn only).
routing_engine {net.routing if net.adaptive_routing else "updn"}
part_enforce both
allow_both_pkeys TRUE
sweep_interval 10
max_op_vls 2
"""
    return {PARTITIONS: partitions, OPENSM: options}
