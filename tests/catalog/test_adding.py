"""Entries from config.json, GGUF and safetensors headers: the same numbers as by hand, or one clear error."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackwright.catalog import load_catalog
from rackwright.catalog.adding.config import config_shape, read_config
from rackwright.catalog.adding.gguf import read_header
from rackwright.catalog.adding.model import described, model_entry
from rackwright.catalog.adding.shape import Shape
from rackwright.catalog.adding.styles import ARCHITECTURES
from rackwright.errors import CannotRun, InputErrors, RackwrightError
from tests.golden import SHARED

from .files import QWEN3_8B, TINY, TINY_GGUF, gguf, safetensors, text, tiny_shapes, tiny_tensors

CATALOG = load_catalog()


def put(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def refused(data: Any, tmp_path: Path) -> str:
    with pytest.raises(InputErrors) as caught:
        read_config(put(tmp_path / "config.json", data))
    return str(caught.value)


def test_a_config_gives_the_entry_that_the_catalog_has(tmp_path: Path) -> None:
    put(tmp_path / "config.json", QWEN3_8B)
    name, data, yaml = model_entry(tmp_path, CATALOG, hf_id="ours/Eight", own_id="eight")
    made, known = described(data), CATALOG.model("Qwen3-8B")
    assert name == "eight"
    assert made.total.value == known.total.value == pytest.approx(8.191, abs=0.001)
    assert made.kv_bytes_per_token(16) == 147_456
    assert made.quantisations["bf16"].loaded.value == pytest.approx(16.38, abs=0.01)
    assert made.quantisations["fp8"].engine_flag == "fp8"
    assert 'layers: {value: 36, unit: "1", source: file, verified: true}' in yaml


@pytest.mark.parametrize("kind", sorted(ARCHITECTURES))
def test_every_architecture_says_all_that_it_lacks_at_once(kind: str, tmp_path: Path) -> None:
    message = refused({"model_type": kind}, tmp_path)
    layers = "num_layers" if kind in ("t5", "mt5", "umt5") else "num_hidden_layers"
    assert f"config.json {layers} · must be given" in message
    assert message.count("· must be given · found nothing") + message.count("), · found") >= 3


def decoder(
    layers: int, hidden: int, heads: int, kv: int, ffn: int, vocab: int, context: int
) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "max_position_embeddings": context,
    }


FAMILIES: dict[str, tuple[dict[str, Any], float, int]] = {
    "mixtral": (
        {**decoder(32, 4096, 32, 8, 14336, 32000, 32768), "num_local_experts": 8, "num_experts_per_tok": 2},
        46.70, 131_072,
    ),
    "phi3": (decoder(40, 5120, 40, 10, 17920, 100352, 16384), 14.66, 204_800),
    "glm4_moe": (
        {**decoder(46, 4096, 96, 8, 10944, 151552, 131072), "head_dim": 128, "moe_intermediate_size": 1408,
         "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8,
         "first_k_dense_replace": 1},
        106.85, 188_416,
    ),
    "minimax_m2": (
        {**decoder(62, 3072, 48, 8, 1536, 200064, 196608), "head_dim": 128, "num_local_experts": 256,
         "num_experts_per_tok": 8},
        228.69, 253_952,
    ),
    "deepseek_v2": (
        {**decoder(27, 2048, 16, 16, 10944, 102400, 163840), "moe_intermediate_size": 1408,
         "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
         "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
         "v_head_dim": 128},
        15.71, 31_104,
    ),
    "t5": (
        {"num_layers": 24, "d_model": 4096, "num_heads": 64, "d_kv": 64, "d_ff": 10240, "vocab_size": 32128,
         "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        11.14, 393_216,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAMILIES)
def test_families_against_published_totals(kind: str, tmp_path: Path) -> None:
    config, billions, kv = FAMILIES[kind]
    put(tmp_path / "config.json", {"model_type": kind, **config})
    _, data, _ = model_entry(tmp_path, CATALOG, hf_id="ours/Some", own_id="some")
    made = described(data)
    assert made.total.value == pytest.approx(billions, rel=0.002)
    assert made.kv_bytes_per_token(16) == kv


def shape(**more: Any) -> Shape:
    return config_shape({**QWEN3_8B, **more}, "c")


FP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}


def packed(bits: int, *ignore: str) -> dict[str, Any]:
    groups = {"g": {"weights": {"num_bits": bits, "type": "int"}}}
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": list(ignore)}


@pytest.mark.parametrize(
    ("config", "native", "scheme"),
    [
        ({}, "bf16", "bf16"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block128", "fp8-block"),
        ({"quant_method": "awq", "bits": 4}, "int4 awq", "int4-awq"),
        ({"quant_method": "gptq", "bits": 4}, "int4 gptq", "int4-gptq"),
        ({"quant_method": "mxfp4"}, "mxfp4 experts", "mxfp4"),
        (FP4, "nvfp4", "nvfp4"),
        ({**FP4, "ignore": ["*self_attn*"]}, "nvfp4", "nvfp4-ffn"),
        (packed(8), "int8", "int8"),
        (packed(4), "int4", "int4"),
        (packed(4, "re:.*self_attn.*", "re:.*shared_experts.*"), "int4 experts", "int4-experts"),
    ],
)
def test_the_precision_of_the_published_weights(config: dict[str, Any], native: str, scheme: str) -> None:
    found = shape(quantization_config=config) if config else shape()
    assert (found.native, found.scheme) == (native, scheme)


def test_a_quantisation_beside_the_config(tmp_path: Path) -> None:
    put(tmp_path / "hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}})
    assert read_config(put(tmp_path / "config.json", QWEN3_8B)).scheme == "fp8"


def test_an_unknown_architecture_names_what_is_missing(tmp_path: Path) -> None:
    message = refused({"model_type": "nemotron_h"}, tmp_path)
    assert 'config.json model_type · must be an architecture that is known · found "nemotron_h"' in message
    assert "without the state of Mamba-2 layers and their share of the layers" in message
    assert "next  write the entry by hand" in message
    assert 'did you mean "qwen3"' in refused({"model_type": "qwen33"}, tmp_path)
    assert "found nothing" in refused({"hidden_size": 4}, tmp_path)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"num_hidden_layers": -3},
            "num_hidden_layers · must be a whole number of 1 to 100,000,000 · found -3",
        ),
        (
            {"num_hidden_layers": "36"},
            'num_hidden_layers · must be a whole number of 1 to 100,000,000 · found "36"',
        ),
        ({"hidden_size": 10**30}, "hidden_size · must be a whole number"),
        ({"hidden_size": True}, "hidden_size · must be a whole number of 1 to 100,000,000 · found true"),
        ({"num_key_value_heads": 5}, "num_key_value_heads · must divide the 32 attention heads · found 5"),
        ({"tie_word_embeddings": "no"}, 'tie_word_embeddings · must be true or false · found "no"'),
        (
            {"quantization_config": {"quant_method": "bitsandbytes"}},
            "quant_method · must be one of fp8, mxfp4",
        ),
        ({"quantization_config": []}, "quantization_config · must be a mapping"),
    ],
)
def test_odd_facts(change: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert expected in refused({**QWEN3_8B, **change}, tmp_path)


def test_layers_of_unknown_kinds_and_too_few(tmp_path: Path) -> None:
    oss = {**QWEN3_8B, "model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 8,
           "sliding_window": 128, "layer_types": ["full_attention"] * 35 + ["mamba"]}  # fmt: skip
    message = refused(oss, tmp_path)
    assert "layer_types · must hold only sliding_attention, full_attention" in message
    assert "num_experts_per_tok · must not be more than num_local_experts, 4 · found 8" in message
    assert "a list with one kind for each of 36 layers · found a list of 2" in refused(
        {**oss, "layer_types": ["full_attention"] * 2}, tmp_path
    )


@pytest.mark.parametrize("body", ["", "[1]", "{", '"text"', "[" * 100_000, "NaN"])
def test_what_is_no_json_mapping(body: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(body)
    with pytest.raises(InputErrors, match="must be a JSON mapping"):
        read_config(path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="no such file"):
        model_entry(tmp_path / "config.json", CATALOG)
    with pytest.raises(CannotRun, match=r"must hold a config\.json"):
        model_entry(tmp_path, CATALOG)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="a device or a pipe"):
        model_entry(Path("/dev/zero"), CATALOG)
    with (tmp_path / "config.json").open("wb") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(CannotRun, match="1,073,741,824 bytes, more than any config"):
        model_entry(tmp_path, CATALOG)


def test_names_that_another_entry_has(tmp_path: Path) -> None:
    put(tmp_path / "config.json", QWEN3_8B)
    with pytest.raises(InputErrors, match="must be no name of another entry · found qwen3-8b has it"):
        model_entry(tmp_path, CATALOG, hf_id="Qwen/Qwen3-8B")
    name, data, _ = model_entry(tmp_path, CATALOG, hf_id="Qwen/Qwen3-8B", replaces=True)
    assert (name, data["replaces"]) == ("qwen3-8b", True)
    with pytest.raises(InputErrors) as caught:
        model_entry(tmp_path, CATALOG, hf_id="a b", own_id="Ü")
    assert "--hf-id · must be OWNER/NAME" in str(caught.value)
    assert "--id · must be lower-case letters" in str(caught.value)


# GGUF


def tiny(path: Path, metadata: dict[str, Any] | None = None) -> Path:
    path.write_bytes(gguf({**TINY_GGUF, **(metadata or {})}, tiny_tensors()))
    return path


def test_a_gguf_header(tmp_path: Path) -> None:
    """Q4_K takes 144 bytes a 256 values, Q6_K 210: counted by hand from the list of tensors."""
    q4 = 1024 * 256 + 2 * (256 * 256 * 2 + 256 * 128 + 2 * 256 * 512)
    q6 = 1024 * 256 + 2 * (256 * 128 + 512 * 256)
    norms = 256 * (1 + 2 * 2)
    header = read_header(tiny(tmp_path / "tiny.gguf"))
    assert header.bytes == q4 // 256 * 144 + q6 // 256 * 210 + norms * 4
    assert header.parameters == q4 + q6 + norms
    name, data, _ = model_entry(tmp_path / "tiny.gguf", CATALOG)
    made = described(data)
    assert (name, made.native, made.default_quantisation) == ("tiny", "q4_k_m", "q4_k_m")
    assert made.vocab.value == 1024
    assert made.kv_bytes_per_token(16) == 2 * 2 * 2 * 64 * 2
    assert made.total.value * 1e9 == pytest.approx(q4 + q6 + norms, abs=1e6)
    published = made.quantisations["q4_k_m"].published
    assert published is not None
    assert published.value * 1e9 == pytest.approx(header.bytes, abs=1e6)


def hostile(body: bytes, tmp_path: Path) -> str:
    path = tmp_path / "bad.gguf"
    path.write_bytes(body)
    with pytest.raises(InputErrors) as caught:
        model_entry(path, CATALOG)
    return str(caught.value)


def test_hostile_gguf_headers(tmp_path: Path) -> None:
    start = b"GGUF" + struct.pack("<I", 3)
    assert "must begin with GGUF" in hostile(b"JUNK" * 4, tmp_path)
    assert "must be of GGUF version 2 or 3" in hostile(b"GGUF" + struct.pack("<IQQ", 1, 0, 0), tmp_path)
    assert "must be of GGUF version 2 or 3" in hostile(b"GGUF" + struct.pack(">IQQ", 3, 0, 0), tmp_path)
    assert "at most 200,000 tensors and 10,000 keys" in hostile(
        start + struct.pack("<QQ", 2**63, 1), tmp_path
    )
    one = start + struct.pack("<QQ", 0, 1)
    assert "strings of at most 65,535 bytes" in hostile(one + struct.pack("<Q", 2**62), tmp_path)
    assert "must have the 4 bytes that its header announces · found 0 bytes left" in hostile(
        one + text("k"), tmp_path
    )
    endless = one + text("k") + struct.pack("<IIQ", 9, 8, 2**40)
    assert "arrays of at most 2,000,000 items" in hostile(endless, tmp_path)
    deep = one + text("k") + struct.pack("<IIQ", 9, 9, 1)
    assert "arrays of numbers or strings" in hostile(deep, tmp_path)
    huge = one + text("k") + struct.pack("<IIQQ", 9, 8, 1, 2**60)
    assert "1,152,921,504,606,846,976 bytes that its header announces" in hostile(huge, tmp_path)
    assert "values of a known type · found type 77" in hostile(
        one + text("k") + struct.pack("<I", 77), tmp_path
    )
    wide = start + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<I", 2**31)
    assert "at most 8 dimensions" in hostile(wide, tmp_path)
    big = start + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0)
    assert "tensors of a real size" in hostile(big, tmp_path)


def test_gguf_of_another_architecture_or_contradicting_itself(tmp_path: Path) -> None:
    path = tiny(tmp_path / "m.gguf", {"general.architecture": "mamba"})
    with pytest.raises(InputErrors, match=r"general\.architecture · must be an architecture that is known"):
        model_entry(path, CATALOG)
    with pytest.raises(InputErrors, match="must list about as many parameters as its shape gives"):
        model_entry(tiny(tmp_path / "n.gguf", {"llama.block_count": 9}), CATALOG)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 4000), at=st.integers(0, 4000), byte=st.integers(0, 255))
def test_damaged_gguf_headers_never_give_a_traceback(tmp_path: Path, cut: int, at: int, byte: int) -> None:
    body = bytearray(gguf(TINY_GGUF, tiny_tensors()))
    body[at % len(body)] = byte
    path = tmp_path / "x.gguf"
    path.write_bytes(bytes(body)[: len(body) - cut])
    try:
        model_entry(path, CATALOG)
    except RackwrightError as error:
        assert str(error)


# safetensors


def test_a_safetensors_header_beside_its_config(tmp_path: Path) -> None:
    put(tmp_path / "config.json", TINY)
    size = safetensors(tmp_path / "model.safetensors", tiny_shapes())
    by_hand = 2 * (2 * 1000 * 64 + 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 2 * 64))
    assert size == by_hand == 404_096
    _, data, _ = model_entry(tmp_path / "model.safetensors", CATALOG, hf_id="ours/Tiny")
    made = described(data)
    assert made.quantisations["bf16"].published is not None
    assert made.total.value * 1e9 == pytest.approx(by_hand / 2, abs=1e6)


def test_an_index_gives_the_size(tmp_path: Path) -> None:
    put(tmp_path / "config.json", QWEN3_8B)
    put(
        tmp_path / "model.safetensors.index.json", {"metadata": {"total_size": 16381470720}, "weight_map": {}}
    )
    _, data, _ = model_entry(tmp_path, CATALOG, hf_id="ours/Eight")
    published = described(data).quantisations["bf16"].published
    assert published is not None
    assert (published.value, published.verified) == (16.381, True)
    put(tmp_path / "model.safetensors.index.json", {"metadata": {"total_size": -1}})
    with pytest.raises(
        InputErrors, match=r"metadata\.total_size · must be the bytes of all tensors · found -1"
    ):
        model_entry(tmp_path, CATALOG)


def test_weights_of_another_model_than_the_config(tmp_path: Path) -> None:
    put(tmp_path / "config.json", {**TINY, "num_hidden_layers": 4})
    safetensors(tmp_path / "model.safetensors", tiny_shapes())
    with pytest.raises(InputErrors, match="must list about as many parameters as its shape gives"):
        model_entry(tmp_path / "model.safetensors", CATALOG, hf_id="ours/Tiny")


def test_safetensors_without_a_config(tmp_path: Path) -> None:
    safetensors(tmp_path / "model.safetensors", tiny_shapes())
    with pytest.raises(InputErrors, match=r"config\.json · must be beside the weights · found nothing"):
        model_entry(tmp_path / "model.safetensors", CATALOG)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (struct.pack("<Q", 2**63), "a header of at most 33,554,432 bytes · found 9,223,372,036,854,775,808"),
        (struct.pack("<Q", 5000) + b"{}", "5,000 bytes that its header announces"),
        (struct.pack("<Q", 2) + b"[]", "a JSON mapping as its header"),
        (b"", "8 bytes that its header announces"),
    ],
)
def test_hostile_safetensors_headers(raw: bytes, expected: str, tmp_path: Path) -> None:
    put(tmp_path / "config.json", TINY)
    (tmp_path / "model.safetensors").write_bytes(raw)
    with pytest.raises(InputErrors) as caught:
        model_entry(tmp_path / "model.safetensors", CATALOG)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "tensor",
    [
        {"dtype": "BF16", "shape": [10**9, 10**9], "data_offsets": [0, 10]},
        {"dtype": "BF16", "shape": [2], "data_offsets": [0, 10**15]},
        {"dtype": "BF16", "shape": [2], "data_offsets": [4, 0]},
        {"dtype": "BF16", "shape": [-2], "data_offsets": [0, 4]},
        {"dtype": "Q4", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "BF16", "shape": "2", "data_offsets": [0, 4]},
        {"dtype": ["BF16"], "shape": [2], "data_offsets": [0, 4]},
        "BF16",
        None,
    ],
)
def test_tensors_that_cannot_be(tensor: Any, tmp_path: Path) -> None:
    put(tmp_path / "config.json", TINY)
    safetensors(tmp_path / "model.safetensors", {"x": [64]}, header=json.dumps({"t": tensor}).encode())
    with pytest.raises(InputErrors, match=r"must (give|keep|have)"):
        model_entry(tmp_path / "model.safetensors", CATALOG)


@pytest.mark.skipif(not (SHARED / "reference").is_dir(), reason="no reference tables beside the checkout")
def test_the_catalog_agrees_with_the_reference_tables() -> None:
    import csv

    seen = 0
    with (SHARED / "reference" / "sizing" / "models.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            entry = CATALOG.model(row["name"])
            assert entry.total.value == pytest.approx(float(row["total_params_B_calc"]), rel=0.01)
            seen += 1
    with (SHARED / "reference" / "sizing" / "hardware.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["form_factor"] == "rack":
                assert CATALOG.machine(row["key"]).gpus.value == 72
                continue
            card = CATALOG.accelerator(row["key"])
            assert card.bandwidth.value == float(row["memory_BW_GBs"])
            assert card.bf16.value == float(row["dense_bf16_TFLOPS"])
            seen += 1
    assert seen == 41 + 44
