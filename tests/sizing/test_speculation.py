"""Speculative decoding and pools of their own for prefill, by arithmetic that anyone can redo."""

from __future__ import annotations

import pytest

from rackwright.catalog import load_catalog
from rackwright.sizing import disaggregation, queueing
from rackwright.sizing.decode import step_s
from rackwright.sizing.estimate import answer, constants_for
from rackwright.sizing.rows import CannotEstimate, case_of
from rackwright.sizing.shape import Shape
from rackwright.sizing.speculation import Draft
from rackwright.sizing.work import work_of

CATALOG = load_catalog()
LLAMA = {
    "hardware": "H200", "n_gpus": "8", "tp": "2", "model": "llama-3.3-70b-instruct", "engine": "vllm",
    "wprec": "fp8", "kvprec": "fp8", "input_len": "8000", "output_len": "500", "concurrency_or_rate": "64",
    "metric_kind": "fixed_concurrency",
}  # fmt: skip


@pytest.mark.parametrize(
    ("tokens", "acceptance", "kept"),
    [(1, 0.8, 1.8), (3, 0.7, 1 + 0.7 + 0.49 + 0.343), (4, 0.0, 1.0), (4, 1.0, 5.0), (2, 0.5, 1.75)],
)
def test_a_step_keeps_one_token_and_the_drafts_before_the_first_refusal(
    tokens: int, acceptance: float, kept: float
) -> None:
    assert Draft(tokens, acceptance).accepted == pytest.approx(kept)


def shape(draft: Draft | None) -> Shape:
    model = CATALOG.models["llama-3.3-70b-instruct"]
    return Shape(CATALOG.accelerators["h200-sxm"], model, "fp8", CATALOG.engines["vllm"], 2, draft=draft)


def test_one_stream_gains_nearly_what_is_kept_and_a_large_batch_much_less() -> None:
    """3 drafts at 0.7 keep 2.53 tokens; each costs one of 80 layers: at most 2.53 / (1 + 3 / 80) = 2.44."""
    gains = []
    for clients in (1, 512):
        with_, without = (
            queueing.decoding(work_of(s), constants_for(s), 1000, 500, clients).output
            for s in (shape(Draft(3, 0.7)), shape(None))
        )
        gains.append(with_ / without)
    assert 2.0 < gains[0] < 2.44
    assert 0.6 < gains[1] < 0.8 * gains[0]


def test_verified_tokens_are_computed_but_the_cache_is_read_once() -> None:
    """A step of 4 tokens each of 64 sequences takes less than one of 256 sequences of a token."""
    drafted, plain = shape(Draft(3, 0.7)), shape(None)
    c = constants_for(plain)
    four = step_s(work_of(drafted), c, 64, 4000)
    assert step_s(work_of(plain), c, 64, 4000) < four < step_s(work_of(plain), c, 256, 4000)


def test_no_draft_is_kept_and_none_costs_anything_leaves_the_rate_of_verifying() -> None:
    useless = shape(Draft(2, 0.0, 0.0))
    work, c = work_of(useless), constants_for(useless)
    assert (work.verified, work.accepted, work.drafting) == (3, 1, 1)
    at = queueing.times(work, c, 1000, 500)
    assert queueing.token_s(work, c, at, 8) == pytest.approx(step_s(work, c, 8, at.context) / at.speed)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"draft_tokens": "3"}, "draft_tokens need acceptance"),
        ({"draft_tokens": "3", "acceptance": "1.2"}, "0 to 1"),
        ({"acceptance": "0.7"}, "need draft_tokens"),
        ({"prefill_gpus": "3"}, "no whole replicas of 2"),
        ({"prefill_gpus": "8"}, "no whole replicas of 2"),
        ({"prefill_gpus": "4", "metric_kind": "burst"}, "not burst"),
    ],
)
def test_what_does_not_go_together_is_refused(fields: dict[str, str], reason: str) -> None:
    with pytest.raises(CannotEstimate, match=reason):
        case_of({**LLAMA, **fields}, CATALOG)


def test_the_cache_of_a_prompt_moves_in_its_bytes_over_the_link() -> None:
    """80 layers × 2 × 8 heads × 128 × 1 byte = 163,840 B a token; a rank of two sends half: 8,000 tokens are
    655 MB and take 13.1 ms at 50 GB/s. A latent is whole on every rank: 61 × 576 × 2 × 8,000 / 50 GB/s."""
    case = case_of({**LLAMA, "prefill_gpus": "4"}, CATALOG)
    assert disaggregation.transfer_s(work_of(case.shape), 8000, 50e9) == pytest.approx(8000 * 81_920 / 50e9)
    latent = case_of({"hardware": "H200", "n_gpus": "16", "tp": "8", "model": "deepseek-r1"}, CATALOG)
    assert disaggregation.transfer_s(work_of(latent.shape), 8000, 50e9) == pytest.approx(
        8000 * 61 * 576 * 2 / 50e9
    )


def split(**fields: str) -> tuple[disaggregation.Pools, queueing.Served, float]:
    case = case_of({**LLAMA, "prefill_gpus": "4", **fields}, CATALOG)
    work, c = work_of(case.shape), constants_for(case.shape)
    assert case.pools is not None
    found = disaggregation.served(work, c, case.pools, case.given, case.made, clients=case.clients)
    assert answer(case).output_tok_s == pytest.approx(found.output)
    return case.pools, found, case.made


def test_throughput_is_that_of_the_slower_pool() -> None:
    """Long prompts: two prefill replicas, P seconds a prompt. Long answers: two decode replicas at B / S."""
    pools, found, made = split(concurrency_or_rate="512")
    assert (pools.prefill, pools.decode) == (2, 2)
    assert found.output == pytest.approx(2 / found.prefill * made, rel=1e-6)
    assert found.busy == pytest.approx(1)
    pools, found, made = split(input_len="200", output_len="4000", concurrency_or_rate="100000")
    assert found.output == pytest.approx(2 * found.batch / found.token, rel=0.01)
    assert found.busy < 0.5


def test_one_client_waits_for_prefill_and_transfer_and_then_for_steps_alone() -> None:
    _, found, made = split(concurrency_or_rate="1")
    assert found.output == pytest.approx(made / (found.first + made * found.token), rel=1e-6)
    together = answer(case_of({**LLAMA, "n_gpus": "2", "concurrency_or_rate": "1"}, CATALOG))
    assert found.token * 1e3 == pytest.approx(together.tpot_ms)


def test_prompts_of_others_do_not_delay_the_tokens_of_a_decode_pool() -> None:
    _, found, _ = split(concurrency_or_rate="32")
    assert found.token * 1e3 < 0.9 * answer(case_of({**LLAMA, "concurrency_or_rate": "32"}, CATALOG)).tpot_ms


def test_clients_beyond_the_prefill_pool_wait_for_their_first_token() -> None:
    """Interactive response time law: clients = rate × (first + answer)."""
    _, found, made = split(concurrency_or_rate="512")
    assert found.output / made * (found.first + made * found.token) == pytest.approx(512, rel=1e-3)


def test_nobody_measured_splits_and_drafts_so_that_they_are_extrapolated() -> None:
    assert answer(case_of(LLAMA, CATALOG)).evidence == "measured"
    assert answer(case_of({**LLAMA, "prefill_gpus": "4"}, CATALOG)).evidence == "extrapolated"
    drafted = case_of({**LLAMA, "draft_tokens": "3", "acceptance": "0.7"}, CATALOG)
    assert answer(drafted).evidence == "extrapolated"
