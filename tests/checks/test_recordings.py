"""Every recording gives the verdict that a person wrote down for it."""

from __future__ import annotations

import pytest

from tests.checks.cases import RECORDINGS, Case, cases, checks
from tests.checks.machines import vendor_checks


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.id)
def test_recording(case: Case) -> None:
    outcome = case.judge()
    assert outcome.status.value == case.expect, outcome
    for part in case.says:
        assert part in outcome.message, outcome.message
    if case.load is not None:
        assert outcome.load is not None and outcome.load.value == case.load
    if case.where is not None:
        assert outcome.where == case.where
    if outcome.status.value in ("pass", "fail", "warn"):
        assert outcome.actual and outcome.expected, "a verdict shows what was expected and what was there"
    if outcome.status.value != "pass":
        assert outcome.message, "a person must be told what is wrong"


def test_every_recording_belongs_to_a_check() -> None:
    assert {p.name for p in RECORDINGS.iterdir()} - set(checks()) - set(vendor_checks()) == set()
