"""Labels, taints and topology of nodes that exist already, by server-side apply.

Nobody here creates a node: one that has not joined is staged, not an error.
"""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from rackwright.plan import Node, Pool
from stacks.model import PATCH_FORCE, RACK, ZONE, Model

FIELD_MANAGER = "pulumi.com/patchFieldManager"
LABELS_MANAGER = "rackwright-labels"
TAINTS_MANAGER = "rackwright-taints"


class NodePools(pulumi.ComponentResource):
    """Two patches a node. Labels are merged key by key; taints are one list with one owner."""

    def __init__(self, name: str, model: Model, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:stacks:NodePools", name, None, opts)
        self.staged: list[str] = []
        for pool in model.plan.pools:
            zone = next(site.zone for site in model.plan.sites if site.name == pool.site)
            for node in pool.nodes:
                if node.name not in model.environment.joined:
                    self.staged.append(node.name)
                    continue
                _labels(self, pool, node, zone)
                if pool.taints:
                    _taints(self, pool, node)
        self.register_outputs({"staged": self.staged})


def _labels(parent: pulumi.Resource, pool: Pool, node: Node, zone: str) -> k8s.core.v1.NodePatch:
    return k8s.core.v1.NodePatch(
        f"{node.name}-labels",
        metadata=k8s.meta.v1.ObjectMetaPatchArgs(
            name=node.name,
            labels={**pool.labels, ZONE: zone, RACK: node.rack},
            annotations={FIELD_MANAGER: LABELS_MANAGER},
        ),
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _taints(parent: pulumi.Resource, pool: Pool, node: Node) -> k8s.core.v1.NodePatch:
    """The list has a single owner in the API, so it is taken over; the node controller puts the taints of a
    node's condition back by itself."""
    return k8s.core.v1.NodePatch(
        f"{node.name}-taints",
        metadata=k8s.meta.v1.ObjectMetaPatchArgs(
            name=node.name, annotations={FIELD_MANAGER: TAINTS_MANAGER, PATCH_FORCE: "true"}
        ),
        spec=k8s.core.v1.NodeSpecPatchArgs(
            taints=[
                k8s.core.v1.TaintPatchArgs(key=taint.key, value=taint.value or None, effect=taint.effect)
                for taint in pool.taints
            ]
        ),
        opts=pulumi.ResourceOptions(parent=parent),
    )
