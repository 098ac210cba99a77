"""Other ways for pods to reach the rails than whole NICs: one file of objects each, of which one is applied.

The stack gives each pod whole NICs (HostDeviceNetwork). A cluster that shares them takes one of these
instead: virtual functions, or a macvlan or IPoIB interface above the NIC with RDMA shared between pods. All
name the same address pools, so that every pod has an address of its switch port's block. The devices of
virtual functions have other names than the NICs: NCCL_IB_HCA must then be left out of the pods.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rackwright.fabric.topology import Topology
from rackwright.plan import Pool, Rail
from rackwright.yamlio import dump_yaml

PRIORITY = 90
"""Of a policy of virtual functions; lower numbers win."""


def files(fabric: Topology) -> dict[str, str]:
    """``kubernetes/<way>.yaml``: the ways that the fabric's kind knows."""
    ways = {"sriov": list(_sriov(fabric))}
    if fabric.fabric.kind == "roce":
        ways["macvlan"] = [_macvlan(fabric, rail) for rail in fabric.fabric.rails]
    else:
        ways["ipoib"] = [_ipoib(fabric, rail) for rail in fabric.fabric.rails]
    return {f"kubernetes/{way}.yaml": _documents(way, objects) for way, objects in ways.items()}


def _documents(way: str, objects: list[dict[str, Any]]) -> str:
    head = f"# Rails by {way}, instead of the stack's HostDeviceNetwork objects. Derived from the plan.\n"
    return head + "---\n".join(dump_yaml(content) for content in objects)


def _namespace(fabric: Topology) -> str:
    platform = fabric.plan.platform
    return platform.namespace if platform else fabric.plan.header.name


def _ipam(rail: Rail) -> str:
    return json.dumps({"type": "nv-ipam", "poolName": rail.network, "poolType": "cidrpool"})


def _object(kind: str, version: str, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _pools(fabric: Topology) -> Iterator[Pool]:
    names = {host.pool for host in fabric.hosts}
    return (pool for pool in fabric.plan.pools if pool.name in names)


def _sriov(fabric: Topology) -> Iterator[dict[str, Any]]:
    """One virtual function a NIC, whole nodes one at a time, RDMA devices in the pod's namespace only."""
    section = fabric.fabric
    version, ethernet = "sriovnetwork.openshift.io/v1", section.kind == "roce"
    for pool in _pools(fabric):
        yield _object(
            "SriovNetworkPoolConfig",
            version,
            f"{pool.name}-rails",
            {
                "maxUnavailable": 1,
                "nodeSelector": {"matchLabels": dict(pool.labels)},
                "rdmaMode": "exclusive",
            },
            section.namespace,
        )
        for rail in section.rails:
            yield _object(
                "SriovNetworkNodePolicy",
                version,
                f"{pool.name}-{rail.network}",
                {
                    "resourceName": rail.resource,
                    "nodeSelector": dict(pool.labels),
                    "numVfs": 1,
                    "mtu": section.mtu,
                    "priority": PRIORITY,
                    "deviceType": "netdevice",
                    "isRdma": True,
                    "linkType": "eth" if ethernet else "ib",
                    "nicSelector": {"vendor": section.nic_vendor, "rootDevices": [rail.pci_address]},
                },
                section.namespace,
            )
    for rail in section.rails:
        spec = {
            "networkNamespace": _namespace(fabric),
            "resourceName": rail.resource,
            "linkState": "enable",
            "ipam": _ipam(rail),
        }
        more = (
            {"metaPlugins": json.dumps({"type": "rdma"})}
            if ethernet
            else {"capabilities": json.dumps({"infinibandGUID": True})}
        )
        kind = "SriovNetwork" if ethernet else "SriovIBNetwork"
        yield _object(kind, version, rail.network, {**spec, **more}, section.namespace)


def _macvlan(fabric: Topology, rail: Rail) -> dict[str, Any]:
    spec = {
        "networkNamespace": _namespace(fabric),
        "master": rail.netdev,
        "mode": "bridge",
        "mtu": fabric.fabric.mtu,
        "ipam": _ipam(rail),
    }
    return _object("MacvlanNetwork", "mellanox.com/v1alpha1", rail.network, spec)


def _ipoib(fabric: Topology, rail: Rail) -> dict[str, Any]:
    spec = {"networkNamespace": _namespace(fabric), "master": rail.netdev, "ipam": _ipam(rail)}
    return _object("IPoIBNetwork", "mellanox.com/v1alpha1", rail.network, spec)
