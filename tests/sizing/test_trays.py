"""Racks of many nodes in one NVLink domain: what a tray is, how replicas lie in it, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.catalog import load_catalog
from rackwright.errors import Infeasible, InputErrors
from rackwright.plan import NotApplicable, Plan, link_problems
from rackwright.render_rules import check as render_check
from rackwright.sizing import trays
from rackwright.sizing.check import check
from rackwright.sizing.joint import plan_of
from tests.stacks.objects import objects

from .build import workload

CATALOG = load_catalog()
RACK = CATALOG.machines["gb200-nvl72"]
CLAIMS = {"model": "dra", "kubernetes": "1.34"}


def racked(**changes: Any) -> Plan:
    base: dict[str, Any] = {
        "users": {"dau": 20_000},
        "model": {"id": "deepseek-v3", "quantisation": "fp8"},
        "hardware": {"machine": "gb200-nvl72"},
        "site__rack__rating": "150 kW",
        "devices": CLAIMS,
    }
    return plan_of(workload(**{**base, **changes}), CATALOG)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return racked()


def test_a_tray_is_an_eighteenth_of_the_rack() -> None:
    """4 GPUs, 144 of 2,592 threads, 960 of 17,280 GiB, 6,667 of 120,000 W."""
    tray = trays.tray_of(RACK)
    assert (tray.gpus.value, tray.threads.value, tray.memory.value) == (4, 144, 960)
    assert round(tray.full_load.value) == 6667
    assert trays.tray_of(CATALOG.machines["hgx-h200-8"]) is CATALOG.machines["hgx-h200-8"]


@pytest.mark.parametrize(
    ("replicas", "group", "per_node", "nodes"),
    [(9, 2, 1, 18), (10, 2, 1, 36), (4, 4, 1, 18), (5, 4, 1, 36), (72, 1, 4, 18), (73, 1, 4, 36)],
)
def test_racks_are_whole_and_replicas_stay_in_one(
    replicas: int, group: int, per_node: int, nodes: int
) -> None:
    """Of groups of four trays a rack of 18 holds four; two trays are left over."""
    assert trays.nodes_for(replicas, RACK, group, per_node) == nodes


def test_a_replica_spans_trays_by_tensor_parallelism(plan: Plan) -> None:
    layout = plan.deployments[0].layout
    assert (layout.tensor_parallel, layout.pipeline_parallel, layout.nodes_per_replica) == (8, 1, 2)
    assert (layout.gpus_per_pod, layout.gpus_per_replica) == (4, 8)
    leader, worker = plan.deployments[0].engine.roles
    for role in (leader, worker):
        assert {"--tensor-parallel-size=8", "--nnodes=2"} <= set(role.args)
        assert not [word for word in role.args if word.startswith("--pipeline")]
    assert "--headless" in worker.args
    assert plan.deployments[0].resources.gpus == 4


def test_the_rack_is_one_domain_and_every_group_lies_in_it(plan: Plan) -> None:
    (pool,) = plan.pools
    assert (pool.gpus_per_node, len(pool.nodes)) == (4, 18)
    assert {node.rack for node in pool.nodes} == {"dc1-r01"}
    assert len({node.block for node in pool.nodes}) == 9
    assert [round(rack.planned_full_load_w) for rack in plan.racks()] == [120_000]


def test_the_price_is_the_racks(plan: Plan) -> None:
    assert plan.cost is not None
    assert plan.cost.capex.amount == 25_000_000


def test_hosts_show_a_tray_of_a_domain(plan: Plan) -> None:
    wants = plan.expectations[plan.pools[0].name]
    assert wants.gpu.count == 4
    assert (wants.nvlink.domain_gpus, wants.nvlink.imex) == (72, "on-demand")
    assert isinstance(wants.power.psu_count, NotApplicable)


def test_pods_join_a_compute_domain_and_share_a_clique(plan: Plan) -> None:
    found = objects(plan)
    domain = found["ComputeDomain deepseek-v3"]
    assert domain["spec"] == {
        "numNodes": 0,
        "channel": {"resourceClaimTemplate": {"name": "deepseek-v3-channel"}},
    }
    group = found["LeaderWorkerSet deepseek-v3"]["spec"]["leaderWorkerTemplate"]
    assert group["size"] == 2
    for member in ("leaderTemplate", "workerTemplate"):
        pod = group[member]["spec"]
        assert [c["resourceClaimTemplateName"] for c in pod["resourceClaims"]] == [
            "deepseek-v3-gpu-4",
            "deepseek-v3-channel",
        ]
        (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "nvidia.com/gpu.clique"
        assert term["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-index"]
    assert [str(f) for f in render_check(plan, found.values()) if f.severity == "error"] == []


def test_the_plan_is_as_its_workload_gives_it(plan: Plan) -> None:
    assert (check(plan, CATALOG), list(link_problems(plan))) == ([], [])


def test_replicas_inside_a_tray_need_no_domain() -> None:
    small = racked(model={"id": "qwen3-32b", "quantisation": "fp8"}, overrides__tensor_parallel=4)
    assert small.deployments[0].layout.nodes_per_replica == 1
    assert small.claims is not None
    assert small.claims.domains == ()


def test_sglang_spans_trays_too() -> None:
    leader, _ = racked(engine="sglang").deployments[0].engine.roles
    assert {"--tp-size=8", "--nnodes=2", "--node-rank=0"} <= set(leader.args)


def test_a_rack_that_cannot_feed_all_its_trays_is_refused() -> None:
    with pytest.raises(Infeasible) as error:
        racked(site__rack__rating="100 kW")
    assert error.value.problems[0].where == "site.rack.rating"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"devices": None}, "hardware.machine"),
        ({"devices": {"model": "device-plugin", "kubernetes": "1.34"}}, "hardware.machine"),
        ({"hardware": {"machine": "gb200-nvl72", "spares": 1}}, "hardware.spares"),
        ({"tenancy": {"mode": "gpus"}}, "tenancy"),
        ({"hardware": {"machine": "atlas-900-a3"}}, "hardware.machine"),
    ],
)
def test_what_a_rack_cannot_be(changes: dict[str, Any], where: str) -> None:
    with pytest.raises(InputErrors) as error:
        racked(**changes)
    assert where in {problem.where for problem in error.value.problems}
