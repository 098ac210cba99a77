"""Every tool's telling of one run is read as the same run; what is no result is refused with a reason."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rackwright.calibration.measurement import Content, Measurement
from rackwright.calibration.reading import _contents, _reader, known, measurements
from rackwright.calibration.rules import Stated, accepted
from rackwright.errors import CannotRun, InputErrors, RackwrightError

from . import results

Build = Callable[..., Any]
TELLINGS: dict[str, Build] = {
    "vllm bench serve": results.vllm,
    "aiperf JSON": results.aiperf,
    "aiperf CSV": results.aiperf_csv,
    "inference-perf": results.inference_perf,
    "rackwright run": results.run,
}


def read(directory: Path, data: Any, name: str = "result.json") -> Measurement:
    return measurements([results.written(directory, name, data)])[0]


def refused(directory: Path, data: Any, name: str = "result.json") -> str:
    with pytest.raises((InputErrors, CannotRun)) as error:
        read(directory, data, name)
    return str(error.value).replace(f"{directory}/", "")


def test_there_is_a_telling_for_every_reader() -> None:
    assert {reader.NAME for reader in known()} == set(TELLINGS)


@pytest.mark.parametrize("name", TELLINGS)
def test_one_run_in_every_tool_s_words(name: str, tmp_path: Path) -> None:
    run = read(tmp_path, TELLINGS[name]())
    assert (run.completed, run.failed) == (320, 0)
    assert (run.input_tokens, run.output_tokens) == (1400, 600)
    assert run.output_tok_s == pytest.approx(933.58, abs=0.01)
    assert run.requests_per_s == pytest.approx(1.556, abs=0.005)
    assert (run.ttft_ms, run.tpot_ms) == (pytest.approx(260), pytest.approx(33.9))
    assert run.in_flight == pytest.approx(32, rel=0.003)
    assert run.concurrency == (None if name == "aiperf CSV" else 32)
    assert run.against == ()


@pytest.mark.parametrize("name", TELLINGS)
def test_one_reader_recognises_it(name: str, tmp_path: Path) -> None:
    content = _contents(results.written(tmp_path, "result", TELLINGS[name]()))[0]
    assert [reader.NAME for reader in known() if reader.recognises(content)] == [name]


def test_dates_models_and_warm_up_where_the_result_says_them(tmp_path: Path) -> None:
    said = {name: read(tmp_path, build()) for name, build in TELLINGS.items()}
    assert {name: run.date for name, run in said.items()} == {
        "vllm bench serve": "2026-11-30", "aiperf JSON": "2026-11-30", "aiperf CSV": "", "inference-perf": "",
        "rackwright run": "2026-11-30",
    }  # fmt: skip
    assert said["vllm bench serve"].model == said["aiperf JSON"].model == "deepseek-ai/DeepSeek-V3"
    assert {name: run.warmup for name, run in said.items()} == {
        "vllm bench serve": None, "aiperf JSON": 64, "aiperf CSV": None, "inference-perf": None,
        "rackwright run": 64,
    }  # fmt: skip


def test_aiperf_before_phases(tmp_path: Path) -> None:
    """Until 0.9 the load stood under loadgen."""
    old = {"endpoint": {"model_names": ["m"]}, "loadgen": {"concurrency": 32, "warmup_request_count": 10}}
    run = read(tmp_path, results.aiperf(input_config=old, aiperf_version="0.5.0"))
    assert (run.concurrency, run.warmup, run.model) == (32, 10, "m")


def test_units_decide_what_an_aiperf_value_means(tmp_path: Path) -> None:
    run = read(tmp_path, results.aiperf(time_to_first_token={"unit": "sec", "avg": 0.26}))
    assert run.ttft_ms == pytest.approx(260)
    text = refused(tmp_path, results.aiperf(time_to_first_token={"unit": "fortnights", "avg": 0.26}))
    assert (
        'result.json time_to_first_token.unit · must be ms or sec or s or us or ns · found "fortnights"'
        in text
    )


def test_a_rate_in_each_tool(tmp_path: Path) -> None:
    phases = [{"name": "profiling", "type": "poisson", "rate": 1.6, "concurrency": 500}]
    aiperf = read(tmp_path, results.aiperf(input_config={"phases": phases}))
    assert (aiperf.rate, aiperf.concurrency, aiperf.warmup) == (1.6, None, 0)
    assert read(tmp_path, results.vllm(request_rate=1.6, max_concurrency=None)).rate == 1.6
    stage = read(tmp_path, results.inference_perf(load_summary={"count": 320, "requested_rate": 1.6}))
    assert (stage.rate, stage.pooled) == (1.6, False)


def test_the_summary_of_all_stages_is_pooled(tmp_path: Path) -> None:
    assert read(tmp_path, results.inference_perf(load_summary={"count": 320})).pooled


def test_appended_results_are_one_each(tmp_path: Path) -> None:
    """--append-result writes a line a run."""
    lines = "\n".join(json.dumps(results.vllm(max_concurrency=n)) for n in (32, 64)) + "\n"
    path = results.written(tmp_path, "runs.json", lines)
    assert [run.concurrency for run in measurements([path])] == [32, 64]
    assert [run.where for run in measurements([path])] == [f"{path}:1", f"{path}:2"]


def test_vllm_that_says_no_failures_is_counted(tmp_path: Path) -> None:
    old = {key: value for key, value in results.vllm(completed=300).items() if key != "failed"}
    assert read(tmp_path, old).failed == 20


@pytest.mark.parametrize(
    ("data", "rule", "found"),
    [
        ({"hello": 1}, "must be one known result", "JSON with hello"),
        ([1, 2], "must be one known result", "JSON that is no object (list)"),
        ("a,b\n1,2\n", "must be one known result", 'a text that begins "a,b\\n1,2\\n"'),
        ("", "must be a result of a benchmark", "an empty file"),
        ("[" * 100_000, "must be one known result", "a text that begins"),
        (results.vllm(output_throughput=True), "must be a number", "true"),
        (results.vllm(mean_ttft_ms=-1), "must be a finite number, not negative", "-1"),
        (results.vllm(mean_ttft_ms=0), "must be above 0", "0"),
        (results.vllm(completed=0), "must be above 0", "0"),
        (results.vllm(completed=1.5), "must be a whole number", "1.5"),
        (json.dumps(results.vllm()).replace("260.0", "NaN"), "must be a finite number, not negative", "nan"),
        (results.run(ttft_ms="260"), "input should be a valid number", '"260"'),
        (results.run(ttft=1), 'must be a known field (did you mean "ttft_ms"?)', '"ttft"'),
        ({**results.run(), "schema": "rackwright/run/9"}, "input should be 'rackwright/run/1'", "run/9"),
        (results.aiperf_csv(**{"Request Count": "many"}), "must be a number", '"many"'),
    ],
)
def test_what_is_refused(data: Any, rule: str, found: str, tmp_path: Path) -> None:
    text = refused(tmp_path, data)
    assert rule in text
    assert found in text
    assert "why   " in text
    assert "next  " in text


def test_every_missing_field_is_named_at_once(tmp_path: Path) -> None:
    data = results.vllm()
    for key in ("completed", "output_throughput", "mean_tpot_ms"):
        del data[key]
    text = refused(tmp_path, data)
    for key in ("completed", "output_throughput", "mean_tpot_ms"):
        assert f"result.json {key} · must be given · found nothing" in text


def test_a_missing_file_a_directory_and_the_same_run_twice(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="no such file"):
        measurements([tmp_path / "none.json"])
    with pytest.raises(CannotRun, match="a directory"):
        measurements([tmp_path])
    first, second = (results.written(tmp_path, name, results.vllm()) for name in ("a.json", "b.json"))
    with pytest.raises(
        InputErrors, match=r"b.json · must be another run than the others · found the very text"
    ):
        measurements([first, second])


def test_control_characters_of_a_result_do_not_reach_a_message(tmp_path: Path) -> None:
    assert "\x1b" not in refused(tmp_path, {"\x1b[31mred": 1})


JUNK: tuple[Any, ...] = (None, "x", "", -1, 0, True, [], {}, [1], {"a": 1}, float("inf"), 1e300, 10**400)


def leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path into ``node``."""
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from leaves(value, (*path, key))


def replaced(node: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = replaced(node[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("name", [name for name in TELLINGS if name != "aiperf CSV"])
def test_whatever_stands_in_any_field_is_read_or_refused_with_a_reason(name: str) -> None:
    """Never a traceback, and never a figure that is no finite number above zero."""
    taken = 0
    for path in leaves(TELLINGS[name]()):
        for junk in JUNK:
            data = replaced(TELLINGS[name](), path, junk)
            content = Content("r.json", "", data, "0" * 64)
            try:
                run = _reader(content).read(content)
                found = accepted(run, Stated(concurrency=None))
            except RackwrightError:
                continue
            taken += 1
            for value in (found.concurrency, run.output_tok_s, run.tpot_ms, run.input_tokens, run.completed):
                assert value is not None
                assert 0 < value < math.inf
    assert taken > 0, "a field that nobody reads may hold anything"
