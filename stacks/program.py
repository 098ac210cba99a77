"""The whole cluster of a plan, top to bottom."""

from __future__ import annotations

import pulumi

from rackwright.plan import Plan
from stacks.autoscaling import Autoscaling
from stacks.fabric import Fabric
from stacks.gateway import Gateway
from stacks.model import Environment, Model
from stacks.node_pools import NodePools
from stacks.observability import Observability
from stacks.platform import Platform
from stacks.record import Record
from stacks.requirements import require
from stacks.serving import Serving
from stacks.stamp import stamp
from stacks.storage import Storage

PHASES = (
    "platform",
    "node-pools",
    "fabric",
    "storage",
    "serving",
    "gateway",
    "autoscaling",
    "observability",
    "record",
)
"""Order of application; each is the type of the component that declares it."""


def build(
    plan: Plan, environment: Environment | None = None, provider: pulumi.ProviderResource | None = None
) -> None:
    """Declare everything that ``plan`` wants in a cluster, through ``provider`` where one is given.

    Raises:
        InputErrors: the plan is not for a cluster, or lacks what its parts refer to.
    """
    require(plan)
    model = Model(plan, environment or Environment())

    def after(*components: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            depends_on=list(components),
            providers=[provider] if provider is not None else None,
            transformations=[stamp],
        )

    platform = Platform("platform", model, after())
    node_pools = NodePools("node-pools", model, after(platform))
    fabric = Fabric("fabric", model, after(platform))
    storage = Storage("storage", model, after(platform.namespace))
    serving = [
        Serving(served.name, model, served, after(platform, node_pools, fabric, storage))
        for served in model.served
    ]
    gateway = Gateway("gateway", model, after(platform))
    autoscaling = Autoscaling("autoscaling", model, after(platform, *serving))
    observability = Observability("observability", model, after(platform))
    parts = [platform, node_pools, fabric, storage, *serving, gateway, autoscaling, observability]
    Record("record", model, parts, after())

    pulumi.export("plan", plan.digest)
    pulumi.export("namespace", model.namespace)
    pulumi.export("staged_nodes", node_pools.staged)
