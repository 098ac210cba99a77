"""Costs against sums done by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackwright.catalog import load_catalog
from rackwright.errors import InputErrors
from rackwright.sizing import economics
from rackwright.sizing.economics import Assumptions, Tokens

PRICES = load_catalog().prices["cn"]
HAND = Assumptions(
    currency="CNY",
    machine=3_600_000,
    fabric=0,
    kwh=0.8,
    pue=1.25,
    space=100,
    person=50_000,
    people=2,
    utilisation=0.5,
    depreciation_months=36,
    hours_month=730,
    idle_w=2000,
    full_load_w=10_000,
)


def test_month_by_hand() -> None:
    month = economics.monthly(HAND, 2)
    assert month.depreciation == 200_000  # 2 × 3.6M / 36
    assert month.power == pytest.approx(2 * 6 * 1.25 * 730 * 0.8)  # 6 kW in the mean: 8,760
    assert month.space == 2000  # 2 × 10 kW × 100
    assert month.staff == 100_000
    assert month.running == pytest.approx(110_760)
    assert economics.tco(HAND, 2, 36) == pytest.approx(7_200_000 + 36 * 110_760)


def test_the_guides_price_of_a_million_tokens() -> None:
    """One PRO 6000 at 575 tok/s and 70 %: CNY 6.3 with hardware and power alone, not 1.3."""
    machine = load_catalog().machines["pro6000-1"]
    own = economics.assumptions(machine, PRICES, users=1000, currency="CNY")
    bare = replace(own, space=0.0, people=0.0, pue=1.0)
    day = 575 * 86_400 * 0.7
    assert economics.per_million(bare, 1, day) == pytest.approx(6.1, abs=0.4)


def test_rent_pays_until_the_fifth_year_not_the_second() -> None:
    """CapEx 3.85M and 55k a month against 136k on demand: 47 to 48 months; the guide says 18–24."""
    a = replace(HAND, machine=3_850_000, kwh=0.0, space=0.0, person=55_000, people=1)
    assert economics.break_even_month(a, 1, 18_950 * 7.2) == 48  # 3.85M / (136.44k − 55k) = 47.3
    assert economics.break_even_month(a, 1, 15_200 * 7.2) == 71  # 3.85M / (109.44k − 55k) = 70.7
    assert economics.break_even_month(a, 1, 55_000) is None


def test_two_hundred_users_cost_some_seventy_dollars_by_api() -> None:
    """(!) of the guide: "cheaper than an API above 200 users": 200 × 20 × 2,000 tokens at $0.30 a million."""
    machine = load_catalog().machines["pro6000-1"]
    found = list(economics.offers(machine, PRICES, 1, Tokens("any", 200 * 20 * 1400, 200 * 20 * 600), "USD"))
    assert [o.kind for o in found] == ["api"]
    assert found[0].month == pytest.approx(73, abs=0.5)


def test_rentals_of_the_machine_itself() -> None:
    machine = load_catalog().machines["hgx-h200-8-ib"]
    found = {o.kind: o for o in economics.offers(machine, PRICES, 2, Tokens("any", 1e6, 1e6), "USD")}
    assert found["on-demand"].month == pytest.approx(2 * 26.32 * 730)
    assert found["reserved"].commitment == 12


def test_break_even_users_counts_whole_nodes() -> None:
    def own(users: float) -> float:
        return 1000.0 * -(-users // 500)

    assert economics.break_even_users(own, lambda users: users * 4.0) == 250
    assert economics.break_even_users(own, lambda users: users * 0.5) is None


def test_staff_grows_in_steps() -> None:
    assert economics.people({0: 0.25, 5000: 0.5, 10000: 1}, 9_999) == 0.5
    assert economics.people({5000: 0.5}, 10) == 0.0


def test_tornado_is_sorted_and_refuses_unknown_names() -> None:
    bars = economics.tornado(
        HAND, {"kwh": (0.4, 1.2), "machine": (3e6, 4e6)}, lambda a: economics.tco(a, 1, 36)
    )
    assert [b.name for b in bars] == ["machine", "kwh"]
    assert bars[0].width == pytest.approx(1e6)
    assert bars[1].width == pytest.approx(36 * 6 * 1.25 * 730 * 0.8)
    with pytest.raises(ValueError, match="no such assumption: kwhh"):
        economics.tornado(HAND, {"kwhh": (0, 1)}, lambda a: 0.0)


def test_currencies_are_never_mixed_silently() -> None:
    assert economics.convert(10, "USD/h", "CNY", PRICES) == 72
    assert economics.convert(72, "CNY", "USD", PRICES) == 10
    if PRICES.eur_per_usd is None:
        with pytest.raises(InputErrors, match="rate of exchange from EUR to CNY"):
            economics.convert(1, "EUR", "CNY", PRICES)


def test_a_region_must_be_of_the_list() -> None:
    machine = load_catalog().machines["pro6000-1"]
    west = economics.assumptions(machine, PRICES, users=1, currency="CNY", region="west")
    assert (west.kwh, west.pue) == (0.4, 1.25)
    with pytest.raises(InputErrors, match=r"site\.region"):
        economics.assumptions(machine, PRICES, users=1, currency="CNY", region="moon")
