"""The one lossless RoCE profile. Host, NIC template and switch are all generated from it.

DSCP 26 falls into priority 3 and DSCP 48 into priority 6 under the usual mapping DSCP >> 3, so that a switch
that was left at its default map agrees. PFC guards priority 3 only; congestion notifications travel at 6.

Marking begins at one bandwidth-delay product, the longest path unloaded: below it a single sender that starts
at full rate would be marked before any notification could reach it, above it a queue stands that costs only
delay. Every packet is marked from four times that on (the ratio that the authors of HPCC, SIGCOMM 2019, use
for DCQCN: 100 kB and 400 kB at 25 Gb/s). Pausing must come after that, which ``pause_depth`` tells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from rackwright.errors import InputErrors, Problem
from rackwright.plan.cost import Explanation
from rackwright.plan.fabric import Qos, Switching

LOSSLESS_PRIORITY = 3
LOSSLESS_DSCP = 26
CNP_PRIORITY = 6
CNP_DSCP = 48
MTU = 9000
"""Ethernet MTU of host ports; carries RoCE's largest payload with its headers."""
SWITCH_MTU = 9214
"""MTU of switch ports: the most that EOS routes (SONiC and Cumulus take 9216), above any host's."""
ACTIVE_MTU = 4096
"""The RDMA path MTU that MTU 9000 gives."""
INFINIBAND_MTU = 4092
"""IPoIB datagram MTU over a 4096-byte link."""

HOST_CABLE_M = 5
UPLINK_CABLE_M = 40
LIGHT_M_PER_S = 1.98e8
"""Speed of light in fibre and copper, as SONiC's buffer manager takes it."""
NIC_LATENCY_S = 1.0e-6
"""Assumed, each way through one NIC."""
ECN_RATIO = 4
ECN_PERCENT = 20
PAUSE_QUANTA = {800: 905, 400: 905, 200: 453, 100: 394, 50: 147, 40: 118, 25: 80, 10: 67}
"""By Gb/s: pause quanta of 512 bits within which a port obeys a pause (IEEE 802.3, 31B.3.7)."""
KIB = 1024

HEADROOM_SOURCE = "SONiC buffer_headroom_mellanox.lua (sonic-swss, read 2026-12-01) with IEEE 802.3 31B.3.7"
ECN_SOURCE = "bandwidth-delay product; ratio of HPCC (SIGCOMM 2019) for DCQCN, not re-read"


def tos(dscp: int) -> int:
    """The traffic-class byte of ``dscp``: DSCP << 2 (26 gives 104)."""
    return dscp << 2


def headroom(rate_gbps: int, cable_m: int, mtu: int = SWITCH_MTU) -> int:
    """Bytes that arrive on one priority after a pause was sent, rounded up to KiB.

    A frame that the switch has begun to send before the pause, one that the peer has begun, what is on the
    cable both ways, and what the peer sends until it must obey.

    Raises:
        ValueError: the standard names no pause quanta for the rate.
    """
    if rate_gbps not in PAUSE_QUANTA:
        raise ValueError(f"no pause quanta are known for {rate_gbps} Gb/s")
    on_cable = 2 * cable_m * rate_gbps * 1e9 / 8 / LIGHT_M_PER_S
    response = PAUSE_QUANTA[rate_gbps] * 512 / 8
    return math.ceil((2 * mtu + on_cable + response) / KIB) * KIB


def round_trip_s(host_m: int, uplink_m: int, switch_s: float) -> float:
    """Seconds of the longest path and back, unloaded: host, leaf, spine, leaf, host."""
    one_way = 2 * (host_m + uplink_m) / LIGHT_M_PER_S + 3 * switch_s + 2 * NIC_LATENCY_S
    return 2 * one_way


def marking(rate_gbps: int, host_m: int, uplink_m: int, switch_s: float) -> tuple[int, int]:
    """Bytes of queue at which marking begins, and from which all packets are marked; whole KiB."""
    product = rate_gbps * 1e9 / 8 * round_trip_s(host_m, uplink_m, switch_s)
    least = math.ceil(product / KIB) * KIB
    return least, ECN_RATIO * least


def pause_depth(buffer_bytes: int, headroom_bytes: int, ports: int) -> int:
    """Bytes at which a port pauses its sender while half of the ports are congested.

    With a dynamic threshold of 1 (alpha), n queues that share what is free each get 1 / (n + 1) of the pool.
    """
    return (buffer_bytes - headroom_bytes) // (ports // 2 + 1)


def profile(
    rate_gbps: int | None = None,
    *,
    host_m: int = HOST_CABLE_M,
    uplink_m: int = UPLINK_CABLE_M,
    switch_s: float = 1e-6,
    priority: int = LOSSLESS_PRIORITY,
    dscp: int = LOSSLESS_DSCP,
) -> Qos:
    """The profile; with ``rate_gbps`` also what follows from speed and cables.

    Raises:
        InputErrors: the lossless class and congestion notifications fall into one priority or DSCP.
    """
    if priority == CNP_PRIORITY or dscp == CNP_DSCP:
        raise InputErrors(
            Problem(
                "fabric.lossless_priority" if priority == CNP_PRIORITY else "fabric.dscp",
                f"must leave priority {CNP_PRIORITY} and DSCP {CNP_DSCP} to congestion notifications",
                str(priority if priority == CNP_PRIORITY else dscp),
                "a notification that waits behind the data it should slow comes too late",
                f"use the defaults: priority {LOSSLESS_PRIORITY}, DSCP {LOSSLESS_DSCP}",
            )
        )
    sized: dict[str, int] = {}
    if rate_gbps is not None and rate_gbps in PAUSE_QUANTA:
        least, most = marking(rate_gbps, host_m, uplink_m, switch_s)
        sized = {
            "ecn_min_bytes": least,
            "ecn_max_bytes": most,
            "ecn_max_percent": ECN_PERCENT,
            "xoff_host_bytes": headroom(rate_gbps, host_m),
            "xoff_uplink_bytes": headroom(rate_gbps, uplink_m),
            "host_cable_m": host_m,
            "uplink_cable_m": uplink_m,
        }
    return Qos(
        trust="dscp",
        lossless_priority=priority,
        dscp=dscp,
        tos=tos(dscp),
        pfc=tuple(p == priority for p in range(8)),
        ecn=True,
        cnp_priority=CNP_PRIORITY,
        cnp_dscp=CNP_DSCP,
        **sized,
    )


def explained(profile: Qos, switching: Switching | None, rate_gbps: int) -> Iterator[Explanation]:
    """Where the figures that follow from speed and cables come from."""
    if profile.ecn_min_bytes is None:
        return
    inputs = {
        "rate": f"{rate_gbps} Gb/s",
        "host_cable_m": str(profile.host_cable_m),
        "uplink_cable_m": str(profile.uplink_cable_m),
    }
    yield Explanation(
        path="fabric.qos.ecn_min_bytes",
        value=str(profile.ecn_min_bytes),
        formula="rate × 2 × (2 × (host + uplink cable) / 1.98e8 m/s + 3 × switch + 2 × 1 us of NIC), in KiB",
        inputs=inputs,
        source=ECN_SOURCE,
        evidence="assumed",
    )
    yield Explanation(
        path="fabric.qos.ecn_max_bytes",
        value=str(profile.ecn_max_bytes),
        formula=f"{ECN_RATIO} × ecn_min_bytes",
        inputs={"ecn_min_bytes": str(profile.ecn_min_bytes)},
        source=ECN_SOURCE,
        evidence="assumed",
    )
    for end in ("host", "uplink"):
        cable, bytes_ = getattr(profile, f"{end}_cable_m"), getattr(profile, f"xoff_{end}_bytes")
        yield Explanation(
            path=f"fabric.qos.xoff_{end}_bytes",
            value=str(bytes_),
            formula="2 × MTU + 2 × cable × rate / 8 / 1.98e8 m/s + pause quanta × 512 / 8, in KiB",
            inputs={"rate": f"{rate_gbps} Gb/s", "cable_m": str(cable), "mtu": str(SWITCH_MTU)},
            source=HEADROOM_SOURCE,
            evidence="vendor",
        )
    if switching is not None:
        yield Explanation(
            path="fabric.switching.spines",
            value=str(switching.spines),
            formula="least divisor of a leaf's uplinks that gives every leaf as many ports on every spine",
            inputs={"ports": str(switching.ports), "groups": str(switching.groups)},
            source="non-blocking two-tier Clos",
            evidence="assumed",
        )
