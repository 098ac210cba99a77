"""95th percentiles: by hand, and against the 99th percentiles that public runs report."""

from __future__ import annotations

import csv
import re
from statistics import median

import pytest

from rackwright.catalog import load_catalog
from rackwright.sizing import queueing, tails
from rackwright.sizing.estimate import Point, Shape, constants_for, estimate
from rackwright.sizing.rows import case_of
from rackwright.sizing.work import work_of
from tests.golden import REPOSITORY

CATALOG = load_catalog()


def test_behind_others_the_wait_is_spread_evenly() -> None:
    """From 0 to 2 s: 5 % wait longer than 1.9 s."""
    assert tails.first_p95(0.0, 1.0) == 1.9
    assert tails.first_p95(1.0, 0.0) == tails.JITTER_FIRST


def test_runs_under_load_are_nearer_to_an_even_spread_than_to_an_exponential_one() -> None:
    """99th percentile over mean: 1.98 of the one, 4.6 of the other."""
    loaded = [run[1] for run in runs() if run[3] >= 32]
    assert len(loaded) >= 6
    assert 1.9 <= median(loaded) <= 2.7


def test_many_departures_ahead_spread_less_than_few() -> None:
    assert tails.behind_p95(10.0, 1) == pytest.approx(26.45)
    assert tails.behind_p95(10.0, 100) == pytest.approx(11.645)


def test_prompts_that_come_during_an_answer_are_a_poisson_number() -> None:
    """16 prompts of 0.1 s in 400 tokens: 4 more are one standard deviation, 1.645 × 4 × 0.1 s / 400."""
    spread = tails.token_p95(0.02, 0.1, 16, 400) - 0.02 * tails.JITTER_TOKEN
    assert spread == pytest.approx(1.645 * 4 * 0.1 / 400)


def runs() -> list[tuple[float, float, float, float]]:
    """Of runs on one accelerator: busy share, 99th over mean of TTFT and TPOT, rate over capacity."""
    found = []
    with (REPOSITORY / "tools/fit/measured.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            said = re.match(r"p99 ttft ([\d.]+) p99 tpot ([\d.]+)", row["notes"])
            if said is None or row["n_gpus"] != "1":
                continue
            case = case_of(row, CATALOG)
            served = queueing.arriving(
                work_of(case.shape), constants_for(case.shape, case.kind), case.given, case.made,
                rate=case.rate, requests=case.requests,
            )  # fmt: skip
            first, token = float(said[1]) / float(row["ttft_ms"]), float(said[2]) / float(row["tpot_ms"])
            found.append((served.busy, first, token, case.rate))
    return found


def test_times_without_a_queue_spread_as_the_runs_at_low_load_do() -> None:
    """p95 over mean from p99 over mean of a lognormal: the power 1.645 / 2.326."""
    low = [run for run in runs() if run[0] <= 0.10]
    assert len(low) >= 15
    for column, constant in ((1, tails.JITTER_FIRST), (2, tails.JITTER_TOKEN)):
        ratio = median(run[column] for run in low)
        assert ratio ** (tails.NINETY_FIFTH / 2.326) == pytest.approx(constant, abs=0.05)


@pytest.mark.parametrize("model", ["qwen3-32b", "deepseek-v3"])
def test_the_95th_percentile_is_above_the_mean_and_grows_with_load(model: str) -> None:
    one = Shape(CATALOG.accelerators["h200-sxm"], CATALOG.models[model], "fp8", CATALOG.engines["vllm"], 8)
    found = [estimate(one, Point(2000, 500, n)) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)]
    assert all(f.ttft_p95_ms > 1.03 * f.ttft_ms and f.tpot_p95_ms > f.tpot_ms for f in found)
    assert [f.ttft_p95_ms for f in found] == sorted(f.ttft_p95_ms for f in found)
    assert [f.tpot_p95_ms for f in found] == sorted(f.tpot_p95_ms for f in found)
