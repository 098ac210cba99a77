"""How architectures arrange attention and experts: one function a style, one line an architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rackwright.catalog.adding.facts import Facts
from rackwright.catalog.adding.shape import Shape


@dataclass(frozen=True)
class Style:
    """How an architecture differs from plain grouped-query attention with a gated feed-forward."""

    attention: Callable[[Facts, Shape], None] | None = None
    experts: Callable[[Facts, Shape], None] | None = None
    tied: bool = False


def _layers(kinds: tuple[str, ...], names: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups in the order of ``names``: how many layers are of each kind."""
    return [{**group, "layers": kinds.count(kind)} for kind, group in names.items() if kind in kinds]


def _sliding(facts: Facts, shape: Shape) -> None:
    """Sliding and full layers by ``layer_types``, or by a pattern of one full layer in so many."""
    known = ("sliding_attention", "full_attention")
    kinds = facts.names("layer_types", shape.layers, known)
    if kinds is None:
        every = facts.whole("sliding_window_pattern", "_sliding_window_pattern", default=6)
        kinds = tuple(known[(i + 1) % every == 0] for i in range(shape.layers))
    window = facts.whole("sliding_window")
    shape.attention = _layers(
        kinds,
        {known[0]: {"kind": "sliding", "window": window}, known[1]: {"kind": "full"}},
    )


def _sliding_where_used(facts: Facts, shape: Shape) -> None:
    """Mistral and Qwen2: a window for all layers, or none at all."""
    window = facts.data.get("sliding_window")
    if window is None or not facts.flag("use_sliding_window", True):
        return
    size = facts.whole("sliding_window")
    if size < shape.max_context:
        shape.attention = [{"kind": "sliding", "layers": shape.layers, "window": size}]


def _chunked(facts: Facts, shape: Shape) -> None:
    """Llama 4: three of four layers see their chunk only; every fourth has no rope and sees all."""
    listed = facts.data.get("no_rope_layers")
    if isinstance(listed, list) and len(listed) == shape.layers:
        whole = sum(1 for item in listed if not item)
    else:
        whole = shape.layers // facts.whole("no_rope_layer_interval", default=4)
    chunk = facts.whole("attention_chunk_size")
    shape.attention = [
        {"kind": "sliding", "layers": shape.layers - whole, "window": chunk, "chunked": True},
        {"kind": "full", "layers": whole},
    ]


def _hybrid(facts: Facts, shape: Shape) -> None:
    """Qwen3-Next and Qwen3.5: gated delta rule, and gated full attention in every so many layers."""
    known = ("linear_attention", "full_attention")
    kinds = facts.names("layer_types", shape.layers, known)
    if kinds is None:
        every = facts.whole("full_attention_interval", default=4)
        kinds = tuple(known[(i + 1) % every == 0] for i in range(shape.layers))
    linear = {
        "kind": "linear",
        "key_heads": facts.whole("linear_num_key_heads"),
        "value_heads": facts.whole("linear_num_value_heads"),
        "key_dim": facts.whole("linear_key_head_dim"),
        "value_dim": facts.whole("linear_value_head_dim"),
        "convolution": facts.whole("linear_conv_kernel_dim"),
        "state_bits": 16 if facts.text("mamba_ssm_dtype") in ("bfloat16", "float16") else 32,
    }
    full = {"kind": "full", "gated": facts.flag("attn_output_gate", True)}
    shape.attention = _layers(kinds, {known[0]: linear, known[1]: full})


def _latent(facts: Facts, shape: Shape) -> None:
    """DeepSeek's multi-head latent attention, with its sparse form where there is an indexer."""
    shape.mla = {
        "rank": facts.whole("kv_lora_rank"),
        "rope": facts.whole("qk_rope_head_dim"),
        "nope": facts.whole("qk_nope_head_dim"),
        "value": facts.whole("v_head_dim"),
    }
    if facts.data.get("q_lora_rank") is not None:
        shape.mla["q_rank"] = facts.whole("q_lora_rank")
    shape.head_dim = shape.mla["nope"]
    if facts.data.get("index_topk") is None:
        return
    size = facts.whole("index_head_dim")
    sparse = {
        "top_k": facts.whole("index_topk"),
        "index_heads": facts.whole("index_n_heads"),
        "index_dim": size,
        "index_bytes": size + 4 * -(-size // 128),
    }
    kinds = facts.names("indexer_types", shape.layers, ("full", "shared"))
    own = shape.layers if kinds is None else kinds.count("full")
    shape.attention = [{"kind": "latent", "layers": own, "sparse": sparse}]
    if own < shape.layers:
        shared = {**sparse, "shared": True}
        shape.attention.append({"kind": "latent", "layers": shape.layers - own, "sparse": shared})


def _mixture(
    count: tuple[str, ...],
    chosen: tuple[str, ...],
    inner: tuple[str, ...],
    shared: Callable[[Facts, int], tuple[int, int | None]] = lambda facts, inner: (0, None),
    dense: Callable[[Facts, Shape], int] = lambda facts, shape: 0,
) -> Callable[[Facts, Shape], None]:
    """Experts by the names that an architecture gives their numbers."""

    def read(facts: Facts, shape: Shape) -> None:
        size = facts.whole(*inner)
        many, of_them = shared(facts, size)
        total, top = facts.whole(*count), facts.whole(*chosen)
        if top > total:
            facts.wrong(chosen[0], f"must not be more than {count[0]}, {total}", str(top))
        layers = shape.layers - dense(facts, shape)
        if layers < 1:
            facts.wrong("num_hidden_layers", "must leave layers for experts", f"{shape.layers}, all dense")
            layers = 1
        shape.experts = {
            "count": total,
            "top_k": top,
            "shared": many,
            "layers": layers,
            "intermediate": size,
        }
        if of_them is not None:
            shape.experts["shared_intermediate"] = of_them

    return read


def _first_dense(facts: Facts, shape: Shape) -> int:
    del shape
    return facts.whole("first_k_dense_replace", least=0, default=0)


def _only_dense(facts: Facts, shape: Shape) -> int:
    """Qwen: layers that are named dense, or those that a step of sparse ones leaves out."""
    step = facts.whole("decoder_sparse_step", default=1)
    named = facts.data.get("mlp_only_layers") or []
    dense = {i for i in named if isinstance(i, int)} if isinstance(named, list) else set()
    dense |= {i for i in range(shape.layers) if (i + 1) % step}
    return len({i for i in dense if 0 <= i < shape.layers})


def _interleaved(facts: Facts, shape: Shape) -> int:
    """Llama 4: a mixture in every so many layers."""
    listed = facts.data.get("moe_layers")
    if isinstance(listed, list) and listed:
        return shape.layers - len(listed)
    return shape.layers - shape.layers // facts.whole("interleave_moe_layer_step", default=1)


def _n_shared(facts: Facts, inner: int) -> tuple[int, int | None]:
    del inner
    return facts.whole("n_shared_experts", least=0, default=0), None


def _sized_shared(facts: Facts, inner: int) -> tuple[int, int | None]:
    """Qwen: one shared expert of a size of its own."""
    size = facts.whole("shared_expert_intermediate_size", least=0, default=0)
    return (1, None if size == inner else size) if size else (0, None)


def _one_shared(facts: Facts, inner: int) -> tuple[int, int | None]:
    del facts, inner
    return 1, None


def _llama4(facts: Facts, shape: Shape) -> None:
    _mixture(
        ("num_local_experts",), ("num_experts_per_tok",), ("intermediate_size",), _one_shared, _interleaved
    )(facts, shape)
    shape.ffn = facts.whole("intermediate_size_mlp")


_CHOSEN = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token")
_QWEN = _mixture(("num_experts",), _CHOSEN, ("moe_intermediate_size",), _sized_shared, _only_dense)
_DEEPSEEK = _mixture(("n_routed_experts",), _CHOSEN, ("moe_intermediate_size",), _n_shared, _first_dense)
_LOCAL = _mixture(("num_local_experts",), _CHOSEN, ("intermediate_size",))

PLAIN = Style()
WINDOW = Style(_sliding_where_used)
LATENT = Style(_latent, _DEEPSEEK)

ARCHITECTURES: dict[str, Style] = {
    "llama": PLAIN,
    "mistral": WINDOW,
    "qwen2": WINDOW,
    "qwen3": PLAIN,
    "qwen3_vl_text": PLAIN,
    "phi3": WINDOW,
    "glm4": PLAIN,
    "gemma2": Style(_sliding, tied=True),
    "gemma3_text": Style(_sliding, tied=True),
    "mixtral": Style(_sliding_where_used, _LOCAL),
    "qwen2_moe": Style(None, _QWEN),
    "qwen3_moe": Style(None, _QWEN),
    "qwen3_vl_moe_text": Style(None, _QWEN),
    "qwen3_next": Style(_hybrid, _QWEN),
    "qwen3_5_text": Style(_hybrid),
    "qwen3_5_moe_text": Style(_hybrid, _QWEN),
    "deepseek_v2": LATENT,
    "deepseek_v3": LATENT,
    "deepseek_v32": LATENT,
    "kimi_k2": LATENT,
    "glm_moe_dsa": LATENT,
    "glm4_moe": Style(None, _DEEPSEEK),
    "minimax_m2": Style(None, _LOCAL),
    "gpt_oss": Style(_sliding, _LOCAL),
    "llama4_text": Style(_chunked, _llama4),
    "t5": PLAIN,
    "mt5": PLAIN,
    "umt5": PLAIN,
}
"""By ``model_type`` of the text part."""

MISSING = {
    "deepseek_v4": "the cache of compressed attention (compress_ratios) and its output ranks",
    "kimi_linear": "the state of Kimi delta attention and the latent of its experts",
    "minimax_m3": "block-sparse attention and its index cache",
    "nemotron_h": "the state of Mamba-2 layers and their share of the layers",
    "gemma4_text": "keys that are also values, and dense layers beside experts",
    "mimo_v2_flash": "head sizes that differ between full and sliding layers",
}

DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma3_text": {
        "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 131072, "sliding_window": 4096,
    },
    "t5": {"num_key_value_heads": None, "max_position_embeddings": 512},
}  # fmt: skip
"""What a configuration of that type leaves out because its class has it (transformers 4.5x)."""
