"""The scale-out fabric inside the cluster: NIC configuration, and addresses and a network for each rail.

A pod of a multi-node replica gets whole NICs, moved into it with their planned address: the device names
that NCCL selects are then the same inside and outside.
"""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from rackwright import placement
from rackwright.plan import Fabric as FabricSection
from rackwright.plan import Pool, Rail
from stacks.model import Model


class Fabric(pulumi.ComponentResource):
    """Objects of every rail; nothing where the plan has no fabric."""

    def __init__(self, name: str, model: Model, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:stacks:Fabric", name, None, opts)
        fabric = model.plan.fabric
        if fabric is not None:
            for pool in model.fabric_pools:
                _nic_configuration(self, model, fabric, pool)
            for position, rail in enumerate(fabric.rails):
                pool_of_addresses = _addresses(self, model, fabric, rail, position)
                _network(self, model, rail, pool_of_addresses)
        self.register_outputs({"networks": [rail.network for rail in fabric.rails] if fabric else []})


def _nic_configuration(parent: pulumi.Resource, model: Model, fabric: FabricSection, pool: Pool) -> None:
    k8s.apiextensions.CustomResource(
        f"{pool.name}-nics",
        api_version="configuration.net.nvidia.com/v1alpha1",
        kind="NicConfigurationTemplate",
        metadata=model.metadata(f"{pool.name}-nics", "fabric", namespace=fabric.namespace),
        spec={
            "nodeSelector": dict(pool.labels),
            "nicSelector": {
                "nicType": fabric.nic_type,
                "pciAddresses": [rail.pci_address for rail in fabric.rails],
            },
            "template": {
                "numVfs": 0,
                "linkType": "Ethernet" if fabric.kind == "roce" else "Infiniband",
                "pciPerformanceOptimized": {"enabled": True, "maxReadRequest": 4096},
                "gpuDirectOptimized": {"enabled": True, "env": "Baremetal"},
                **_lossless(fabric),
            },
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _lossless(fabric: FabricSection) -> dict[str, Any]:
    """The one QoS profile in the NIC's terms; the switch is generated from the same section."""
    qos = fabric.qos
    if qos is None:
        return {}
    return {
        "roceOptimized": {
            "enabled": True,
            "roceMode": 2,
            "qos": {
                "trust": qos.trust,
                "pfc": ",".join(str(int(flag)) for flag in qos.pfc),
                "tos": qos.tos,
                "ecn": {"enabled": qos.ecn, "priority": qos.lossless_priority},
                "pauseFrames": {"enabled": False},
            },
        },
        # The operator's own values for congestion notifications differ from the profile's.
        "rawNvConfig": [
            {"name": "CNP_DSCP_P1", "value": str(qos.cnp_dscp)},
            {"name": "CNP_802P_PRIO_P1", "value": str(qos.cnp_priority)},
        ],
    }


def _addresses(
    parent: pulumi.Resource, model: Model, fabric: FabricSection, rail: Rail, position: int
) -> k8s.apiextensions.CustomResource:
    pools = model.fabric_pools
    return k8s.apiextensions.CustomResource(
        f"{rail.network}-addresses",
        api_version="nv-ipam.nvidia.com/v1alpha1",
        kind="CIDRPool",
        metadata=model.metadata(rail.network, "fabric", namespace=fabric.namespace),
        spec={
            "cidr": rail.subnet,
            "perNodeNetworkPrefix": rail.node_prefix,
            "gatewayIndex": 0,
            "nodeSelector": {"nodeSelectorTerms": [_term(pool) for pool in pools]},
            "staticAllocations": [
                {"nodeName": block.node, "prefix": block.prefix, "gateway": block.gateway}
                for pool in pools
                for block in placement.rail_blocks(pool, position)
            ],
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _term(pool: Pool) -> dict[str, Any]:
    return {
        "matchExpressions": [
            {"key": key, "operator": "In", "values": [value]} for key, value in pool.labels.items()
        ]
    }


def _network(parent: pulumi.Resource, model: Model, rail: Rail, addresses: pulumi.Resource) -> None:
    ipam = {"type": "nv-ipam", "poolName": rail.network, "poolType": "cidrpool"}
    k8s.apiextensions.CustomResource(
        rail.network,
        api_version="mellanox.com/v1alpha1",
        kind="HostDeviceNetwork",
        metadata=model.metadata(rail.network, "fabric"),
        spec={
            "networkNamespace": model.namespace,
            "resourceName": rail.resource,
            "ipam": json.dumps(ipam),
        },
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[addresses]),
    )
