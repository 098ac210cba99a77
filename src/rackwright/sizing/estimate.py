"""The one estimator: what a replica of a model can do on given GPUs, from a roofline and a few constants.

Pure functions over frozen values: ``memory(shape, …)`` says what fits, ``estimate(shape, point)`` how fast it
runs at a concurrency, ``capacity(shape, …)`` the most it carries within objectives.

Decode. One step generates a token for each of B sequences. It reads the weights that the step touches and
the KV cache of every sequence, and computes two FLOP a parameter and token; memory and compute overlap
partly: ``step = sqrt(t_mem² + t_cmp²) + layers + collectives + sampling``. Of E experts a step of B tokens
that choose k each touches ``E × (1 − (1 − k/E)^B)``. Tensor parallelism divides bytes and FLOPs and adds
two all-reduces a layer. Pipeline stages work on B/PP sequences each, one after another.

Prefill. Compute-bound; its GPU time is taken from the same GPUs, so that every request costs
``prefill(input) + output × step(B)/B``, and the token interval seen by a user is
``step(B) + B × prefill(input)/output``.

Evidence. The interval is the 80 % interval of the error against public measurements of the same kind
(predicted/actual: 18 % median, 64 % at the ninth decile where the pair was never seen).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from rackwright.catalog import Accelerator, EngineEntry, ModelEntry, Quantisation

GIB = 2.0**30
Evidence = Literal["measured", "same-family", "extrapolated", "vendor", "assumed"]

RED_LINE_MEMORY = 0.85
"""Red line 1: weights + KV cache + activations, as a share of GPU memory (hardware-selection guide)."""
RED_LINE_BANDWIDTH = 0.70
"""Red line 2: target token rate × active bytes, as a share of memory bandwidth (hardware-selection guide)."""

INTERVAL: dict[Evidence, tuple[float, float]] = {
    "measured": (1 / 1.10, 1.10),
    "same-family": (1 / 1.24, 1.35),
    "extrapolated": (1 / 1.38, 1.50),
    "vendor": (1 / 1.80, 1.25),
    "assumed": (1 / 1.80, 1.80),
}
"""Factors of the 80 % interval by evidence class: the ninth decile of predicted/actual is 1.24 over all
public measurements, 1.38 at p95; repeated runs of one version differ by 10 % at the ninth decile."""

KV_SHARE = 0.9
"""Share of the KV cache that running requests may fill on average; over 95 % the engine preempts."""
TTFT_P95 = 1.6
"""p95 over mean of the time to first token: a fixed prefill time behind an exponential-like queue."""


@dataclass(frozen=True)
class Shape:
    """One replica: hardware, division of the model, precision. ``rdma_gb_s``: a GPU's share between nodes."""

    accelerator: Accelerator
    model: ModelEntry
    quantisation: str
    engine: EngineEntry
    tp: int
    pp: int = 1
    kv_bits: Literal[8, 16] = 16
    rdma_gb_s: float = 50.0

    @property
    def gpus(self) -> int:
        return self.tp * self.pp

    @property
    def weights(self) -> Quantisation:
        return self.model.quantisations[self.quantisation]

    @property
    def stage_share(self) -> float:
        """Layers of the fullest pipeline stage, as a share of all."""
        layers = self.model.layers.value
        return math.ceil(layers / self.pp) / layers


@dataclass(frozen=True)
class Point:
    """Tokens in and out per request, and how many requests run at a time."""

    input_tokens: float
    output_tokens: float
    concurrency: float


@dataclass(frozen=True)
class Memory:
    """Per GPU, GiB. ``kv_tokens``: tokens of KV cache the whole replica holds."""

    total: float
    weights: float
    activations: float
    overhead: float
    kv: float
    utilization: float
    kv_bytes_per_token: int
    kv_tokens: int

    @property
    def share(self) -> float:
        """What red line 1 compares: weights + KV + activations over total."""
        return (self.weights + self.kv + self.activations) / self.total


@dataclass(frozen=True)
class Estimated:
    """One replica at one point. Rates in tok/s, times in ms; ``low``/``high``: the 80 % interval."""

    output_tok_s: float
    low: float
    high: float
    tpot_ms: float
    ttft_ms: float
    ttft_p95_ms: float
    prefill_tok_s: float
    concurrency: float
    prefill_share: float
    evidence: Evidence


def activations_gib(shape: Shape, batched_tokens: int, max_num_seqs: int) -> float:
    """Peak of temporary tensors, GiB: residual stream and feed-forward of one batch, and the logits.

    (tokens × (4 hidden + 2 ffn/TP) × 2 B) + (tokens × top-k × (hidden + 2 expert ffn/TP) × 2 B for mixtures)
    + (sequences × vocabulary × 6 B / TP).
    """
    model = shape.model
    hidden, ffn = model.hidden.value, model.ffn.value
    body = batched_tokens * (4 * hidden + 2 * ffn / shape.tp) * 2
    if model.experts is not None:
        routed = hidden + 2 * model.experts.intermediate / shape.tp
        body += batched_tokens * model.experts.top_k * routed * 2
    logits = max_num_seqs * model.vocab.value * 6 / shape.tp
    return (body + logits) / GIB


def kv_bytes_per_gpu(shape: Shape) -> float:
    """Bytes of KV a token on one GPU: heads are split over TP as far as there are heads; a latent is not."""
    model = shape.model
    whole = model.kv_bytes_per_token(shape.kv_bits)
    shards = 1.0 if model.mla is not None else min(shape.tp, model.kv_heads.value)
    return whole * shape.stage_share / shards


def memory(
    shape: Shape, *, batched_tokens: int, max_num_seqs: int, utilization: float | None = None
) -> Memory:
    """What lies in one GPU's memory.

    Without ``utilization`` the engine is given the most that keeps red line 1: 85 % of memory for weights,
    KV cache and activations, plus the engine's own overhead outside of them.
    """
    total = shape.accelerator.memory_gib
    weights = shape.weights.loaded.value * 1e9 / GIB * shape.stage_share / shape.tp
    activations = activations_gib(shape, batched_tokens, max_num_seqs)
    overhead = shape.engine.overhead.value + shape.engine.graphs.value
    if utilization is None:
        utilization = math.floor(min(RED_LINE_MEMORY + overhead / total, 0.95) * 100 + 1e-9) / 100
    kv = max(0.0, utilization * total - overhead - weights - activations)
    tokens = int(kv * GIB / kv_bytes_per_gpu(shape))
    return Memory(
        total,
        weights,
        activations,
        overhead,
        kv,
        utilization,
        shape.model.kv_bytes_per_token(shape.kv_bits),
        tokens,
    )


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
    return float(count * (1 - (1 - top_k / count) ** max(tokens, 0.0)))


def _dense_read(shape: Shape) -> float:
    """Bytes of weights that every pass reads, all layers."""
    return shape.model.always_read.value * 1e9 * bytes_per_parameter(shape)


def _experts_read(shape: Shape, tokens: float) -> float:
    """Bytes of expert weights that a pass over ``tokens`` tokens reads, all layers."""
    experts = shape.model.experts
    if experts is None:
        return 0.0
    touched = experts_touched(experts.count, experts.top_k, tokens)
    return touched * experts.layers * experts.each.value * 1e6 * bytes_per_parameter(shape)


def _layers_s(shape: Shape) -> float:
    """Launch and synchronisation a pass, all layers; layers of experts cost routing and permutation more."""
    experts = shape.model.experts
    mixed = experts.layers * shape.engine.expert_layer_overhead.value if experts else 0.0
    return (shape.model.layers.value * shape.engine.layer_overhead.value + mixed) * 1e-6


def _collective_s(shape: Shape, tokens: float) -> float:
    """Two all-reduces a layer over the TP group: latency, and 2(n−1)/n of the activations over the link."""
    if shape.tp == 1:
        return 0.0
    nvlink, engine = shape.accelerator.nvlink, shape.engine
    link = nvlink.unidirectional.value * 0.7 if nvlink else shape.accelerator.pcie.value * 0.4
    latency = (engine.nvlink_latency if nvlink else engine.pcie_latency).value * 1e-6
    size = tokens * shape.model.hidden.value * 2 * 2 * (shape.tp - 1) / shape.tp
    return 2 * shape.model.layers.value * (latency + size / (link * 1e9))


def _handover_s(shape: Shape, tokens: float) -> float:
    """Activations passed between pipeline stages."""
    if shape.pp == 1:
        return 0.0
    size = tokens * shape.model.hidden.value * 2
    return (shape.pp - 1) * (shape.engine.rdma_latency.value * 1e-6 + size / (shape.rdma_gb_s * 1e9))


def _attention_flops(shape: Shape, context: float) -> float:
    """FLOP a token that attends to ``context`` tokens, all layers: scores and values."""
    model = shape.model
    width = model.head_dim.value if model.mla is None else model.mla.rank + model.mla.rope / 2
    return float(4 * model.layers.value * model.heads.value * width * context)


def decode_step_s(shape: Shape, batch: float, context: float) -> float:
    """Seconds from one token to the next for ``batch`` sequences of ``context`` tokens, without prefill."""
    per_stage = batch / shape.pp
    constants = shape.engine.efficiency[shape.accelerator.memory_class]
    bandwidth = shape.accelerator.bandwidth.value * 1e9 * constants.memory.value
    piecewise = shape.accelerator.bandwidth.value * 1e9 * constants.experts.value
    flops = shape.accelerator.flops(shape.weights.compute) * constants.decode_compute.value
    kv = batch / shape.pp * context * kv_bytes_per_gpu(shape) / shape.stage_share
    read = kv + _dense_read(shape) / shape.tp
    pieces = _experts_read(shape, per_stage) / shape.tp
    compute = per_stage * (2 * shape.model.active.value * 1e9 + _attention_flops(shape, context)) / shape.tp
    overlap = math.hypot(read / bandwidth + pieces / piecewise, compute / flops)
    layers = _layers_s(shape)
    fixed = shape.engine.step_overhead.value * 1e-3 + batch * shape.engine.sequence_overhead.value * 1e-6
    return overlap + layers + _collective_s(shape, per_stage) + _handover_s(shape, per_stage) + fixed


def prefill_s(shape: Shape, tokens: float) -> float:
    """Seconds of one pipeline stage's GPUs that a prompt of ``tokens`` tokens takes in a full batch."""
    constants = shape.engine.efficiency[shape.accelerator.memory_class]
    flops = shape.accelerator.flops(shape.weights.compute) * constants.prefill_compute.value
    wide = shape.accelerator.flops("bf16") * constants.prefill_compute.value
    linear = tokens * 2 * shape.model.active.value * 1e9
    model = shape.model
    width = model.head_dim.value if model.mla is None else model.head_dim.value * 1.25
    attention = 4 * model.layers.value * model.heads.value * width * tokens * tokens / 2
    compute = (linear / flops + attention / wide) / shape.tp
    return (compute + _collective_s(shape, tokens) * 0.5) / shape.pp + _handover_s(shape, tokens) / shape.pp


def prefill_latency_s(shape: Shape, tokens: float) -> float:
    """Seconds until the first token of a lone prompt: every stage in turn, the weights read at least once."""
    constants = shape.engine.efficiency[shape.accelerator.memory_class]
    bandwidth = shape.accelerator.bandwidth.value * 1e9 * constants.memory.value * shape.tp
    floor = (_dense_read(shape) + _experts_read(shape, tokens)) / bandwidth
    return max(prefill_s(shape, tokens) * shape.pp, floor) + _layers_s(shape)


def estimate(shape: Shape, point: Point) -> Estimated:
    """One replica with ``point.concurrency`` requests running at all times."""
    batch = max(point.concurrency, 1.0)
    context = point.input_tokens + point.output_tokens / 2
    step = decode_step_s(shape, batch, context)
    prefill = prefill_s(shape, point.input_tokens)
    interval = step + batch * prefill / point.output_tokens
    occupancy = 1 - step / interval
    alone = prefill_latency_s(shape, point.input_tokens)
    wait = occupancy / (1 - occupancy) * prefill / 2
    ttft = shape.engine.ttft_factor.value * (alone + step + wait)
    lifetime = ttft + point.output_tokens * interval
    rate = batch * point.output_tokens / lifetime
    evidence = evidence_of(shape)
    low, high = INTERVAL[evidence]
    return Estimated(
        output_tok_s=rate,
        low=rate * low,
        high=rate * high,
        tpot_ms=interval * 1e3,
        ttft_ms=ttft * 1e3,
        ttft_p95_ms=ttft * TTFT_P95 * 1e3,
        prefill_tok_s=point.input_tokens / prefill,
        concurrency=batch,
        prefill_share=occupancy,
        evidence=evidence,
    )


def evidence_of(shape: Shape) -> Evidence:
    """How well founded an estimate is: the pair was measured, its family was, or nothing near it.

    Multi-node pipelines are extrapolated: public measurements of them are few.
    """
    if shape.pp > 1:
        return "extrapolated"
    pair = f"{shape.accelerator.id}/{shape.model.id}"
    return "same-family" if pair in shape.engine.measured else "extrapolated"


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
