"""The scale-out fabric: one rail per GPU index across nodes, and the one QoS profile both ends share."""

from __future__ import annotations

from typing import Literal

from rackwright.plan.base import Section


class Qos(Section):
    """A lossless RoCE v2 profile. The switch side is generated from this same section.

    ``pfc``: one flag per priority 0..7. ``tos`` is the traffic-class byte: DSCP << 2.
    """

    trust: Literal["dscp"] = "dscp"
    lossless_priority: int
    dscp: int
    tos: int
    pfc: tuple[bool, bool, bool, bool, bool, bool, bool, bool]
    ecn: bool
    cnp_priority: int
    cnp_dscp: int


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
    management_interface: str
    nccl_env: dict[str, str]
