"""Models: parameters from the shape, bytes of weights and of KV cache, against numbers done by hand."""

from __future__ import annotations

import pytest

from rackwright.catalog import ModelEntry, load_catalog
from rackwright.catalog.weights import SCHEMES, scheme_named

CATALOG = load_catalog()
MODELS = sorted(CATALOG.models)
PUBLISHED = [
    (model.id, label)
    for model in CATALOG.models.values()
    for label, offered in model.quantisations.items()
    if offered.published is not None
]


def model(name: str) -> ModelEntry:
    return CATALOG.model(name)


ASKED = """
    Qwen3-0.6B Qwen3-8B Qwen3-32B Qwen3-30B-A3B Qwen3-235B-A22B Qwen3.5-397B-A17B Qwen2.5-7B Qwen2.5-72B
    Llama-2-7B Llama-3.1-8B Llama-3.3-70B Llama-4-Scout Mixtral-8x7B Mixtral-8x22B DeepSeek-V3 DeepSeek-R1
    DeepSeek-V3.1 DeepSeek-V3.2 Kimi-K2 Kimi-K2.5 Kimi-K2.6 GLM-4.5-Air GLM-4.6 GLM-5 gpt-oss-20b gpt-oss-120b
    MiniMax-M2.5 R1-Distill-Llama-70B T5-XXL
"""


def test_families_that_users_ask_for() -> None:
    for name in ASKED.split():
        assert model(name).total.value > 0


@pytest.mark.parametrize("name", MODELS)
def test_parameters_recomputed_from_the_shape(name: str) -> None:
    entry = CATALOG.models[name]
    counts = entry.parameters
    experts = entry.experts
    top_k, count = (experts.top_k, experts.count) if experts else (0, 0)
    exact = 0.013 if entry.mla is not None else 0.002
    assert counts.total / 1e9 == pytest.approx(entry.total.value, rel=exact)
    assert counts.active(top_k, count) / 1e9 == pytest.approx(entry.active.value, rel=0.006)
    assert counts.always_read / 1e9 == pytest.approx(entry.always_read.value, rel=0.006)
    if experts is not None:
        assert counts.experts / (experts.count * experts.layers) / 1e6 == pytest.approx(
            experts.each.value, 1e-3
        )
    assert entry.nominal_total is not None
    assert entry.nominal_active is not None
    high = entry.nominal_total.high or entry.nominal_total.value
    assert entry.nominal_total.value * 0.98 <= entry.total.value <= high * 1.02
    assert entry.total.value == pytest.approx(counts.total / 1e9, rel=0.02)


@pytest.mark.parametrize(("name", "label"), PUBLISHED)
def test_the_rule_gives_published_sizes_within_one_per_cent(name: str, label: str) -> None:
    """Computed from classes of parameters and bits alone; prediction heads are in the file, not in memory."""
    entry = CATALOG.models[name]
    offered = entry.quantisations[label]
    assert offered.published is not None
    scheme = scheme_named(offered.scheme or label)
    assert scheme is not None
    bare = entry.model_copy(update={"quantisations": {}})
    computed = bare.weights(offered.scheme or label).loaded / 1e9
    if entry.mtp is not None:
        bits = 16.0 if scheme.scope == "experts" or scheme.compute == "fp4" else scheme.bits
        computed += entry.mtp.value * bits / 8
    size = offered.published.value
    carried = offered.disk.value - offered.loaded.value
    if name in ("deepseek-v3", "deepseek-r1", "kimi-k2-instruct"):  # their heads carry embeddings too
        computed = bare.weights("fp8-block").loaded / 1e9 + carried
    assert computed == pytest.approx(size, rel=0.01)
    assert offered.disk.value == pytest.approx(size, rel=0.005)


def test_most_models_have_a_published_size() -> None:
    assert len({name for name, _ in PUBLISHED}) >= 36


@pytest.mark.parametrize("name", MODELS)
def test_what_is_loaded_follows_the_rule(name: str) -> None:
    entry = CATALOG.models[name]
    assert entry.default_quantisation in entry.quantisations
    assert sum(q.native for q in entry.quantisations.values()) == 1
    bare = entry.model_copy(update={"quantisations": {}})
    for label, offered in entry.quantisations.items():
        ruled = bare.weights(offered.scheme or label)
        assert offered.loaded.value * 1e9 == pytest.approx(
            ruled.loaded, rel=0.055 if offered.published else 0.03
        )
        assert offered.disk.value >= offered.loaded.value * 0.999
        assert offered.compute == ruled.compute
        weights = entry.weights(label)
        assert weights.loaded == pytest.approx(offered.loaded.value * 1e9)
        assert weights.always <= weights.loaded
        if entry.experts is not None:
            routed = weights.expert * entry.experts.count * entry.experts.layers
            assert weights.always + routed + weights.embedding <= weights.loaded * 1.0001


def test_weights_by_hand() -> None:
    """Llama 3.1 8B: 8.030 × 10⁹ parameters, of them embedding and head 2 × 128,256 × 4,096 = 1.0507 × 10⁹."""
    entry = model("Llama-3.1-8B")
    bare = entry.model_copy(update={"quantisations": {}})
    linear, ends = 8.0302 - 1.0507, 1.0507
    assert bare.weights("bf16").loaded / 1e9 == pytest.approx(8.0303 * 2, rel=1e-3)
    assert bare.weights("fp8").loaded / 1e9 == pytest.approx(linear + ends * 2, rel=1e-3)
    assert bare.weights("int4-awq").loaded / 1e9 == pytest.approx(linear * 4.15625 / 8 + ends * 2, rel=1e-3)
    assert bare.weights("nvfp4").loaded / 1e9 == pytest.approx(linear * 4.5 / 8 + ends * 2, rel=1e-3)
    assert bare.weights("q8_0").loaded / 1e9 == pytest.approx(8.0302 * 8.5 / 8, rel=1e-3)
    assert bare.weights("W4A16").loaded == bare.weights("int4").loaded


def test_weights_of_a_mixture_by_hand() -> None:
    """gpt-oss-120b: 36 × 128 experts of 3 × 2,880² = 24.883 × 10⁶ at 4.25 bits; the rest in 16."""
    weights = model("gpt-oss-120b").weights("mxfp4")
    assert weights.expert / 1e6 == pytest.approx(24.883 * 4.25 / 8, rel=2e-3)
    assert weights.always / 1e9 == pytest.approx(1.548 * 2, rel=3e-3)
    assert weights.embedding / 1e9 == pytest.approx(201_088 * 2_880 * 2 / 1e9, rel=2e-3)
    assert weights.compute == "fp4"
    assert weights.published


def test_the_guides_sizes() -> None:
    """INT4 of 671B is about 335 GB without scales; its Q4_K_M is 404 GB: the guide's 380 is too little."""
    v3 = model("DeepSeek-V3")
    assert v3.weights("q4_k_m").loaded / 1e9 == pytest.approx(404, rel=0.01)
    assert v3.weights("int4").loaded / 1e9 == pytest.approx(671 * 4.15625 / 8, rel=0.01)
    assert model("Llama-3.3-70B").weights("q4_k_m").loaded / 1e9 == pytest.approx(42.5, rel=0.01)
    assert model("Qwen3-235B-A22B").weights("q4_k_m").loaded / 1e9 == pytest.approx(142, rel=0.01)
    assert model("Qwen2.5-7B").weights("q4_k_m").loaded / 1e9 > 4.4, "not 1.2 GB, as a guide has it"


def test_a_changed_copy_is_computed_anew() -> None:
    entry = model("Llama-3.1-8B")
    assert entry.parameters.total > 8e9
    assert entry.weights("q8_0").loaded > 8e9
    half = entry.model_copy(update={"layers": entry.layers.model_copy(update={"value": 16})})
    assert half.kv_bytes_per_token(16) == entry.kv_bytes_per_token(16) / 2
    assert half.parameters.total < 5e9
    assert half.weights("q8_0").loaded < 5e9


def test_unknown_precisions_are_refused() -> None:
    with pytest.raises(ValueError, match='"fp9" is neither a quantisation of qwen3-8b nor a known scheme'):
        model("Qwen3-8B").weights("fp9")


def test_schemes_keep_what_they_do_not_touch_in_16_bits() -> None:
    for scheme in SCHEMES.values():
        assert 2 < scheme.bits <= 16
        assert scheme.scope == "everything" or scheme.embedding_bits == scheme.head_bits == 16


@pytest.mark.parametrize(
    ("name", "bits", "expected"),
    [
        ("Llama-3.1-8B", 16, 2 * 32 * 8 * 128 * 2),  # grouped-query
        ("Llama-2-7B", 16, 2 * 32 * 32 * 128 * 2),  # multi-head
        ("Qwen3-32B", 8, 2 * 64 * 8 * 128 * 1),  # grouped-query, 8 bit
        ("Qwen3-235B-A22B", 16, 2 * 94 * 4 * 128 * 2),  # mixture, 4 KV heads
        ("DeepSeek-V3", 16, 61 * (512 + 64) * 2),  # latent
        ("DeepSeek-V3.2", 16, 61 * (512 + 64) * 2 + 61 * 132),  # latent, with the indexer's keys
        ("GLM-5.2", 16, 78 * (512 + 64) * 2 + 21 * 132),  # 57 layers use another layer's choice
        ("gpt-oss-120b", 16, 2 * 18 * 8 * 64 * 2),  # half of the layers slide
        ("Qwen3.5-397B-A17B", 16, 2 * 15 * 2 * 256 * 2),  # 45 of 60 layers are linear
        ("gemma-3-27b", 16, 2 * 10 * 16 * 128 * 2),  # 52 of 62 layers slide
        ("Llama-4-Scout", 16, 2 * 12 * 8 * 128 * 2),  # 36 of 48 layers see their chunk
        ("T5-XXL", 16, 2 * 24 * 64 * 64 * 2),  # decoder of an encoder-decoder
    ],
)
def test_kv_bytes_a_further_token_by_hand(name: str, bits: int, expected: int) -> None:
    assert model(name).kv_bytes_per_token(bits) == expected


def test_kv_bytes_of_a_sequence_by_hand() -> None:
    oss = model("gpt-oss-120b")
    row = 2 * 8 * 64 * 2
    assert oss.kv_bytes(100, 16) == 36 * 100 * row, "below the window nothing is cut"
    assert oss.kv_bytes(8192, 16) == 18 * 8192 * row + 18 * 128 * row
    gemma = model("gemma-3-27b")
    row = 2 * 16 * 128 * 2
    assert gemma.kv_bytes(32768, 16) == 10 * 32768 * row + 52 * 1024 * row
    scout = model("Llama-4-Scout")
    row = 2 * 8 * 128 * 2
    assert scout.kv_bytes(131072, 16) == 12 * 131072 * row + 36 * 8192 * row
    dense = model("Llama-3.3-70B")
    assert dense.kv_bytes(131072, 16) / 1e9 == pytest.approx(42.95, abs=0.01), (
        "43 GB, as the guide's (!) says"
    )
    assert dense.kv_bytes(131072, 8) / 1e9 == pytest.approx(21.47, abs=0.01)


def test_the_state_of_linear_layers_by_hand() -> None:
    """64 value heads × 128 × 128 × 4 B, and 3 inputs of 2 × 16 × 128 + 64 × 128 channels × 2 B; 45 layers."""
    hybrid = model("Qwen3.5-397B-A17B")
    state = 45 * (64 * 128 * 128 * 4 + (2 * 16 * 128 + 64 * 128) * 3 * 2)
    assert state == 192_061_440
    assert hybrid.kv_bytes(0, 16) == state
    assert hybrid.kv_bytes(8192, 16) == state + 8192 * 30_720


def test_cross_attention_caches_what_the_encoder_read() -> None:
    t5 = model("T5-XXL")
    assert t5.encoder_decoder
    assert t5.kv_bytes(100, 16, encoder_tokens=400) == (100 + 400) * 2 * 24 * 64 * 64 * 2
    assert not model("Qwen3-8B").encoder_decoder


def test_tokens_that_a_new_token_attends_to() -> None:
    assert model("Llama-3.1-8B").attended(10_000) == 32 * 10_000
    assert model("gpt-oss-120b").attended(10_000) == 18 * 10_000 + 18 * 128
    assert model("DeepSeek-V3.2").attended(10_000) == 61 * 2048
    assert model("Qwen3.5-397B-A17B").attended(10_000) == 15 * 10_000


@pytest.mark.parametrize("name", MODELS)
def test_groups_of_layers_are_all_layers(name: str) -> None:
    entry = CATALOG.models[name]
    assert sum(group.layers for group in entry.groups) == entry.layers.value
    assert entry.heads.value % entry.kv_heads.value == 0
    assert entry.kv_bytes(4096, 16) <= entry.kv_bytes(4097, 16)
    assert entry.kv_bytes(4096, 8) <= entry.kv_bytes(4096, 16)


def test_remote_code_only_where_needed() -> None:
    assert [m for m in MODELS if CATALOG.models[m].trust_remote_code] == [
        "kimi-k2-instruct", "kimi-k2.5", "kimi-k2.6",
    ]  # fmt: skip
