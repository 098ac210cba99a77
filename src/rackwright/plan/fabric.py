"""The scale-out fabric: one rail per GPU index across nodes, and the one QoS profile both ends share."""

from __future__ import annotations

from typing import Literal

from rackwright.plan.base import Section

RESOURCE_PREFIX = "nvidia.com"
"""Domain under which device plugins advertise rails: the plan names the resource, the plugin qualifies it."""


class Qos(Section):
    """A lossless RoCE v2 profile. The switch side is generated from this same section.

    ``pfc``: one flag per priority 0..7. ``tos`` is the traffic-class byte: DSCP << 2. Any other DSCP falls
    into priority DSCP >> 3, as NICs and switches map it by default.
    ``ecn_min_bytes``, ``ecn_max_bytes``: depth of the lossless queue at which marking begins, and from which
    every packet is marked; between them up to ``ecn_max_percent`` are. ``xoff_host_bytes``,
    ``xoff_uplink_bytes``: what still arrives at a switch port after it has sent a pause. Cables in metres.
    """

    trust: Literal["dscp"] = "dscp"
    lossless_priority: int
    dscp: int
    tos: int
    pfc: tuple[bool, bool, bool, bool, bool, bool, bool, bool]
    ecn: bool
    cnp_priority: int
    cnp_dscp: int
    ecn_min_bytes: int | None = None
    ecn_max_bytes: int | None = None
    ecn_max_percent: int | None = None
    xoff_host_bytes: int | None = None
    xoff_uplink_bytes: int | None = None
    host_cable_m: int | None = None
    uplink_cable_m: int | None = None

    def priority_of(self, dscp: int) -> int:
        """The priority of packets marked ``dscp``, on hosts and switches alike."""
        return {self.dscp: self.lossless_priority, self.cnp_dscp: self.cnp_priority}.get(dscp, dscp >> 3)

    @property
    def lossless(self) -> tuple[int, ...]:
        """Priorities that PFC guards."""
        return tuple(priority for priority, on in enumerate(self.pfc) if on)


class Switching(Section):
    """The switches of a fabric: leaves by rail and group of nodes, spines above them.

    ``hosts_per_leaf``, ``uplinks_per_leaf``: ports. ``planes``: spines are shared by all rails (1) or each
    rail has its own. ``spines``: in a plane. ``asn``: of the spines; leaves take the next, one each.
    ``loopbacks``: one address a switch. ``buffer_bytes``: of one switch. ``mtu``: of its ports. InfiniBand
    has none of these four: ``os`` is "infiniband", and the subnet manager configures the switches; it has the
    lengths of its cables here, Ethernet in its profile.
    """

    os: str
    switch: str
    ports: int
    hosts_per_leaf: int
    uplinks_per_leaf: int
    groups: int
    planes: int
    spines: int
    asn: int | None = None
    loopbacks: str | None = None
    mtu: int | None = None
    buffer_bytes: int | None = None
    host_cable_m: int | None = None
    uplink_cable_m: int | None = None


class Rail(Section):
    """One NIC per node at the same index, on its own leaf and subnet."""

    index: int
    hca: str
    netdev: str
    pci_address: str
    subnet: str
    node_prefix: int
    resource: str
    network: str

    @property
    def advertised(self) -> str:
        """The extended resource that pods ask for."""
        return f"{RESOURCE_PREFIX}/{self.resource}"


class InfinibandSubnet(Section):
    """What the subnet manager is told.

    ``pkey``: of the cluster's partition, without the membership bit. ``rate``: as links are named (NDR).
    ``rate_code``, ``mtu_code``: their numbers in the InfiniBand architecture. ``width``: lanes of a link.
    """

    partition: str
    pkey: int
    rate: str
    rate_code: int
    width: int
    mtu_code: int
    routing: str
    adaptive_routing: bool


class Fabric(Section):
    """``nccl_env`` is complete: nothing is added downstream. GID index is left unset on purpose."""

    kind: Literal["roce", "infiniband"]
    rate_gbps: int
    mtu: int
    active_mtu: int
    nic_vendor: str
    nic_type: str
    firmware: str | None = None
    namespace: str
    rails: tuple[Rail, ...]
    qos: Qos | None = None
    switching: Switching | None = None
    subnet: InfinibandSubnet | None = None
    management_interface: str
    nccl_env: dict[str, str]
