"""What LoRA adapters take: slots on every GPU, copies in host memory, files beside the base's weights.

A slot holds the two matrices of rank r of every linear layer of attention and feed-forward, at the largest
rank of the set whatever adapter lies in it: vLLM (``lora/layers``) and SGLang (``lora/mem_pool.py``) allocate
them when they start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rackwright.catalog import ModelEntry

ELEMENT = 2
"""Bytes: adapters are kept in 16 bits whatever the base is quantised to."""


@dataclass(frozen=True)
class Slots:
    """``count`` adapters at a time, each of at most ``rank``."""

    count: int
    rank: int


def parameters(model: ModelEntry, rank: int) -> float:
    """Parameters of one adapter of ``rank`` on all linear layers: r × (in + out) of each."""
    return sum(rank * (inner + outer) for inner, outer, _ in _linear(model)) * float(model.layers.value)


def slot_bytes(model: ModelEntry, rank: int, tp: int) -> float:
    """Bytes of one slot on one of ``tp`` GPUs, over all layers.

    The matrix at the side that tensor parallelism divides is divided with it, the other one is whole on
    every GPU: out of q, k, v, gate and up, into o and down.
    """
    held = sum(
        rank * (inner + outer / tp if divided == "out" else inner / tp + outer)
        for inner, outer, divided in _linear(model)
    )
    return held * float(model.layers.value) * ELEMENT


def _linear(model: ModelEntry) -> tuple[tuple[float, float, str], ...]:
    """In, out and the divided side of each linear layer of one block."""
    hidden, ffn = model.hidden.value, model.ffn.value
    queries = model.heads.value * model.head_dim.value
    keys = model.kv_heads.value * model.head_dim.value
    return (
        (hidden, queries, "out"),
        (hidden, keys, "out"),
        (hidden, keys, "out"),
        (queries, hidden, "in"),
        (hidden, ffn, "out"),
        (hidden, ffn, "out"),
        (ffn, hidden, "in"),
    )
