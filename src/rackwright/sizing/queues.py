"""Kueue: quotas that follow from the pools, and what serving needs of them.

Source: Kueue's API v1beta2 and its rule that a workload is admitted only where a queue covers every resource
that its pods request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from rackwright import placement
from rackwright.errors import InputErrors, Problem
from rackwright.plan import Deployment, Operator, Plan, Pool
from rackwright.plan.queue import Flavor, Queue
from rackwright.sizing import claims
from rackwright.workload import Workload

OPERATOR = Operator(name="kueue", version="v0.15.0", namespace="kueue-system")
"""The first release that serves kueue.x-k8s.io/v1beta2 (not re-read)."""
CPU, MEMORY = "cpu", "memory"


def problems(workload: Workload) -> Iterator[Problem]:
    """Plans whose pods Kueue would not admit, or could not count."""
    if workload.queue is None:
        return
    alone = workload.also and workload.queue.accelerators is not None
    for where, other, given, why in (
        ("queue", "tenancy", workload.tenancy, "shares of accelerators have resources of their own"),
        (
            "queue",
            "devices.model: dra",
            claims.asked(workload),
            "claims are not counted by quotas of extended resources",
        ),
        ("queue", "site.target: hosts", workload.site.target == "hosts", "a queue is an object of a cluster"),
        ("queue.accelerators", "also", alone, "one number would be meant for several pools"),
    ):
        if given:
            yield Problem(where, f"must be left out with {other}", "given", why, "drop one of them")


def queued(plan: Plan) -> Plan:
    """``plan`` with a queue for its engines, where its workload asks for one.

    Raises:
        InputErrors: the quota is less than what serving needs, or more than there is.
    """
    asked = plan.workload.queue
    if asked is None or plan.platform is None:
        return plan
    needs = {pool.name: _needs(plan, pool) for pool in plan.pools}
    quotas = {pool.name: _quota(plan, pool, asked.accelerators) for pool in plan.pools}
    if found := [p for pool in plan.pools for p in _short(pool, needs[pool.name], quotas[pool.name])]:
        raise InputErrors(found)
    resources = list(dict.fromkeys(name for quota in quotas.values() for name in quota))
    grouped = any(d.layout.nodes_per_replica > 1 for d in plan.deployments)
    named = all(made.named for made in plan.provisioning or ())
    rack = (placement.RACK_LABEL,) if named else ()
    queue = Queue(
        name=plan.header.name,
        cohort=asked.cohort,
        # LeaderWorkerSet places groups by itself; two that place would wait for each other.
        levels=() if grouped else ("topology.kubernetes.io/zone", *rack, "kubernetes.io/hostname"),
        flavors=tuple(
            Flavor(
                name=f"{plan.header.name}-{pool.name}",
                pool=pool.name,
                node_labels=pool.labels,
                quota={name: _written(name, quotas[pool.name].get(name, 0)) for name in resources},
            )
            for pool in plan.pools
        ),
        needs={n: _written(n, sum(need.get(n, 0) for need in needs.values())) for n in resources},
    )
    operators = (*plan.platform.operators, OPERATOR)
    platform = plan.platform.model_copy(update={"operators": operators})
    return plan.model_copy(update={"queue": queue, "platform": platform})


def _needs(plan: Plan, pool: Pool) -> Mapping[str, int]:
    """What the replicas that were sized request in ``pool``, with those that a rollout adds."""
    total = Counter[str]()
    for deployment in plan.deployments:
        if deployment.pool == pool.name:
            layout = deployment.layout
            pods = (layout.replicas + deployment.rollout.max_surge) * layout.nodes_per_replica
            for name, amount in _requests(plan, pool, deployment).items():
                total[name] += pods * amount
    return total


def _requests(plan: Plan, pool: Pool, deployment: Deployment) -> dict[str, int]:
    part, grouped = deployment.resources, deployment.layout.nodes_per_replica > 1
    rails = plan.fabric.rails if plan.fabric and grouped else ()
    return {
        CPU: part.cpus,
        MEMORY: part.memory_gib,
        pool.gpu_resource: part.gpus,
        **{rail.advertised: 1 for rail in rails},
    }


def _quota(plan: Plan, pool: Pool, accelerators: int | None) -> dict[str, int]:
    """All of the pool, spares included; of accelerators as many as the workload says."""
    nodes = len(pool.nodes)
    quota = {
        CPU: nodes * pool.cpus_per_node,
        MEMORY: int(nodes * pool.memory_gib_per_node),
        pool.gpu_resource: accelerators or nodes * pool.gpus_per_node,
    }
    rails = plan.fabric.rails if plan.fabric else ()
    return {**quota, **{rail.advertised: nodes for rail in rails}}


def _short(pool: Pool, needs: Mapping[str, int], quota: Mapping[str, int]) -> Iterator[Problem]:
    there = len(pool.nodes) * pool.gpus_per_node
    need, given = needs.get(pool.gpu_resource, 0), quota[pool.gpu_resource]
    if given < need:
        yield Problem(
            "queue.accelerators",
            f"must be at least {need}: every replica of the plan, and what a rollout adds",
            str(given),
            "Kueue would hold replicas back while users wait",
            "raise it, or leave it out: all of the pool",
        )
    elif given > there:
        yield Problem(
            "queue.accelerators",
            f"must be at most the {there} of pool {pool.name}",
            str(given),
            "workloads would be admitted that no node can take",
            "lower it, or raise hardware.spares",
        )


def _written(name: str, amount: int) -> str:
    return f"{amount}Gi" if name == MEMORY else str(amount)
