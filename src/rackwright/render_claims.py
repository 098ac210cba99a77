"""One device model: what is claimed is not handed out as an extended resource too, and fits a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rackwright.errors import Problem
from rackwright.plan import Plan

Object = Mapping[str, Any]


def claim_problems(plan: Plan, objects: Sequence[Object]) -> Iterator[tuple[str, Problem]]:
    """(rule, problem) of templates of claims, and of whoever else hands out accelerators."""
    templates = [o for o in objects if o.get("kind") == "ResourceClaimTemplate"]
    if not templates:
        return
    for content in objects:
        if content.get("kind") != "ClusterPolicy":
            continue
        plugin = (content.get("spec") or {}).get("devicePlugin") or {}
        if plugin.get("enabled") is not False:
            yield (
                "one-device-model",
                Problem(
                    f"ClusterPolicy {content['metadata']['name']} spec.devicePlugin.enabled",
                    "must be false where accelerators are claimed",
                    str(plugin.get("enabled", "nothing")).lower(),
                    "two that do not know of each other would give one card to two pods",
                    "set it to false, or drop the claims",
                ),
            )
    most = max((_units(plan, pool.name, pool.gpus_per_node) for pool in plan.pools), default=0)
    for content in templates:
        for request in content["spec"]["spec"]["devices"]["requests"]:
            count = int((request.get("exactly") or request).get("count", 1))
            if count > most:
                yield (
                    "schedulable",
                    Problem(
                        f"ResourceClaimTemplate {content['metadata']['name']} spec.spec.devices.requests",
                        f"must claim at most the {most} devices of a node",
                        str(count),
                        "no node can ever take the pod; it would be pending for ever",
                        "size the workload again",
                    ),
                )


def _units(plan: Plan, pool: str, gpus: int) -> int:
    if plan.tenancy is None or plan.tenancy.pool != pool or not plan.tenancy.slices:
        return gpus
    return max(piece.per_gpu * gpus for piece in plan.tenancy.slices)
