"""The estimator against arithmetic anyone can redo, and against public measurements."""

import pytest

from rackwright.catalog import load_catalog
from rackwright.sizing.estimate import (
    Bounds,
    Point,
    Shape,
    active_bytes,
    answer,
    bandwidth_share,
    capacity,
    decode_step_s,
    estimate,
    experts_touched,
    memory,
)
from rackwright.sizing.evidence import interval
from rackwright.sizing.rows import case_of
from rackwright.sizing.work import work_of

CATALOG = load_catalog()


def shape(
    gpu: str, model: str, quantisation: str = "fp8", tp: int = 8, pp: int = 1, kv_bits: int = 16
) -> Shape:
    return Shape(
        CATALOG.accelerators[gpu], CATALOG.models[model], quantisation, CATALOG.engines["vllm"], tp, pp,
        16 if kv_bits == 16 else 8,
    )  # fmt: skip


def test_experts_touched() -> None:
    assert experts_touched(256, 8, 1) == pytest.approx(8)
    assert experts_touched(256, 8, 10_000) == pytest.approx(256)
    assert experts_touched(128, 8, 16) == pytest.approx(128 * (1 - 0.9375**16))


@pytest.mark.parametrize(
    ("model", "bits", "expected"),
    [
        ("qwen2.5-72b-instruct", 16, 2 * 80 * 8 * 128 * 2),
        ("qwen2.5-72b-instruct", 8, 2 * 80 * 8 * 128),
        ("deepseek-v3", 16, 61 * (512 + 64) * 2),
        ("kimi-k2-instruct", 16, 70_272),
        ("qwen3-235b-a22b", 8, 96_256),
    ],
)
def test_kv_bytes_per_token(model: str, bits: int, expected: int) -> None:
    assert CATALOG.models[model].kv_bytes_per_token(bits) == expected


def test_a_step_cannot_beat_the_bandwidth_ceiling() -> None:
    one = shape("rtx-pro-6000", "qwen2.5-72b-instruct", tp=1)
    ceiling_s = active_bytes(one) / 1792e9
    assert 1 / ceiling_s == pytest.approx(24.2, abs=0.5)
    assert decode_step_s(one, 1, 100) > ceiling_s


def test_red_line_two_of_the_guide_on_one_card() -> None:
    one = shape("rtx-pro-6000", "qwen2.5-72b-instruct", tp=1)
    assert bandwidth_share(one, 30) == pytest.approx(30 * active_bytes(one) / 1792e9)
    assert bandwidth_share(one, 30) > 0.70
    assert bandwidth_share(one, 16) < 0.70


def test_kimi_does_not_fit_eight_h200_at_85_percent_and_does_fit_sixteen() -> None:
    eight = memory(shape("h200-sxm", "kimi-k2-instruct"), batched_tokens=8192, max_num_seqs=256)
    sixteen = memory(shape("h200-sxm", "kimi-k2-instruct", pp=2), batched_tokens=8192, max_num_seqs=256)
    assert eight.weights == pytest.approx(1028.8e9 / 8 / 2**30, rel=1e-6)
    assert (eight.weights + eight.activations) / eight.total > 0.85
    assert sixteen.weights / sixteen.total == pytest.approx(0.43, abs=0.01)


def test_memory_keeps_red_line_one_without_override() -> None:
    for gpu, model, tp in (("h200-sxm", "deepseek-v3", 8), ("rtx-pro-6000", "qwen3-32b", 1)):
        held = memory(shape(gpu, model, tp=tp), batched_tokens=8192, max_num_seqs=256)
        assert held.share <= 0.85
        assert held.kv_tokens > 0


def test_a_pro_6000_has_no_room_for_128k_of_fp16_cache_with_a_72b_model() -> None:
    held = memory(shape("rtx-pro-6000", "qwen2.5-72b-instruct", tp=1), batched_tokens=8192, max_num_seqs=32)
    assert pytest.approx(43, abs=0.1) == 131_072 * 327_680 / 1e9
    assert held.kv_tokens < 131_072 / 2


def test_eight_h200_with_deepseek_at_64_lie_in_the_measured_range() -> None:
    at = estimate(shape("h200-sxm", "deepseek-v3"), Point(1000, 1000, 64))
    assert 1_205 <= at.output_tok_s <= 3_273


MEASURED = [
    # hardware, model, quantisation, kv, tp, in, out, concurrency, tok/s
    ("h200-sxm", "llama-3.3-70b-instruct", "fp8", 8, 1, 1024, 1024, 4, 184.8),
    ("h200-sxm", "llama-3.3-70b-instruct", "fp8", 8, 2, 1024, 1024, 64, 2771.5),
    ("h200-sxm", "llama-3.3-70b-instruct", "fp8", 8, 4, 1024, 1024, 4, 402.7),
    ("h200-sxm", "llama-3.3-70b-instruct", "fp8", 8, 8, 1024, 8192, 8, 952.8),
    ("h100-sxm", "qwen3-32b", "bf16", 8, 2, 1024, 1024, 16, 911.8),
    ("h100-sxm", "qwen3-32b", "bf16", 8, 4, 4096, 512, 16, 975.6),
    ("h100-sxm", "qwen3-32b", "bf16", 8, 8, 1024, 512, 32, 2869.2),
    ("h100-sxm", "qwen2.5-72b-instruct", "bf16", 16, 2, 1024, 128, 1, 31.5),
    ("h100-sxm", "qwen3-235b-a22b", "fp8", 8, 8, 1024, 512, 64, 2440.9),
]


@pytest.mark.parametrize("row", MEASURED, ids=lambda r: f"{r[0]}-{r[1]}-tp{r[4]}-{r[5]}-{r[6]}-c{r[7]}")
def test_measured_rows_within_a_third(row: tuple[str, str, str, int, int, int, int, int, float]) -> None:
    gpu, model, quantisation, kv, tp, given, made, concurrency, measured = row
    at = estimate(shape(gpu, model, quantisation, tp, 1, kv), Point(given, made, concurrency))
    assert 0.67 <= at.output_tok_s / measured <= 1.5


@pytest.mark.parametrize(
    ("given", "made", "measured"), [(1024, 1024, 6381), (8192, 1024, 2253), (1024, 8192, 8251)]
)
def test_deepseek_r1_on_eight_h200_at_256_clients_is_taken_to_split_attention_by_data(
    given: int, made: int, measured: float
) -> None:
    """Published figures, lengths 0.9 × nominal. No layout is given: above 8 clients a GPU it is by data."""
    row = {
        "hardware": "H200", "n_gpus": "8", "model": "DeepSeek-R1", "engine": "trtllm", "kvprec": "fp8",
        "input_len": str(0.9 * given), "output_len": str(0.9 * made), "concurrency_or_rate": "256",
    }  # fmt: skip
    case = case_of(row, CATALOG)
    assert "attention TP 1 x DP 8" in case.layout
    assert 0.7 <= answer(case).output_tok_s / measured <= 1.3


def test_with_tensor_parallelism_alone_every_rank_holds_the_whole_latent() -> None:
    """256 prompts of 8,000 tokens are 256 × 8,000 × 70,272 B = 144 GB a rank and do not fit at a time."""
    split = estimate(shape("h200-sxm", "deepseek-v3"), Point(8000, 1000, 256))
    assert split.ttft_ms > 30_000


def test_over_nodes_an_all_reduce_uses_all_ports_of_a_node_and_a_dispatch_its_own() -> None:
    """8 × 50 GB/s a node are less than NVLink's 450 GB/s; a token that is sent goes out of one port."""
    sixteen = work_of(shape("h100-sxm", "deepseek-v3", tp=16))
    assert sixteen.link == pytest.approx(400e9)
    assert sixteen.dispatch_link == pytest.approx(50e9)
    assert work_of(shape("h100-sxm", "deepseek-v3", tp=8)).link == pytest.approx(450e9)


def test_a_lone_client_meets_no_prompts_of_others() -> None:
    """Its time a token is a step alone, however long its prompt."""
    one = shape("h200-sxm", "qwen3-32b", tp=1)
    assert estimate(one, Point(8000, 100, 1)).tpot_ms == pytest.approx(decode_step_s(one, 1, 8050) * 1e3)


@pytest.mark.parametrize("model", ["deepseek-v3", "qwen3-32b", "qwen3-235b-a22b", "llama-3.3-70b-instruct"])
def test_more_clients_never_get_tokens_faster(model: str) -> None:
    found = [
        estimate(shape("h200-sxm", model), Point(1000, 500, n)) for n in (1, 2, 5, 16, 48, 100, 250, 700)
    ]
    assert [f.tpot_ms for f in found] == sorted(f.tpot_ms for f in found)
    assert [f.ttft_ms for f in found] == sorted(f.ttft_ms for f in found)
    assert [f.output_tok_s for f in found] == sorted(f.output_tok_s for f in found)


def test_a_pro_6000_near_the_plausible_figure_at_batch_32() -> None:
    at = estimate(shape("rtx-pro-6000", "qwen2.5-72b-instruct", tp=1, kv_bits=8), Point(128, 512, 32))
    assert 400 <= at.output_tok_s <= 600


def test_longer_prompts_cost_output() -> None:
    deepseek = shape("h200-sxm", "deepseek-v3")
    rates = [estimate(deepseek, Point(given, 1000, 128)).output_tok_s for given in (500, 2000, 8000)]
    assert rates == sorted(rates, reverse=True)


def test_capacity_is_the_last_concurrency_within_bounds() -> None:
    deepseek = shape("h200-sxm", "deepseek-v3")
    bounds = Bounds(tpot_ms=40, ttft_p95_ms=1000, e2e_ms=60_000, kv_tokens=590_000, sequences=1024)
    most, limit = capacity(deepseek, 1400, 600, bounds)
    assert estimate(deepseek, Point(1400, 600, most)).tpot_ms <= 40
    assert estimate(deepseek, Point(1400, 600, most + 1)).tpot_ms > 40
    assert limit is not None
    assert limit.name == "slo.tpot_p50"


def test_interval_holds_the_estimate_and_says_its_class() -> None:
    at = estimate(shape("h200-sxm", "kimi-k2-instruct", pp=2), Point(1400, 600, 100))
    assert at.low < at.output_tok_s < at.high
    assert at.evidence == "extrapolated"
    low, high = interval("fixed_concurrency", "extrapolated")
    assert at.low == pytest.approx(at.output_tok_s * low)
    assert at.high == pytest.approx(at.output_tok_s * high)
