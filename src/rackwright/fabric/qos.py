"""The one lossless RoCE profile. Host, NIC template and switch are all generated from it.

DSCP 26 falls into priority 3 and DSCP 48 into priority 6 under the usual mapping DSCP >> 3, so that a switch
that was left at its default map agrees. PFC guards priority 3 only; congestion notifications travel at 6.
"""

from __future__ import annotations

from rackwright.plan.fabric import Qos

LOSSLESS_PRIORITY = 3
LOSSLESS_DSCP = 26
CNP_PRIORITY = 6
CNP_DSCP = 48
MTU = 9000
"""Ethernet MTU of host ports; carries RoCE's largest payload with its headers."""
ACTIVE_MTU = 4096
"""The RDMA path MTU that MTU 9000 gives."""
INFINIBAND_MTU = 4092
"""IPoIB datagram MTU over a 4096-byte link."""


def tos(dscp: int) -> int:
    """The traffic-class byte of ``dscp``: DSCP << 2 (26 gives 104)."""
    return dscp << 2


def profile() -> Qos:
    """The profile itself."""
    return Qos(
        trust="dscp",
        lossless_priority=LOSSLESS_PRIORITY,
        dscp=LOSSLESS_DSCP,
        tos=tos(LOSSLESS_DSCP),
        pfc=(False, False, False, True, False, False, False, False),
        ecn=True,
        cnp_priority=CNP_PRIORITY,
        cnp_dscp=CNP_DSCP,
    )
