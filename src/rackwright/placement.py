"""Where pods may go: decisions that follow from a plan's racks, pools and layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rackwright.plan import Deployment, Plan, Pool
from rackwright.plan.links import interface


@dataclass(frozen=True)
class Block:
    """A node's part of a rail's subnet: both ends of its link."""

    node: str
    prefix: str
    gateway: str


def rail_blocks(pool: Pool, position: int) -> Iterator[Block]:
    """Blocks of the rail at ``position``, so that the address manager gives each node the planned address."""
    for node in pool.nodes:
        if position < len(node.rail_addresses):
            network = interface(node.rail_addresses[position]).network
            yield Block(node.name, str(network), str(network.network_address))


def groups_at_most(plan: Plan, deployment: Deployment) -> int:
    """Replicas that can exist at one moment: the largest scale plus what a rollout adds."""
    scaled = [s.max_replicas for s in plan.scaling if s.deployment == deployment.name]
    return max([deployment.layout.replicas, *scaled]) + deployment.rollout.max_surge


RACK_LABEL = "topology.kubernetes.io/rack"
BLOCK_LABEL = "rackwright.dev/block"
POOL_LABEL = "rackwright.dev/pool"
TIER_LABEL = "rackwright.dev/tier"


def exclusive_domain(plan: Plan, deployment: Deployment) -> str | None:
    """The node label whose values are given to one multi-node replica each, or None.

    A rack where every replica can have one, so that a lost rack takes one replica; else a block. With fewer
    domains than replicas, exclusive placement would leave replicas pending for ever.
    """
    size = deployment.layout.nodes_per_replica
    if size == 1:
        return None
    nodes = plan.pool(deployment.pool).nodes
    wanted = groups_at_most(plan, deployment)
    for label, domains in (
        (RACK_LABEL, Counter(node.rack for node in nodes)),
        (BLOCK_LABEL, Counter(node.block for node in nodes if node.block)),
    ):
        if sum(count >= size for count in domains.values()) >= wanted:
            return label
    return None


def replicas_kept(deployment: Deployment) -> int:
    """Replicas that keep serving at every moment of a rollout.

    Of replicas on several nodes one is always out: LeaderWorkerSet takes its surge group away when one group
    is left to be replaced, not when that one serves (v0.9.0, ``wantReplicas``: n − 1 more for n unready).
    """
    out = max(deployment.rollout.max_unavailable, int(deployment.layout.nodes_per_replica > 1))
    return max(0, deployment.layout.replicas - out)


def rollout_timeout_s(deployment: Deployment) -> int:
    """The longest a rollout may take: every replica in turn may need its whole progress deadline."""
    step = max(1, deployment.rollout.max_surge + deployment.rollout.max_unavailable)
    turns = -(-deployment.layout.replicas // step)
    return deployment.rollout.progress_deadline_s * max(1, turns)
