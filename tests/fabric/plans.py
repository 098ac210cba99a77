"""Plans with a fabric, sized from small workloads, and their files."""

from __future__ import annotations

from functools import cache
from typing import Any

from rackwright.catalog import load_catalog
from rackwright.fabric import rendering
from rackwright.fabric.topology import Topology
from rackwright.plan import Plan
from rackwright.sizing.search import plan_of
from rackwright.workload import Workload

BASE: dict[str, Any] = {
    "name": "fab",
    "users": {"dau": 20000, "scenario": "chat"},
    "model": {"id": "kimi-k2-instruct", "context": "32 ki tokens"},
    "slo": {"ttft_p95": "1 s", "tpot_p50": "60 ms"},
    "hardware": {"machine": "hgx-h200-8-roce", "fabric": "roce"},
    "site": {"name": "dc1", "rack": {"rating": "52 kW"}},
}


@cache
def sized() -> Plan:
    return plan_of(Workload.model_validate(BASE), load_catalog())


def plan(machine: str = "hgx-h200-8-roce", kind: str = "roce", **fabric: Any) -> Plan:
    """Sized with the fabric choices ``fabric``."""
    hardware = {"machine": machine, "fabric": kind}
    return plan_of(
        Workload.model_validate({**BASE, "hardware": hardware, "fabric": fabric or None}), load_catalog()
    )


def with_fabric(base: Plan, **choice: Any) -> Plan:
    """``base`` with its fabric decided again: the quick way to many profiles."""
    from rackwright.fabric import addressing
    from rackwright.sizing import services

    machine = load_catalog().machines[base.pools[0].machine]
    workload = base.workload.model_copy(update={"fabric": choice_of(**choice)})
    nodes = [node for pool in base.pools for node in pool.nodes]
    fabric = services.fabric(workload, machine, load_catalog(), len(nodes))
    assert fabric is not None
    pools, number = [], 0
    for pool in base.pools:
        placed = []
        for node in pool.nodes:
            placed.append(
                node.model_copy(update={"rail_addresses": addressing.addresses(fabric.rails, number)})
            )
            number += 1
        pools.append(pool.model_copy(update={"nodes": tuple(placed)}))
    return base.model_copy(update={"fabric": fabric, "pools": tuple(pools)})


def choice_of(**choice: Any) -> Any:
    from rackwright.workload import FabricChoice

    return FabricChoice.model_validate(choice)


def few(base: Plan, nodes: int) -> Plan:
    """``base`` with its first ``nodes`` nodes only: small files, the same kinds of settings."""
    pool = base.pools[0]
    return base.model_copy(update={"pools": (pool.model_copy(update={"nodes": pool.nodes[:nodes]}),)})


@cache
def small(os: str = "sonic") -> Plan:
    """Two nodes, two rails."""
    return with_fabric(few(sized(), 2), switch_os=os, rails=2)


def rendered(of: Plan) -> tuple[Topology, dict[str, str]]:
    return rendering.render(of)
