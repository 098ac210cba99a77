"""SONiC: one config_db.json a switch, written and read by its tables (names as in the sonic-*.yang models).

BGP runs under the unified FRR configuration (``frr_mgmt_framework_config``), which is what has neighbours by
interface. The MAC address is the switch's own and is left to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rackwright.fabric.leaves import Settings, json_data, tree, unreadable
from rackwright.fabric.switches.base import Ecn, PortView, SwitchOs, SwitchView, whole
from rackwright.fabric.topology import Port, Switch, Topology
from rackwright.plan import Qos

MAP = "ROCE"
LOSSLESS_PROFILE = "ROCE_LOSSLESS"
INGRESS_POOL, EGRESS_LOSSLESS_POOL, EGRESS_LOSSY_POOL = (
    "ingress_lossless_pool",
    "egress_lossless_pool",
    "egress_lossy_pool",
)
CELL = 1518
PIPELINE_BYTES = 18432
"""Reserved for a lossless priority group below which it resumes; SONiC's profiles take about as much."""
WATCHDOG_MS = 200


def render(switch: Switch, fabric: Topology) -> str:
    """The whole config_db.json of ``switch``."""
    qos, used = fabric.qos, switch.ports
    data: dict[str, Any] = {
        "DEVICE_METADATA": {"localhost": _metadata(switch)},
        "PORT": _ports(switch, fabric),
        "INTERFACE": _interfaces(used),
        "LOOPBACK_INTERFACE": {"Loopback0": {}, f"Loopback0|{switch.loopback}": {}},
        "LLDP": {"GLOBAL": {"enabled": "true", "hello_time": "30", "system_name": switch.name}},
        **_maps(qos),
        "PORT_QOS_MAP": {p.name: _port_qos(qos) for p in used},
        "WRED_PROFILE": {LOSSLESS_PROFILE: _wred(qos)},
        "SCHEDULER": {
            "scheduler.cnp": {"type": "STRICT"},
            "scheduler.lossless": {"type": "DWRR", "weight": "80"},
            "scheduler.lossy": {"type": "DWRR", "weight": "20"},
        },
        "QUEUE": dict(_queues(used, qos)),
        **_buffers(switch, fabric),
        "CABLE_LENGTH": {"AZURE": {p.name: f"{p.cable_m}m" for p in used}},
        "PFC_WD": {
            "GLOBAL": {"POLL_INTERVAL": str(WATCHDOG_MS)},
            **{
                p.name: {
                    "action": "drop",
                    "detection_time": str(WATCHDOG_MS),
                    "restoration_time": str(WATCHDOG_MS),
                }
                for p in used
            },
        },
        **_bgp(switch),
    }
    return json.dumps(data, indent=2) + "\n"


def _metadata(switch: Switch) -> dict[str, str]:
    assert switch.entry.sonic is not None
    return {
        "hostname": switch.name,
        "hwsku": switch.entry.sonic.hwsku,
        "platform": switch.entry.sonic.platform,
        "type": "LeafRouter" if switch.role == "leaf" else "SpineRouter",
        "bgp_asn": str(switch.asn),
        "docker_routing_config_mode": "unified",
        "frr_mgmt_framework_config": "true",
        "buffer_model": "traditional",
        "default_bgp_status": "up",
        "default_pfcwd_status": "enable",
    }


def _ports(switch: Switch, fabric: Topology) -> dict[str, dict[str, str]]:
    """Every port of the switch: those without a cable are shut."""
    sonic = switch.entry.sonic
    assert sonic is not None
    used = {port.number: port for port in switch.ports}
    out = {}
    for number, first in enumerate(sonic.first_lanes, 1):
        port = used.get(number)
        out[switch.entry.port_name("sonic", number)] = {
            "lanes": ",".join(str(lane) for lane in range(first, first + sonic.lanes_a_port)),
            "alias": sonic.alias.format(port=number),
            "index": str(number),
            "speed": str(fabric.fabric.rate_gbps * 1000),
            "fec": "rs",
            "mtu": str(fabric.switching.mtu),
            "admin_status": "up" if port else "down",
            "description": f"{port.peer} {port.peer_port} {port.cable}" if port else "unused",
        }
    return out


def _interfaces(used: tuple[Port, ...]) -> dict[str, dict[str, str]]:
    out: dict[str, dict[str, str]] = {}
    for port in used:
        if port.address:
            out[port.name] = {}
            out[f"{port.name}|{port.address}"] = {}
        else:
            out[port.name] = {"ipv6_use_link_local_only": "enable"}
    return out


def _maps(qos: Qos) -> dict[str, Any]:
    same = {str(p): str(p) for p in range(8)}
    guarded = {str(p): str(p) for p in qos.lossless}
    return {
        "DSCP_TO_TC_MAP": {MAP: {str(d): str(qos.priority_of(d)) for d in range(64)}},
        "TC_TO_PRIORITY_GROUP_MAP": {MAP: {p: guarded.get(p, "0") for p in same}},
        "TC_TO_QUEUE_MAP": {MAP: same},
        "MAP_PFC_PRIORITY_TO_QUEUE": {MAP: same},
        "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": {MAP: guarded},
    }


def _port_qos(qos: Qos) -> dict[str, str]:
    guarded = ",".join(map(str, qos.lossless))
    return {
        "dscp_to_tc_map": MAP,
        "tc_to_pg_map": MAP,
        "tc_to_queue_map": MAP,
        "pfc_to_queue_map": MAP,
        "pfc_to_pg_map": MAP,
        "pfc_enable": guarded,
        "pfcwd_sw_enable": guarded,
    }


def _wred(qos: Qos) -> dict[str, str]:
    return {
        "ecn": "ecn_green" if qos.ecn else "ecn_none",
        "wred_green_enable": "true",
        "green_min_threshold": str(qos.ecn_min_bytes),
        "green_max_threshold": str(qos.ecn_max_bytes),
        "green_drop_probability": str(qos.ecn_max_percent),
    }


def _queues(used: tuple[Port, ...], qos: Qos) -> Any:
    for port in used:
        for queue in range(8):
            if queue == qos.lossless_priority:
                yield (
                    f"{port.name}|{queue}",
                    {"scheduler": "scheduler.lossless", "wred_profile": LOSSLESS_PROFILE},
                )
            elif queue == qos.cnp_priority:
                yield f"{port.name}|{queue}", {"scheduler": "scheduler.cnp"}
            else:
                yield f"{port.name}|{queue}", {"scheduler": "scheduler.lossy"}


def _buffers(switch: Switch, fabric: Topology) -> dict[str, Any]:
    """One ingress pool with headroom set aside for every lossless port; egress that never drops of it."""
    qos, speed = fabric.qos, fabric.fabric.rate_gbps * 1000
    total = fabric.switching.buffer_bytes or 0
    xoff = {"host": qos.xoff_host_bytes or 0, "uplink": qos.xoff_uplink_bytes or 0}
    cable = {"host": qos.host_cable_m, "uplink": qos.uplink_cable_m}
    profile = {kind: f"pg_lossless_{speed}_{cable[kind]}m_profile" for kind in xoff}
    aside = sum(xoff[p.kind] + PIPELINE_BYTES for p in switch.ports)
    kinds = sorted({p.kind for p in switch.ports})
    return {
        "BUFFER_POOL": {
            INGRESS_POOL: {"type": "ingress", "mode": "dynamic", "size": str(total - aside)},
            EGRESS_LOSSLESS_POOL: {"type": "egress", "mode": "static", "size": str(total)},
            EGRESS_LOSSY_POOL: {"type": "egress", "mode": "dynamic", "size": str(total - aside)},
        },
        "BUFFER_PROFILE": {
            **{
                profile[kind]: {
                    "pool": INGRESS_POOL,
                    "size": str(PIPELINE_BYTES + xoff[kind]),
                    "xon": str(PIPELINE_BYTES),
                    "xoff": str(xoff[kind]),
                    "dynamic_th": "0",
                }
                for kind in kinds
            },
            "ingress_lossy_profile": {"pool": INGRESS_POOL, "size": "0", "dynamic_th": "3"},
            "egress_lossless_profile": {
                "pool": EGRESS_LOSSLESS_POOL,
                "size": "0",
                "static_th": str(total),
            },
            "egress_lossy_profile": {"pool": EGRESS_LOSSY_POOL, "size": str(CELL), "dynamic_th": "3"},
        },
        "BUFFER_PG": {
            key: {"profile": value}
            for port in switch.ports
            for key, value in (
                (f"{port.name}|0", "ingress_lossy_profile"),
                *((f"{port.name}|{p}", profile[port.kind]) for p in qos.lossless),
            )
        },
        "BUFFER_QUEUE": {
            f"{port.name}|{queue}": {
                "profile": "egress_lossless_profile" if queue in qos.lossless else "egress_lossy_profile"
            }
            for port in switch.ports
            for queue in range(8)
        },
    }


def _bgp(switch: Switch) -> dict[str, Any]:
    peers = [port for port in switch.ports if port.kind == "uplink"]
    return {
        "BGP_GLOBALS": {
            "default": {
                "router_id": switch.router_id,
                "local_asn": str(switch.asn),
                "load_balance_mp_relax": "true",
                "default_ipv4_unicast": "false",
                "log_nbr_state_changes": "true",
            }
        },
        "BGP_GLOBALS_AF": {"default|ipv4_unicast": {"max_ebgp_paths": str(max(1, len(peers)))}},
        "BGP_NEIGHBOR": {
            f"default|{port.name}": {
                "asn": str(port.peer_asn),
                "name": port.peer,
                "capability_ext_nexthop": "true",
                "admin_status": "up",
            }
            for port in peers
        },
        "BGP_NEIGHBOR_AF": {f"default|{port.name}|ipv4_unicast": {"admin_status": "up"} for port in peers},
        "ROUTE_REDISTRIBUTE": {"default|connected|bgp|ipv4": {}},
    }


def settings(text: str, source: str) -> Settings:
    return tree(_tables(text, source))


def _tables(text: str, source: str) -> dict[str, Any]:
    data = json_data(text, source)
    if not isinstance(data, dict):
        raise unreadable(source, "a config_db.json", type(data).__name__)
    return data


def view(text: str, source: str) -> SwitchView:
    """What the tables say of each port that has a QoS map or an interface, whoever wrote them."""
    tables = _tables(text, source)

    def row(table: str, key: str) -> Mapping[str, Any]:
        rows = tables.get(table)
        found = rows.get(key) if isinstance(rows, dict) else None
        return found if isinstance(found, dict) else {}

    ports = {}
    addresses = _addresses(tables.get("INTERFACE"))
    for name in tables.get("PORT") or {}:
        ports[name] = _port(name, row, addresses.get(name), source)
    meta = row("DEVICE_METADATA", "localhost")
    return SwitchView(
        str(meta.get("hostname", "")), whole(row("BGP_GLOBALS", "default").get("local_asn")), ports
    )


def _addresses(rows: Any) -> dict[str, str]:
    keys = [str(k).partition("|") for k in rows] if isinstance(rows, dict) else []
    return {name: address for name, _, address in keys if address}


def _port(name: str, row: Any, address: str | None, source: str) -> PortView:
    port, qos, peer = row("PORT", name), row("PORT_QOS_MAP", name), row("BGP_NEIGHBOR", f"default|{name}")
    to_class = row("DSCP_TO_TC_MAP", str(qos.get("dscp_to_tc_map")))
    to_queue = row("TC_TO_QUEUE_MAP", str(qos.get("tc_to_queue_map")))
    to_group = row("TC_TO_PRIORITY_GROUP_MAP", str(qos.get("tc_to_pg_map")))
    classes = [whole(to_class.get(str(d), "")) for d in range(64)]
    queues = [None if c is None else whole(to_queue.get(str(c), "")) for c in classes]
    guarded = [whole(p) for p in str(qos.get("pfc_enable", "")).split(",")]
    # A pause stops what lies in the priority group: a class outside its own is not guarded.
    pfc = tuple(p for p in guarded if p is not None and to_group.get(str(p)) == str(p))
    ecn = {}
    for queue in range(8):
        profile = row("WRED_PROFILE", str(row("QUEUE", f"{name}|{queue}").get("wred_profile")))
        if profile:
            ecn[queue] = Ecn(
                whole(profile.get("green_min_threshold")),
                whole(profile.get("green_max_threshold")),
                whole(profile.get("green_drop_probability", 100)),
                profile.get("ecn") in ("ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red"),
            )
    return PortView(
        name=name,
        up=port.get("admin_status") == "up",
        mtu=whole(port.get("mtu", 9100)),
        address=address,
        pfc=pfc,
        priorities=tuple(queues),
        trusts_dscp=bool(to_class),
        ecn=ecn,
        peer_asn=whole(peer.get("asn")),
        places={
            "pfc": f"{source} PORT_QOS_MAP.{name}.pfc_enable",
            "dscp": f"{source} DSCP_TO_TC_MAP.{qos.get('dscp_to_tc_map')}",
            "ecn": f"{source} QUEUE.{name}",
            "mtu": f"{source} PORT.{name}.mtu",
            "address": f"{source} INTERFACE.{name}",
            "asn": f"{source} BGP_NEIGHBOR.default|{name}.asn",
            "up": f"{source} PORT.{name}.admin_status",
        },
    )


SONIC = SwitchOs(
    name="sonic",
    file="config_db.json",
    render=render,
    settings=settings,
    view=view,
    owned=(
        "PORT.", "INTERFACE.", "DSCP_TO_TC_MAP.", "TC_TO_", "MAP_PFC_", "PFC_", "PORT_QOS_MAP.",
        "WRED_PROFILE.", "QUEUE.", "BUFFER_", "CABLE_LENGTH.", "BGP_", "SCHEDULER.",
    ),
    recognises=lambda text: '"DEVICE_METADATA"' in text or '"PORT_QOS_MAP"' in text,
)  # fmt: skip
