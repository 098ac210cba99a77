"""What must not calibrate: failures, too few requests, other lengths, loads that did not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rackwright.calibration.reading import measurements
from rackwright.calibration.rules import Accepted, Stated, accepted
from rackwright.errors import InputErrors

from . import results


def judged(directory: Path, data: Any, **stated: float) -> Accepted:
    run = measurements([results.written(directory, "r.json", data)])[0]
    return accepted(run, Stated(**stated))


def refused(directory: Path, data: Any, **stated: float) -> list[str]:
    with pytest.raises(InputErrors) as error:
        judged(directory, data, **stated)
    return [
        f"{p.where.replace(f'{directory}/', '')} · {p.rule} · found {p.found}" for p in error.value.problems
    ]


def test_a_sound_run_is_taken_with_what_it_does_not_say(tmp_path: Path) -> None:
    found = judged(tmp_path, results.vllm())
    assert (found.concurrency, found.ttft_ms) == (32, 260)
    assert found.remarks == (
        "the run does not say whether requests warmed it up: first requests may be slower than those that "
        "follow",
    )
    assert judged(tmp_path, results.run()).remarks == ()


def test_failures_over_one_percent_are_refused_and_fewer_are_said(tmp_path: Path) -> None:
    """4 of 324 are 1.2 %, 3 of 323 are 0.9 %."""
    assert refused(tmp_path, results.run(requests_failed=4)) == [
        "r.json failed requests · must be at most 1 % of all · found 4 of 324 (1.2 %)"
    ]
    assert judged(tmp_path, results.run(requests_failed=3)).remarks == ("3 of 323 requests failed",)


def test_too_few_requests(tmp_path: Path) -> None:
    """Five for each of 32 are 160; below ten is said."""

    def few(count: int) -> dict[str, Any]:
        return results.vllm(
            completed=count, num_prompts=count, duration=count / results.RATE,
            total_input_tokens=1400 * count, total_output_tokens=600 * count,
        )  # fmt: skip

    assert refused(tmp_path, few(159)) == [
        "r.json requests · must be at least 5 for each of 32 in flight · found 159 (5.0 each)"
    ]
    assert (
        "5.0 requests for each in flight; 10 and more settle the means" in judged(tmp_path, few(160)).remarks
    )


def test_no_warm_up_is_said(tmp_path: Path) -> None:
    data = results.run()
    data["load"]["warmup_requests"] = 0
    assert judged(tmp_path, data).remarks == (
        "the run had no warm-up: first requests may be slower than those that follow",
    )


@pytest.mark.parametrize(
    ("stated", "told"), [(1555.0, None), (1557.0, "1,557"), (1273.0, None), (1272.0, "1,272")]
)
def test_other_lengths_than_stated(stated: float, told: str | None, tmp_path: Path) -> None:
    """Ten percent of 1,400: from 1,273 to 1,555 is the same load."""
    if told is None:
        judged(tmp_path, results.vllm(), input_tokens=stated)
        return
    assert refused(tmp_path, results.vllm(), input_tokens=stated) == [
        f"r.json input tokens · must be within 10 % of the {told} stated · found 1,400 a request"
    ]


def test_answers_that_ended_early(tmp_path: Path) -> None:
    """The run asked for 600 and got 300; rate and throughput agree with that."""
    data = results.run(output_tokens=300, output_tok_s=results.THROUGHPUT / 2, tpot_ms=67.8)
    assert refused(tmp_path, data) == [
        "r.json output tokens · must be within 10 % of the 600 stated · found 300 a request"
    ]


def test_figures_that_contradict_each_other(tmp_path: Path) -> None:
    """1.556 requests a second × 600 tokens are 933.6."""
    assert refused(tmp_path, results.vllm(output_throughput=1100.0)) == [
        "r.json output tokens a second · must be requests a second × tokens an answer (933.6), within 5 % · "
        "found 1,100.0"
    ]


def test_all_at_once_is_no_load(tmp_path: Path) -> None:
    found = refused(tmp_path, results.vllm(max_concurrency=None))
    assert found[0] == (
        "r.json max_concurrency · must be given where request_rate is inf · found nothing: every request was "
        "sent at once"
    )


def test_a_rate_counts_as_what_was_in_flight_and_without_its_first_token(tmp_path: Path) -> None:
    """1.556 requests a second × 20.57 s are 32 in flight."""
    found = judged(tmp_path, results.vllm(request_rate=1.6, max_concurrency=None))
    assert found.concurrency == pytest.approx(32.0)
    assert found.ttft_ms is None
    assert any("taken as 32.0 in flight" in remark for remark in found.remarks)


def test_a_rate_that_was_not_served(tmp_path: Path) -> None:
    assert refused(tmp_path, results.vllm(request_rate=2, max_concurrency=None)) == [
        "r.json requests a second · must be at least 95 % of the 2 offered · found 1.56"
    ]


def test_clients_that_were_not_busy(tmp_path: Path) -> None:
    """32 in flight are half of 64 clients."""
    assert refused(tmp_path, results.vllm(max_concurrency=64)) == [
        "r.json requests in flight · must be within 0.7 and 1.4 of 64 clients · found 32.0 on average "
        "(rate × latency)"
    ]


def test_a_result_that_does_not_say_its_load(tmp_path: Path) -> None:
    assert refused(tmp_path, results.aiperf_csv()) == [
        "r.json concurrency · must be known · found a result that does not say it"
    ]
    assert judged(tmp_path, results.aiperf_csv(), concurrency=32).concurrency == 32
    assert "requests in flight" in refused(tmp_path, results.aiperf_csv(), concurrency=8)[0]
    assert refused(tmp_path, results.vllm(), concurrency=16) == [
        f"--concurrency · must be what {tmp_path}/r.json says (32) · found 16"
    ]


def test_a_summary_of_stages(tmp_path: Path) -> None:
    pooled = results.inference_perf(load_summary={"count": 320})
    assert refused(tmp_path, pooled) == [
        "r.json concurrency · must be known · found the requests of all stages in one figure"
    ]
    assert judged(tmp_path, pooled, concurrency=32).concurrency == 32


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (results.vllm(ramp_up_strategy="linear", ramp_up_start_rps=1, ramp_up_end_rps=9), "must not be set"),
        (results.vllm(spec_decode_num_drafts=9), "must be a run without speculative decoding"),
        (results.aiperf(was_cancelled=True), "must be a run that ended by itself"),
        (
            results.aiperf(is_complete=False, incomplete_reason="stalled"),
            "must be a run that ended by itself",
        ),
        (
            results.aiperf(
                input_config={
                    "phases": [
                        {
                            "name": "profiling",
                            "type": "concurrency",
                            "concurrency": 32,
                            "concurrency_ramp": {"duration": 60},
                        }
                    ]
                }
            ),
            "must not be set",
        ),
        (results.aiperf(pooled_spec_decode_acceptance_histogram={"1": 2}), "without speculative decoding"),
        (
            results.aiperf(input_config={"phases": [{"name": "profiling", "type": "fixed_schedule"}]}),
            "must be a load of fixed concurrency or rate",
        ),
    ],
)
def test_runs_that_stand_for_no_load(data: dict[str, Any], rule: str, tmp_path: Path) -> None:
    assert any(rule in problem for problem in refused(tmp_path, data))


def test_tokens_that_client_and_server_count_otherwise(tmp_path: Path) -> None:
    """905 against 512 an answer: a tokenizer that adds one to every piece."""
    data = results.inference_perf()
    data["successes"]["output_tokens"]["mean"] = 339.0
    assert refused(tmp_path, data) == [
        "r.json successes.output_len · must be within 2 % of the server's count of tokens · found 600.0 "
        "tokens an answer; the server counted 339.0"
    ]
    del data["successes"]["output_tokens"]
    data["successes"]["token_count_mismatches"] = 320
    assert "320 of 320 answers counted otherwise" in refused(tmp_path, data)[0]


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    data = results.run(requests_failed=99, output_tok_s=10.0, requests_completed=100)
    assert len(refused(tmp_path, data, input_tokens=9000)) >= 3
