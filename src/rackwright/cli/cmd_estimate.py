"""Estimate throughput, TTFT, TPOT and memory of a model on given accelerators, one case or a CSV of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from rackwright.catalog import load_catalog
from rackwright.errors import InputErrors, Problem
from rackwright.files import say, write_whole
from rackwright.sizing import batch
from rackwright.sizing.calibrating import calibrated_case
from rackwright.sizing.estimate import Answer, answer
from rackwright.sizing.rows import KINDS, CannotEstimate, Case, case_of

COLUMNS = {
    "hardware": "hardware",
    "gpus": "n_gpus",
    "tp": "tp",
    "pp": "pp",
    "ep": "ep",
    "dp": "dp",
    "model": "model",
    "engine": "engine",
    "engine_version": "engine_version",
    "precision": "wprec",
    "kv_precision": "kvprec",
    "given": "input_len",
    "made": "output_len",
    "requests": "nreq",
    "metric_kind": "metric_kind",
    "draft_tokens": "draft_tokens",
    "acceptance": "acceptance",
    "draft_cost": "draft_cost",
    "prefill_gpus": "prefill_gpus",
}
COUNT = click.IntRange(min=1)


@click.command(
    name="estimate",
    help=__doc__,
    epilog="With --batch every row of IN.csv (columns of tools/fit/measured.csv, any of them empty) is "
    "repeated with its prediction; a row that cannot be estimated has none, and a reason. "
    "Exit status: 0 estimated, 2 bad input.",
)
@click.option("--hardware", help="Accelerator or machine of the catalog.")
@click.option("--gpus", type=COUNT, help="Accelerators in all; more than a replica holds makes replicas.")
@click.option("--tp", type=COUNT, help="Tensor parallelism; the fewest that hold the model if not given.")
@click.option("--pp", type=COUNT, help="Pipeline stages.")
@click.option("--ep", type=COUNT, help="Expert parallelism.")
@click.option("--dp", type=COUNT, help="Data-parallel attention ranks that share the experts.")
@click.option("--model", help="Model of the catalog.")
@click.option("--engine", help="Engine of the catalog; vllm if not given.")
@click.option("--engine-version", help="Its version, or a date such as 2025-11; the catalog's if not given.")
@click.option(
    "--precision", help="Of weights: bf16, fp8, nvfp4, int4, q4_k_m …; the model's default if not given."
)
@click.option("--kv-precision", help="Of the KV cache: fp8 or bf16.")
@click.option("--input", "given", type=click.FloatRange(min=0), help="Tokens of a prompt.")
@click.option("--output", "made", type=click.FloatRange(min=1), help="Tokens of an answer.")
@click.option("--concurrency", type=click.FloatRange(min=0, min_open=True), help="Requests at a time.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Requests a second (kind rate).")
@click.option("--requests", type=COUNT, help="Requests in all (kinds burst, saturated, rate).")
@click.option(
    "--metric-kind", type=click.Choice(KINDS), help="What is measured; fixed_concurrency if not given."
)
@click.option("--draft-tokens", type=COUNT, help="Speculative decoding: drafts that a step verifies.")
@click.option("--acceptance", type=click.FloatRange(0, 1), help="Share of drafts kept, each; 0 to 1.")
@click.option(
    "--draft-cost", type=click.FloatRange(min=0), help="One draft over one step; 1/layers if not given."
)
@click.option("--prefill-gpus", type=COUNT, help="Of --gpus, those that only compute prompts.")
@click.option("--batch", "table", type=click.Path(path_type=Path), help="A CSV of cases instead of one.")
@click.option("-o", "target", type=click.Path(path_type=Path, dir_okay=False), help="Where --batch writes.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(table: Path | None, target: Path | None, as_json: bool, **options: Any) -> None:
    if table is not None:
        given = sorted(name for name, value in options.items() if value is not None)
        if given:
            raise click.UsageError(f"--batch reads every case from {table}; drop the options of one case")
        _batch(table, target)
        return
    if target is not None:
        raise click.UsageError("-o belongs to --batch")
    missing = [f"--{name}" for name in ("hardware", "model") if options[name] is None]
    if missing:
        raise click.UsageError(f"give {' and '.join(missing)}, or --batch IN.csv -o OUT.csv")
    catalog = load_catalog()
    try:
        case = calibrated_case(case_of(_row(options, catalog.engines), catalog), catalog)
    except CannotEstimate as reason:
        raise InputErrors(
            Problem(
                "estimate",
                "must be a case that can be",
                str(reason),
                "there is no estimate of it",
                "mend the options; rackwright catalog list shows what is known",
            )
        ) from None
    found = answer(case)
    if as_json:
        say(json.dumps(_plain(case, found), ensure_ascii=False, indent=1))
    else:
        say("\n".join(_lines(case, found)))


def _row(options: dict[str, Any], engines: Any) -> dict[str, str]:
    row = {column: "" if options[name] is None else str(options[name]) for name, column in COLUMNS.items()}
    if options["rate"] is not None:
        row["concurrency_or_rate"] = f"{options['rate']:g} req/s"
        row["metric_kind"] = row["metric_kind"] or "rate"
    elif options["concurrency"] is not None:
        row["concurrency_or_rate"] = f"{options['concurrency']:g}"
    else:
        row["concurrency_or_rate"] = (
            "1" if row["metric_kind"] in ("", "fixed_concurrency", "decode_only") else "inf"
        )
    if not row["engine_version"]:
        entry = engines.get(row["engine"] or "vllm")
        row["engine_version"] = entry.version if entry else ""
    return row


def _batch(table: Path, target: Path | None) -> None:
    if target is None:
        raise click.UsageError("--batch writes a file: add -o OUT.csv")
    read = batch.read(table)
    text, refused = batch.written(read, load_catalog())
    write_whole(target, text)
    rest = f"; {refused:,} without a prediction, with a reason" if refused else ""
    say(f"{len(read.rows) - refused:,} of {len(read.rows):,} rows predicted in {target}{rest}")


def _plain(case: Case, found: Answer) -> dict[str, Any]:
    shape = case.shape
    return {
        "hardware": shape.accelerator.id,
        "model": shape.model.id,
        "engine": shape.engine.id,
        "precision": shape.quantisation,
        "kv_bits": shape.kv_bits,
        "tp": shape.tp,
        "pp": shape.pp,
        "dp": shape.dp,
        "replicas": case.replicas,
        "layout": case.layout,
        "metric_kind": case.kind,
        "output_tok_s_total": float(f"{found.output_tok_s:.5g}"),
        "low": float(f"{found.low:.5g}"),
        "high": float(f"{found.high:.5g}"),
        "ttft_ms": float(f"{found.ttft_ms:.5g}"),
        "ttft_p95_ms": float(f"{found.ttft_p95_ms:.5g}"),
        "tpot_ms": float(f"{found.tpot_ms:.5g}"),
        "tpot_p95_ms": float(f"{found.tpot_p95_ms:.5g}"),
        "memory_gb": float(f"{found.memory_gb:.5g}"),
        "evidence": found.evidence,
        **({"calibration": shape.calibration.id} if shape.calibration is not None else {}),
    }


def _lines(case: Case, found: Answer) -> Iterator[str]:
    shape = case.shape
    copies = f", {case.replicas:g} replicas" if case.replicas > 1 else ""
    yield (
        f"{shape.model.name} {shape.quantisation} on {shape.gpus} x {shape.accelerator.name}, "
        f"{shape.engine.name}{copies}"
    )
    yield f"layout      {case.layout}"
    if shape.draft is not None:
        yield f"speculation {shape.draft.tokens} drafts a step, yield {shape.draft.accepted:.2f} tokens"
    yield f"output      {found.output_tok_s:,.0f} tok/s   80 % interval {found.low:,.0f} to {found.high:,.0f}"
    yield f"TTFT        {found.ttft_ms:,.0f} ms   p95 {found.ttft_p95_ms:,.0f} ms"
    yield f"TPOT        {found.tpot_ms:,.1f} ms   p95 {found.tpot_p95_ms:,.1f} ms"
    yield f"memory      {found.memory_gb:,.1f} GB on each accelerator at this load"
    yield f"evidence    {found.evidence}; load {case.kind}"
    if shape.calibration is not None:
        yield f"calibrated  {shape.calibration.id}: throughput × {shape.calibration.throughput.value:.3f}"
