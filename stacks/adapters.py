"""LoRA adapters: what proves their files, and how requests find them by name."""

from __future__ import annotations

from itertools import groupby

import pulumi
import pulumi_kubernetes as k8s

from rackwright.plan import Route
from rackwright.plan.adapters import Adapter, AdapterSet
from stacks.model import Model, Served

MANIFESTS = "adapters.sha256"
API = "llm-d.ai/v1alpha2"


def manifests_name(served: Served) -> str:
    return f"{served.name}-adapters"


def proven(found: AdapterSet | None) -> list[Adapter]:
    """Adapters whose manifest is pinned."""
    return [adapter for adapter in (found.adapters if found else ()) if adapter.manifest_sha256]


def manifests(parent: pulumi.Resource, model: Model, served: Served) -> None:
    """Digests of the adapters' manifests. A ConfigMap, so that a new adapter restarts no engine."""
    pinned = proven(served.deployment.adapters)
    if not pinned:
        return
    name = manifests_name(served)
    k8s.core.v1.ConfigMap(
        name,
        metadata=model.metadata(name, "weights", namespace=model.namespace),
        data={MANIFESTS: "".join(f"{a.manifest_sha256}  {a.manifest_path}\n" for a in pinned)},
        opts=pulumi.ResourceOptions(parent=parent),
    )


def routing(
    parent: pulumi.Resource, model: Model, served: Served, route: Route, pool: pulumi.Resource
) -> None:
    """Aliases to adapters by weight, and adapters that go first or last."""
    found = served.deployment.adapters
    if found is None:
        return
    aliased = sorted((a for a in found.adapters if a.alias), key=lambda a: str(a.alias))
    if aliased:
        k8s.apiextensions.CustomResource(
            f"{served.name}-aliases",
            api_version=API,
            kind="InferenceModelRewrite",
            metadata=model.metadata(f"{served.name}-aliases", "gateway", namespace=model.namespace),
            spec={
                "poolRef": {"name": route.pool},
                "rules": [
                    {
                        "matches": [{"model": {"type": "Exact", "value": alias}}],
                        "targets": [{"modelRewrite": a.name, "weight": a.weight} for a in behind],
                    }
                    for alias, behind in groupby(aliased, key=lambda a: a.alias)
                ],
            },
            opts=pulumi.ResourceOptions(parent=parent, depends_on=[pool]),
        )
    for adapter in found.adapters:
        if adapter.priority:
            name = f"{served.name}-{adapter.name}"
            k8s.apiextensions.CustomResource(
                name,
                api_version=API,
                kind="InferenceObjective",
                metadata=model.metadata(name, "gateway", namespace=model.namespace),
                spec={"poolRef": {"name": route.pool}, "priority": adapter.priority},
                opts=pulumi.ResourceOptions(parent=parent, depends_on=[pool]),
            )
