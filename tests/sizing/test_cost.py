"""What a plan costs, against sums done by hand; one model behind size and search."""

from __future__ import annotations

import pytest

from rackwright.catalog import load_catalog
from rackwright.errors import InputErrors
from rackwright.plan.cost import Cost
from rackwright.sizing.search import search
from rackwright.sizing.size import size
from tests.sizing.build import workload

CATALOG = load_catalog()


def cost_of(**changes: object) -> Cost:
    found = size(workload(**changes), CATALOG).cost
    assert found is not None
    return found


def test_every_amount_by_hand() -> None:
    plan = size(workload(hardware__spares=1), CATALOG)
    cost, nodes = plan.cost, len(plan.pools[0].nodes)
    assert cost is not None
    assert cost.capex.amount == nodes * 3_850_000
    mean = 2400 + 0.7 * (10_200 - 2400)  # W a node
    assert cost.mean_w == pytest.approx(nodes * mean)
    assert cost.power_month.amount == round(nodes * mean / 1000 * 1.4 * 730 * 0.8)
    assert cost.space_month.amount == round(nodes * 10.2 * 700)
    assert cost.staff_month.amount == 150_000  # one engineer at 10,000 daily users
    assert cost.depreciation_month.amount == round(nodes * 3_850_000 / 36)
    running = cost.power_month.amount + cost.space_month.amount + cost.staff_month.amount
    assert cost.month.amount == pytest.approx(running + cost.depreciation_month.amount, abs=3)
    assert cost.tco.amount == pytest.approx(cost.capex.amount + 36 * running, abs=60)
    tokens = 10_000 * 20 * 2000 * 365 / 12 * 36
    assert cost.per_million_tokens.amount == pytest.approx(cost.tco.amount / tokens * 1e6, rel=1e-4)


def test_the_guides_convention_leaves_out_pue_space_and_staff() -> None:
    plan = size(workload(), CATALOG)
    cost, deployment = plan.cost, plan.deployments[0]
    assert cost is not None
    rate = deployment.estimate.output_tok_s * deployment.layout.replicas * 0.7
    spent = cost.capex.amount + 36 * cost.power_month.amount / 1.4
    assert cost.per_million_guide.amount == pytest.approx(
        spent / (rate * 86_400 * 365 / 12 * 36) * 1e6, rel=2e-3
    )


def test_three_ways_beside_owning() -> None:
    cost = cost_of()
    assert [w.kind for w in cost.ways] == ["own", "on-demand", "reserved", "api"]
    own, demand, reserved, api = cost.ways
    assert own.month == cost.month
    nodes = round(cost.capex.amount / 3_850_000)
    assert demand.month.amount == pytest.approx(nodes * 26.32 * 7.2 * 730 + 150_000, abs=1)
    assert (reserved.commitment_months, reserved.machine) == (12, "hgx-h200-8-ib")
    assert api.month.amount == pytest.approx(400 * 0.30 * 7.2 * 365 / 12, abs=1)  # 400 M tokens a day
    running = cost.month.amount - cost.depreciation_month.amount
    saved = demand.month.amount - running
    assert demand.break_even_month == -(-cost.capex.amount // saved)
    assert (api.break_even_month, api.break_even_users) == (None, None)


def test_the_currency_is_the_price_lists() -> None:
    for country, currency, region in (
        ("CN", "CNY", "west"),
        ("US", "USD", "us-low"),
        ("DE", "EUR", "eu-north"),
    ):
        cost = cost_of(site__country=country, site__region=region)
        assert cost.currency == currency
        assert {cost.capex.currency, cost.tco.currency, *(w.month.currency for w in cost.ways)} == {currency}
        assert {b.at_low.currency for b in cost.sensitivity} == {currency}


def test_a_regions_tariff_and_pue() -> None:
    west = cost_of(site__region="west")
    assert (west.electricity_per_kwh.amount, west.pue) == (0.4, 1.25)


def test_a_named_list_is_taken() -> None:
    assert cost_of(site__prices="us").prices == "us"


@pytest.mark.parametrize(("country", "prices", "said"), [("NO", "eu", "nearest"), ("ZA", "cn", "no list")])
def test_a_country_without_a_list_is_said(country: str, prices: str, said: str) -> None:
    plan = size(workload(site__country=country), CATALOG)
    assert plan.cost is not None
    assert plan.cost.prices == prices
    caution = next(c for c in plan.cautions if c.id == "prices-of-another-country")
    assert said in caution.text
    assert country in caution.text


def test_unknown_list_and_region_are_told_with_the_nearest() -> None:
    with pytest.raises(InputErrors, match=r'site\.region.*did you mean "west"'):
        size(workload(site__region="wset"), CATALOG)
    with pytest.raises(InputErrors, match=r"site\.prices"):
        size(workload(site__prices="uk"), CATALOG)


def test_tornado_has_every_assumption_widest_first() -> None:
    bars = cost_of().sensitivity
    assert {b.name for b in bars} == {
        "price of a machine", "price of energy", "utilisation", "PUE", "daily users",
        "throughput of a replica",
    }  # fmt: skip
    widths = [abs(b.at_high.amount - b.at_low.amount) for b in bars]
    assert widths == sorted(widths, reverse=True)
    users = next(b for b in bars if b.name == "daily users")
    assert (users.low, users.high) == (7000, 13000)
    assert users.at_low.amount < users.at_high.amount


def test_a_faster_replica_costs_less_and_the_plan_counts_on_the_low_end() -> None:
    cost = cost_of()
    bar = next(b for b in cost.sensitivity if b.name == "throughput of a replica")
    assert bar.at_low.amount == cost.tco.amount
    assert bar.at_high.amount <= bar.at_low.amount


def test_search_and_size_say_the_same() -> None:
    asked = workload(site__country="US", hardware__spares=1)
    option = search(asked, CATALOG).best
    cost = size(option.workload, CATALOG).cost
    assert cost is not None
    assert (round(option.capex), round(option.tco)) == (cost.capex.amount, cost.tco.amount)
    assert option.cost_per_million == pytest.approx(cost.per_million_tokens.amount, abs=1e-4)
    assert option.currency == cost.currency == "USD"


def test_more_replicas_by_override_are_paid_for() -> None:
    plain, more = cost_of(), cost_of(overrides__replicas=9)
    assert more.capex.amount > plain.capex.amount
    assert more.capex.amount % 3_850_000 == 0
