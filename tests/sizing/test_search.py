"""What is ranked is what a plan says; what is refused says which constraint binds."""

from __future__ import annotations

import pytest

from rackwright.catalog import load_catalog
from rackwright.errors import Infeasible, InputErrors
from rackwright.sizing.check import check
from rackwright.sizing.search import Found, plan_of, planned, search
from rackwright.workload import Budget, Hardware, ModelChoice, Search, Users, Workload

from .build import workload

CATALOG = load_catalog()


def asked(dau: int = 10_000, model: str = "deepseek-v3", **search_: object) -> Workload:
    return Workload(
        name="any",
        users=Users(dau=dau),
        model=ModelChoice(id=model),
        search=Search.model_validate(search_),
    )


@pytest.fixture(scope="module")
def found() -> Found:
    return search(asked(), CATALOG)


def test_best_first_and_every_option_accounted_for(found: Found) -> None:
    values = [o.tco for o in found.options]
    assert values == sorted(values)
    assert len(found.options) >= 3
    looked_at = {o.machine.id for o in found.options} | {r.machine for r in found.lost}
    assert looked_at == set(CATALOG.machines)


def test_the_plan_is_the_first_option(found: Found) -> None:
    plan = planned(found, CATALOG)
    assert (plan.pools[0].machine, len(plan.pools[0].nodes)) == (found.best.machine.id, found.best.nodes)
    assert plan.workload.hardware.machine == found.best.machine.id
    assert plan.cost is not None
    assert plan.cost.capex.amount == round(found.best.capex)
    assert plan.alternatives is not None
    assert plan.alternatives.runners_up[0].machine == found.options[1].machine.id
    assert plan.alternatives.considered == len(found.options) + len(found.lost)
    assert check(plan, CATALOG) == []


def test_another_objective_ranks_by_it() -> None:
    by_capex = search(asked(objective="capex"), CATALOG)
    values = [o.capex for o in by_capex.options]
    assert values == sorted(values)


def test_what_does_not_fit_says_red_line_one(found: Found) -> None:
    """671 GB of FP8 weights on one card of 96 GB."""
    text = next(r.text for r in found.lost if r.machine == "pro6000-1" and r.quantisation == "fp8")
    assert "red line 1" in text


def test_a_rack_that_cannot_feed_one_node_rules_it_out(found: Found) -> None:
    refused = next(r for r in found.lost if r.machine == "gb200-nvl72")
    assert refused.constraint == "site.rack.rating"


def test_only_owned_machines() -> None:
    owned = search(asked(machines=("hgx-h200-8",)), CATALOG)
    assert {o.machine.id for o in owned.options} == {"hgx-h200-8"}
    assert owned.lost == ()


def test_budget_binds_with_the_best_value_under_it() -> None:
    free = search(asked(machines=("hgx-h200-8",), objective="capex"), CATALOG).best.capex
    limit = Budget(amount=free - 1, currency="CNY")
    with pytest.raises(Infeasible) as error:
        search(asked(machines=("hgx-h200-8",), budget=limit), CATALOG)
    assert error.value.constraint == "search.budget"
    assert error.value.best == f"{free:,.0f} CNY"


def test_a_budget_in_dollars_is_converted() -> None:
    free = search(asked(machines=("hgx-h200-8",), objective="capex"), CATALOG).best.capex
    enough = Budget(amount=free / 7.2 + 1, currency="USD")
    assert search(asked(machines=("hgx-h200-8",), budget=enough), CATALOG).options


def test_an_objective_nobody_reaches_is_typed() -> None:
    workload = asked().model_copy(update={"slo": asked().slo.model_copy(update={"ttft_p95": 0.5})})
    with pytest.raises(Infeasible) as error:
        search(workload, CATALOG)
    assert error.value.constraint == "slo.ttft_p95"
    assert error.value.best.endswith(" ms")


def test_a_named_machine_is_sized_without_a_search() -> None:
    workload = asked().model_copy(update={"hardware": Hardware(machine="hgx-h200-8")})
    assert plan_of(workload, CATALOG).alternatives is None


def test_wrong_input_is_no_refusal_of_hardware() -> None:
    with pytest.raises(InputErrors, match=r"model\.id"):
        search(asked(model="no-such-model"), CATALOG)
    with pytest.raises(InputErrors, match="machine of the catalog"):
        search(asked(machines=("no-such-machine",)), CATALOG)


def test_more_users_never_need_fewer_nodes() -> None:
    nodes = [
        search(asked(dau=dau, machines=("hgx-h200-8",)), CATALOG).best.nodes for dau in (100, 10_000, 50_000)
    ]
    assert nodes == sorted(nodes)


@pytest.mark.parametrize("users", [30, 300, 3000, 60_000])
@pytest.mark.parametrize("model", ["qwen3-8b", "qwen3-32b", "qwen3-235b-a22b"])
def test_what_a_search_chooses_crosses_no_red_line(model: str, users: int) -> None:
    asked = workload(model__id=model, hardware__machine=None, users__dau=users)
    assert check(plan_of(asked, CATALOG), CATALOG) == []


def test_a_consumer_card_is_taken_only_where_it_is_named() -> None:
    asked = workload(model__id="qwen3-32b", hardware__machine=None, users__dau=300)
    found = search(asked, CATALOG)
    assert not any(o.machine.id.startswith("rtx5090") for o in found.options)
    why = next(lost.text for lost in found.lost if lost.machine == "rtx5090-2")
    assert "name it under search.machines" in why
    owned = asked.model_copy(update={"search": asked.search.model_copy(update={"machines": ("rtx5090-2",)})})
    assert {o.machine.id for o in search(owned, CATALOG).options} == {"rtx5090-2"}
