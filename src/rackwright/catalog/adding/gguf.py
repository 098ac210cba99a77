"""The header of a GGUF file as the shape of a model (ggml's docs/gguf.md, versions 2 and 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackwright.catalog.adding.binary import Cursor
from rackwright.catalog.adding.config import config_shape
from rackwright.catalog.adding.shape import Shape
from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.yamlio import printable, quoted

HEADER_MAX = 64 << 20
"""Bytes; vocabularies of 260,000 tokens and their merges take 15 MiB."""
KEYS_MAX, TENSORS_MAX, ITEMS_MAX = 10_000, 200_000, 2_000_000
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
_SHORT = 4096
"""Items of an array that are kept; longer ones are vocabularies, of which only the length counts."""

BLOCKS: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8),
    28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip
"""Type: name, values a block, bytes a block (ggml.h, ggml-common.h)."""

FILE_TYPES = {
    0: "f32", 1: "bf16", 2: "q4_0", 7: "q8_0", 10: "q2_k", 12: "q3_k_m", 15: "q4_k_m", 17: "q5_k_m",
    18: "q6_k", 32: "bf16", 38: "mxfp4",
}  # fmt: skip
"""``general.file_type`` (llama.h, llama_ftype) by the scheme that it is."""

_MODEL_TYPES = {
    "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3moe": "qwen3_moe", "qwen2moe": "qwen2_moe",
    "phi3": "phi3", "gemma3": "gemma3_text", "gpt-oss": "gpt_oss", "glm4moe": "glm4_moe",
    "deepseek2": "deepseek_v3", "minimax-m2": "minimax_m2",
}  # fmt: skip

_KEYS = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "n_shared_experts": "expert_shared_count",
    "first_k_dense_replace": "leading_dense_block_count",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "sliding_window": "attention.sliding_window",
    "kv_lora_rank": "attention.kv_lora_rank",
    "q_lora_rank": "attention.q_lora_rank",
    "qk_rope_head_dim": "rope.dimension_count",
    "num_nextn_predict_layers": "nextn_predict_layers",
}


@dataclass(frozen=True)
class Header:
    """Metadata, and what the tensors of this file are: parameters and bytes."""

    metadata: dict[str, Any]
    parameters: int
    bytes: int
    names: frozenset[str]


def read_header(path: Path) -> Header:
    """The header of the GGUF file ``path``; the tensors' data is not read.

    Raises:
        InputErrors: it is no GGUF file, or its header is damaged.
    """
    with path.open("rb") as stream:
        cursor = Cursor(stream, str(path), path.stat().st_size, HEADER_MAX)
        magic = cursor.take(4) if cursor.left >= 4 else b""
        if magic != b"GGUF":
            raise cursor.refuse("must begin with GGUF", repr(magic))
        version = cursor.number("I")
        if version not in (2, 3):
            raise cursor.refuse("must be of GGUF version 2 or 3, little-endian", str(version))
        tensors, keys = cursor.number("Q"), cursor.number("Q")
        if tensors > TENSORS_MAX or keys > KEYS_MAX:
            raise cursor.refuse(
                f"must have at most {TENSORS_MAX:,} tensors and {KEYS_MAX:,} keys",
                f"{tensors:,} and {keys:,}",
            )
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            name = cursor.text(65_535)
            metadata[name] = _value(cursor, cursor.number("I"))
        count = size = 0
        names = set()
        for _ in range(tensors):
            name, values, taken = _tensor(cursor)
            names.add(name)
            count, size = count + values, size + taken
        return Header(metadata, count, size, frozenset(names))


def _value(cursor: Cursor, kind: int) -> Any:
    if kind in _NUMBERS:
        return cursor.number(_NUMBERS[kind])
    if kind == _STRING:
        return cursor.text(16 << 20)
    if kind != _ARRAY:
        raise cursor.refuse("must have values of a known type", f"type {kind}")
    inner, length = cursor.number("I"), cursor.number("Q")
    if length > ITEMS_MAX:
        raise cursor.refuse(f"must have arrays of at most {ITEMS_MAX:,} items", f"{length:,}")
    if inner in _NUMBERS:
        if length > _SHORT:
            cursor.skip(length * _SIZES[inner])
            return range(length)
        return [cursor.number(_NUMBERS[inner]) for _ in range(length)]
    if inner != _STRING:
        raise cursor.refuse("must have arrays of numbers or strings", f"type {inner}")
    for _ in range(length):
        cursor.skip(cursor.number("Q"))
    return range(length)


def _tensor(cursor: Cursor) -> tuple[str, int, int]:
    """Name, values and bytes of one tensor."""
    name = cursor.text(4096)
    dimensions = cursor.number("I")
    if dimensions > 8:
        raise cursor.refuse("must have tensors of at most 8 dimensions", f"{dimensions} in {name}")
    values = math.prod(cursor.number("Q") for _ in range(dimensions))
    kind = cursor.number("I")
    cursor.number("Q")
    if kind not in BLOCKS:
        raise cursor.refuse("must have tensors of a known type", f"type {kind} in {name}")
    _, block, size = BLOCKS[kind]
    if not 0 < values < 1 << 44:
        raise cursor.refuse("must have tensors of a real size", f"{values:,} values in {name}")
    return name, values, values // block * size


def gguf_shape(path: Path) -> Shape:
    """The shape that the header of ``path`` describes.

    Raises:
        InputErrors: damaged, of an unknown architecture, or lacking facts.
    """
    header = read_header(path)
    data = header.metadata
    arch = data.get("general.architecture")
    kind = _MODEL_TYPES.get(str(arch))
    if kind is None:
        raise InputErrors(
            Problem(
                f"{printable(str(path))} general.architecture",
                f"must be an architecture that is known{nearest(str(arch), _MODEL_TYPES)}",
                "nothing" if arch is None else quoted(arch),
                "its KV cache cannot be computed without how its layers attend; known are "
                f"{listing(sorted(_MODEL_TYPES), 20)}",
                "add the model from its config.json instead",
            )
        )
    shape = config_shape(_as_config(data, str(arch), kind), str(path))
    shape.tied = "output.weight" not in header.names
    scheme = FILE_TYPES.get(_whole(data.get("general.file_type")), "")
    if not scheme or scheme == "f32":
        shape.notes.append(
            f"file type {data.get('general.file_type')} has no general rule; its size is the file's"
        )
    shape.native = shape.scheme = scheme if scheme not in ("", "f32") else "bf16"
    if _whole(data.get("split.count")) <= 1:
        shape.file_bytes, shape.counted = header.bytes, header.parameters
    else:
        shape.notes.append("one part of a split file: sizes are computed, not read")
    return shape


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _as_config(data: dict[str, Any], arch: str, kind: str) -> dict[str, Any]:
    """The same facts under the names of a config.json."""
    out: dict[str, Any] = {"model_type": kind}
    for name, key in _KEYS.items():
        value = data.get(f"{arch}.{key}")
        if isinstance(value, list) and value:
            value = max((v for v in value if isinstance(v, int)), default=None)
        if value is not None and not isinstance(value, range):
            out[name] = value
    experts = _whole(data.get(f"{arch}.expert_count"))
    if experts > 0:
        out |= {"num_experts": experts, "n_routed_experts": experts, "num_local_experts": experts}
        if kind == "llama":
            out["model_type"] = "mixtral"
        if kind in ("gpt_oss", "minimax_m2"):
            out["intermediate_size"] = out.get("moe_intermediate_size", out.get("intermediate_size"))
    tokens = data.get("tokenizer.ggml.tokens")
    out["vocab_size"] = data.get(
        f"{arch}.vocab_size", len(tokens) if isinstance(tokens, range | list) else None
    )
    if kind == "gpt_oss":
        out["sliding_window_pattern"] = 2
    if kind == "deepseek_v3":
        out |= _latent_sizes(data, arch, out)
    return {key: value for key, value in out.items() if value is not None}


def _latent_sizes(data: dict[str, Any], arch: str, out: dict[str, Any]) -> dict[str, Any]:
    """Newer files call the per-head sizes ``*_mla``; older ones hold the whole key in ``key_length``."""
    key = data.get(f"{arch}.attention.key_length_mla", data.get(f"{arch}.attention.key_length"))
    value = data.get(f"{arch}.attention.value_length_mla", data.get(f"{arch}.attention.value_length"))
    sizes: dict[str, Any] = {"v_head_dim": value, "num_key_value_heads": out.get("num_attention_heads")}
    if isinstance(key, int) and isinstance(out.get("qk_rope_head_dim"), int):
        sizes["qk_nope_head_dim"] = key - out["qk_rope_head_dim"]
    return sizes
