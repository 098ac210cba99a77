"""A run in our own format, ``rackwright/run/1``: what a go-live run measured, and on what.

The schema is published as ``docs/schemas/run.schema.json``. It says all facts itself, so that no option is
needed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from rackwright.calibration.measurement import Content, Measurement
from rackwright.catalog.figures import Date
from rackwright.yamlio import Document, validated

NAME = "rackwright run"
SHAPE = '"schema": "rackwright/run/1"'
SCHEMA = "rackwright/run/1"

Positive = Annotated[float, Field(gt=0, lt=1e15, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0, lt=10**12)]
Many = Annotated[int, Field(ge=1, lt=10**12)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Under(Part):
    """What was measured. ``hardware``, ``model``, ``engine``: of the catalog; ``gpus``: of all replicas."""

    hardware: Name
    gpus: Many
    tensor_parallel: Many
    pipeline_parallel: Many = 1
    data_parallel: Many = 1
    model: Name
    precision: Name
    kv_cache: Literal["bf16", "fp8"] = "bf16"
    engine: Name
    engine_version: Name


class Load(Part):
    """The load that was held. Tokens a request as asked for; ``duration_s``: of the requests counted."""

    concurrency: Positive
    input_tokens: Positive
    output_tokens: Positive
    warmup_requests: Whole
    duration_s: Positive


class Measured(Part):
    """Means over the requests that succeeded."""

    requests_completed: Many
    requests_failed: Whole
    input_tokens: Positive
    output_tokens: Positive
    output_tok_s: Positive
    ttft_ms: Positive
    tpot_ms: Positive


class Run(Part):
    """One run under one load: ``under_test`` carried ``load`` and ``measured`` is what came of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    schema_: Annotated[Literal["rackwright/run/1"], Field(alias="schema")]
    tool: Name
    date: Date
    under_test: Under
    load: Load
    measured: Measured


def recognises(content: Content) -> bool:
    data = content.data
    return isinstance(data, dict) and str(data.get("schema", "")).startswith("rackwright/run/")


def read(content: Content) -> Measurement:
    document = Document(content.where, content.data, {})
    run = validated(
        Run, document, why="it is what the estimate is compared with", next_command="rackwright schema run"
    )
    measured, load, under = run.measured, run.load, run.under_test
    return Measurement(
        tool=run.tool,
        where=content.where,
        sha256=content.sha256,
        date=run.date,
        model=under.model,
        completed=measured.requests_completed,
        failed=measured.requests_failed,
        input_tokens=measured.input_tokens,
        output_tokens=measured.output_tokens,
        requests_per_s=measured.requests_completed / load.duration_s,
        output_tok_s=measured.output_tok_s,
        ttft_ms=measured.ttft_ms,
        tpot_ms=measured.tpot_ms,
        latency_ms=None,
        concurrency=load.concurrency,
        warmup=load.warmup_requests,
        facts={
            "hardware": under.hardware,
            "gpus": under.gpus,
            "tp": under.tensor_parallel,
            "pp": under.pipeline_parallel,
            "dp": under.data_parallel,
            "model": under.model,
            "precision": under.precision,
            "kv_precision": under.kv_cache,
            "engine": under.engine,
            "engine_version": under.engine_version,
            "input": load.input_tokens,
            "output": load.output_tokens,
        },
    )
