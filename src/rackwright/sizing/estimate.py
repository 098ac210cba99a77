"""The one estimator: what a replica of a model can do on given accelerators.

Pure functions over frozen values: ``memory(shape, …)`` says what fits, ``estimate(shape, point)`` how fast it
runs at a concurrency, ``capacity(shape, …)`` the most it carries within objectives, ``answer(case)`` what a
measurement of any kind would show. The physics is in ``decode``, ``prefill``, ``collectives`` and
``queueing``; the constants are fitted to public measurements (``docs/estimator-fit.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from rackwright.sizing import decode, disaggregation, queueing
from rackwright.sizing.arithmetic import touched
from rackwright.sizing.calibrated import Correction, Distance, Place, correction
from rackwright.sizing.constants import Constants, Table, constants_of
from rackwright.sizing.evidence import Evidence, evidence_of, interval
from rackwright.sizing.memory import (
    KV_SHARE,
    RED_LINE_MEMORY,
    Memory,
    activations_gib,
    kv_bytes_per_gpu,
    memory,
)
from rackwright.sizing.rows import Case
from rackwright.sizing.shape import GIB, Point, Shape
from rackwright.sizing.work import Work, work_of

__all__ = [
    "CLOSED", "GIB", "KV_SHARE", "RED_LINE_BANDWIDTH", "RED_LINE_MEMORY", "Answer", "Bounds", "Estimated",
    "Evidence", "Limit", "Memory", "Point", "Shape", "activations_gib", "active_bytes", "answer",
    "bandwidth_share", "bytes_per_parameter", "capacity", "constants_for", "corrected", "decode_step_s",
    "estimate", "evidence_of", "experts_touched", "kv_bytes_per_gpu", "memory", "violated",
]  # fmt: skip

RED_LINE_BANDWIDTH = 0.70
"""Red line 2: target token rate × active bytes, as a share of memory bandwidth (hardware-selection guide)."""
CLOSED = "fixed_concurrency"
"""The kind of load that plans are sized for."""


@dataclass(frozen=True)
class Estimated:
    """One replica at one point. Rates in tok/s, times in ms; ``low``/``high``: the 80 % interval."""

    output_tok_s: float
    low: float
    high: float
    tpot_ms: float
    tpot_p95_ms: float
    ttft_ms: float
    ttft_p95_ms: float
    prefill_tok_s: float
    concurrency: float
    prefill_share: float
    evidence: Evidence


@dataclass(frozen=True)
class Answer:
    """All replicas of a case: tok/s with the 80 % interval, ms, GB on one accelerator at that load."""

    output_tok_s: float
    low: float
    high: float
    ttft_ms: float
    ttft_p95_ms: float
    tpot_ms: float
    tpot_p95_ms: float
    memory_gb: float
    evidence: Evidence


def active_bytes(shape: Shape) -> float:
    """Bytes of parameters that one token of one stream reads."""
    return shape.model.active.value * 1e9 * bytes_per_parameter(shape)


def bytes_per_parameter(shape: Shape) -> float:
    """Loaded bytes over parameters: the mean over quantised and 16-bit parts."""
    return float(shape.weights.loaded.value / shape.model.total.value)


def bandwidth_share(shape: Shape, tokens_per_s: float) -> float:
    """Red line 2 for one stream: token rate × active bytes over the bandwidth of the GPUs of one stage.

    Pipeline stages read one after another, so that they add no bandwidth to a stream.
    """
    return float(tokens_per_s * active_bytes(shape) / (shape.tp * shape.accelerator.bandwidth.value * 1e9))


def experts_touched(count: int, top_k: int, tokens: float) -> float:
    """How many of ``count`` experts ``tokens`` tokens choose at least once: E × (1 − (1 − k/E)^B)."""
    return touched(float(count), top_k / count, max(tokens, 0.0))


_KEPT: dict[tuple[int, str], tuple[Shape, Work, Constants]] = {}
_MOST_KEPT = 1024


def _known(shape: Shape, kind: str) -> tuple[Work, Constants]:
    """Work and constants of ``shape``, kept by its identity: a search asks about one shape many times."""
    key = (id(shape), kind)
    kept = _KEPT.get(key)
    if kept is None:
        if len(_KEPT) >= _MOST_KEPT:
            _KEPT.clear()
        kept = _KEPT[key] = (shape, work_of(shape), constants_of(shape.keys(kind)))
    return kept[1], kept[2]


def constants_for(shape: Shape, kind: str = CLOSED) -> Constants:
    """The constants that hold for ``shape`` under a kind of load."""
    return _known(shape, kind)[1]


def decode_step_s(shape: Shape, batch: float, context: float) -> float:
    """Seconds from one token to the next for ``batch`` sequences of ``context`` tokens, without prefill."""
    work, c = _known(shape, CLOSED)
    bubbles: float = c.stages**work.staged
    return decode.step_s(work, c, batch, context) / queueing.speed(work, c) * bubbles


def estimate(shape: Shape, point: Point) -> Estimated:
    """One replica with ``point.concurrency`` requests running at all times."""
    work, c = _known(shape, CLOSED)
    served = queueing.closed(work, c, point.input_tokens, point.output_tokens, max(point.concurrency, 1.0))
    evidence = evidence_of(shape)
    at = corrected(shape, point, evidence)
    output, first = served.output * at.throughput, served.first * at.ttft
    return Estimated(
        output_tok_s=output,
        low=output * at.low,
        high=output * at.high,
        tpot_ms=served.token * at.tpot * 1e3,
        tpot_p95_ms=served.token_p95 * at.tpot * 1e3,
        ttft_ms=first * 1e3,
        ttft_p95_ms=served.first_p95 * at.ttft * 1e3,
        prefill_tok_s=point.input_tokens / served.prefill,
        concurrency=max(point.concurrency, 1.0),
        prefill_share=served.busy,
        evidence="measured" if at.measured else evidence,
    )


_NOWHERE = Distance(math.inf, math.inf, math.inf)


def corrected(shape: Shape, point: Point, evidence: Evidence, kind: str = CLOSED) -> Correction:
    """Factors of ``shape``'s calibration at ``point`` and of the interval; of the class alone without one.

    Only loads of a fixed number of clients are calibrated: plans are sized for those.
    """
    found = shape.calibration
    if found is None or kind != CLOSED:
        return _uncorrected(kind, evidence)
    place = Place(
        shape.tp, shape.pp, shape.dp, point.input_tokens, point.output_tokens, max(point.concurrency, 1.0)
    )
    return correction(found, place, *interval(kind, evidence))


@cache
def _uncorrected(kind: str, evidence: Evidence) -> Correction:
    low, high = interval(kind, evidence)
    return Correction(1.0, 1.0, 1.0, low, high, measured=False, distance=_NOWHERE)


def answer(case: Case, table: Table | None = None) -> Answer:
    """What a measurement of ``case`` would show; by ``table`` instead of the shipped constants if given."""
    work, c = _known(case.shape, case.kind)
    if table is not None:
        c = table.resolve(case.shape.keys(case.kind))
    given, made = case.given, case.made
    if case.pools is not None:
        served = disaggregation.served(work, c, case.pools, given, made, clients=case.clients)
    elif case.kind == CLOSED:
        served = queueing.closed(work, c, given, made, case.clients)
    elif case.kind == "decode_only":
        served = queueing.decoding(work, c, given, made, case.clients)
    elif case.kind == "rate" and case.rate > 0:
        served = queueing.arriving(work, c, given, made, rate=case.rate, requests=case.requests)
    else:
        served = queueing.at_once(work, c, given, made, requests=case.requests, clients=case.clients)
    evidence = evidence_of(case.shape) if case.pools is None else "extrapolated"
    at = corrected(case.shape, Point(given, made, case.clients), evidence, case.kind)
    total = served.output * case.replicas * at.throughput
    context = given + made
    cache = context * work.kv_held + min(context, work.window) * work.kv_sliding_held + work.state_held
    used = work.held + work.workspace + c.reserved * 1e9 + served.batch / work.dp * cache
    return Answer(
        output_tok_s=total,
        low=total * at.low,
        high=total * at.high,
        ttft_ms=served.first * at.ttft * 1e3,
        ttft_p95_ms=served.first_p95 * at.ttft * 1e3,
        tpot_ms=served.token * at.tpot * 1e3,
        tpot_p95_ms=served.token_p95 * at.tpot * 1e3,
        memory_gb=min(used, work.memory) / 1e9,
        evidence="measured" if at.measured else evidence,
    )


@dataclass(frozen=True)
class Bounds:
    """What capacity must respect. Times in ms; ``kv_tokens`` of the replica; ``sequences`` at most."""

    tpot_ms: float
    ttft_p95_ms: float
    e2e_ms: float
    kv_tokens: int
    sequences: int


@dataclass(frozen=True)
class Limit:
    """Why a replica carries no more: the bound that binds, its value, and what one more would reach."""

    name: str
    bound: float
    reached: float
    unit: str


def violated(shape: Shape, point: Point, bounds: Bounds) -> Limit | None:
    """The first bound that ``point`` breaks, or None. Answers of one token have no time between tokens."""
    at = estimate(shape, point)
    resident = point.concurrency * (point.input_tokens + point.output_tokens / 2)
    end_to_end = at.ttft_p95_ms + point.output_tokens * at.tpot_ms
    second_token = point.output_tokens > 1
    checks = (
        Limit("slo.tpot_p50", bounds.tpot_ms, at.tpot_ms if second_token else 0.0, "ms"),
        Limit("slo.ttft_p95", bounds.ttft_p95_ms, at.ttft_p95_ms, "ms"),
        Limit("slo.e2e_p95", bounds.e2e_ms, end_to_end, "ms"),
        Limit("kv cache", bounds.kv_tokens * KV_SHARE, resident, "tokens"),
        Limit("sequences", bounds.sequences, point.concurrency, "requests"),
    )
    return next((c for c in checks if c.reached > c.bound), None)


def capacity(
    shape: Shape, input_tokens: float, output_tokens: float, bounds: Bounds
) -> tuple[int, Limit | None]:
    """The most concurrent requests within ``bounds`` and what binds there; 0 where not even one fits.

    Every bound grows with concurrency, so that the largest is found by bisection.
    """

    def breaks(concurrency: int) -> Limit | None:
        return violated(shape, Point(input_tokens, output_tokens, concurrency), bounds)

    first = breaks(1)
    if first is not None:
        return 0, first
    good, bad = 1, bounds.sequences + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if breaks(middle) is None:
            good = middle
        else:
            bad = middle
    return good, breaks(good + 1)
