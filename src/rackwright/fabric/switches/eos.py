"""Arista EOS: one configuration a switch, as ``configure replace`` takes it and as EOS shows it.

Written from Arista's QoS, PFC and RFC 5549 documentation for Trident and Tomahawk: no EOS could be run here,
so that the first switch's ``configure session`` is the proof of the format. EOS sets the headroom of lossless
ports itself, by their speed; the plan's headroom is not written.
"""

from __future__ import annotations

import re

from rackwright.fabric.leaves import Settings, sections
from rackwright.fabric.switches.base import Ecn, PortView, SwitchOs, SwitchView, whole
from rackwright.fabric.topology import Switch, Topology
from rackwright.render import render as fill

_ECN = re.compile(
    r"random-detect ecn minimum-threshold (\d+) bytes maximum-threshold (\d+) bytes "
    r"max-mark-probability (\d+) weight 0"
)


def render(switch: Switch, fabric: Topology) -> str:
    """The whole configuration of ``switch``."""
    qos = fabric.qos
    used = {port.number: port for port in switch.ports}
    numbers = range(1, int(switch.entry.ports.value) + 1)
    return fill(
        "fabric/eos/switch.conf.j2",
        {
            "switch": switch,
            "qos": qos,
            "mtu": fabric.switching.mtu,
            "rate_gbps": fabric.fabric.rate_gbps,
            "priorities": [(dscp, qos.priority_of(dscp)) for dscp in range(64)],
            "ports": [(switch.entry.port_name("eos", n), used.get(n)) for n in numbers],
            "peers": [(port.name, port) for port in switch.ports if port.kind == "uplink"],
        },
    )


def _below(found: Settings, section: str) -> dict[str, int]:
    """Lines of a section, with their numbers."""
    head = f"{section} > "
    return {k.removeprefix(head): s.line or 0 for k, s in found.items() if k.startswith(head)}


def view(text: str, source: str) -> SwitchView:
    """What the lines say of each Ethernet interface.

    Raises:
        InputErrors: a line is indented below nothing.
    """
    found = sections(text, source)
    hostname = next((k.split()[1] for k in found if re.fullmatch(r"hostname \S+", k)), "")
    bgp = next((k for k in found if re.fullmatch(r"router bgp \S+", k)), "")
    classes = _map(found, r"qos map dscp (\d+) to traffic-class (\d+)")
    queues = _map(found, r"qos map traffic-class (\d+) to tx-queue (\d+)")
    peers: dict[str, tuple[int | None, int]] = {}
    for line, number in _below(found, bgp).items() if bgp else ():
        peer = re.fullmatch(r"neighbor interface (\S+) peer-group underlay remote-as (\S+)", line)
        if peer:
            peers[peer[1]] = whole(peer[2]), number
    priorities = tuple(queues.get(classes[d]) if d in classes else None for d in range(64))
    ports = {}
    for key in found:
        if re.fullmatch(r"interface Ethernet\S+", key):
            name = key.split()[1]
            ports[name] = _port(name, found, priorities, peers.get(name), source)
    return SwitchView(hostname, whole(bgp.rpartition(" ")[2]) if bgp else None, ports)


def _map(found: Settings, pattern: str) -> dict[int, int]:
    matches = (re.fullmatch(pattern, key) for key in found)
    return {int(m[1]): int(m[2]) for m in matches if m}


def _port(
    name: str,
    found: Settings,
    priorities: tuple[int | None, ...],
    peer: tuple[int | None, int] | None,
    source: str,
) -> PortView:
    lines = _below(found, f"interface {name}")
    word = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in lines}
    at = {line.rpartition(" ")[0]: number for line, number in lines.items()}
    profile = f"qos profile {word.get('service-profile', '')}"
    qos = _below(found, profile)
    guarded = [re.fullmatch(r"priority-flow-control priority (\d) no-drop", line) for line in qos]
    ecn = {}
    for queue in range(8):
        for line in _below(found, f"{profile} > uc-tx-queue {queue}"):
            if match := _ECN.fullmatch(line):
                ecn[queue] = Ecn(int(match[1]), int(match[2]), int(match[3]), on=True)
    section = found.get(f"interface {name}")
    here = f"{source}:{section.line if section else 0} interface {name}"
    first = next((s.line for k, s in found.items() if k.startswith("qos map dscp")), 0)
    return PortView(
        name=name,
        up="no shutdown" in lines and "shutdown" not in lines,
        mtu=whole(word.get("mtu", 9214)),
        address=word.get("ip address"),
        pfc=tuple(int(m[1]) for m in guarded if m) if "priority-flow-control on" in qos else (),
        priorities=priorities,
        trusts_dscp="qos trust dscp" in qos,
        ecn=ecn,
        peer_asn=peer[0] if peer else None,
        places={
            "pfc": f"{source} {profile}",
            "dscp": f"{source}:{first} qos map dscp",
            "ecn": f"{source} {profile} uc-tx-queue",
            "mtu": f"{source}:{at['mtu']} interface {name} mtu" if "mtu" in at else here,
            "address": f"{source}:{at['ip address']} interface {name}" if "ip address" in at else here,
            "asn": f"{source}:{peer[1]} neighbor interface {name}" if peer else here,
            "up": here,
        },
    )


EOS = SwitchOs(
    name="eos",
    file="eos.conf",
    render=render,
    settings=sections,
    view=view,
    owned=(
        "qos ", "interface Ethernet", "router bgp", "priority-flow-control", "hostname",
    ),
    recognises=lambda text: "router bgp" in text and "interface Ethernet" in text,
)  # fmt: skip
