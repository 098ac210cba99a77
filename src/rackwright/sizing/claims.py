"""Accelerators by claims: which version of the API a cluster serves, and what each deployment claims.

Sources: Kubernetes 1.32 to 1.34 (resource.k8s.io v1beta1, v1beta2, v1), NVIDIA's DRA driver v0.5.0 (device
classes; ``numNodes`` of a compute domain; the driver makes the channel's template).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from rackwright.catalog import Accelerator, Machine
from rackwright.errors import Problem
from rackwright.plan import Deployment, Explanation, Operator, Plan
from rackwright.plan.claims import Claim, Claims, Domain
from rackwright.sizing import trays
from rackwright.sizing.explained import OWN, entry
from rackwright.workload import Workload

Api = Literal["v1", "v1beta2", "v1beta1"]
OPERATOR = Operator(name="nvidia-dra-driver", version="v0.5.0", namespace="dra-driver-nvidia-gpu")
"""Version: the one that the chart of GPU operator v26.7.0 brings."""
OLDEST, GENERAL = 32, 34
"""Minor versions of Kubernetes: the first with claims that the scheduler understands, and the first where
they are on without a gate."""
_BETA: dict[int, Api] = {32: "v1beta1", 33: "v1beta2"}
GPU_CLASS, MIG_CLASS = "gpu.nvidia.com", "mig.nvidia.com"
CLIQUE = "nvidia.com/gpu.clique"
"""GPU feature discovery writes the NVLink domain of a node into it."""


def minor(version: str) -> int:
    return int(version.partition(".")[2])


def api_of(version: str) -> Api:
    """The version of resource.k8s.io that a cluster serves by itself."""
    return _BETA.get(minor(version), "v1")


def asked(workload: Workload) -> bool:
    return workload.devices is not None and workload.devices.model == "dra"


def problems(workload: Workload, machine: Machine | None, card: Accelerator | None) -> Iterator[Problem]:
    """Claims that the cluster, the vendor or the way of sharing cannot serve."""
    devices = workload.devices
    if devices is None or not asked(workload):
        return
    if minor(devices.kubernetes) < OLDEST:
        yield Problem(
            "devices.kubernetes",
            f"must be 1.{OLDEST} or newer with devices.model: dra",
            f'"{devices.kubernetes}"',
            "older schedulers do not understand structured claims; pods would wait for ever",
            "upgrade the cluster, or set devices.model: device-plugin",
        )
    if workload.site.target != "kubernetes":
        yield Problem(
            "devices.model",
            "must not be dra where site.target is hosts",
            '"dra"',
            "claims are objects of a cluster",
            "drop devices",
        )
    if card is not None and card.vendor != "nvidia":
        yield Problem(
            "devices.model",
            f"must be device-plugin on {card.name}",
            '"dra"',
            "claims are written for NVIDIA's driver only",
            "set it to device-plugin",
        )
    if workload.tenancy is not None and workload.tenancy.mode == "mps":
        yield Problem(
            "devices.model",
            "must be device-plugin with tenancy.mode: mps",
            '"dra"',
            "sharing by MPS is behind an alpha gate of the DRA driver; without it claims get whole cards",
            "set it to device-plugin, or tenancy.mode: mig",
        )


def domain_problems(
    workload: Workload, machine: Machine | None, card: Accelerator | None
) -> Iterator[Problem]:
    """Racks of many nodes without what joins them, or shared as if they were single nodes."""
    if machine is None or card is None or not trays.in_domain(machine, card):
        return
    if not asked(workload):
        yield Problem(
            "hardware.machine",
            "must be a machine of one node unless devices.model is dra",
            f"{machine.id}, {machine.nodes} nodes in one NVLink domain",
            "nodes of a domain reach each other's memory through channels that NVIDIA's DRA driver hands out "
            "(ComputeDomain, IMEX)",
            "set devices: {model: dra, kubernetes: VERSION}, or choose a machine of one node",
        )
    if workload.tenancy is not None:
        yield Problem(
            "tenancy",
            f"must be left out on {machine.id}",
            workload.tenancy.mode,
            "the rack is one domain for replicas that span it",
            "drop tenancy, or choose a machine of one node",
        )
    if workload.hardware.spares % machine.nodes:
        yield Problem(
            "hardware.spares",
            f"must be whole racks: a multiple of {machine.nodes} nodes",
            str(workload.hardware.spares),
            "a rack is bought and wired whole",
            f"set it to 0 or {machine.nodes}",
        )


def section(plan: Plan, workload: Workload, machine: Machine) -> Claims | None:
    """What every deployment of ``plan`` claims; None where accelerators are extended resources."""
    devices = workload.devices
    if devices is None or not asked(workload):
        return None
    spanning = [d for d in plan.deployments if machine.nodes > 1 and d.layout.nodes_per_replica > 1]
    return Claims(
        kubernetes=devices.kubernetes,
        api=api_of(devices.kubernetes),
        claims=tuple(_claim(plan, deployment) for deployment in plan.deployments),
        domains=tuple(
            Domain(name=d.name, deployment=d.name, channel=f"{d.name}-channel", topology=CLIQUE)
            for d in spanning
        ),
    )


def _claim(plan: Plan, deployment: Deployment) -> Claim:
    resource = deployment.resources.resource
    slices = plan.tenancy.slices if plan.tenancy else ()
    piece = next((s for s in slices if s.resource == resource and s.profile), None)
    profile = f"device.attributes['{GPU_CLASS}'].profile == '{piece.profile}'" if piece else None
    # A template cannot be changed: what it claims is part of its name.
    what = str(piece.profile).replace(".", "-") if piece else f"gpu-{deployment.resources.gpus}"
    return Claim(
        name=f"{deployment.name}-{what}",
        deployment=deployment.name,
        device_class=MIG_CLASS if piece else GPU_CLASS,
        count=deployment.resources.gpus,
        expression=profile,
    )


def claimed(plan: Plan, machine: Machine) -> Plan:
    """``plan`` with claims in place of extended resources, where its workload asks for them."""
    found = section(plan, plan.workload, machine)
    if found is None or plan.platform is None:
        return plan
    platform = plan.platform.model_copy(
        update={"device_model": "dra", "operators": (*plan.platform.operators, OPERATOR)}
    )
    return plan.model_copy(
        update={
            "claims": found,
            "platform": platform,
            "explanations": (*plan.explanations, *_explained(plan, found)),
        }
    )


def _explained(plan: Plan, found: Claims) -> Iterator[Explanation]:
    yield entry(
        "claims.api",
        found.api,
        "what the cluster's version serves: v1beta1 with 1.32, v1beta2 with 1.33, v1 from 1.34 on",
        {"devices.kubernetes": found.kubernetes},
        "Kubernetes 1.32 to 1.34: resource.k8s.io",
    )
    for index, claim in enumerate(found.claims):
        yield entry(
            f"claims.claims[{index}].count",
            claim.count,
            "devices of one pod",
            {"resources.gpus": plan.deployment(claim.deployment).resources.gpus},
            OWN,
        )
