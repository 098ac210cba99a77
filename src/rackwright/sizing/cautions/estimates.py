"""How far the figures of a plan can be trusted."""

from __future__ import annotations

from rackwright.sizing.cautions.base import Finding, Rule, Sized
from rackwright.sizing.constants import fitted


def _error(measured: str) -> str:
    middle, high = fitted().errors[measured]
    return f"median {middle:.0f} %, ninth decile {high:.0f} %"


def estimate_not_measured(s: Sized) -> Finding | None:
    """Nobody published a measurement of this pair."""
    at = s.chosen.candidate.at
    if at.evidence == "measured":
        return None
    return (
        "warn",
        f"Throughput is estimated ({at.evidence}): {at.output_tok_s:,.0f} tok/s a replica, 80 % interval "
        f"{at.low:,.0f}–{at.high:,.0f}. Measure the first node under this load (vllm bench serve) "
        "before buying the rest.",
        f"error of the estimator on pairs that it was not fitted to: {_error('output_tok_s_total')}",
        "public measurements of vLLM, SGLang and TensorRT-LLM",
    )


def ttft_unreliable(s: Sized) -> Finding | None:
    """Time to first token under load cannot be predicted well by anyone."""
    at = s.chosen.candidate.at
    return (
        "info",
        f"The time to first token of {at.ttft_ms:,.0f} ms (p95 {at.ttft_p95_ms:,.0f} ms) is a rough figure; "
        "it depends on how bursts arrive. Prove it under 1.5 × peak for half an hour before go-live.",
        "best known predictors are 50–60 % off in the median, ours on pairs that it was not fitted to: "
        + _error("ttft_ms"),
        "public measurements, several estimators compared",
    )


def prefill_heavy(s: Sized) -> Finding | None:
    """Prompts, not answers, take much of the GPUs' time."""
    share = s.chosen.candidate.at.prefill_share
    if share < 0.3:
        return None
    return (
        "warn",
        f"Reading prompts takes {share * 100:.0f} % of the GPUs' time at the planned concurrency. Prefix "
        "caching helps where prompts share beginnings (a hit rate of 50 % is not counted on here); longer "
        "prompts cost output throughput directly.",
        "estimate",
        "roofline of prefill; the guide has no red line for it",
    )


RULES: tuple[Rule, ...] = (
    estimate_not_measured,
    ttft_unreliable,
    prefill_heavy,
)
