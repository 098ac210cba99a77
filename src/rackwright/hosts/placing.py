"""Which replicas stand on which host, with which accelerators and ports."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.errors import Problem
from rackwright.hosts.families import Family
from rackwright.hosts.model import BLUE, GREEN, Replica, Slot
from rackwright.plan import Deployment, Plan, Pool

FIRST_PORT = 18000
"""Ports of engines on the loopback interface: two a replica, below the range that Linux gives to clients."""
PORTS_A_DEPLOYMENT = 100


def counts(plan: Plan, deployment: Deployment) -> dict[str, int]:
    """Replicas of ``deployment`` on each host of its pool that is no spare: as even as can be, first ones
    first."""
    hosts = [node.name for node in plan.pool(deployment.pool).nodes if not node.spare]
    share, more = divmod(deployment.layout.replicas, len(hosts)) if hosts else (0, 0)
    return {name: share + (index < more) for index, name in enumerate(hosts)}


def problems(plan: Plan) -> Iterator[Problem]:
    """Hosts that could not hold what the plan puts on them."""
    for pool in plan.pools:
        used: dict[str, int] = {node.name: 0 for node in pool.nodes}
        for deployment in (d for d in plan.deployments if d.pool == pool.name):
            for name, count in counts(plan, deployment).items():
                used[name] += count * deployment.layout.gpus_per_replica
        for name, gpus in used.items():
            if gpus > pool.gpus_per_node:
                yield Problem(
                    f"pools.{pool.name}.nodes.{name}",
                    f"must have accelerators for all of its replicas: {gpus}",
                    str(pool.gpus_per_node),
                    "an engine without its accelerators does not start",
                    "raise hardware.nodes, or lower overrides.replicas; then size again",
                )


def replicas(plan: Plan, pool: Pool, host: str, family: Family) -> tuple[Replica, ...]:
    """The replicas on ``host``. Side by side where the host has accelerators for every replica twice."""
    here = [(n, d) for n, d in enumerate(plan.deployments) if d.pool == pool.name]
    needed = sum(counts(plan, d).get(host, 0) * d.layout.gpus_per_replica for _, d in here)
    twice = 2 * needed <= pool.gpus_per_node
    found, gpu = [], 0
    for number, deployment in here:
        size = deployment.layout.gpus_per_replica
        for index in range(counts(plan, deployment).get(host, 0)):
            name = f"{deployment.name}-{index}"
            port = FIRST_PORT + number * PORTS_A_DEPLOYMENT + 2 * index
            blue = tuple(range(gpu, gpu + size))
            green = tuple(g + needed for g in blue) if twice else blue
            found.append(
                Replica(
                    name=name,
                    deployment=deployment.name,
                    slots=(
                        Slot("blue", unit_name(plan, name, BLUE, family), port, blue),
                        Slot("green", unit_name(plan, name, GREEN, family), port + 1, green),
                    ),
                    side_by_side=twice,
                )
            )
            gpu += size
    return tuple(found)


def unit_name(plan: Plan, replica: str, colour: str, family: Family) -> str:
    suffix = "plist" if family.init == "launchd" else "service"
    return f"rackwright-{plan.header.name}-{replica}-{colour}.{suffix}"
