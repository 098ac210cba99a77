"""The guide's arithmetic, figure by figure."""

import pytest
from pydantic import ValidationError

from rackwright.sizing.load import demand

from .build import workload


@pytest.mark.parametrize(
    ("dau", "peak"),
    [
        (1_000, 750), (5_000, 3_750), (10_000, 7_500), (50_000, 37_500),
        (100_000, 75_000), (500_000, 375_000), (1_000_000, 750_000),
    ],
)  # fmt: skip
def test_the_seven_tiers_exactly(dau: int, peak: float) -> None:
    asked = demand(workload(users__dau=dau))
    assert asked.output_tok_s == peak
    assert asked.tokens_per_day == dau * 20 * 2000
    assert asked.output_tokens_per_day == dau * 20 * 600


@pytest.mark.parametrize(
    ("scenario", "factor"),
    [("chat", 1.0), ("customer-service", 0.4), ("rag", 0.8), ("copilot", 2.0), ("agent", 4.0)],
)
def test_scenario_factors(scenario: str, factor: float) -> None:
    assert demand(workload(users__dau=1_000, users__scenario=scenario)).output_tok_s == pytest.approx(
        750 * factor
    )


def test_peak_requests_are_peak_output_over_output_of_a_session() -> None:
    asked = demand(workload(users__dau=100_000))
    assert asked.requests_per_s == 75_000 / 600
    assert asked.input_tok_s == 125 * 1400


def test_no_redundancy_gives_two_thirds() -> None:
    assert demand(workload(users__dau=1_000, redundancy=1.0)).output_tok_s == 500


def test_growth_is_compounded() -> None:
    """10 % a month over a year is 3.138 ×."""
    grown = demand(workload(users__dau=1_000, users__growth={"monthly": "10 %", "months": 12}))
    assert grown.output_tok_s == pytest.approx(750 * 3.138428, rel=1e-6)


def test_the_busiest_hour_of_a_profile_is_the_peak() -> None:
    flat = demand(workload(users__dau=1_000, users__hourly=[1.0] * 24))
    assert flat.output_tok_s == pytest.approx(750 * (1 / 24) / 0.15)
    with pytest.raises(ValidationError, match="24 hours, not 3"):
        workload(users__hourly=[1, 2, 3])
    with pytest.raises(ValidationError, match="contradict each other"):
        workload(users__hourly=[1.0] * 24, users__peak_hour="15 %")
