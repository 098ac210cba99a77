"""A Hugging Face config.json as the shape of a model.

An architecture that is not listed in ``styles`` is refused: guessing its attention would guess its KV cache.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rackwright.catalog.adding.facts import Facts
from rackwright.catalog.adding.shape import Shape
from rackwright.catalog.adding.styles import ARCHITECTURES, DEFAULTS, MISSING
from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.yamlio import printable, quoted, read_text

LARGEST = 8 << 20
"""Bytes of a config.json; the largest known has less than a tenth of it."""


def read_config(path: Path) -> Shape:
    """The shape in the config.json at ``path``.

    Raises:
        CannotRun: the file cannot be read.
        InputErrors: it is no JSON mapping, of an unknown architecture, or lacks facts; all at once.
    """
    data = json_mapping(read_text(path, "give the config.json of a model"), str(path))
    beside = path.parent / "hf_quant_config.json"
    if "quantization_config" not in data and beside.is_file():
        quantised = json_mapping(read_text(beside, "mend or remove it"), str(beside)).get("quantization")
        if isinstance(quantised, dict):
            data["quantization_config"] = {
                "quant_method": "modelopt",
                "quant_algo": quantised.get("quant_algo"),
                "ignore": quantised.get("exclude_modules"),
            }
    return config_shape(data, str(path))


def json_mapping(text: str, where: str, largest: int = LARGEST) -> dict[str, Any]:
    """``text`` as a JSON mapping.

    Raises:
        InputErrors: it is none.
    """
    found = ""
    try:
        data = json.loads(text) if len(text) <= largest else None
        found = f"{len(text):,} characters" if data is None else f"{type(data).__name__}"
    except RecursionError:
        data, found = None, "nesting without end"
    except ValueError as error:
        data, found = None, printable(str(error))[:120]
    if not isinstance(data, dict):
        raise InputErrors(
            Problem(
                printable(where),
                "must be a JSON mapping",
                found,
                "there is no shape to read",
                "give a config.json",
            )
        )
    return data


def config_shape(data: Mapping[str, Any], where: str) -> Shape:
    """``data`` of a config.json as a shape; ``where`` names it in messages."""
    outer = Facts(data, where)
    part = next((k for k in ("text_config", "llm_config", "language_config") if data.get(k)), "")
    inner = outer.mapping(part) if part else data
    outer.finish()
    kind = _kind(inner, data, outer)
    style = ARCHITECTURES[kind]
    merged = {**DEFAULTS.get(kind, {}), **{k: v for k, v in inner.items() if v is not None}}
    facts = Facts(merged, f"{where} {part}".rstrip(), outer.problems)
    shape = _t5(facts, kind) if kind in ("t5", "mt5", "umt5") else _decoder(facts, kind)
    shape.tied = facts.flag("tie_word_embeddings", outer.flag("tie_word_embeddings", style.tied))
    if style.attention is not None:
        style.attention(facts, shape)
    if style.experts is not None:
        style.experts(facts, shape)
    shape.multimodal = bool(data.get("vision_config") or data.get("audio_config"))
    shape.remote_code = bool(data.get("auto_map")) and kind in ("kimi_k2",)
    shape.mtp_layers = facts.whole("num_nextn_predict_layers", "mtp_num_hidden_layers", least=0, default=0)
    shape.native, shape.scheme = _native(facts, outer)
    facts.finish()
    return shape


def _kind(inner: Mapping[str, Any], data: Mapping[str, Any], outer: Facts) -> str:
    kind = inner.get("model_type") or data.get("model_type")
    if isinstance(kind, str) and kind in ARCHITECTURES:
        return kind
    for spelling in (f"{kind}_text", str(kind).removesuffix("_text")):
        if spelling in ARCHITECTURES:
            return spelling
    rule = f"must be an architecture that is known{nearest(str(kind), ARCHITECTURES)}"
    lacking = MISSING.get(str(kind), "how its layers attend, and what each caches a token")
    raise InputErrors(
        Problem(
            outer.place("model_type"),
            rule,
            "nothing" if kind is None else quoted(kind),
            f"its size and its KV cache cannot be computed without {lacking}; known are "
            f"{listing(sorted(ARCHITECTURES), 40)}",
            "write the entry by hand: rackwright catalog show deepseek-v3 --yaml shows one",
        )
    )


def _decoder(facts: Facts, kind: str) -> Shape:
    heads = facts.whole("num_attention_heads")
    hidden = facts.whole("hidden_size")
    shape = Shape(
        architecture=kind,
        layers=facts.whole("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=facts.whole("num_key_value_heads", "multi_query_group_num", default=heads),
        head_dim=facts.whole("head_dim", default=max(hidden // heads, 1)),
        ffn=facts.whole("intermediate_size", least=0, default=0),
        vocab=facts.whole("vocab_size"),
        max_context=facts.whole("max_position_embeddings"),
    )
    if shape.kv_heads > heads or heads % shape.kv_heads:
        facts.wrong("num_key_value_heads", f"must divide the {heads} attention heads", str(shape.kv_heads))
    if not shape.ffn and ARCHITECTURES[kind].experts is None:
        facts.wrong("intermediate_size", "must be given", "nothing")
    return shape


def _t5(facts: Facts, kind: str) -> Shape:
    """The T5 family: keys, values and queries of ``d_kv`` a head, two or three matrices."""
    heads = facts.whole("num_heads")
    gated = facts.flag("is_gated_act", facts.text("feed_forward_proj").startswith("gated"))
    encoder = facts.whole("num_layers")
    return Shape(
        architecture=kind,
        layers=facts.whole("num_decoder_layers", default=encoder),
        encoder_layers=encoder,
        hidden=facts.whole("d_model"),
        heads=heads,
        kv_heads=heads,
        head_dim=facts.whole("d_kv"),
        ffn=facts.whole("d_ff"),
        ffn_matrices=3 if gated else 2,
        vocab=facts.whole("vocab_size"),
        max_context=facts.whole("n_positions", "max_position_embeddings", default=512),
        notes=["positions are relative: the length it was trained for is taken as its context"],
    )


def _native(facts: Facts, outer: Facts) -> tuple[str, str]:
    """Precision of the published weights, and the scheme that says how many bits they take."""
    data = dict(facts.mapping("quantization_config") or outer.mapping("quantization_config"))
    method = str(data.get("quant_method", "")).lower()
    block = data.get("weight_block_size")
    if method in ("fp8", "fbgemm_fp8"):
        return ("fp8-block128", "fp8-block") if block else ("fp8", "fp8")
    if method == "mxfp4":
        return "mxfp4 experts", "mxfp4"
    if method in ("awq", "gptq"):
        return f"int4 {method}", f"int4-{method}"
    if method == "compressed-tensors":
        return _compressed(data, facts)
    if method == "modelopt":
        return _modelopt(data, facts)
    if method:
        facts.wrong(
            "quantization_config.quant_method",
            "must be one of fp8, mxfp4, awq, gptq, compressed-tensors, modelopt",
            quoted(method),
        )
    kind = facts.text("torch_dtype", "dtype") or outer.text("torch_dtype", "dtype")
    return ("fp16" if kind == "float16" else "bf16"), "bf16"


def _modelopt(data: Mapping[str, Any], facts: Facts) -> tuple[str, str]:
    algorithm = str(data.get("quant_algo", "")).upper()
    ignored = " ".join(map(str, data.get("ignore") or []))
    if "FP4" in algorithm:
        return "nvfp4", "nvfp4-ffn" if re.search(r"self_attn(\b|\*|$)", ignored) else "nvfp4"
    if "FP8" in algorithm:
        return "fp8", "fp8"
    facts.wrong(
        "quantization_config.quant_algo",
        "must be one of FP8, NVFP4",
        quoted(data.get("quant_algo")),
        "add the model from its 16-bit config.json; say its published size in the entry",
    )
    return "bf16", "bf16"


def _compressed(data: Mapping[str, Any], facts: Facts) -> tuple[str, str]:
    groups = data.get("config_groups")
    first: Any = next(iter(groups.values()), {}) if isinstance(groups, dict) else {}
    weights = first.get("weights") if isinstance(first, dict) else None
    weights = weights if isinstance(weights, dict) else {}
    bits, kind = weights.get("num_bits"), str(weights.get("type"))
    ignored = " ".join(map(str, data.get("ignore") or []))
    only_experts = "self_attn" in ignored and "shared_experts" in ignored
    if kind == "float" and bits == 8:
        return "fp8", "fp8"
    if kind == "float" and bits == 4:
        return ("nvfp4", "nvfp4-experts" if only_experts else "nvfp4")
    if kind == "int" and bits == 8:
        return "int8", "int8"
    if kind == "int" and bits == 4:
        return ("int4 experts", "int4-experts") if only_experts else ("int4", "int4")
    facts.wrong(
        "quantization_config.config_groups",
        "must be 4 or 8 bits, int or float",
        f"{quoted(bits)} {quoted(kind)}",
    )
    return "bf16", "bf16"
