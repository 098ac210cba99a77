"""Several services in one plan: what adds up, what stays apart, what cannot stand together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rackwright.catalog import load_catalog
from rackwright.cli import main
from rackwright.errors import Infeasible, InputErrors
from rackwright.plan import Plan, link_problems
from rackwright.report.sizing import pages
from rackwright.sizing import search
from rackwright.sizing.check import check
from rackwright.sizing.joint import plan_of, services_of
from rackwright.sizing.lookup import find
from rackwright.workload import Workload
from tests.golden import REPOSITORY

from .build import workload

CATALOG = load_catalog()
RAG: dict[str, Any] = {
    "name": "rag",
    "users": {"dau": 4000, "scenario": "rag"},
    "model": {"id": "qwen3-32b", "quantisation": "fp8"},
    "spares": 1,
}
CODE: dict[str, Any] = {
    "name": "code",
    "users": {"dau": 500, "scenario": "copilot"},
    "model": {"id": "qwen3-coder-480b-a35b", "quantisation": "fp8"},
}


def joint(*also: dict[str, Any], **changes: Any) -> Workload:
    return workload(name="campus", also=list(also), **changes)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of(joint(RAG, CODE), CATALOG)


@pytest.fixture(scope="module")
def alone() -> list[Plan]:
    return [search.plan_of(each, CATALOG) for each in services_of(joint(RAG, CODE))]


def test_every_service_has_the_layout_that_it_has_alone(plan: Plan, alone: list[Plan]) -> None:
    assert [d.model for d in plan.deployments] == ["qwen3-235b-a22b", "qwen3-32b", "qwen3-coder-480b-a35b"]
    for deployment, own in zip(plan.deployments, alone, strict=True):
        assert deployment.layout == own.deployments[0].layout
        assert deployment.engine == own.deployments[0].engine
        assert deployment.estimate == own.deployments[0].estimate


def test_every_service_has_a_pool_of_its_own(plan: Plan, alone: list[Plan]) -> None:
    assert [p.name for p in plan.pools] == ["h200", "h200-rag", "h200-code"]
    assert [d.pool for d in plan.deployments] == ["h200", "h200-rag", "h200-code"]
    assert [len(p.nodes) for p in plan.pools] == [len(own.pools[0].nodes) for own in alone]
    assert [p.labels["rackwright.dev/pool"] for p in plan.pools] == ["h200", "h200-rag", "h200-code"]
    assert plan.pools[1].nodes[0].name == "h200-rag-01"
    assert [p.spares for p in plan.pools] == [0, 1, 0]


def test_racks_go_on_where_the_service_before_ends(plan: Plan, alone: list[Plan]) -> None:
    count = sum(len(own.sites[0].racks) for own in alone)
    assert [r.name for r in plan.racks()] == [f"dc1-r{n:02d}" for n in range(1, count + 1)]
    standing = {name: rack.name for rack in plan.racks() for name in rack.nodes}
    assert standing == {node.name: node.rack for pool in plan.pools for node in pool.nodes}
    assert list(link_problems(plan)) == []


def test_loads_and_machines_add_up_and_people_do_not(plan: Plan, alone: list[Plan]) -> None:
    # Tokens a day: 10,000 × 20 × 2,000; 4,000 and 500 users likewise; scenario factors are 1.5 and 2.
    factors = [own.load.scenario_factor for own in alone if own.load]
    users = [10_000, 4_000, 500]
    assert plan.load is not None
    assert plan.load.tokens_per_day == sum(
        40_000 * count * factor for count, factor in zip(users, factors, strict=True)
    )
    costs = [own.cost for own in alone if own.cost]
    assert plan.cost is not None
    for name in ("capex", "power_month", "space_month", "depreciation_month"):
        total = sum(getattr(cost, name).amount for cost in costs)
        assert getattr(plan.cost, name).amount == pytest.approx(total, abs=3)
    assert plan.cost.full_load_w == sum(cost.full_load_w for cost in costs)
    # The price list's steps: 0.5 people from 1 user, 1 from 1,000, 3 from 10,000 (14,500 in all).
    people = CATALOG.prices["cn"].staff
    assert people is not None
    assert plan.cost.people == max(p for least, p in people.people_from_users.items() if least <= 14_500)
    assert plan.cost.people < sum(cost.people for cost in costs)
    paid = plan.cost
    running = paid.power_month.amount + paid.space_month.amount + paid.staff_month.amount
    assert paid.tco.amount == pytest.approx(
        paid.capex.amount + paid.depreciation_months * running, abs=paid.depreciation_months * 3
    )


def test_a_share_is_what_the_service_alone_would_ask_and_cost(plan: Plan, alone: list[Plan]) -> None:
    assert plan.shares is not None
    assert [s.service for s in plan.shares] == ["campus", "rag", "code"]
    for share, own in zip(plan.shares, alone, strict=True):
        assert (share.load, share.cost) == (own.load, own.cost)


def test_hostnames_differ(plan: Plan) -> None:
    assert [r.hostname for r in plan.routes] == [
        "campus.llm.internal",
        "rag.llm.internal",
        "code.llm.internal",
    ]


def test_a_sum_and_each_part_of_it_are_explained(plan: Plan) -> None:
    total = find(plan, "load.peak_output_tok_s")[0]
    assert total.formula == "sum of the services: their peaks may coincide"
    assert len(total.inputs) == 3
    for text in total.inputs:
        part = find(plan, text.partition(", ")[2])[0]
        assert part.value == total.inputs[text]
    assert find(plan, "pools[1].nodes")[0].value == str(len(plan.pools[1].nodes))
    assert find(plan, "cost.tco")[0].inputs["months"] == "36"
    paths = [e.path for e in plan.explanations]
    assert len(paths) == len(set(paths))


def test_a_caution_of_some_services_says_which(plan: Plan) -> None:
    said = [c.text for c in plan.cautions if c.id == "single-replica"]
    assert said and all(text.startswith(("qwen3-32b: ", "qwen3-coder-480b-a35b: ")) for text in said)
    pinned = [c.text for c in plan.cautions if c.id == "weights-unproven"]
    assert len(pinned) == 1 and not pinned[0].startswith("qwen")
    ranks = [("refuse", "warn", "info").index(c.severity) for c in plan.cautions]
    assert ranks == sorted(ranks)


def test_it_is_checked_as_one(plan: Plan) -> None:
    assert check(plan, CATALOG) == []
    more = plan.deployments[1].layout.replicas + 1
    layout = plan.deployments[1].layout.model_copy(update={"replicas": more})
    edited = plan.model_copy(
        update={
            "deployments": (
                plan.deployments[0],
                plan.deployments[1].model_copy(update={"layout": layout}),
                plan.deployments[2],
            )
        }
    )
    assert "deployments[1].layout.replicas" in [p.where for p in check(edited, CATALOG)]


def test_each_service_has_its_report(plan: Plan) -> None:
    found = pages(plan, CATALOG, REPOSITORY / "report.html")
    assert [path.name for path in found] == ["report.html", "report-rag.html", "report-code.html"]
    for text, name in zip(found.values(), ("campus", "rag", "code"), strict=True):
        assert f"campus: {name}" in text


def test_a_workload_without_others_is_written_as_before() -> None:
    assert "also" not in workload().as_dict()
    assert plan_of(workload(), CATALOG).shares is None


def test_machines_are_searched_for_each(plan: Plan) -> None:
    asked = joint(
        CODE, hardware__machine=None, model__id="qwen3-32b", users__dau=300, search__datacentre=True
    )
    found = plan_of(asked, CATALOG)
    assert found.workload.hardware.machine == found.pools[0].machine
    assert found.workload.also[0].machine == found.pools[1].machine
    assert found.shares is not None
    assert all(share.alternatives is not None for share in found.shares)
    assert check(found, CATALOG) == []


def test_addresses_and_blocks_go_on() -> None:
    kimi = {"name": "agents", "users": {"dau": 2000}, "model": {"id": "kimi-k2-instruct"}}
    asked = joint(
        {**RAG, "machine": "hgx-h200-8-roce"},
        {**kimi, "machine": "hgx-h200-8-roce"},
        hardware={"machine": "hgx-h200-8-roce", "fabric": "roce"},
        site={"rack": {"rating": "40 kW"}},
    )
    found = plan_of(asked, CATALOG)
    nodes = [node for pool in found.pools for node in pool.nodes]
    assert [n.rail_addresses[0] for n in nodes] == [f"10.240.0.{2 * i + 1}/31" for i in range(len(nodes))]
    blocks = {n.block for n in found.pools[2].nodes if n.block}
    assert blocks and all(block.startswith("h200-agents-b") for block in blocks)
    assert list(link_problems(found)) == []


def problems(asked: Workload) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        plan_of(asked, CATALOG)
    return [p.where for p in caught.value.problems]


def test_what_is_wrong_in_any_service_is_told_at_its_place_at_once() -> None:
    wrong = {**RAG, "machine": "hgx-h2oo-8"}
    unknown = {**CODE, "model": {"id": "qwen9"}}
    assert problems(joint(wrong, unknown, model__id="qwen8")) == [
        "model.id",
        "also[0].machine",
        "also[1].model.id",
    ]


def test_what_cannot_stand_together_is_refused() -> None:
    twice = {**RAG, "model": {"id": "qwen3-235b-a22b"}}
    assert problems(joint(twice)) == ["also[0].model.id"]
    other = {**RAG, "machine": "hgx-b300-8-roce"}
    asked = joint(
        other,
        hardware={"machine": "hgx-h200-8-roce", "fabric": "roce"},
        site={"rack": {"rating": "40 kW"}},
    )
    assert problems(asked) == ["also[0].machine"]


def test_the_budget_is_for_all() -> None:
    one = plan_of(workload(), CATALOG)
    assert one.cost is not None
    budget = {"amount": one.cost.capex.amount * 1.05, "currency": "CNY"}
    assert plan_of(workload(search={"budget": budget}), CATALOG).shares is None
    with pytest.raises(Infeasible) as caught:
        plan_of(joint(CODE, search={"budget": budget}), CATALOG)
    assert caught.value.constraint == "search.budget"


def test_a_service_that_does_not_stand_is_named() -> None:
    with pytest.raises(Infeasible) as caught:
        plan_of(joint({**CODE, "slo": {"tpot_p50": "1 ms"}}), CATALOG)
    assert caught.value.problems[0].where.startswith("also[0].")


def test_names_of_services_differ() -> None:
    with pytest.raises(ValueError, match="names that differ"):
        joint({**RAG, "name": "campus"})


def test_a_search_looks_at_every_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = REPOSITORY / "inventory/campus/workload.yaml"
    with pytest.raises(SystemExit) as ended:
        main(["search", str(path), "--json"])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: len(each["options"]) for name, each in found.items()} == {"campus": 1, "rag": 1, "code": 1}
