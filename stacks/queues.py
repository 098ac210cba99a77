"""Queues of Kueue: flavours by pool, one cluster queue with quotas, and the namespace's way into it."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from stacks.model import NAMESPACE_NAME, Model

API = "kueue.x-k8s.io/v1beta2"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"


def label(model: Model) -> dict[str, str]:
    """What an engine's object carries to be admitted through the plan's queue."""
    return {QUEUE_NAME: model.plan.queue.name} if model.plan.queue else {}


def declare(parent: pulumi.Resource, model: Model) -> None:
    queue = model.plan.queue
    if queue is None:
        return
    topology = {"topologyName": queue.name} if queue.levels else {}
    if queue.levels:
        levels = [{"nodeLabel": level} for level in queue.levels]
        _object(parent, model, "Topology", queue.name, {"levels": levels})
    for flavor in queue.flavors:
        spec = {"nodeLabels": dict(flavor.node_labels), **topology}
        _object(parent, model, "ResourceFlavor", flavor.name, spec)
    _object(
        parent,
        model,
        "ClusterQueue",
        queue.name,
        {
            "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: model.namespace}},
            **({"cohortName": queue.cohort} if queue.cohort else {}),
            "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
            "resourceGroups": [
                {
                    "coveredResources": list(queue.flavors[0].quota),
                    "flavors": [
                        {
                            "name": flavor.name,
                            "resources": [
                                {"name": name, "nominalQuota": amount}
                                for name, amount in flavor.quota.items()
                            ],
                        }
                        for flavor in queue.flavors
                    ],
                }
            ],
        },
    )
    spec = {"clusterQueue": queue.name}
    _object(parent, model, "LocalQueue", queue.name, spec, namespace=model.namespace)


def _object(  # noqa: PLR0917 - the parts of an object
    parent: pulumi.Resource,
    model: Model,
    kind: str,
    name: str,
    spec: dict[str, Any],
    namespace: str | None = None,
) -> None:
    k8s.apiextensions.CustomResource(
        f"{kind.lower()}-{name}",
        api_version=API,
        kind=kind,
        metadata=model.metadata(name, "node-pools", namespace=namespace),
        spec=spec,
        opts=pulumi.ResourceOptions(parent=parent),
    )
