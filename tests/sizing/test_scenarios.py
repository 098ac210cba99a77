"""Scenarios are catalog entries: the guide's factors, lengths of public traces or said to be assumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from rackwright.catalog import load_catalog, using
from rackwright.sizing.load import demand
from rackwright.sizing.size import size
from rackwright.workload import Workload
from tests.sizing.build import workload

CATALOG = load_catalog()


def test_the_guides_factors() -> None:
    factors = {
        name: CATALOG.scenario(name).factor.value for name in ("chat", "customer-service", "rag", "copilot")
    }
    assert factors == {"chat": 1.0, "customer-service": 0.4, "rag": 0.8, "copilot": 2.0}
    agent = CATALOG.scenario("agent").factor
    assert (agent.low, agent.value, agent.high) == (3.0, 4.0, 5.0)


def test_published_lengths_are_taken_without_the_factor() -> None:
    """Azure's code trace: 2,048 tokens in and 28 out in the mean; 1,000 × 20 requests a day."""
    asked = demand(workload(users__dau=1000, users__scenario="copilot", users__preset="scenario"))
    assert (asked.factor, asked.input_tokens, asked.output_tokens) == (1.0, 2048, 28)
    assert asked.output_tokens_per_day == 1000 * 20 * 28


def test_a_given_length_stays_with_either_preset() -> None:
    asked = demand(
        workload(users__scenario="rag", users__preset="scenario", users__output_per_session="500 tokens")
    )
    assert (asked.input_tokens, asked.output_tokens) == (12035, 500)


def test_a_workload_with_a_preset_reads_back_as_it_was() -> None:
    asked = workload(users__scenario="rag", users__preset="scenario", slo__ttft_p95="5 s")
    assert Workload.model_validate(asked.as_dict()) == asked
    assert Workload.model_validate(size(asked, CATALOG).as_dict()["workload"]) == asked


def test_lengths_must_come_from_somewhere() -> None:
    with pytest.raises(ValidationError, match="or preset: scenario"):
        workload(users__input_per_session=None)


def test_one_more_scenario_is_one_file(tmp_path: Path) -> None:
    text = CATALOG.texts["copilot"].replace("id: copilot", "id: translation").replace('"2.0"', '"0.5"')
    (tmp_path / "translation.yaml").write_text(
        text.replace("factor: {value: 2.0", "factor: {value: 0.5"), encoding="utf-8"
    )
    with using([tmp_path]):
        asked = demand(workload(users__dau=1000, users__scenario="translation"))
    assert asked.factor == 0.5


@pytest.mark.parametrize("name", sorted(CATALOG.scenarios))
def test_lengths_are_coherent(name: str) -> None:
    entry = CATALOG.scenario(name)
    for lengths in (entry.input, entry.output):
        if lengths.p50 is not None and lengths.p95 is not None:
            assert lengths.p50.value < lengths.p95.value
            assert lengths.p50.value * 0.5 < lengths.mean.value < lengths.p95.value
        if "from memory" in lengths.mean.source or lengths.mean.source.startswith("assumed"):
            assert not lengths.mean.verified


def test_requests_longer_than_the_context_are_warned_of() -> None:
    plan = size(
        workload(
            users__scenario="rag",
            users__preset="scenario",
            slo__ttft_p95="5 s",
            model__context="32 ki tokens",
        ),
        CATALOG,
    )
    said = next(c for c in plan.cautions if c.id == "prompts-beyond-context")
    assert "39,552" in said.text
