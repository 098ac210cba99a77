"""Sections around the engine: fabric, storage, gateway, scaling, observability, platform."""

from __future__ import annotations

import math

from rackwright.catalog import Accelerator, Catalog, Machine, Quantisation
from rackwright.engines import monitoring
from rackwright.engines.registry import LAUNCHERS
from rackwright.fabric import addressing, infiniband, nccl, qos, switching
from rackwright.images import mirrored
from rackwright.plan.fabric import Fabric
from rackwright.plan.platform import Mirror, Operator, Platform
from rackwright.plan.services import Observability, Route, Rule, Scaling, WeightVolume
from rackwright.sizing.devices import device_of
from rackwright.workload import FabricChoice, Workload

GIB = 2.0**30
VOLUME_FACTOR = 2
"""Room for two versions of the weights: the one that serves and the one that comes."""
SCRAPE_S = 5
PICKER_PORT = 9002
GATEWAY = "llm"
GATEWAY_CLASS = "eg"
MOUNT = "/models"


def slug(name: str) -> str:
    """``name`` as a DNS label."""
    return name.lower().replace(".", "-").replace("_", "-")


def fabric(workload: Workload, machine: Machine, catalog: Catalog, nodes: int) -> Fabric | None:
    """The scale-out fabric of ``nodes`` nodes, or None where the workload asks for none."""
    nics, kind = machine.fabric, workload.hardware.fabric
    if nics is None or kind == "none":
        return None
    choice = workload.fabric or FabricChoice()
    rails = addressing.rails(nics, choice.rails, choice.subnets)
    rate = int(nics.rate_gbps.value)
    profile, switches = None, None
    entry = switching.chosen(catalog, choice, rate, kind)
    if kind == "roce":
        profile = qos.profile(
            rate,
            host_m=choice.host_cable_m,
            uplink_m=choice.uplink_cable_m,
            switch_s=entry.latency.value / 1e6 if entry else 1e-6,
            priority=choice.lossless_priority,
            dscp=choice.dscp,
        )
    if entry is not None:
        switches = switching.switching(entry, choice, rails=len(rails), nodes=nodes, kind=kind)
    return Fabric(
        kind=kind,
        rate_gbps=rate,
        mtu=qos.MTU if kind == "roce" else qos.INFINIBAND_MTU,
        active_mtu=qos.ACTIVE_MTU,
        nic_vendor=nics.vendor,
        nic_type=nics.nic_type,
        namespace="nvidia-network-operator",
        rails=rails,
        qos=profile,
        switching=switches,
        subnet=infiniband.subnet(workload.name, choice, rate) if kind == "infiniband" else None,
        management_interface=machine.management_interface,
        nccl_env=nccl.environment(rails, profile),
    )


def mirror_of(workload: Workload) -> str | None:
    """The registry that every image comes from; None where each comes from its maker's."""
    return workload.site.registry.mirror if workload.site.registry is not None else None


def volume(
    workload: Workload, deployment: str, weights: Quantisation, adapters_bytes: int = 0
) -> WeightVolume:
    """A shared claim for the weights of ``deployment`` and its adapters, large enough for two versions."""
    return WeightVolume(
        name=f"{deployment}-weights",
        deployment=deployment,
        size_gib=math.ceil(VOLUME_FACTOR * (weights.disk.value * 1e9 + adapters_bytes) / GIB),
        storage_class=workload.site.storage_class,
        mount_path=MOUNT,
    )


def route(workload: Workload, catalog: Catalog, deployment: str, total_cutoff_ms: float) -> Route:
    """The model's way in. The gateway gives up when a request may take no longer."""
    return Route(
        deployment=deployment,
        gateway=GATEWAY,
        gateway_class=GATEWAY_CLASS,
        hostname=f"{workload.name}.{workload.site.domain}",
        pool=deployment,
        picker_service=f"{deployment}-picker",
        picker_port=PICKER_PORT,
        picker_image=mirrored(catalog.platforms["kubernetes"].picker_image, mirror_of(workload)),
        request_timeout=f"{math.ceil(total_cutoff_ms / 1000)}s",
    )


def scaling(
    workload: Workload,
    catalog: Catalog,
    deployment: str,
    served: str,
    *,
    engine: str,
    replicas: int,
    slots: int,
    nodes_per_replica: int,
    max_num_seqs: int,
    load_s: float,
) -> Scaling:
    """Between what the peak needs and what the pool holds beside a rollout's surge: scaled into that slot, a
    rollout would wait for ever. A missing metric holds the planned count."""
    return Scaling(
        deployment=deployment,
        kind="LeaderWorkerSet" if nodes_per_replica > 1 else "Deployment",
        min_replicas=replicas,
        max_replicas=max(replicas, slots),
        polling_s=15,
        cooldown_s=max(600, math.ceil(load_s * 2 / 60) * 60),
        fallback_replicas=replicas,
        prometheus_url=catalog.platforms["kubernetes"].prometheus_url,
        triggers=monitoring.triggers(LAUNCHERS[engine].NAMES, workload.name, served, max_num_seqs),
    )


def observability(rules: dict[str, tuple[Rule, ...]], accelerator: Accelerator) -> Observability:
    """Scrape every 5 s; rules of the engines and of the GPUs under them, where DCGM reads those."""
    return Observability(
        scrape_s=SCRAPE_S,
        scrape_timeout_s=SCRAPE_S - 1,
        deployment_rules=rules,
        node_rules=_node_rules(accelerator.temperature_max.value) if accelerator.vendor == "nvidia" else (),
    )


def _node_rules(temperature_max_c: float) -> tuple[Rule, ...]:
    return (
        Rule(
            alert="GpuXidError",
            expr="DCGM_FI_DEV_XID_ERRORS > 0",
            for_="1m",
            severity="critical",
            summary="the driver reported an Xid: see the kernel log for which",
            runbook="runbook/xid",
        ),
        Rule(
            alert="GpuHot",
            expr=f"DCGM_FI_DEV_GPU_TEMP > {temperature_max_c:g}",
            for_="2m",
            severity="critical",
            summary=f"a GPU is over {temperature_max_c:g} °C",
            runbook="runbook/cooling",
        ),
        Rule(
            alert="GpuRowRemapFailed",
            expr="DCGM_FI_DEV_ROW_REMAP_FAILURE > 0",
            for_="1m",
            severity="critical",
            summary="a GPU could not remap a faulty row: replace it",
            runbook="runbook/ecc",
        ),
        Rule(
            alert="GpuUnderused",
            expr="avg_over_time(DCGM_FI_DEV_GPU_UTIL[30m]) < 60",
            for_="30m",
            severity="info",
            summary="utilisation under 60 %: batches are small, or there is capacity to spare",
            runbook="runbook/utilisation",
        ),
    )


def platform(workload: Workload, catalog: Catalog, accelerator: Accelerator, *, multi_node: bool) -> Platform:
    """Operators that the plan's objects need, and the one owner of the driver.

    Where no operator brings the vendor's driver, or there is no cluster for one, it is the host's.
    """
    entry = catalog.platforms["kubernetes"]
    operator = device_of(accelerator).operator
    names = [operator] if operator else []
    names += ["network-operator"] if workload.hardware.fabric != "none" else []
    names += ["leaderworkerset"] if multi_node else []
    names += ["keda", "prometheus-operator", "gateway"]
    operators = tuple(
        Operator.model_validate(
            {"name": n, "version": entry.operators[n].version, "namespace": entry.operators[n].namespace}
        )
        for n in names
    )
    cluster = workload.site.target == "kubernetes"
    return Platform(
        namespace=workload.name,
        driver_owner=workload.hardware.driver_owner if operator and cluster else "host",
        driver_version=entry.driver if operator else f"the host's, of {accelerator.vendor}",
        kernel_module="open",
        mig_strategy="none",
        operators=operators if cluster else (),
        registry=workload.site.registry
        and Mirror(mirror=workload.site.registry.mirror, pull_secret=workload.site.registry.pull_secret),
    )
