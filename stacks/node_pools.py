"""Labels, taints and topology of nodes that exist, by server-side apply; or what a provider makes nodes from.

A node that has not joined is staged, not an error. What the plan gave a node is
noted on the node itself, so that a value that somebody else set is told from one of ours that was edited.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pulumi
import pulumi_kubernetes as k8s

from rackwright.plan import Node, Pool, Provisioned, Taint
from stacks import queues
from stacks.model import APPLIED, BLOCK, OWNERSHIP, RACK, ZONE, Model


class NodePools(pulumi.ComponentResource):
    """One patch a node: two of them would fight over the annotations that steer the patch."""

    def __init__(self, name: str, model: Model, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:stacks:NodePools", name, None, opts)
        self.staged: list[str] = []
        for pool in model.plan.pools:
            zone = next(site.zone for site in model.plan.sites if site.name == pool.site)
            made = model.plan.provisioned(pool.name)
            if made is not None:
                _objects(self, model, made)
            for node in model.plan.named_nodes(pool):
                if node.name in model.environment.joined:
                    _node(self, pool, node, zone, taint=made is None)
                else:
                    self.staged.append(node.name)
        queues.declare(self, model)
        self.register_outputs({"staged": self.staged})


def _objects(parent: pulumi.Resource, model: Model, made: Provisioned) -> None:
    """What a provider makes nodes from. What holds machines is protected, and everything stays on a destroy:
    machines may still be made from a template that has been replaced."""
    for item in made.objects:
        protect = item.protect and model.environment.protect
        k8s.apiextensions.CustomResource(
            f"{item.kind.lower()}-{item.name}",
            api_version=item.api_version,
            kind=item.kind,
            metadata=model.metadata(item.name, "node-pools", namespace=item.namespace, labels=item.labels),
            spec=item.spec,
            opts=pulumi.ResourceOptions(
                parent=parent, protect=protect, retain_on_delete=model.environment.protect
            ),
        )


def _node(
    parent: pulumi.Resource, pool: Pool, node: Node, zone: str, *, taint: bool
) -> k8s.core.v1.NodePatch:
    """Labels are merged key by key. Taints are one list with a single owner in the API, so it is taken over;
    the node controller puts the taints of a node's condition back by itself. A node that is made brings its
    taints (``taint`` is false): setting the list would take away the one that waits for preflight."""
    given = pool.taints if taint else ()
    taints = [k8s.core.v1.TaintPatchArgs(key=t.key, value=t.value or None, effect=t.effect) for t in given]
    block = {BLOCK: node.block} if node.block else {}
    labels = {**pool.labels, ZONE: zone, RACK: node.rack, **block}
    return k8s.core.v1.NodePatch(
        node.name,
        metadata=k8s.meta.v1.ObjectMetaPatchArgs(
            name=node.name,
            labels=labels,
            annotations={**OWNERSHIP, APPLIED: applied(labels, given)},
        ),
        spec=k8s.core.v1.NodeSpecPatchArgs(taints=taints) if taints else None,
        opts=pulumi.ResourceOptions(parent=parent),
    )


def applied(labels: Mapping[str, str], given: Iterable[Taint]) -> str:
    """What a node's annotation says it was given."""
    taints = [[taint.key, taint.value, taint.effect] for taint in given]
    return json.dumps({"labels": dict(labels), "taints": taints}, sort_keys=True, separators=(",", ":"))
