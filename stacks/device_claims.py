"""Templates of claims on accelerators, and compute domains over the trays of a rack."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from rackwright.plan.claims import Claim, Claims
from stacks.model import Model, Served

core = k8s.core.v1
GPU, CHANNEL = "gpu", "channel"


def declare(parent: pulumi.Resource, model: Model, served: Served) -> list[pulumi.Resource]:
    """The template that the deployment's pods claim by, and its domain."""
    claims = model.plan.claims
    claim = claims.claim(served.name) if claims else None
    if claims is None or claim is None:
        return []
    made: list[pulumi.Resource] = [
        k8s.apiextensions.CustomResource(
            claim.name,
            api_version=f"resource.k8s.io/{claims.api}",
            kind="ResourceClaimTemplate",
            metadata=model.metadata(claim.name, "engine", namespace=model.namespace),
            spec={"spec": {"devices": {"requests": [_request(claims, claim)]}}},
            opts=pulumi.ResourceOptions(parent=parent),
        )
    ]
    domain = claims.domain(served.name)
    if domain is not None:
        made.append(
            k8s.apiextensions.CustomResource(
                f"{domain.name}-domain",
                api_version="resource.nvidia.com/v1beta1",
                kind="ComputeDomain",
                metadata=model.metadata(domain.name, "engine", namespace=model.namespace),
                # 0: replicas come and go, and no pod waits for nodes that are not part of its replica.
                spec={"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": domain.channel}}},
                opts=pulumi.ResourceOptions(parent=parent),
            )
        )
    return made


def _request(claims: Claims, claim: Claim) -> dict[str, Any]:
    """One request; since v1beta2 what is asked for exactly stands under a key of its own."""
    wanted: dict[str, Any] = {
        "deviceClassName": claim.device_class,
        "allocationMode": "ExactCount",
        "count": claim.count,
    }
    if claim.expression is not None:
        wanted["selectors"] = [{"cel": {"expression": claim.expression}}]
    return {"name": GPU, **wanted} if claims.api == "v1beta1" else {"name": GPU, "exactly": wanted}


def of_pod(served: Served) -> list[core.PodResourceClaimArgs] | None:
    """What a pod claims: its accelerators, and a channel into its domain."""
    if served.claim is None:
        return None
    found = [core.PodResourceClaimArgs(name=GPU, resource_claim_template_name=served.claim.name)]
    if served.domain is not None:
        found.append(
            core.PodResourceClaimArgs(name=CHANNEL, resource_claim_template_name=served.domain.channel)
        )
    return found


def of_container(served: Served) -> list[core.ResourceClaimArgs] | None:
    """Names of the pod's claims that the engine uses."""
    claims = of_pod(served)
    return [core.ResourceClaimArgs(name=claim.name) for claim in claims] if claims else None
