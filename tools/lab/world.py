"""What a site has before the plan comes: operators, nodes with their devices, volumes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

from rackwright.errors import CannotRun, Problem
from rackwright.plan import Node, Operator, Plan, Pool
from stacks.operators import KNOWN
from tools.engine.families import LWS_FAMILY
from tools.lab import claims
from tools.lab.api import Api

PODS_A_NODE = "110"
_PINNED = re.search(r"^require sigs\.k8s\.io/lws (\S+)$", (LWS_FAMILY.directory / "go.mod").read_text(), re.M)
RUNNING = {"leaderworkerset": _PINNED.group(1)} if _PINNED else {}
"""Controllers that really run here, in the version of their pinned module."""
CONTROLLERS_TIMEOUT_S = 90
GENERAL_NODES = 2
"""Machines without accelerators, where operators and the endpoint picker run; no plan lists them."""


def create(api: Api, plan: Plan) -> list[str]:
    """Makes it all; gives the names of the nodes."""
    for name in operator_namespaces(plan):
        api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    for volume in volumes(plan):
        api.create("/api/v1/persistentvolumes", volume)
    nodes = [machine(plan, pool, node) for pool in plan.pools for node in pool.nodes]
    nodes += [general(number) for number in range(1, GENERAL_NODES + 1)]
    for content in nodes:
        api.create("/api/v1/nodes", content)
    for found in claims.classes(plan):
        api.create(f"{claims.API}/deviceclasses", found)
    for pool in plan.pools:
        for node in pool.nodes:
            for published in claims.slices(plan, pool, node):
                api.create(f"{claims.API}/resourceslices", published)
    for operator in plan.platform.operators if plan.platform else ():
        path = f"/apis/apps/v1/namespaces/{operator.namespace}/deployments"
        api.create(path, controller(operator, RUNNING.get(operator.name, operator.version)))
    _await_controllers(api, operator_namespaces(plan))
    return [content["metadata"]["name"] for content in nodes]


def _await_controllers(api: Api, namespaces: Iterable[str]) -> None:
    """Raises CannotRun where an operator's pod does not become ready."""
    waiting = [f"/apis/apps/v1/namespaces/{name}/deployments" for name in namespaces]
    deadline = time.monotonic() + CONTROLLERS_TIMEOUT_S
    while waiting and time.monotonic() < deadline:
        waiting = [path for path in waiting if not all(map(_available, api.items(path)))]
        time.sleep(0.2 if waiting else 0)
    if waiting:
        raise CannotRun(
            Problem(
                "lab", "must bring up its operators", f"no ready pod in {', '.join(waiting)}",
                "a plan that needs them would be refused", "see logs/kwok.log in the lab's folder",
            )
        )  # fmt: skip


def _available(deployment: dict[str, Any]) -> bool:
    return bool((deployment.get("status") or {}).get("availableReplicas"))


def operator_namespaces(plan: Plan) -> list[str]:
    operators = plan.platform.operators if plan.platform else ()
    return sorted({operator.namespace for operator in operators if operator.namespace})


def controller(operator: Operator, version: str) -> dict[str, Any]:
    """A Deployment that looks like the operator's: what runs in its pods is simulated."""
    name = min(KNOWN[operator.name].names, key=len)
    own = {"app.kubernetes.io/name": name}
    image = f"lab.invalid/{next(iter(KNOWN[operator.name].images))}:{version}"
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": operator.namespace, "labels": own},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": own},
            "template": {
                "metadata": {"labels": own},
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": "general-1"},
                    "containers": [{"name": "manager", "image": image}],
                },
            },
        },
    }


def _accelerators(plan: Plan, pool: Pool) -> dict[str, int]:
    """What the device plugin advertises: whole accelerators, or the slices they are divided into."""
    if plan.tenancy is None:
        return {pool.gpu_resource: pool.gpus_per_node}
    return plan.tenancy.capacity(pool.gpus_per_node, pool.gpu_resource)


def machine(plan: Plan, pool: Pool, node: Node) -> dict[str, Any]:
    """A node as its kubelet and device plugins would register it; the plan's labels and taints come later."""
    rails = plan.fabric.rails if plan.fabric and node.rail_addresses else ()
    capacity = {
        "cpu": str(pool.cpus_per_node),
        "memory": f"{int(pool.memory_gib_per_node)}Gi",
        "pods": PODS_A_NODE,
        "ephemeral-storage": str(pool.nvme_bytes_per_node),
        **{name: str(count) for name, count in _accelerators(plan, pool).items()},
        # Whole NICs are handed to pods: one a rail.
        **{rail.advertised: "1" for rail in rails},
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": node.name,
                "kubernetes.io/os": "linux",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.count": str(pool.gpus_per_node),
                "nvidia.com/gpu.product": pool.accelerator,
                **claims.clique(plan, node),
            },
        },
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def general(number: int) -> dict[str, Any]:
    capacity = {"cpu": "32", "memory": "128Gi", "pods": PODS_A_NODE, "ephemeral-storage": "500Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"general-{number}",
            "labels": {"kubernetes.io/hostname": f"general-{number}", "kubernetes.io/os": "linux"},
        },
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def volumes(plan: Plan) -> Iterator[dict[str, Any]]:
    """Each claim's volume, bound to it beforehand: no provisioner runs here."""
    namespace = plan.platform.namespace if plan.platform else "default"
    for volume in plan.volumes:
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{namespace}-{volume.name}"},
            "spec": {
                "accessModes": [volume.access_mode],
                "capacity": {"storage": f"{volume.size_gib}Gi"},
                "claimRef": {"namespace": namespace, "name": volume.name},
                "hostPath": {"path": f"/var/lib/weights/{volume.name}"},
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": volume.storage_class,
            },
        }
