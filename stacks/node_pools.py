"""Labels, taints and topology of nodes that exist already, by server-side apply.

Nobody here creates a node: one that has not joined is staged, not an error. What the plan gave a node is
noted on the node itself, so that a value that somebody else set is told from one of ours that was edited.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pulumi
import pulumi_kubernetes as k8s

from rackwright.plan import Node, Pool
from stacks.model import APPLIED, BLOCK, OWNERSHIP, RACK, ZONE, Model


class NodePools(pulumi.ComponentResource):
    """One patch a node: two of them would fight over the annotations that steer the patch."""

    def __init__(self, name: str, model: Model, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:stacks:NodePools", name, None, opts)
        self.staged: list[str] = []
        for pool in model.plan.pools:
            zone = next(site.zone for site in model.plan.sites if site.name == pool.site)
            for node in pool.nodes:
                if node.name in model.environment.joined:
                    _node(self, pool, node, zone)
                else:
                    self.staged.append(node.name)
        self.register_outputs({"staged": self.staged})


def _node(parent: pulumi.Resource, pool: Pool, node: Node, zone: str) -> k8s.core.v1.NodePatch:
    """Labels are merged key by key. Taints are one list with a single owner in the API, so it is taken over;
    the node controller puts the taints of a node's condition back by itself."""
    taints = [
        k8s.core.v1.TaintPatchArgs(key=taint.key, value=taint.value or None, effect=taint.effect)
        for taint in pool.taints
    ]
    block = {BLOCK: node.block} if node.block else {}
    labels = {**pool.labels, ZONE: zone, RACK: node.rack, **block}
    return k8s.core.v1.NodePatch(
        node.name,
        metadata=k8s.meta.v1.ObjectMetaPatchArgs(
            name=node.name,
            labels=labels,
            annotations={**OWNERSHIP, APPLIED: applied(labels, pool)},
        ),
        spec=k8s.core.v1.NodeSpecPatchArgs(taints=taints) if taints else None,
        opts=pulumi.ResourceOptions(parent=parent),
    )


def applied(labels: Mapping[str, str], pool: Pool) -> str:
    """What a node's annotation says it was given."""
    taints = [[taint.key, taint.value, taint.effect] for taint in pool.taints]
    return json.dumps({"labels": dict(labels), "taints": taints}, sort_keys=True, separators=(",", ":"))
