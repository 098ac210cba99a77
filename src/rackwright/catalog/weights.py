"""Bytes of a model's weights at a precision: one rule for all, corrected by published sizes where known.

``bytes = Σ over classes: parameters × bits / 8``. Which classes a scheme touches is its scope; what it does
not touch stays in 16 bits. Bits include the scales that are stored with the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rackwright.catalog.model_entries import ModelEntry

Compute = Literal["bf16", "int8", "fp8", "fp4"]


@dataclass(frozen=True)
class Scheme:
    """``bits``: a quantised parameter, with scales. ``scope``: linear (attention, feed-forward, experts), ffn
    (feed-forward and experts), experts (routed ones), everything (embedding and head too, at their own bits).
    ``compute``: in which precision products are taken. ``source``: where ``bits`` is from."""

    bits: float
    scope: Literal["none", "linear", "ffn", "experts", "everything"]
    compute: Compute
    source: str
    embedding_bits: float = 16.0
    head_bits: float = 16.0


_GGUF = "llama.cpp block layouts (ggml-common.h): Q4_K 4.5, Q5_K 5.5, Q6_K 6.5625, Q8_0 8.5 bits a weight"
_GROUP = "4 bits, a 16-bit scale and a 4-bit zero a group of 128"

SCHEMES: dict[str, Scheme] = {
    "bf16": Scheme(16, "none", "bf16", "two bytes a parameter"),
    "fp8": Scheme(8, "linear", "fp8", "one byte a parameter; scales a channel are below 0.1 %"),
    "fp8-block": Scheme(8 + 32 / 128**2, "linear", "fp8", "one byte, a 32-bit scale a block of 128 × 128"),
    "int8": Scheme(8, "linear", "int8", "one byte a parameter (W8A8); scales a channel are below 0.1 %"),
    "int4": Scheme(4 + 20 / 128, "linear", "bf16", _GROUP),
    "int4-awq": Scheme(4 + 20 / 128, "linear", "bf16", _GROUP),
    "int4-gptq": Scheme(4 + 20 / 128, "linear", "bf16", _GROUP),
    "int4-experts": Scheme(4.5, "experts", "bf16", "4 bits and a 16-bit scale a group of 32, routed experts"),
    "mxfp4": Scheme(4.25, "experts", "fp4", "4 bits and an 8-bit scale a block of 32 (OCP MX), experts"),
    "nvfp4": Scheme(4.5, "linear", "fp4", "4 bits and an 8-bit scale a block of 16 (NVIDIA NVFP4)"),
    "nvfp4-ffn": Scheme(4.5, "ffn", "fp4", "as nvfp4, attention left in 16 bits"),
    "nvfp4-experts": Scheme(4.5, "experts", "fp4", "as nvfp4, routed experts only"),
    "q2_k": Scheme(2.95, "everything", "bf16", _GGUF, 2.625, 6.5625),
    "q3_k_m": Scheme(3.85, "everything", "bf16", _GGUF, 3.4375, 6.5625),
    "q4_0": Scheme(4.5, "everything", "bf16", _GGUF, 4.5, 6.5625),
    "q4_k_m": Scheme(4.81, "everything", "bf16", _GGUF, 4.5, 6.5625),
    "q5_k_m": Scheme(5.66, "everything", "bf16", _GGUF, 5.5, 6.5625),
    "q6_k": Scheme(6.5625, "everything", "bf16", _GGUF, 6.5625, 6.5625),
    "q8_0": Scheme(8.5, "everything", "bf16", _GGUF, 8.5, 8.5),
    "mlx-4bit": Scheme(4.5, "everything", "bf16", "4 bits, 16-bit scale and bias a group of 64", 4.5, 4.5),
    "mlx-8bit": Scheme(8.5, "everything", "bf16", "8 bits, 16-bit scale and bias a group of 64", 8.5, 8.5),
}
"""``*_k_m`` mix block types by tensor; their bits are those of the body of published 8B to 70B files."""

_ALSO = {
    "fp16": "bf16", "f16": "bf16", "fp4": "nvfp4", "w8a8": "int8", "awq": "int4-awq", "gptq": "int4-gptq",
    "w4a16": "int4",
}  # fmt: skip


def scheme_named(name: str) -> Scheme | None:
    """The scheme ``name`` in any case, also by a common other name; None where there is none."""
    low = name.lower()
    return SCHEMES.get(_ALSO.get(low, low))


@dataclass(frozen=True)
class WeightBytes:
    """Bytes over all ranks.

    ``loaded``: in memory, prediction heads left out, encoder of images included. ``always``: of them, what
    every token reads. ``expert``: one routed expert in one layer. ``embedding``: looked up, not read through.
    ``published``: the sum was set to a size that the entry states.
    """

    loaded: float
    always: float
    expert: float
    embedding: float
    compute: Compute
    published: bool


def _by_rule(model: ModelEntry, scheme: Scheme) -> tuple[float, float, float, float]:
    """Bytes of (head, attention, dense, shared, kept), experts, embedding, the rest."""
    counts = model.parameters
    quantised = scheme.bits / 8
    whole = scheme.scope in ("linear", "everything")
    attention = quantised if whole else 2.0
    ffn = quantised if whole or scheme.scope == "ffn" else 2.0
    experts = 2.0 if scheme.scope == "none" else quantised
    head = scheme.head_bits / 8
    always = counts.head * head + counts.attention * attention + counts.kept * 2.0
    always += (counts.dense + counts.shared) * ffn
    rest = counts.encoder * ffn + (model.vision.value * 2e9 if model.vision else 0.0)
    return always, counts.experts * experts, counts.embedding * scheme.embedding_bits / 8, rest


def weight_bytes(model: ModelEntry, precision: str) -> WeightBytes:
    """Bytes of ``model`` at ``precision``; see ``ModelEntry.weights``."""
    offered = model.quantisations.get(precision)
    named = (offered.scheme or precision) if offered is not None else precision
    scheme = scheme_named(named)
    if scheme is None:
        raise ValueError(f'"{precision}" is neither a quantisation of {model.id} nor a known scheme')
    always, experts, embedding, rest = _by_rule(model, scheme)
    if offered is not None:
        scale = offered.loaded.value * 1e9 / (always + experts + embedding + rest)
        always, experts, embedding, rest = (part * scale for part in (always, experts, embedding, rest))
    mixed = model.experts
    return WeightBytes(
        loaded=always + experts + embedding + rest,
        always=always,
        expert=experts / (mixed.count * mixed.layers) if mixed else 0.0,
        embedding=embedding,
        compute=offered.compute if offered is not None else scheme.compute,
        published=offered is not None and offered.published is not None,
    )
