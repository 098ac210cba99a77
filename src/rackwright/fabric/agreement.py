"""Whether two ends of a cable agree: what each file says, compared without asking the plan for values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rackwright.errors import Problem
from rackwright.fabric.host_files import QosView, RailView
from rackwright.fabric.switches.base import Ecn, PortView, SwitchView
from rackwright.fabric.topology import HostLink, Topology
from rackwright.plan.links import interface

AGAIN = "make both ends the same, or render them again: rackwright fabric render PLAN -o DIR"
LOSS = "where the ends differ, frames of RDMA are dropped under load and throughput falls to a tenth"


@dataclass(frozen=True)
class Ends:
    """Everything that was read. ``qos``: by pool. ``rails``: by node, then by interface."""

    switches: Mapping[str, SwitchView]
    qos: Mapping[str, QosView]
    rails: Mapping[str, Mapping[str, RailView]]


def disagreements(fabric: Topology, ends: Ends) -> Iterator[Problem]:
    """Every cable of which both ends were given; InfiniBand's switches have no files to disagree."""
    if not fabric.configured:
        return
    for host in fabric.hosts:
        qos = ends.qos.get(host.pool)
        rails = ends.rails.get(host.node)
        for link in host.links:
            switch = ends.switches.get(link.switch)
            if switch is None:
                continue
            port = switch.ports.get(link.switch_port)
            if port is None:
                yield _no_port(link.switch, link.switch_port, link.cable)
                continue
            if qos is not None:
                yield from _profile(qos, port)
            if rails is not None:
                yield from _addresses(link, rails.get(link.rail.netdev), port)
    yield from _uplinks(fabric, ends)


def _no_port(switch: str, port: str, cable: str) -> Problem:
    return Problem(
        f"switches/{switch} {port}",
        "must be a port that the switch's file configures",
        "nothing",
        f"cable {cable} ends there",
        AGAIN,
    )


def _differs(where: str, rule: str, found: str, why: str = LOSS) -> Problem:
    return Problem(where, rule, found or "nothing", why, AGAIN)


def _profile(host: QosView, port: PortView) -> Iterator[Problem]:
    if not host.pfc:
        yield _differs(host.place("PFC"), "must guard one lossless priority", "none")
    if set(port.pfc) != set(host.pfc):
        yield _differs(
            port.place("pfc"),
            f"must guard the priorities that {host.place('PFC')} guards: {_list(host.pfc)}",
            _list(port.pfc),
        )
    if host.trust != "dscp" or not port.trusts_dscp:
        where = host.place("TRUST") if host.trust != "dscp" else port.place("dscp")
        yield _differs(
            where,
            "must trust DSCP, as the other end does",
            host.trust if where == host.place("TRUST") else "no",
        )
    wrong = [d for d in range(64) if port.priorities[d] != host.priorities[d]]
    if wrong:
        first = wrong[0]
        yield _differs(
            port.place("dscp"),
            f"must map DSCP {first} to {host.priorities[first]}, as {host.place('DSCP_PRIORITY')} does",
            f"{port.priorities[first]}" + (f"; {len(wrong)} DSCPs differ" if len(wrong) > 1 else ""),
        )
    yield from _marking(host, port)
    if host.mtu is None or port.mtu is None or host.mtu > port.mtu:
        yield _differs(
            port.place("mtu"),
            f"must be at least the MTU that {host.place('MTU')} sets: {host.mtu}",
            str(port.mtu),
            "full-size frames are dropped, small ones pass: the fabric looks well and hangs under load",
        )
    if not port.up:
        yield _differs(port.place("up"), "must be up", "shut", "the host's rail has no link")


def _marking(host: QosView, port: PortView) -> Iterator[Problem]:
    for priority in host.pfc:
        ecn = port.ecn.get(priority)
        if (priority in host.ecn) != (ecn is not None and ecn.on):
            yield _differs(
                port.place("ecn"),
                f"must mark in queue {priority} as {host.place('ECN_PRIORITIES')} expects",
                "marks" if ecn is not None and ecn.on else "does not mark",
                "senders that are never told of a queue are stopped by pauses instead, and the pauses spread",
            )
        if ecn is not None and not _sane(ecn):
            yield _differs(
                port.place("ecn"),
                "must have thresholds with the minimum below the maximum",
                f"{ecn.minimum} and {ecn.maximum}",
            )
    if host.tos is None or host.tos >> 2 > 63 or host.priorities[host.tos >> 2] not in host.pfc:
        yield _differs(
            host.place("TOS"),
            f"must carry a DSCP of a guarded priority ({_list(host.pfc)})",
            str(host.tos),
            "RDMA would travel in a class that may drop",
        )
    dscp = host.cnp_dscp
    if dscp is None or dscp > 63 or port.priorities[dscp] != host.cnp_priority:
        lands = port.priorities[dscp] if dscp is not None and dscp < 64 else None
        yield _differs(
            host.place("CNP_DSCP"),
            f"must fall into priority {host.cnp_priority} at {port.place('dscp')}",
            f"DSCP {dscp}, priority {lands}",
            "a notification that waits behind the data it should slow comes too late",
        )


def _sane(ecn: Ecn) -> bool:
    return ecn.minimum is not None and ecn.maximum is not None and 0 < ecn.minimum < ecn.maximum


def _addresses(link: HostLink, rail: RailView | None, port: PortView) -> Iterator[Problem]:
    why = "two ends in different subnets cannot reach each other"
    if rail is None or not rail.addresses:
        yield _differs(f"nodes {link.cable}", f"must have an address on {link.rail.netdev}", "none", why)
        return
    try:
        ours, theirs = interface(rail.addresses[0]), interface(port.address or "")
    except ValueError:
        yield _differs(
            port.place("address"),
            "must be an address as the host's is",
            f"{port.address}; the host has {rail.addresses[0]}",
            why,
        )
        return
    if ours.network != theirs.network or ours.ip == theirs.ip:
        yield _differs(
            port.place("address"),
            f"must be the other address of {ours.network}, where {rail.source} has {ours.ip}",
            str(theirs),
            why,
        )
    for gateway in sorted(set(rail.gateways) - {str(theirs.ip)}):
        yield _differs(
            f"{rail.source}.routes",
            f"must go by the switch's address, {theirs.ip} of {port.place('address')}",
            gateway,
            "the rail's traffic has no way out",
        )


def _uplinks(fabric: Topology, ends: Ends) -> Iterator[Problem]:
    for cable in fabric.cables:
        if cable.kind != "uplink":
            continue
        lower, upper = ends.switches.get(cable.a), ends.switches.get(cable.b)
        if lower is None or upper is None:
            continue
        low, up = lower.ports.get(cable.a_port), upper.ports.get(cable.b_port)
        if low is None or up is None:
            name, port = (cable.a, cable.a_port) if low is None else (cable.b, cable.b_port)
            yield _no_port(name, port, cable.name)
            continue
        yield from _same(low, up)
        for one, asn, other in ((low, upper.asn, up), (up, lower.asn, low)):
            if one.peer_asn is None or one.peer_asn != asn:
                yield _differs(
                    one.place("asn"),
                    f"must be the number of the switch at {other.name}: {asn}",
                    str(one.peer_asn),
                    "the session does not come up, and a part of the fabric's bandwidth is missing",
                )


def _same(low: PortView, up: PortView) -> Iterator[Problem]:
    for what, mine, theirs in (
        ("pfc", set(low.pfc), set(up.pfc)),
        ("dscp", low.priorities, up.priorities),
        ("mtu", low.mtu, up.mtu),
        ("ecn", dict(low.ecn), dict(up.ecn)),
        ("up", low.up, up.up),
    ):
        if mine != theirs:
            shown = what in ("mtu", "up", "pfc")
            yield _differs(
                low.place(what),
                f"must be what {up.place(what)} is" + (f": {_shown(theirs)}" if shown else ""),
                _shown(mine) if shown else "another",
            )


def _shown(value: object) -> str:
    return _list(sorted(value)) if isinstance(value, set) else str(value)


def _list(values: object) -> str:
    return ", ".join(map(str, values)) or "none" if isinstance(values, (tuple, list)) else str(values)
