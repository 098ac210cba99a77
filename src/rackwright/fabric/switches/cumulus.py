"""NVIDIA Cumulus Linux: one NVUE file a switch, as ``nv config replace`` takes it.

Written from the NVUE reference of Cumulus Linux 5.9 (paths of ``nv set``): no NVUE could be run here, so
that the first switch's ``nv config replace`` is the proof of the format. Cumulus sizes the buffers of
lossless ports itself, from the length of the cable, and advises against setting them. Ranges of ports are
not used: every port has its own stanza.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackwright.fabric.leaves import Settings, tree, unreadable, yaml_data
from rackwright.fabric.switches.base import Ecn, PortView, SwitchOs, SwitchView, whole
from rackwright.fabric.topology import Port, Switch, Topology
from rackwright.plan import Qos
from rackwright.yamlio import dump_yaml

GLOBAL = "default-global"
PROFILE = "roce"


def render(switch: Switch, fabric: Topology) -> str:
    """The whole configuration of ``switch``."""
    used = {port.number: port for port in switch.ports}
    interfaces: dict[str, Any] = {
        "lo": {"type": "loopback", "ip": {"address": {switch.loopback: {}}}},
    }
    for number in range(1, int(switch.entry.ports.value) + 1):
        name = switch.entry.port_name("cumulus", number)
        interfaces[name] = _interface(used.get(number), fabric)
    body = [
        {
            "set": {
                "system": {"hostname": switch.name},
                "service": {"lldp": {"tx-interval": 30, "tx-hold-multiplier": 4}},
                "interface": interfaces,
                "qos": _qos(fabric.qos, switch),
                "router": {"bgp": {"enable": "on"}},
                "vrf": {"default": {"router": {"bgp": _bgp(switch)}}},
            }
        }
    ]
    return f"# {switch.name}. Derived from the plan.\n" + dump_yaml(body)


def _interface(port: Port | None, fabric: Topology) -> dict[str, Any]:
    link: dict[str, Any] = {"state": {"up" if port else "down": {}}}
    stanza: dict[str, Any] = {"type": "swp", "link": link}
    if port is None:
        return stanza
    link |= {"mtu": fabric.switching.mtu, "speed": f"{fabric.fabric.rate_gbps}G", "fec": "rs"}
    stanza["description"] = f"{port.peer} {port.peer_port} {port.cable}"
    if port.address:
        stanza["ip"] = {"address": {port.address: {}}}
    stanza["qos"] = {
        "pfc": {"profile": f"lossless-{port.kind}"},
        "pfc-watchdog": {"state": "enable"},
        "congestion-control": {"profile": PROFILE},
        "mapping": {"profile": PROFILE},
    }
    return stanza


def _qos(qos: Qos, switch: Switch) -> dict[str, Any]:
    guarded: dict[str, Any] = {str(p): {} for p in qos.lossless}
    cables = {"host": qos.host_cable_m, "uplink": qos.uplink_cable_m}
    kinds = sorted({port.kind for port in switch.ports})
    return {
        "mapping": {
            PROFILE: {
                "trust": "l3",
                "port-default-sp": 0,
                "dscp": {str(d): {"switch-priority": qos.priority_of(d)} for d in range(64)},
            }
        },
        "egress-queue-mapping": {
            GLOBAL: {"switch-priority": {str(p): {"traffic-class": p} for p in range(8)}}
        },
        "egress-scheduler": {
            GLOBAL: {
                "traffic-class": {
                    **{str(p): {"mode": "dwrr", "bw-percent": _share(p, qos)} for p in range(8)},
                    str(qos.cnp_priority): {"mode": "strict"},
                }
            }
        },
        "pfc": {
            f"lossless-{kind}": {
                "switch-priority": guarded,
                "rx": "enable",
                "tx": "enable",
                "cable-length": cables[kind],
            }
            for kind in kinds
        },
        "pfc-watchdog": {"polling-interval": 100, "robustness": 3},
        "congestion-control": {
            PROFILE: {
                "traffic-class": {
                    str(p): {
                        "ecn": "enable" if qos.ecn else "disable",
                        "red": "disable",
                        "min-threshold": qos.ecn_min_bytes,
                        "max-threshold": qos.ecn_max_bytes,
                        "probability": qos.ecn_max_percent,
                    }
                    for p in qos.lossless
                }
            }
        },
    }


def _share(priority: int, qos: Qos) -> int:
    """Percent of what strict notifications leave: 76 for the lossless class, 4 for each of six others."""
    return 76 if priority == qos.lossless_priority else 4


def _bgp(switch: Switch) -> dict[str, Any]:
    peers = [port for port in switch.ports if port.kind == "uplink"]
    return {
        "enable": "on",
        "autonomous-system": switch.asn,
        "router-id": switch.router_id,
        "path-selection": {"multipath": {"aspath-ignore": "on"}},
        "address-family": {
            "ipv4-unicast": {
                "enable": "on",
                "redistribute": {"connected": {"enable": "on"}},
                "multipaths": {"ebgp": max(1, len(peers))},
            }
        },
        "neighbor": {
            port.name: {
                "type": "unnumbered",
                "remote-as": port.peer_asn,
                "capabilities": {"extended-nexthop": "on"},
            }
            for port in peers
        },
    }


def settings(text: str, source: str) -> Settings:
    return tree(_set(text, source))


def _set(text: str, source: str) -> Mapping[str, Any]:
    """All ``set`` documents of the list, as NVUE applies them one after another.

    Raises:
        InputErrors: it is no NVUE file.
    """
    data = yaml_data(text, source)
    stanzas = [s["set"] for s in data if isinstance(s, dict) and "set" in s] if isinstance(data, list) else []
    if not stanzas or not all(isinstance(s, dict) for s in stanzas):
        raise unreadable(source, "an NVUE file: a list with set", type(data).__name__)
    merged: dict[str, Any] = {}
    for stanza in stanzas:
        _merge(merged, stanza)
    return merged


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        name = str(key)
        if isinstance(value, dict):
            below = into.setdefault(name, {})
            if isinstance(below, dict):
                _merge(below, value)
        else:
            into[name] = value


def _at(node: Any, *path: str) -> Any:
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node if node is not None else {}


def view(text: str, source: str) -> SwitchView:
    data = _set(text, source)
    bgp = _at(data, "vrf", "default", "router", "bgp")
    ports = {
        name: _port(name, stanza, data, bgp, source)
        for name, stanza in _at(data, "interface").items()
        if isinstance(stanza, dict) and name != "lo"
    }
    hostname = _at(data, "system", "hostname")
    return SwitchView(
        hostname if isinstance(hostname, str) else "", whole(_at(bgp, "autonomous-system")), ports
    )


def _port(name: str, stanza: dict[str, Any], data: Any, bgp: Any, source: str) -> PortView:
    qos = _at(data, "qos")
    mapping = _at(qos, "mapping", str(_at(stanza, "qos", "mapping", "profile")))
    pfc = _at(qos, "pfc", str(_at(stanza, "qos", "pfc", "profile")))
    marks = _at(qos, "congestion-control", str(_at(stanza, "qos", "congestion-control", "profile")))
    queue_of = _at(qos, "egress-queue-mapping", GLOBAL, "switch-priority")
    priorities = []
    for dscp in range(64):
        internal = whole(_at(mapping, "dscp", str(dscp), "switch-priority"))
        priorities.append(whole(_at(queue_of, str(internal), "traffic-class")))
    both = _at(pfc, "rx") == "enable" and _at(pfc, "tx") == "enable"
    guarded = [whole(p) for p in _at(pfc, "switch-priority")] if both else []
    addresses = list(_at(stanza, "ip", "address"))
    return PortView(
        name=name,
        up="up" in _at(stanza, "link", "state"),
        mtu=whole(_at(stanza, "link", "mtu")),
        address=str(addresses[0]) if addresses else None,
        pfc=tuple(p for p in guarded if p is not None),
        priorities=tuple(priorities),
        trusts_dscp=_at(mapping, "trust") == "l3",
        ecn={
            int(queue): Ecn(
                whole(_at(m, "min-threshold")),
                whole(_at(m, "max-threshold")),
                whole(_at(m, "probability")),
                _at(m, "ecn") == "enable",
            )
            for queue, m in _at(marks, "traffic-class").items()
            if whole(queue) is not None
        },
        peer_asn=whole(_at(bgp, "neighbor", name, "remote-as")),
        places={
            "pfc": f"{source} interface.{name}.qos.pfc",
            "dscp": f"{source} qos.mapping.{_at(stanza, 'qos', 'mapping', 'profile')}",
            "ecn": f"{source} qos.congestion-control",
            "mtu": f"{source} interface.{name}.link.mtu",
            "address": f"{source} interface.{name}.ip.address",
            "asn": f"{source} vrf.default.router.bgp.neighbor.{name}.remote-as",
            "up": f"{source} interface.{name}.link.state",
        },
    )


CUMULUS = SwitchOs(
    name="cumulus",
    file="nvue.yaml",
    render=render,
    settings=settings,
    view=view,
    owned=("interface.swp", "qos.", "vrf.default.router.bgp", "router.bgp"),
    recognises=lambda text: "set:" in text and "interface:" in text,
)
