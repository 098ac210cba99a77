"""What lies in one accelerator's memory: weights, cache, activations, and what the engine keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rackwright.sizing.lora import slot_bytes
from rackwright.sizing.shape import GIB, Shape
from rackwright.sizing.work import work_of

RED_LINE_MEMORY = 0.85
"""Red line 1: weights + KV cache + activations, as a share of GPU memory (hardware-selection guide)."""
KV_SHARE = 0.9
"""Share of the KV cache that running requests may fill on average; over 95 % the engine preempts."""


@dataclass(frozen=True)
class Memory:
    """Per GPU, GiB. ``kv_tokens``: tokens of KV cache the whole replica holds, all its ranks together."""

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


def adapters_gib(shape: Shape) -> float:
    """Slots for LoRA adapters on one GPU, GiB; they count as weights."""
    if shape.lora is None:
        return 0.0
    return shape.lora.count * slot_bytes(shape.model, shape.lora.rank, shape.tp) * shape.stage_share / GIB


def weights_gib(shape: Shape) -> float:
    """Weights on one GPU, GiB: all divide over TP, the stages of a pipeline and, with ranks in parallel by
    data, the experts over the ranks too; the rest each rank holds itself."""
    if shape.dp > 1:
        return work_of(shape).held / GIB
    return float(shape.weights.loaded.value * 1e9 / GIB * shape.stage_share / shape.tp)


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
    weights = weights_gib(shape) + adapters_gib(shape)
    activations = activations_gib(shape, batched_tokens, max_num_seqs)
    overhead = shape.engine.overhead.value + shape.engine.graphs.value
    if utilization is None:
        utilization = math.floor(min(RED_LINE_MEMORY + overhead / total, 0.95) * 100 + 1e-9) / 100
    kv = max(0.0, utilization * total - overhead - weights - activations)
    tokens = int(kv * GIB / kv_bytes_per_gpu(shape)) * shape.dp
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
