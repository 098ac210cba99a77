"""Narrow the estimates with measured runs of aiperf, vllm bench serve, inference-perf or a go-live run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import click

from rackwright.calibration.entry import Made, made
from rackwright.calibration.reading import measurements
from rackwright.calibration.rules import Stated
from rackwright.catalog import VARIABLE, Catalog, load_catalog, using
from rackwright.cli.messages import visible
from rackwright.errors import CannotRun, InputErrors, Problem
from rackwright.files import say, write_whole
from rackwright.sizing.calibrated import Factor
from rackwright.sizing.calibrating import factor_of
from rackwright.sizing.estimate import CLOSED
from rackwright.sizing.evidence import evidence_of, interval

COUNT = click.IntRange(min=1)
TOKENS = click.FloatRange(min=1)


@click.command(
    name="calibrate",
    help=__doc__,
    epilog="One entry is written into calibrations/ of your own catalog directory (the first of --catalog "
    "and RACKWRIGHT_CATALOG). Options say what a result does not; they hold for every RESULT. "
    "Exit status: 0 written, 2 a result or an option is wrong.",
)
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--catalog",
    "directories",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Your own catalog directory; as rackwright --catalog and RACKWRIGHT_CATALOG.",
)
@click.option("--hardware", help="Accelerator or machine of the catalog.")
@click.option("--gpus", type=COUNT, help="GPUs of all replicas that served the run.")
@click.option("--tp", type=COUNT, help="Tensor parallelism of a replica.")
@click.option("--pp", type=COUNT, help="Pipeline stages of a replica; 1 if not given.")
@click.option(
    "--dp", type=COUNT, help="Data-parallel attention ranks that share the experts; 1 if not given."
)
@click.option("--model", help="Model of the catalog; as the result says if not given.")
@click.option("--precision", help="Of the weights: bf16, fp8, nvfp4, int4 …")
@click.option(
    "--kv-precision", type=click.Choice(["bf16", "fp8"]), help="Of the KV cache; bf16 if not given."
)
@click.option("--engine", help="Engine of the catalog.")
@click.option("--engine-version", help="Its version.")
@click.option("--date", "date", help="When it was measured, 2026-11-30; as the result says if not given.")
@click.option("--input", "given", type=TOKENS, help="Tokens of a prompt as meant; another length is refused.")
@click.option("--output", "answer", type=TOKENS, help="Tokens of an answer as meant; another is refused.")
@click.option(
    "--concurrency", type=click.FloatRange(min=0, min_open=True), help="Requests at a time, where not said."
)
@click.option("--by", default="", help="Who measured, for the entry's source.")
@click.option("--json", "as_json", is_flag=True, help="The entry's path and factors as JSON.")
def command(  # noqa: PLR0917 - an option each
    results: tuple[Path, ...],
    directories: tuple[Path, ...],
    given: float | None,
    answer: float | None,
    concurrency: float | None,
    by: str,
    as_json: bool,
    **options: Any,
) -> None:
    if directories:
        click.get_current_context().with_resource(using(directories))
    target = _directory()
    catalog = load_catalog()
    runs = measurements(results)
    calibration = made(runs, options, Stated(concurrency, given, answer), catalog, by)
    file = target / "calibrations" / f"{calibration.entry.id}.yaml"
    before = _before(file, calibration, catalog)
    write_whole(file, calibration.text)
    if as_json:
        factors = calibration.entry.factors.model_dump(mode="json", exclude_none=True)
        say(json.dumps({"file": str(file), "id": calibration.entry.id, "factors": factors}, indent=1))
        return
    say(visible("\n".join(_lines(calibration, file, target, before))))


def _directory() -> Path:
    """The first directory of the user's own entries.

    Raises:
        CannotRun: none is named.
    """
    own = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    if own:
        return Path(own[0])
    raise CannotRun(
        Problem(
            "--catalog",
            "must name a directory of your own catalog entries",
            "nothing",
            "a calibration is yours: it is kept beside the catalog that ships, not in it",
            "mkdir catalog; rackwright --catalog catalog calibrate …",
        )
    )


def _before(file: Path, calibration: Made, catalog: Catalog) -> int:
    """Points of the entry that is replaced; 0 where there is none.

    Raises:
        InputErrors: an entry of the id stands in another file.
    """
    known = {entry.id for kind in catalog.kinds.values() for entry in kind.values()}
    if calibration.entry.id not in known:
        return 0
    if not file.is_file() or calibration.entry.id not in catalog.calibrations:
        raise InputErrors(
            Problem(
                str(file),
                "must be the one file of its entry",
                f'"{calibration.entry.id}" in another file of the catalog',
                "two entries of one id cannot be read",
                "remove the other, or calibrate into its directory",
            )
        )
    return len(catalog.calibrations[calibration.entry.id].points)


def _lines(calibration: Made, file: Path, target: Path, before: int) -> Iterator[str]:
    entry = calibration.entry
    yield f"{entry.name}"
    rows = [("GPUS", "TP", "CLIENTS", "INPUT", "OUTPUT", "TOK/S", "PREDICTED", "FACTOR", "TTFT", "TPOT")]
    for point, ratio in zip(entry.points, calibration.ratios, strict=True):
        rows.append(
            (
                str(point.gpus),
                str(point.tensor_parallel),
                f"{point.concurrency.value:,.4g}",
                f"{point.input.value:,.0f}",
                f"{point.output.value:,.0f}",
                f"{point.throughput.value:,.0f}",
                f"{point.throughput.value / ratio.throughput:,.0f}",
                f"× {ratio.throughput:.3f}",
                f"× {ratio.ttft:.3f}" if ratio.ttft else "-",
                f"× {ratio.tpot:.3f}" if ratio.tpot else "-",
            )
        )
    yield from _table(rows)
    yield ""
    for name, label in (("throughput", "throughput"), ("ttft", "TTFT"), ("tpot", "TPOT")):
        factor = factor_of(name, [getattr(ratio, name) for ratio in calibration.ratios])
        if factor is not None:
            yield f"{label:<11}{_factor(factor)}"
    yield f"{'interval':<11}{_narrowed(calibration)}"
    for number, point in enumerate(entry.points, start=1):
        for remark in point.remarks:
            yield f"{'note':<11}run {number}: {remark}"
    yield ""
    yield f"{file}: " + (f"replaced, {_points(before)} before" if before else "written")
    yield f"next  rackwright --catalog {quote(str(target))} size WORKLOAD.yaml -o plan.yaml"
    yield f"      rackwright --catalog {quote(str(target))} check plan.yaml   (a plan that was sized before)"


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"


def _factor(factor: Factor) -> str:
    ends = f"80 %: {factor.low:.3f}–{factor.high:.3f}"
    return f"× {factor.value:.3f} of the estimate ({ends}, {_points(factor.count)})"


def _narrowed(calibration: Made) -> str:
    """The interval of the estimate at a measured point, before and with the calibration."""
    evidence = evidence_of(calibration.shapes[0])
    low, high = interval(CLOSED, evidence)
    factor = factor_of("throughput", [ratio.throughput for ratio in calibration.ratios])
    assert factor is not None
    near, far = max(low, factor.low / factor.value), min(high, factor.high / factor.value)
    text = f"× {low:.2f}–{high:.2f} ({evidence}) becomes × {near:.2f}–{far:.2f} (measured) at these points"
    return text if (near, far) != (low, high) else f"× {low:.2f}–{high:.2f} stays: these runs differ by more"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
