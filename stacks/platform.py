"""What everything else stands on: namespace, definitions, operators and their cluster-wide policies."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from rackwright.plan import Operator
from rackwright.plan.fabric import RESOURCE_PREFIX
from stacks import sharing
from stacks.model import OWNERSHIP, PLAN, Model

SERVING_PRIORITY = 1_000_000
"""Above every batch class, below the system's (two thousand millions)."""

GPU_METRICS = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock (MHz)"),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (C)"),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (C)"),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (W)"),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilisation (%)"),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Frame buffer used (MiB)"),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Frame buffer free (MiB)"),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Last Xid"),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Uncorrectable ECC errors since the driver was loaded"),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped for uncorrectable errors"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping a row failed"),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries"),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "NVLink traffic, all lanes"),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Share of time memory was active"),
    ("DCGM_FI_PROF_SM_ACTIVE", "gauge", "Share of time an SM was active"),
)
"""What the exporter reports: alerts of the plan read these."""


class Platform(pulumi.ComponentResource):
    """Ordered by dependency: definitions, namespace and operators, then policies."""

    def __init__(self, name: str, model: Model, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:stacks:Platform", name, None, opts)
        definitions = [*_definitions(self, model), *_operator_namespaces(self, model)]
        self.namespace = _namespace(self, model)
        _priority_class(self, model)
        for operator in model.platform.operators:
            release = _release(self, operator)
            ready = [*definitions, *([release] if release else [])]
            if operator.name == "gpu-operator":
                _cluster_policy(self, model, ready)
            elif operator.name == "network-operator" and model.plan.fabric is not None:
                _nic_cluster_policy(self, model, ready)
        self.register_outputs({"namespace": self.namespace.metadata.name})


def _definitions(parent: pulumi.Resource, model: Model) -> list[pulumi.Resource]:
    """Definitions that the environment brings. Deleting one deletes every object of its kind: protected."""
    return [
        k8s.apiextensions.v1.CustomResourceDefinition(
            str(definition["metadata"]["name"]),
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=str(definition["metadata"]["name"]),
                labels={**(definition["metadata"].get("labels") or {}), PLAN: model.plan.header.name},
                annotations={**OWNERSHIP, **(definition["metadata"].get("annotations") or {})},
            ),
            spec=definition["spec"],
            opts=pulumi.ResourceOptions(
                parent=parent, protect=model.environment.protect, retain_on_delete=model.environment.protect
            ),
        )
        for definition in model.environment.crds
    ]


def _operator_namespaces(parent: pulumi.Resource, model: Model) -> list[pulumi.Resource]:
    """Where no operator brings its definitions, none brings its namespace either."""
    if not model.environment.crds:
        return []
    fabric = model.plan.fabric
    wanted = [model.operator_namespace("gpu-operator"), fabric.namespace if fabric else None]
    return [
        k8s.core.v1.Namespace(
            name,
            metadata=model.metadata(name, "platform"),
            opts=pulumi.ResourceOptions(parent=parent, protect=model.environment.protect),
        )
        for name in dict.fromkeys(wanted)
        if name is not None and name != model.namespace
    ]


def _namespace(parent: pulumi.Resource, model: Model) -> k8s.core.v1.Namespace:
    """Locking memory for RDMA is outside the baseline profile, so a fabric needs the widest one."""
    level = "privileged" if model.plan.fabric else "baseline"
    return k8s.core.v1.Namespace(
        model.namespace,
        metadata=model.metadata(
            model.namespace,
            "platform",
            labels={
                "pod-security.kubernetes.io/enforce": level,
                "pod-security.kubernetes.io/warn": "baseline",
            },
        ),
        opts=pulumi.ResourceOptions(parent=parent, protect=model.environment.protect),
    )


def _priority_class(parent: pulumi.Resource, model: Model) -> k8s.scheduling.v1.PriorityClass:
    return k8s.scheduling.v1.PriorityClass(
        model.priority_class,
        metadata=model.metadata(model.priority_class, "platform"),
        value=SERVING_PRIORITY,
        preemption_policy="PreemptLowerPriority",
        description="Engines that answer users; batch work gives way.",
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _release(parent: pulumi.Resource, operator: Operator) -> k8s.helm.v3.Release | None:
    """The operator's chart where this program installs it; a digest pins an OCI chart beyond its tag."""
    if operator.mode == "external":
        return None
    chart = operator.chart or operator.name
    pinned = f"{chart}@{operator.digest}" if operator.digest and chart.startswith("oci://") else chart
    return k8s.helm.v3.Release(
        operator.name,
        name=operator.name,
        chart=pinned,
        version=operator.version,
        namespace=operator.namespace,
        create_namespace=True,
        atomic=True,
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _cluster_policy(parent: pulumi.Resource, model: Model, ready: list[pulumi.Resource]) -> None:
    """GPU operator: who owns the driver, and what is exported. The chart writes a first policy of the same
    name; ours is applied over it, field by field."""
    platform = model.platform
    namespace = model.operator_namespace("gpu-operator")
    metrics = k8s.core.v1.ConfigMap(
        "dcgm-metrics",
        metadata=model.metadata("dcgm-metrics", "platform", namespace=namespace),
        data={"dcgm-metrics.csv": "".join(f"{', '.join(line)}\n" for line in GPU_METRICS)},
        opts=pulumi.ResourceOptions(parent=parent, depends_on=ready),
    )
    k8s.apiextensions.CustomResource(
        "cluster-policy",
        api_version="nvidia.com/v1",
        kind="ClusterPolicy",
        metadata=model.metadata("cluster-policy", "platform"),
        spec={
            "operator": {"runtimeClass": "nvidia"},
            "daemonsets": {
                "priorityClassName": "system-node-critical",
                "tolerations": _pool_tolerations(model),
                "updateStrategy": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "1"},
            },
            "cdi": {"enabled": True},
            "mig": {"strategy": platform.mig_strategy},
            "driver": _driver(model),
            "toolkit": {"enabled": True},
            # Two that hand out the same cards would hand them out twice.
            "devicePlugin": {"enabled": platform.device_model == "device-plugin"},
            "gfd": {"enabled": True},
            "dcgm": {"enabled": True},
            "dcgmExporter": {
                "enabled": True,
                "config": {"name": "dcgm-metrics"},
                "serviceMonitor": _service_monitor(model),
            },
            "nodeStatusExporter": {"enabled": True},
            **sharing.policy(model),
            "gdrcopy": {"enabled": model.plan.fabric is not None and platform.driver_owner == "gpu-operator"},
        },
        opts=pulumi.ResourceOptions(
            parent=parent, depends_on=[*ready, metrics, *sharing.configurations(parent, model, ready)]
        ),
    )


def _driver(model: Model) -> dict[str, Any]:
    """One owner of the GPU driver. The NIC driver is the host's: a restart may cut the management route."""
    platform = model.platform
    if platform.driver_owner == "host":
        return {"enabled": False}
    return {
        "enabled": True,
        "repository": model.repository("nvcr.io/nvidia"),
        "image": "driver",
        "version": platform.driver_version,
        "kernelModuleType": platform.kernel_module,
        **model.pulled_with,
        "useNvidiaDriverCRD": False,
        "rdma": {"enabled": model.plan.fabric is not None, "useHostMofed": model.plan.fabric is not None},
        "upgradePolicy": {"autoUpgrade": False},
    }


def _service_monitor(model: Model) -> dict[str, Any]:
    observability = model.observability
    if observability is None:
        return {"enabled": False}
    return {
        "enabled": True,
        "interval": f"{observability.scrape_s}s",
        "scrapeTimeout": f"{observability.scrape_timeout_s}s",
        "honorLabels": True,
    }


def _pool_tolerations(model: Model) -> list[dict[str, str]]:
    """Agents run on every node of the plan whatever its taints are."""
    gates = [made.gate for made in model.plan.provisioning or () if made.gate]
    taints = [*(t for pool in model.plan.pools for t in pool.taints), *gates]
    keys = dict.fromkeys((t.key, t.effect) for t in taints)
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in keys]


def _nic_cluster_policy(parent: pulumi.Resource, model: Model, ready: list[pulumi.Resource]) -> None:
    """Network operator: secondary networks, addresses, NIC configuration, and one device resource a rail."""
    operator = model.platform.operator("network-operator")
    assert operator is not None
    k8s.apiextensions.CustomResource(
        "nic-cluster-policy",
        api_version="mellanox.com/v1alpha1",
        kind="NicClusterPolicy",
        metadata=model.metadata("nic-cluster-policy", "platform"),
        spec={
            "global": {
                "repository": model.repository("nvcr.io/nvidia/mellanox"),
                "version": f"network-operator-{operator.version}",
                **model.pulled_with,
            },
            "nvIpam": {"image": "nvidia-k8s-ipam", "enableWebhook": False},
            "secondaryNetwork": {"cniPlugins": {"image": "plugins"}, "multus": {"image": "multus-cni"}},
            "nicConfigurationOperator": {
                "operator": {"image": "nic-configuration-operator"},
                "configurationDaemon": {"image": "nic-configuration-operator-daemon"},
                "logLevel": "info",
            },
            "sriovDevicePlugin": {
                "image": "sriov-network-device-plugin",
                "config": _rail_devices(model),
            },
            "tolerations": _pool_tolerations(model),
        },
        opts=pulumi.ResourceOptions(parent=parent, depends_on=ready),
    )


def _rail_devices(model: Model) -> str:
    """Whole NICs, one a rail by its PCI address: pods see the device names that NCCL is told."""
    fabric = model.plan.fabric
    assert fabric is not None
    resources = [
        {
            "resourcePrefix": RESOURCE_PREFIX,
            "resourceName": rail.resource,
            "selectors": {
                "vendors": [fabric.nic_vendor],
                "pciAddresses": [rail.pci_address],
                "isRdma": True,
            },
        }
        for rail in fabric.rails
    ]
    lines = ",\n".join(f"  {json.dumps(resource)}" for resource in resources)
    return f'{{"resourceList": [\n{lines}\n]}}\n'
