"""``stage_N_lifecycle_metrics.json`` and ``summary_lifecycle_metrics.json`` of inference-perf.

Written by inference_perf/reportgen/base.py (summarize_requests): times in seconds. A stage says its load in
``load_summary`` (``concurrency``, or ``requested_rate`` alone); the summary pools the requests of all stages.
Output tokens are counted twice: ``output_len`` by the client's tokenizer, ``output_tokens`` by the server.
"""

from __future__ import annotations

from rackwright.calibration.measurement import Content, Fields, Measurement
from rackwright.errors import InputErrors, Problem
from rackwright.sizing.limits import limit

NAME = "inference-perf"
SHAPE = "stage_N_lifecycle_metrics.json: load_summary, successes, failures"
WHY = "it is what the estimate is compared with"
LATENCY = ("successes", "latency")
_TIMES = ("time_to_first_token", "time_per_output_token")


def recognises(content: Content) -> bool:
    data = content.data
    return isinstance(data, dict) and all(
        isinstance(data.get(key), dict) for key in ("load_summary", "successes", "failures")
    )


def read(content: Content) -> Measurement:
    fields = Fields(content, WHY)
    if fields.at("successes", "count") and fields.at(*LATENCY, "time_to_first_token") is None:
        fields.problem((*LATENCY, "time_to_first_token"), "must be of streamed answers", "nothing")
        raise InputErrors(fields.problems)
    concurrency, rate = (fields.optional("load_summary", name) for name in ("concurrency", "requested_rate"))
    ttft, tpot = (fields.positive(*LATENCY, name, "mean") * 1000 for name in _TIMES)
    prompt = "prompt_tokens" if isinstance(fields.at("successes", "prompt_tokens"), dict) else "prompt_len"
    measurement = Measurement(
        tool=NAME,
        where=content.where,
        sha256=content.sha256,
        date="",
        model="",
        completed=fields.count("successes", "count"),
        failed=fields.count("failures", "count"),
        input_tokens=fields.positive("successes", prompt, "mean"),
        output_tokens=fields.positive("successes", "output_len", "mean"),
        requests_per_s=fields.positive("successes", "throughput", "requests_per_sec"),
        output_tok_s=fields.positive("successes", "throughput", "output_tokens_per_sec"),
        ttft_ms=ttft,
        tpot_ms=tpot,
        latency_ms=fields.positive(*LATENCY, "request_latency", "mean") * 1000,
        concurrency=concurrency,
        rate=None if concurrency else rate,
        pooled=concurrency is None and rate is None,
        against=tuple(_miscounted(content, fields)),
    )
    if fields.problems:
        raise InputErrors(fields.problems)
    return measurement


def _miscounted(content: Content, fields: Fields) -> list[Problem]:
    """Where client and server disagree about how many tokens there were, rate and time a token are wrong."""
    share = limit("accepted", "token_mismatch")
    client = fields.optional("successes", "output_len", "mean")
    server = fields.optional("successes", "output_tokens", "mean")
    completed = fields.optional("successes", "count") or 1.0
    mismatched = fields.optional("successes", "token_count_mismatches") or 0.0
    if client and server:
        apart = abs(client / server - 1)
        found = f"{client:,.1f} tokens an answer; the server counted {server:,.1f}"
    else:
        apart = mismatched / completed
        found = f"{mismatched:,.0f} of {completed:,.0f} answers counted otherwise than by the server"
    if apart <= share:
        return []
    return [
        Problem(
            f"{content.where} successes.output_len",
            f"must be within {share * 100:.0f} % of the server's count of tokens",
            found,
            "output tokens a second and time a token are computed from it",
            "set report.request_lifecycle.use_server_output_tokens: true, or the model's own tokenizer",
        )
    ]
