"""``profile_export_aiperf.json`` of aiperf: a metric an entry, each with ``unit`` and ``avg``.

Shape and versions: aiperf's docs/reference/json-export-schema.md (schema 1.0 to 1.5; ``unit`` decides what a
value means). The load is in ``input_config``: ``phases`` from 0.10 on, ``loadgen`` before. Requests of the
warm-up are in no figure (``warmup_metrics`` has theirs).
"""

from __future__ import annotations

from typing import Any

from rackwright.calibration.measurement import MOST, Content, Fields, Measurement
from rackwright.errors import InputErrors, Problem

NAME = "aiperf JSON"
SHAPE = "profile_export_aiperf.json: request_throughput with unit and avg, input_config"
WHY = "it is what the estimate is compared with"
MS = {"ms": 1.0, "sec": 1000.0, "s": 1000.0, "us": 1e-3, "ns": 1e-6}
TOKENS_PER_SECOND = {"tokens/sec": 1.0, "tokens/s": 1.0}
RAMPS = (
    "concurrency_ramp", "rate_ramp", "rate_series", "concurrency_ramp_duration", "request_rate_ramp_duration",
)  # fmt: skip
REQUESTS_PER_SECOND = {"requests/sec": 1.0, "requests/s": 1.0}


def recognises(content: Content) -> bool:
    data = content.data
    if not isinstance(data, dict) or not isinstance(data.get("request_throughput"), dict):
        return False
    throughput = data["request_throughput"]
    return {"unit", "avg"} <= set(throughput) and ("input_config" in data or "aiperf_version" in data)


def read(content: Content) -> Measurement:
    fields = Fields(content, WHY)
    version = fields.text("aiperf_version")
    phase, warmup = _phases(fields)
    failed = fields.optional("error_request_count", "avg")
    kind, concurrency, rate = _load(phase)
    measurement = Measurement(
        tool=f"aiperf {version}".strip(),
        where=content.where,
        sha256=content.sha256,
        date=(fields.text("end_time") or fields.text("start_time"))[:10],
        model=_model(fields),
        completed=fields.count("request_count", "avg"),
        failed=int(failed or 0),
        input_tokens=fields.positive("input_sequence_length", "avg"),
        output_tokens=fields.positive("output_sequence_length", "avg"),
        requests_per_s=_metric(fields, "request_throughput", REQUESTS_PER_SECOND),
        output_tok_s=_metric(fields, "output_token_throughput", TOKENS_PER_SECOND),
        ttft_ms=_metric(fields, "time_to_first_token", MS),
        tpot_ms=_metric(fields, "inter_token_latency", MS),
        latency_ms=_metric(fields, "request_latency", MS),
        concurrency=concurrency,
        rate=rate,
        warmup=warmup,
        pooled=kind == "several",
        against=tuple(_against(content, fields, kind, _ramp(phase))),
    )
    if fields.problems:
        raise InputErrors(fields.problems)
    return measurement


def _metric(fields: Fields, name: str, units: dict[str, float]) -> float:
    return fields.positive(name, "avg") * fields.unit(name, "unit", allowed=units)


def _phases(fields: Fields) -> tuple[dict[str, Any] | None, int | None]:
    """The one profiling phase and the requests of the warm-up; None where the configuration is silent."""
    phases = fields.at("input_config", "phases")
    if isinstance(phases, list):
        named = [phase for phase in phases if isinstance(phase, dict)]
        warm = [phase for phase in named if "warmup" in (phase.get("kind"), phase.get("name"))]
        load = [phase for phase in named if phase not in warm]
        counted = sum(int(_number(phase.get("requests")) or 1) for phase in warm)
        return (load[0] if len(load) == 1 else {"type": "several"}), counted
    loadgen = fields.at("input_config", "loadgen")
    if isinstance(loadgen, dict):
        warmed = _number(loadgen.get("warmup_request_count"))
        return (
            {**loadgen, "rate": loadgen.get("request_rate")},
            int(warmed or 0) or (1 if _number(loadgen.get("warmup_duration")) else 0),
        )
    return None, None


def _load(phase: dict[str, Any] | None) -> tuple[str, float | None, float | None]:
    """The kind of load, its clients and its rate. Clients beside a rate are a bound, not a load."""
    if phase is None:
        return "", None, None
    kind = str(phase.get("type", ""))
    rate = _number(phase.get("rate"))
    return kind, None if rate else _number(phase.get("concurrency")), rate


def _ramp(phase: dict[str, Any] | None) -> str:
    """The option that changes the load during the run; empty where none does."""
    return next((name for name in RAMPS if phase is not None and phase.get(name)), "")


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < MOST
    return float(value) if known else None


def _model(fields: Fields) -> str:
    return (
        fields.text("input_config", "models", "items", 0, "name")
        or fields.text("input_config", "models", 0)
        or fields.text("input_config", "endpoint", "model_names", 0)
    )


def _against(content: Content, fields: Fields, kind: str, ramp: str) -> list[Problem]:
    problems = []
    if ramp:
        problems.append(
            Problem(
                f"{content.where} input_config {ramp}",
                "must not be set",
                "a ramp in the requests that count",
                "the load changed all along; its means stand for no load",
                "ramp up in the warm-up phase, or not at all",
            )
        )
    stopped = fields.at("was_cancelled") is True
    if stopped or fields.at("is_complete") is False:
        problems.append(
            Problem(
                f"{content.where} {'was_cancelled' if stopped else 'is_complete'}",
                "must be a run that ended by itself",
                fields.text("incomplete_reason") or "one that was cut short",
                "the requests still under way are in no figure",
                "run it to its end",
            )
        )
    if kind in ("fixed_schedule", "user_centric"):
        problems.append(
            Problem(
                f"{content.where} input_config.phases",
                "must be a load of fixed concurrency or rate",
                kind,
                "a replayed schedule has no one load that an estimate could be of",
                "aiperf profile --concurrency N",
            )
        )
    if fields.at("pooled_spec_decode_acceptance_histogram") is not None:
        problems.append(
            Problem(
                f"{content.where} pooled_spec_decode_acceptance_histogram",
                "must be a run without speculative decoding",
                "drafts were made",
                "plans start the engine without a draft model: the factor would promise its gain",
                "measure without one",
            )
        )
    return problems
