"""Replicas follow load between the plan's bounds."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from rackwright.plan import Scaling
from rackwright.plan.services import Trigger
from stacks.model import Model

_API = {"Deployment": "apps/v1", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1"}


class Autoscaling(pulumi.ComponentResource):
    """One ScaledObject a scaled deployment."""

    def __init__(self, name: str, model: Model, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:stacks:Autoscaling", name, None, opts)
        for scaling in model.plan.scaling:
            _scaled_object(self, model, scaling)
        self.register_outputs({"deployments": [scaling.deployment for scaling in model.plan.scaling]})


def _scaled_object(parent: pulumi.Resource, model: Model, scaling: Scaling) -> None:
    k8s.apiextensions.CustomResource(
        scaling.deployment,
        api_version="keda.sh/v1alpha1",
        kind="ScaledObject",
        metadata=model.metadata(scaling.deployment, "autoscaling", namespace=model.namespace),
        spec={
            "scaleTargetRef": {
                "apiVersion": _API[scaling.kind],
                "kind": scaling.kind,
                "name": scaling.deployment,
            },
            "minReplicaCount": scaling.min_replicas,
            "maxReplicaCount": scaling.max_replicas,
            "pollingInterval": scaling.polling_s,
            "cooldownPeriod": scaling.cooldown_s,
            "fallback": {
                "failureThreshold": 3,
                "replicas": scaling.fallback_replicas,
                "behavior": "currentReplicasIfHigher",
            },
            "advanced": {
                "restoreToOriginalReplicaCount": False,
                "horizontalPodAutoscalerConfig": {
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": scaling.cooldown_s}}
                },
            },
            "triggers": [_trigger(scaling, trigger) for trigger in scaling.triggers],
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _trigger(scaling: Scaling, trigger: Trigger) -> dict[str, Any]:
    """A metric that is missing holds the scale; by default it would read as zero and scale in."""
    metadata = {
        "serverAddress": scaling.prometheus_url,
        "query": trigger.query,
        "threshold": trigger.threshold,
        "ignoreNullValues": "false",
    }
    if trigger.activation is not None:
        metadata["activationThreshold"] = trigger.activation
    return {"type": "prometheus", "metricType": trigger.metric_type, "metadata": metadata}
