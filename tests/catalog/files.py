"""A model's own files for tests: configs as makers publish them, GGUF and safetensors headers by the byte."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

QWEN3_8B: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_hidden_layers": 36,
    "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
    "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip

TINY: dict[str, Any] = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000, "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}  # fmt: skip

KEYS = {int: 4, float: 6, str: 8, bool: 7}


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(value: Any) -> bytes:
    if isinstance(value, list):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(item) for item in value)
    kind = KEYS[type(value)]
    code = {4: "<I", 6: "<f", 7: "<?"}.get(kind)
    return struct.pack("<I", kind) + (struct.pack(code, value) if code else text(value))


def gguf(metadata: dict[str, Any], tensors: list[tuple[str, list[int], int]]) -> bytes:
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        out += text(key) + gguf_value(value)
    for name, shape, kind in tensors:
        out += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)
    return out


TINY_GGUF: dict[str, Any] = {
    "general.architecture": "llama", "general.name": "Tiny", "general.file_type": 15, "llama.block_count": 2,
    "llama.embedding_length": 256, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
    "llama.feed_forward_length": 512, "llama.context_length": 2048,
    "tokenizer.ggml.tokens": [f"t{i}" for i in range(1024)],
}  # fmt: skip


def tiny_tensors() -> list[tuple[str, list[int], int]]:
    """Two layers of Q4_K (12) and Q6_K (14); norms in F32 (0)."""
    out: list[tuple[str, list[int], int]] = [
        ("token_embd.weight", [256, 1024], 12),
        ("output.weight", [256, 1024], 14),
        ("output_norm.weight", [256], 0),
    ]
    for i in range(2):
        out += [
            (f"blk.{i}.attn_q.weight", [256, 256], 12), (f"blk.{i}.attn_k.weight", [256, 128], 12),
            (f"blk.{i}.attn_v.weight", [256, 128], 14), (f"blk.{i}.attn_output.weight", [256, 256], 12),
            (f"blk.{i}.ffn_gate.weight", [256, 512], 12), (f"blk.{i}.ffn_up.weight", [256, 512], 12),
            (f"blk.{i}.ffn_down.weight", [512, 256], 14), (f"blk.{i}.attn_norm.weight", [256], 0),
            (f"blk.{i}.ffn_norm.weight", [256], 0),
        ]  # fmt: skip
    return out


def tiny_shapes() -> dict[str, list[int]]:
    """Tensors of ``TINY`` under their Hugging Face names."""
    out = {"model.embed_tokens.weight": [1000, 64], "lm_head.weight": [1000, 64], "model.norm.weight": [64]}
    for i in range(2):
        at = f"model.layers.{i}."
        out |= {
            f"{at}self_attn.q_proj.weight": [64, 64], f"{at}self_attn.k_proj.weight": [32, 64],
            f"{at}self_attn.v_proj.weight": [32, 64], f"{at}self_attn.o_proj.weight": [64, 64],
            f"{at}mlp.gate_proj.weight": [128, 64], f"{at}mlp.up_proj.weight": [128, 64],
            f"{at}mlp.down_proj.weight": [64, 128], f"{at}input_layernorm.weight": [64],
            f"{at}post_attention_layernorm.weight": [64],
        }  # fmt: skip
    return out


def safetensors(path: Path, shapes: dict[str, list[int]], *, header: bytes | None = None) -> int:
    """A bf16 file with those tensors, its data a hole; returns the bytes of its tensors."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        size = 2
        for n in shape:
            size *= n
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(entries).encode() if header is None else header
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(raw)) + raw)
        stream.truncate(8 + len(raw) + end)
    return end
