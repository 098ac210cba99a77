"""Factors, spreads and distances, by hand; the constants against the measurements that they are from."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from itertools import combinations

import pytest

from rackwright.sizing.calibrated import (
    Calibration,
    Distance,
    Factor,
    Place,
    correction,
    distance,
    factor,
)
from rackwright.sizing.limits import limit
from tests.golden import REPOSITORY

AT_32 = Place(8, 1, 1, 1400, 600, 32)


def at(**changes: float) -> Place:
    return Place(**{**AT_32.__dict__, **changes})


def one(spread: float = 0.05, *places: Place, **changes: bool) -> Calibration:
    same = {"same_version": True, "same_cache": True, **changes}
    throughput = Factor(0.9, spread, 1)
    return Calibration("x", "1", same["same_version"], same["same_cache"], throughput, None, None,
                       places or (AT_32,), "a run", "2026-11-30")  # fmt: skip


def test_one_point_has_the_noise_between_two_runs() -> None:
    """√(1 + 1/1) × 0.03 = 0.0424: what a second run may differ by."""
    found = factor([0.9], 0.03)
    assert found.value == pytest.approx(0.9)
    assert found.spread == pytest.approx(0.042426, abs=1e-6)
    assert (found.low, found.high) == (pytest.approx(0.86262, abs=1e-4), pytest.approx(0.93900, abs=1e-4))


def test_the_mean_is_geometric_and_the_spread_students() -> None:
    """Ratios 0.8, 1.0, 1.25: mean 1; deviation of the logarithms ln 1.25 = 0.22314; t of 2 degrees 1.886."""
    found = factor([0.8, 1.0, 1.25], 0.03)
    assert found.value == pytest.approx(1.0)
    assert found.spread == pytest.approx(math.sqrt(4 / 3) * 1.886 * 0.223144, rel=1e-4)


def test_points_that_agree_exactly_still_have_noise() -> None:
    assert factor([0.9] * 50, 0.03).spread == pytest.approx(math.sqrt(1.02) * 0.03)


def test_at_a_measured_point_the_spread_is_all() -> None:
    found = correction(one(), AT_32, 0.7, 1.5)
    assert (found.throughput, found.ttft, found.tpot) == (0.9, 1.0, 1.0)
    assert (found.low, found.high) == (pytest.approx(math.exp(-0.05)), pytest.approx(math.exp(0.05)))
    assert found.measured


def test_the_interval_widens_with_doublings_up_to_that_of_the_class() -> None:
    """√(0.05² + 0.12² × doublings of concurrency)."""
    halves = [-math.log(correction(one(), at(clients=32 * 2**n), 0.7, 1.5).low) for n in range(7)]
    assert halves[1] == pytest.approx(math.sqrt(0.05**2 + 0.12**2))
    assert halves[4] == pytest.approx(math.sqrt(0.05**2 + 4 * 0.12**2))
    assert halves[6] == pytest.approx(math.sqrt(0.05**2 + 6 * 0.12**2))
    assert halves == sorted(halves)
    far = correction(one(), at(clients=32 * 2**12), 0.7, 1.5)
    assert (far.low, far.measured) == (0.7, False)
    assert correction(one(), at(clients=64), 0.99, 1.01).high == 1.01, "never wider than without"


@pytest.mark.parametrize(
    ("changes", "doublings"),
    [
        ({"clients": 16.0}, Distance(1, 0, 0)),
        ({"clients": 128.0}, Distance(2, 0, 0)),
        ({"given": 2800.0}, Distance(0, 1, 0)),
        ({"given": 2800.0, "made": 300.0}, Distance(0, 2, 0)),
        ({"tp": 4}, Distance(0, 0, 1)),
        ({"tp": 4, "pp": 2}, Distance(0, 0, 2)),
    ],
)
def test_doublings(changes: dict[str, float], doublings: Distance) -> None:
    assert distance([AT_32], at(**changes)) == doublings
    assert distance([AT_32], at(**changes)).near == (max(doublings.concurrency, doublings.length) <= 1
                                                      and doublings.division == 0)  # fmt: skip


def test_between_two_points_of_one_length_nothing_is_added_and_beside_them_something_is() -> None:
    swept = [AT_32, at(clients=512)]
    assert distance(swept, at(clients=128)) == Distance(0, 0, 0)
    assert distance(swept, at(clients=1024)) == Distance(1, 0, 0)
    other_length = [AT_32, at(clients=512, given=11200)]
    assert distance(other_length, at(clients=128)) == Distance(2, 0, 0), "a sweep of two lengths is none"


@pytest.mark.parametrize("what", ["same_version", "same_cache"])
def test_another_version_or_cache_widens_and_is_not_called_measured(what: str) -> None:
    found = correction(one(**{what: False}), AT_32, 0.7, 1.5)
    assert -math.log(found.low) == pytest.approx(math.sqrt(0.05**2 + 0.12**2))
    assert not found.measured


def apart() -> dict[str, list[tuple[float, float]]]:
    """Pairs of public measurements of one hardware, model, engine and precision that differ in one thing:
    doublings of it, and by how much measured over held-out prediction differs (logarithm)."""
    tables = {}
    for name in ("measured", "held_out"):
        with (REPOSITORY / "tools" / "fit" / f"{name}.csv").open(encoding="utf-8") as stream:
            tables[name] = {row["row_id"]: row for row in csv.DictReader(stream)}
    groups = defaultdict(list)
    for key, predicted in tables["held_out"].items():
        row = tables["measured"][key]
        if row["metric_kind"] == "fixed_concurrency" and predicted["output_tok_s_total"]:
            ratio = math.log(float(row["output_tok_s_total"]) / float(predicted["output_tok_s_total"]))
            group = tuple(row[name] for name in ("source", "hardware", "model", "engine", "wprec"))
            groups[group].append((ratio, row))
    found: dict[str, list[tuple[float, float]]] = {"concurrency": [], "division": []}
    for rows in groups.values():
        for (a, first), (b, second) in combinations(rows, 2):
            unlike = {
                name
                for name in ("input_len", "output_len", "tp", "dp", "n_gpus", "concurrency_or_rate")
                if first[name] != second[name]
            }
            for name, column in (("concurrency", "concurrency_or_rate"), ("division", "tp")):
                if unlike - {"n_gpus" if name == "division" else ""} == {column}:
                    doublings = abs(math.log2(float(first[column]) / float(second[column])))
                    found[name].append((doublings, abs(a - b)))
    return found


@pytest.mark.parametrize(("name", "doublings"), [("concurrency", 1), ("concurrency", 2), ("concurrency", 3),
                                                 ("division", 1)])  # fmt: skip
def test_widening_is_what_public_measurements_differ_by(name: str, doublings: int) -> None:
    """80 % of the pairs differ by k × √doublings, within a third."""
    errors = sorted(error for far, error in apart()[name] if round(far) == doublings)
    assert len(errors) >= 20
    eighth = errors[int(0.8 * len(errors)) - 1]
    assert limit("widening", name) * math.sqrt(doublings) == pytest.approx(eighth, rel=1 / 3)


def test_noise_of_throughput_covers_repeats_of_one_setting() -> None:
    """Four settings that were measured two to four times: end to end at most twice the half-width.

    SGLang's runs of DeepSeek-V3.2 on H200 are left out: their launch flags differ.
    """
    repeats = {
        ("H100", "Qwen3-14B", "217"), ("H200", "DeepSeek-V3.2", "219"), ("A100-SXM", "GLM-4.5-Air", "214"),
        ("A100-SXM", "Qwen3-235B-A22B", "217"),
    }  # fmt: skip
    runs = defaultdict(list)
    with (REPOSITORY / "tools" / "fit" / "measured.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if (row["hardware"], row["model"], row["input_len"]) in repeats:
                key = tuple(row[n] for n in ("hardware", "model", "engine_version", "engine", "tp", "n_gpus",
                                              "output_len", "dp", "ep", "moe_ep", "wprec",
                                              "concurrency_or_rate",
                                              "nreq", "input_len"))  # fmt: skip
                runs[key].append(float(row["output_tok_s_total"]))
    spans = {key: math.log(max(v) / min(v)) for key, v in runs.items() if len(v) > 1}
    steady = {key: span for key, span in spans.items() if key[3] != "sglang" or key[0] != "H200"}
    assert len(steady) >= 4
    assert max(steady.values()) <= 2 * limit("noise", "throughput")
