"""Divided and shared accelerators: what the operator is told, and where it reads it."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from rackwright import sharing_files
from stacks.model import Model

MIG_CONFIGS = "rackwright-mig-configs"
PLUGIN_CONFIGS = "rackwright-device-plugin-configs"


def configurations(
    parent: pulumi.Resource, model: Model, ready: list[pulumi.Resource]
) -> list[pulumi.Resource]:
    """The ConfigMap that the plan's division or sharing is read from; none where cards stay whole."""
    tenancy = model.plan.tenancy
    if tenancy is None or tenancy.config is None:
        return []
    if tenancy.mode == "mig":
        name, data = MIG_CONFIGS, {sharing_files.MIG_KEY: sharing_files.mig_parted(tenancy)}
    else:
        name, data = PLUGIN_CONFIGS, {tenancy.config: sharing_files.device_plugin(tenancy)}
    return [
        k8s.core.v1.ConfigMap(
            name,
            metadata=model.metadata(name, "platform", namespace=model.operator_namespace("gpu-operator")),
            data=data,
            opts=pulumi.ResourceOptions(parent=parent, depends_on=ready),
        )
    ]


def policy(model: Model) -> dict[str, Any]:
    """The ClusterPolicy's part: nodes of no plan keep whole cards."""
    tenancy = model.plan.tenancy
    if tenancy is None or tenancy.config is None:
        return {}
    if tenancy.mode == "mig":
        return {
            "migManager": {
                "enabled": True,
                "config": {"name": MIG_CONFIGS, "default": sharing_files.WHOLE},
            }
        }
    return {"devicePlugin": {"enabled": True, "config": {"name": PLUGIN_CONFIGS, "default": ""}}}
