"""The guide's rows: each gives a plan or a typed refusal; the page in docs is what the program prints."""

from __future__ import annotations

import pytest

from rackwright.catalog import load_catalog
from rackwright.sizing.check import check
from rackwright.sizing.guide_answers import Outcome, markdown, outcome
from rackwright.sizing.guide_rows import ROWS, Row
from tests.golden import REPOSITORY, assert_golden

CATALOG = load_catalog()
OUTCOMES: dict[str, Outcome] = {}


def found(row: Row) -> Outcome:
    if row.id not in OUTCOMES:
        OUTCOMES[row.id] = outcome(row, CATALOG)
    return OUTCOMES[row.id]


def test_all_seven_tiers_and_the_kinds_of_users_are_asked() -> None:
    tiers = [row.workload["users"]["dau"] for row in ROWS if row.kind == "tier"]
    assert tiers == [1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000]
    assert sum(row.kind == "kind of users" for row in ROWS) == 4
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_row_gives_a_plan(row: Row) -> None:
    got = found(row)
    assert got.plan is not None, got.refused
    assert [p for p in check(got.plan, CATALOG) if not p.where.startswith("cautions consumer-card")] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_difference_has_its_reason(row: Row) -> None:
    got = found(row)
    if got.refused is not None:
        assert got.constraint in ("slo.tpot_p50", "slo.ttft_p95", "hardware.machine", "model.context")
        assert got.plan is not None
        assert got.plan.pools[0].machine != row.workload["hardware"]["machine"]
    elif row.nodes is not None and got.plan is not None and len(got.plan.pools[0].nodes) != row.nodes:
        assert any("nodes" in reason for reason in got.reasons)
    else:
        assert got.plan is not None
        assert got.plan.pools[0].machine == row.workload["hardware"]["machine"]


def test_one_pro_6000_cannot_give_a_72b_stream_thirty_tokens() -> None:
    """1,792 GB/s over some 73 GB of weights: 24 tok/s, under the checklist's 30; a typed refusal."""
    got = found(next(row for row in ROWS if row.id == "1k"))
    assert got.constraint == "slo.tpot_p50"
    assert got.refused is not None
    assert "red line 2" in got.refused


def test_a_domain_of_72_is_refused_by_type_and_planned_elsewhere() -> None:
    got = found(next(row for row in ROWS if row.id == "1M"))
    assert got.constraint == "hardware.machine"
    assert got.refused is not None
    assert "gb200-nvl72" in got.refused
    assert got.plan is not None


def test_the_page_is_current() -> None:
    assert_golden(REPOSITORY / "docs" / "tiers.md", "\n".join(markdown(CATALOG)) + "\n")
