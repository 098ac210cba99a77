"""The host's end of the cable: files below a node's root, and the environment of its libraries.

What is the same on every node of a pool lies under ``pools/<pool>/``, a node's own addresses under
``nodes/<node>/``; both are laid over a node's root.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rackwright.fabric import nccl
from rackwright.fabric.topology import Host, Topology
from rackwright.plan import Fabric, Qos
from rackwright.render import render as fill
from rackwright.yamlio import dump_yaml

NETPLAN = "etc/netplan/60-rails.yaml"
UDEV = "etc/udev/rules.d/70-rails.rules"
SYSCTL = "etc/sysctl.d/90-rails.conf"
QOS_ENV = "etc/rackwright/rail-qos.env"
LIBRARY_ENV = "etc/rackwright/fabric.env"
UNIT = "etc/systemd/system/rail-qos@.service"
SCRIPT = "usr/local/sbin/rail-qos"
TABLE = 100
"""First routing table of the rails: an answer leaves through the rail whose address was asked."""
ETHERNET, INFINIBAND = 1, 32
"""Hardware types of interfaces (ARP)."""


def files(fabric: Topology) -> Iterator[tuple[str, str]]:
    """Path and text of every host file."""
    for pool in dict.fromkeys(host.pool for host in fabric.hosts):
        for path, text in pool_files(fabric.fabric):
            yield f"pools/{pool}/{path}", text
    for host in fabric.hosts:
        yield f"nodes/{host.node}/{NETPLAN}", netplan(host, fabric.fabric)


def pool_files(fabric: Fabric) -> Iterator[tuple[str, str]]:
    lossless = fabric.qos is not None
    view = {
        "rails": fabric.rails,
        "lossless": lossless,
        "arp_type": ETHERNET if fabric.kind == "roce" else INFINIBAND,
    }
    yield UDEV, fill("fabric/host/udev.rules.j2", view)
    yield SYSCTL, _sysctl(fabric)
    yield LIBRARY_ENV, _assignments(nccl.libraries(fabric), "NCCL, NVSHMEM and UCX over the rails.")
    if fabric.qos is not None:
        yield QOS_ENV, _assignments(qos_values(fabric.qos, fabric.mtu), "Both ends of the cable.")
        yield UNIT, fill("fabric/host/rail-qos.service.j2", {})
        yield SCRIPT, fill("fabric/host/rail-qos.sh.j2", {})


def qos_values(qos: Qos, mtu: int) -> dict[str, str]:
    """The profile in the terms of mlnx_qos, cma_roce_tos and the mlx5 driver.

    Any DSCP that is not named keeps the driver's own priority, DSCP >> 3.
    """
    return {
        "MTU": str(mtu),
        "TRUST": qos.trust,
        "PFC": ",".join(str(int(on)) for on in qos.pfc),
        "DSCP_PRIORITY": f'"{qos.dscp}:{qos.lossless_priority} {qos.cnp_dscp}:{qos.cnp_priority}"',
        "TOS": str(qos.tos),
        "ECN_PRIORITIES": f'"{" ".join(map(str, qos.lossless))}"' if qos.ecn else '""',
        "CNP_DSCP": str(qos.cnp_dscp),
        "CNP_PRIORITY": str(qos.cnp_priority),
        "CABLE_M": str(qos.host_cable_m or 0),
    }


def _assignments(values: dict[str, str], title: str) -> str:
    return f"# {title} Derived from the plan.\n" + "".join(f"{k}={v}\n" for k, v in values.items())


def _sysctl(fabric: Fabric) -> str:
    """Several interfaces on one host: each answers ARP for its own address only."""
    values = {"net.ipv4.tcp_mtu_probing": "1", "net.core.rmem_max": "67108864"}
    for rail in fabric.rails:
        values |= {
            f"net.ipv4.conf.{rail.netdev}.arp_ignore": "1",
            f"net.ipv4.conf.{rail.netdev}.arp_announce": "2",
            f"net.ipv4.conf.{rail.netdev}.rp_filter": "2",
        }
    return _assignments(values, "Rails.")


def netplan(host: Host, fabric: Fabric) -> str:
    """Addresses and routes of one node's rails: each subnet, and answers by the rail of their source."""
    ethernets: dict[str, Any] = {}
    for position, link in enumerate(host.links):
        ours = link.address.partition("/")[0]
        stanza: dict[str, Any] = {
            "dhcp4": False,
            "dhcp6": False,
            "optional": True,
            "mtu": fabric.mtu,
            "addresses": [link.address],
        }
        if fabric.kind == "roce":
            table = TABLE + position
            stanza["routes"] = [
                {"to": link.rail.subnet, "via": link.gateway},
                {"to": "0.0.0.0/0", "via": link.gateway, "table": table},
            ]
            stanza["routing-policy"] = [{"from": f"{ours}/32", "table": table, "priority": table}]
        ethernets[link.rail.netdev] = stanza
    body = {"network": {"version": 2, "renderer": "networkd", "ethernets": ethernets}}
    return f"# Rails of {host.node}. Derived from the plan.\n" + dump_yaml(body)
