"""``vllm bench serve --save-result``: a flat JSON object of one run.

Fields as ``vllm/benchmarks/serve.py`` writes them (main_async, benchmark): times in ms, rates over the run.
The result says neither how many requests warmed the engine up (``--num-warmups``) nor what the server is.
"""

from __future__ import annotations

import re

from rackwright.calibration.measurement import Content, Fields, Measurement
from rackwright.errors import InputErrors, Problem

NAME = "vllm bench serve"
SHAPE = "--save-result: backend, request_rate, output_throughput"
WHY = "it is what the estimate is compared with"
_DATE = re.compile(r"(20\d\d)(\d\d)(\d\d)-\d{6}")


def recognises(content: Content) -> bool:
    data = content.data
    return isinstance(data, dict) and {"backend", "request_rate", "num_prompts", "total_input_tokens"} <= set(
        data
    )


def read(content: Content) -> Measurement:
    fields = Fields(content, WHY)
    completed = fields.count("completed")
    if completed == 0 and not fields.problems:
        fields.problem(("completed",), "must be above 0", "0")
    given, made = fields.positive("total_input_tokens"), fields.positive("total_output_tokens")
    rate = None if fields.at("request_rate") == "inf" else fields.positive("request_rate")
    duration = fields.positive("duration")
    failed = fields.optional("failed")
    sent = fields.optional("num_prompts")
    measurement = Measurement(
        tool=NAME,
        where=content.where,
        sha256=content.sha256,
        date=_date(fields.text("date")),
        model=fields.text("model_id"),
        completed=completed,
        failed=int(failed) if failed is not None else _unserved(sent, completed),
        input_tokens=given / max(completed, 1),
        output_tokens=made / max(completed, 1),
        requests_per_s=completed / duration,
        output_tok_s=fields.positive("output_throughput"),
        ttft_ms=fields.positive("mean_ttft_ms"),
        tpot_ms=fields.positive("mean_tpot_ms"),
        latency_ms=fields.optional("mean_e2el_ms"),
        concurrency=fields.optional("max_concurrency"),
        rate=rate,
        against=tuple(_against(content, fields)),
    )
    if fields.problems:
        raise InputErrors(fields.problems)
    return measurement


def _unserved(sent: float | None, completed: int) -> int | None:
    """Older versions write no ``failed``: what was sent and not completed."""
    return None if sent is None else max(int(sent) - completed, 0)


def _date(text: str) -> str:
    found = _DATE.fullmatch(text)
    return f"{found[1]}-{found[2]}-{found[3]}" if found else ""


def _against(content: Content, fields: Fields) -> list[Problem]:
    problems = []
    if fields.at("ramp_up_strategy") is not None:
        problems.append(
            Problem(
                f"{content.where} ramp_up_strategy",
                "must not be set",
                fields.text("ramp_up_strategy") or "a ramp",
                "the load changed all along; its means stand for no load",
                "vllm bench serve --max-concurrency N, without --ramp-up-strategy",
            )
        )
    if fields.at("request_rate") == "inf" and fields.at("max_concurrency") is None:
        problems.append(
            Problem(
                f"{content.where} max_concurrency",
                "must be given where request_rate is inf",
                "nothing: every request was sent at once",
                "a burst is its own start and end; plans are sized for a load that lasts",
                "vllm bench serve --max-concurrency N --num-prompts 10×N",
            )
        )
    if fields.at("spec_decode_num_drafts") is not None:
        problems.append(
            Problem(
                f"{content.where} spec_decode_num_drafts",
                "must be a run without speculative decoding",
                "drafts were made",
                "plans start the engine without a draft model: the factor would promise its gain",
                "measure without --speculative-config",
            )
        )
    return problems
