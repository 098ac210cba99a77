"""Accuracy on measurements that the constants were not fitted to, by the product itself."""

from __future__ import annotations

import csv
import json
import re
from statistics import median

import pytest

from rackwright.catalog import load_catalog
from rackwright.sizing.constants import Table, fitted, table_of
from rackwright.sizing.estimate import answer
from rackwright.sizing.rows import CannotEstimate, case_of
from tests.golden import REPOSITORY

MEASURED = REPOSITORY / "tools/fit/measured.csv"
ANCHORS = REPOSITORY / "tools/fit/anchors.csv"
REPORT = (REPOSITORY / "docs/estimator-fit.md").read_text(encoding="utf-8")
FOLD = json.loads((REPOSITORY / "tests/sizing/held_out.json").read_text(encoding="utf-8"))


def rows() -> list[dict[str, str]]:
    """All that the fit sees: measurements, and published figures with the configuration of their suite."""
    found = []
    for path in (MEASURED, ANCHORS):
        with path.open(encoding="utf-8", newline="") as stream:
            found += list(csv.DictReader(stream))
    return found


def without_the_fold() -> Table:
    """The shipped table with the constants that were fitted without the fold's rows."""
    shipped = fitted()
    constants = table_of({"constants": FOLD["constants"]}).constants
    return Table(
        constants, shipped.engines, shipped.limits, shipped.releases, shipped.intervals, shipped.measured,
        shipped.designs,
    )  # fmt: skip


def test_a_fold_that_was_left_out_is_predicted_as_the_report_says() -> None:
    """To a point: the file leaves factors within 1 % of 1 out."""
    catalog, table, kept = load_catalog(), without_the_fold(), set(FOLD["rows"])
    errors: dict[str, list[float]] = {"output_tok_s_total": [], "ttft_ms": [], "tpot_ms": []}
    fold = [row for row in rows() if row["row_id"] in kept]
    for row in fold:
        found = answer(case_of(row, catalog), table)
        predicted = (found.output_tok_s, found.ttft_ms, found.tpot_ms)
        for (name, seen), value in zip(errors.items(), predicted, strict=True):
            if row[name] and float(row[name]) > 0:
                seen.append(100 * abs(value / float(row[name]) - 1))
    assert len(fold) > 100
    for name, expected in FOLD["median_error_percent"].items():
        assert median(errors[name]) == pytest.approx(expected, abs=1.0), name


def reported(line: str) -> list[tuple[float, float]]:
    """Median and ninth decile of tok/s, TTFT and TPOT in the report's line that begins with ``line``."""
    found = re.search(rf"^\| {re.escape(line)}[^|]*\|(.*)\|$", REPORT, re.MULTILINE)
    assert found is not None, line
    cells = [re.search(r"([\d.]+) / (\d+)", cell) for cell in found[1].split("|")]
    return [(float(c[1]), float(c[2])) for c in cells if c is not None]


@pytest.mark.parametrize("split", ["pairs, split 1", "pairs, split 2", "pairs, split 3", "all of a model"])
def test_pairs_never_seen_meet_what_is_required(split: str) -> None:
    rate, first, token = reported(split)
    assert rate[0] <= 20
    assert rate[1] <= 65
    assert first[0] <= 50
    assert token[0] <= 20


def test_hardware_never_seen_is_predicted_within_27_percent_in_the_median() -> None:
    assert reported("all of a hardware")[0][0] <= 27


def test_intervals_hold_four_of_five_measurements_and_are_narrow() -> None:
    found = re.search(r"(\d+) % of\s+measurements lie inside; median high/low (\d+\.\d+)", REPORT)
    assert found is not None
    assert 72 <= int(found[1]) <= 88
    assert float(found[2]) <= 2.2


def test_nearly_every_measurement_can_be_predicted() -> None:
    catalog, refused = load_catalog(), []
    for row in rows():
        try:
            assert answer(case_of(row, catalog)).output_tok_s > 0
        except CannotEstimate as reason:
            refused.append(str(reason))
    assert len(refused) <= 0.03 * len(rows())
    assert all("do not fit" in reason for reason in refused)


def test_every_constant_has_a_unit_and_the_file_says_where_it_is_from() -> None:
    text = (REPOSITORY / "src/rackwright/catalog/estimator/constants.yaml").read_text(encoding="utf-8")
    assert text.count("    unit: ") == len(fitted().constants) == 44
    assert 'source: "fit of public measurements' in text


def test_the_predictions_of_all_rows_are_those_of_the_report() -> None:
    with (REPOSITORY / "tools/fit/held_out.csv").open(encoding="utf-8", newline="") as stream:
        predicted = {row["row_id"]: row for row in csv.DictReader(stream)}
    measured = {row["row_id"]: row for row in rows() if row["metric_kind"] != "claim"}
    for column, name in enumerate(("output_tok_s_total", "ttft_ms", "tpot_ms")):
        errors = [
            100 * abs(float(predicted[number][name]) / float(row[name]) - 1)
            for number, row in measured.items()
            if number in predicted and row[name] and float(row[name]) > 0
        ]
        assert median(errors) == pytest.approx(reported("pairs, split 1")[column][0], abs=0.2), name
