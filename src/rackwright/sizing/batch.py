"""Many questions at once: a CSV with the columns of ``tools/fit/measured.csv``, predictions behind them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rackwright.catalog import Catalog
from rackwright.errors import CannotRun, InputErrors, Problem, nearest
from rackwright.sizing.calibrating import calibrated_case
from rackwright.sizing.estimate import Answer, answer
from rackwright.sizing.rows import CannotEstimate, case_of
from rackwright.yamlio import printable

ADDED = (
    "pred_output_tok_s_total", "pred_lo", "pred_hi", "pred_ttft_ms", "pred_tpot_ms", "pred_memory_gb",
    "evidence", "reason",
)  # fmt: skip
NEEDED = ("hardware", "model")
LARGEST = 256 << 20
"""Bytes of an input file."""


@dataclass(frozen=True)
class Table:
    """A CSV: its columns in order and its rows by column."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, str], ...]


def read(path: Path) -> Table:
    """The table in ``path``.

    Raises:
        CannotRun: the file cannot be read.
        InputErrors: it is no CSV with the columns ``hardware`` and ``model``, or a row is too long.
    """
    shown = printable(str(path))
    try:
        if path.stat().st_size > LARGEST:
            raise InputErrors(_problem(shown, f"must be at most {LARGEST >> 20} MiB", "a larger file"))
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputErrors(
            _problem(shown, "must be UTF-8 text", f"other bytes at offset {error.start}")
        ) from None
    except OSError as error:
        raise CannotRun(
            _problem(shown, "must be a file that can be read", (error.strerror or "").lower())
        ) from None
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InputErrors(_problem(shown, "must be CSV", str(error))) from None
    columns = tuple(lines[0]) if lines else ()
    problems = [
        _problem(f"{shown}:1", f'must have a column "{name}"{nearest(name, columns)}', "none")
        for name in NEEDED
        if name not in columns
    ]
    twice = sorted({c for c in columns if columns.count(c) > 1})
    problems += [
        _problem(f"{shown}:1", "must name every column once", f'"{printable(c)}" twice') for c in twice
    ]
    problems += [
        _problem(f"{shown}:{number}", f"must have at most {len(columns)} fields", f"{len(line)}")
        for number, line in enumerate(lines[1:], start=2)
        if len(line) > len(columns)
    ]
    if problems:
        raise InputErrors(problems)
    padded = (line + [""] * (len(columns) - len(line)) for line in lines[1:] if line)
    return Table(columns, tuple(dict(zip(columns, line, strict=True)) for line in padded))


def _problem(where: str, rule: str, found: str) -> Problem:
    return Problem(
        where,
        rule,
        found,
        "every row is one question to the estimator",
        "start from the header of tools/fit/measured.csv",
    )


def predictions(rows: Iterable[Mapping[str, str]], catalog: Catalog) -> Iterator[Answer | str]:
    """An answer, or the reason why there is none, for every row."""
    for row in rows:
        try:
            case = case_of(row, catalog)
            yield answer(calibrated_case(case, catalog) if catalog.calibrations else case)
        except CannotEstimate as reason:
            yield str(reason)


def fields(found: Answer | str) -> dict[str, str]:
    """The added columns of one row."""
    if isinstance(found, str):
        return dict.fromkeys(ADDED, "") | {"reason": found}
    return {
        "pred_output_tok_s_total": f"{found.output_tok_s:.5g}",
        "pred_lo": f"{found.low:.5g}",
        "pred_hi": f"{found.high:.5g}",
        "pred_ttft_ms": f"{found.ttft_ms:.5g}",
        "pred_tpot_ms": f"{found.tpot_ms:.5g}",
        "pred_memory_gb": f"{found.memory_gb:.5g}",
        "evidence": found.evidence,
        "reason": "",
    }


def written(table: Table, catalog: Catalog) -> tuple[str, int]:
    """The table with predictions as CSV, and how many rows have none.

    Added columns that are there already are replaced.
    """
    kept = [name for name in table.columns if name not in ADDED]
    out, refused = io.StringIO(), 0
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*kept, *ADDED])
    for row, found in zip(table.rows, predictions(table.rows, catalog), strict=True):
        refused += isinstance(found, str)
        added = fields(found)
        writer.writerow([*(row[name] for name in kept), *(added[name] for name in ADDED)])
    return out.getvalue(), refused
