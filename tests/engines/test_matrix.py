"""The engine matrix: values a person can look up in the release, and the checker built on it."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import string
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackwright.engines.matrix import (
    ArgProblem,
    Flag,
    Matrix,
    check_args,
    check_command,
    check_env,
    check_promql,
    engines,
    load_matrix,
    metric_names,
    problems_of,
    successors,
    versions,
)
from rackwright.errors import InputErrors

VLLM = "0.33.0"
MATRIX = load_matrix("vllm", VLLM)
TOOLS = Path(__file__).resolve().parents[2] / "tools" / "engine_matrix"

# The launch templates of the old guides, word for word.
TEMPLATE_OPENAI = (
    "VLLM_WORKER_MULTIPROC_METHOD=spawn python -m vllm.entrypoints.openai.api_server "
    "--model Qwen/Qwen3-72B-Instruct-FP8 --served-model-name qwen3-72b --tensor-parallel-size 8 "
    "--max-model-len 131072 --max-num-batched-tokens 32768 --max-num-seqs 256 "
    "--gpu-memory-utilization 0.92 --enable-prefix-caching --enable-chunked-prefill "
    "--kv-cache-dtype fp8_e4m3 --quantization fp8 --dtype auto --disable-log-requests "
    "--trust-remote-code --host 0.0.0.0 --port 8000"
)
TEMPLATE_DEMO = (
    "python -m vllm.entrypoints.api_server --model meta-llama/Llama-2-7b-chat-hf --tensor-parallel-size 1 "
    "--dtype half --max-num-batched-tokens 2048 --block-size 32 --enable-chunked-prefill --port 8000 "
    "--enable-prometheus-exporter --worker-use-ray"
)
TEMPLATE_SGLANG = (
    "--model-path deepseek-ai/DeepSeek-V3 --tp 8 --enable-torch-compile --disable-radix-cache false "
    "--mem-fraction-static 0.88 --context-length 131072 --quantization fp8 --enable-ep-moe "
    "--chunked-prefill-size 16384 --schedule-policy lpm --host 0.0.0.0 --port 30000"
)


def check(line: str, version: str = VLLM) -> list[ArgProblem]:
    return check_args("vllm", version, shlex.split(line))


def kinds(line: str) -> list[str]:
    return [problem.kind for problem in check(line)]


def errors(found: list[ArgProblem]) -> list[ArgProblem]:
    return [problem for problem in found if problem.severity == "error"]


def flag(name: str) -> Flag:
    found = MATRIX.flag(name)
    assert found is not None, name
    return found


class TestData:
    def test_header_pins_the_package(self) -> None:
        assert MATRIX.header["flags_method"] == "parser"
        assert MATRIX.header["package"]["file"].startswith("vllm-0.33.0-")
        assert re.fullmatch(r"[0-9a-f]{64}", MATRIX.header["package"]["sha256"])

    def test_header_agrees_with_the_pins_of_the_extractor(self) -> None:
        pins = json.loads((TOOLS / "packages.json").read_text(encoding="utf-8"))
        for engine in engines():
            for version in versions(engine):
                assert load_matrix(engine, version).header["package"] == pins[engine][version]

    @pytest.mark.parametrize(
        ("engine", "version"), [(engine, version) for engine in engines() for version in versions(engine)]
    )
    def test_files_are_sorted(self, engine: str, version: str) -> None:
        path = resources.files("rackwright").joinpath(f"catalog/engines/matrix/{engine}-{version}.json")
        data = json.loads(path.read_text(encoding="utf-8"))
        for key in ("flags", "env", "metrics"):
            names = [entry["name"] for entry in data[key]]
            assert names == sorted(names), key

    def test_versions_are_in_order(self) -> None:
        assert versions("vllm") == (
            "0.20.2",
            "0.23.0",
            "0.27.1",
            "0.29.0",
            "0.30.0",
            "0.31.0",
            "0.32.0",
            "0.33.0",
        )

    def test_unknown_version_names_the_known_ones(self) -> None:
        with pytest.raises(InputErrors, match=r"vllm 0\.33\.0"):
            load_matrix("vllm", "9.9.9")
        with pytest.raises(InputErrors):
            load_matrix("../vllm", VLLM)

    def test_tensor_parallel_size(self) -> None:
        found = flag("--tensor-parallel-size")
        assert (found.kind, found.aliases, found.default) == ("int", ("-tp",), 1)
        assert MATRIX.flag("-tp") is found

    def test_prefix_caching_has_both_negative_forms(self) -> None:
        found = flag("--enable-prefix-caching")
        assert found.takes_value == "boolean"
        assert set(found.negatives) == {"--no-enable-prefix-caching", "--disable-prefix-caching"}

    def test_choices_and_keys(self) -> None:
        assert flag("--dtype").choices == ("auto", "bfloat16", "float", "float16", "float32", "half")
        assert "kv_connector" in (flag("--kv-transfer-config").keys or ())
        assert flag("--served-model-name").nargs == "+"
        assert flag("--max-model-len").kind == "human_readable_int_or_auto"

    def test_queue_limits_are_new(self) -> None:
        assert MATRIX.flag("--max-num-queued-reqs") is not None
        assert load_matrix("vllm", "0.27.1").flag("--max-num-queued-reqs") is None

    def test_metric_types_and_labels(self) -> None:
        by_name = {metric.name: metric for metric in MATRIX.metrics}
        ttft = by_name["vllm:time_to_first_token_seconds"]
        assert (ttft.type, ttft.labels) == ("histogram", {"model_name", "engine"})
        assert by_name["vllm:num_requests_running"].type == "gauge"
        assert by_name["vllm:request_success"].labels == {"model_name", "engine", "finished_reason"}
        assert by_name["vllm:admission_rejections"].labels == {"model_name", "reason"}
        assert by_name["vllm:cache_config_info"].labels is None
        assert by_name["vllm:corrupted_requests"].when == ("envs.VLLM_COMPUTE_NANS_IN_LOGITS",)

    def test_sample_names(self) -> None:
        names = metric_names("vllm", VLLM)
        assert {
            "vllm:time_to_first_token_seconds_bucket",
            "vllm:time_to_first_token_seconds_sum",
            "vllm:time_to_first_token_seconds_count",
            "vllm:num_preemptions_total",
            "vllm:tool_call_parser_invocations_total",
            "vllm:kv_cache_usage_perc",
        } <= names
        assert not names & {"vllm:num_preemptions", "vllm:time_to_first_token_seconds"}
        # A histogram whose own name ends like a counter's.
        assert "vllm:iteration_tokens_total_bucket" in names
        assert "vllm:iteration_tokens_total" not in names

    def test_successors_exist_in_the_default_version(self) -> None:
        for entry in successors("vllm", "flags").values():
            for option in re.findall(r"--[a-z0-9-]+", entry.use):
                assert option in MATRIX.options, entry
        for entry in successors("vllm", "metrics").values():
            for name in re.findall(r"vllm:\w+", entry.use):
                base = {metric.name for metric in MATRIX.metrics}
                assert name in MATRIX.samples or name in base, entry
        for name, entry in successors("vllm", "env").items():
            assert name not in MATRIX.env
            assert not entry.use or entry.use in MATRIX.env or entry.use in MATRIX.options

    def test_dead_metrics_are_dead(self) -> None:
        names = {metric.name for metric in MATRIX.metrics}
        assert not names & set(successors("vllm", "metrics"))


class TestArgs:
    def test_a_good_line(self) -> None:
        assert (
            check(
                "vllm serve Qwen/Qwen3-32B --tensor-parallel-size 8 -pp 2 --max-model-len 128k -O3 "
                "--no-enable-prefix-caching --served-model-name a b --kv_cache_dtype fp8_e4m3 "
                '--kv-transfer-config \'{"kv_connector": "NixlConnector", "kv_role": "kv_both"}\' '
                "--compilation-config.mode 3 --gpu-memory-utilization=0.92 --seed -1"
            )
            == []
        )

    @pytest.mark.parametrize(
        ("line", "kind"),
        [
            ("--port", "value-missing"),
            ("--served-model-name --port 8000", "value-missing"),
            ("--port eight", "wrong-type"),
            ("--gpu-memory-utilization high", "wrong-type"),
            ("--max-num-batched-tokens 8.5K", "wrong-type"),
            ("--media-io-kwargs 8k", "wrong-type"),
            ("-t=8", "prefix"),
            ("--compilation-config {", "wrong-type"),
            ("--compilation-config [1]", "wrong-type"),
            ("--dtype fp4", "not-a-choice"),
            ("--max-lora-rank 7", "not-a-choice"),
            ("--enable-prefix-caching true", "value-to-boolean"),
            ("--enable-prefix-caching=true", "value-to-boolean"),
            ("--tensor-par 8", "prefix"),
            ("--max 8", "ambiguous-prefix"),
            ("-tp 8 --tensor-parallel-size 4", "duplicate"),
            ("--enable-prefix-caching --no-enable-prefix-caching", "duplicate"),
            ("--kv-transfer-config.kv_role a --kv-transfer-config.kv_role b", "duplicate"),
            ("--kv-transfer-config.kv_rol kv_both", "unknown-key"),
            ("""--kv-transfer-config '{"kv_rol": "kv_both"}'""", "unknown-key"),
            ("--port.number 8000", "not-json"),
            ("--ir-op-priority {}", "deprecated"),
            ("--log-config-file a.json", "deprecated"),
            ("model another", "unexpected-value"),
            ("model -- another", "unexpected-value"),
            ("--no-such-thing 8", "unknown-flag"),
            ("-tp8", "unknown-flag"),
        ],
    )
    def test_each_rule(self, line: str, kind: str) -> None:
        assert kinds(line) == [kind]

    @pytest.mark.parametrize(
        "line",
        [
            "--max-model-len auto",
            "--max-num-queued-tokens 8K",
            "--moe-backend FlashInfer-CUTLASS",
            "--hf-token --port 8000",
            "--middleware a --middleware b",
            "-n4",
            "-tp=8",
            "-O 2",
            "--kv-transfer-config.kv_role kv_both --kv_transfer_config.kv_connector NixlConnector",
            "--kv-transfer-config None",
            """--kv-transfer-config '{"kv_port": 8k}'""",
            "--disable-log-stats",
        ],
    )
    def test_forms_that_the_parser_takes(self, line: str) -> None:
        assert check(line) == []

    def test_severities(self) -> None:
        assert [problem.severity for problem in check("--tensor-par 8 --ir-op-priority {}")] == ["warn"] * 2

    def test_nearest_name(self) -> None:
        (problem,) = check("--max-num-sequences 8")
        assert problem.successor_or_hint == "did you mean --max-num-seqs?"

    def test_a_boolean_with_false_says_how_to_switch_off(self) -> None:
        (problem,) = check("--enable-chunked-prefill false")
        assert "leave --enable-chunked-prefill out" in problem.successor_or_hint

    @pytest.mark.parametrize("version", ["0.20.2", "0.23.0", "0.27.1"])
    def test_disable_log_requests_is_refused(self, version: str) -> None:
        (problem,) = check("--disable-log-requests", version)
        assert (problem.kind, problem.severity) == ("unknown-flag", "error")
        assert "--enable-log-requests" in problem.successor_or_hint

    def test_disable_log_requests_is_named_where_it_is_accepted_again(self) -> None:
        assert "--disable-log-requests" in flag("--enable-log-requests").negatives
        (problem,) = check("--disable-log-requests")
        assert (problem.kind, problem.severity) == ("unstable", "warn")
        assert "leave it out" in problem.successor_or_hint

    @pytest.mark.parametrize(
        ("name", "successor"),
        [
            ("--swap-space", "--kv-offloading-size"),
            ("--enable-ep-moe", "--enable-expert-parallel"),
            ("--enable-prometheus-exporter", "leave it out"),
            ("--worker-use-ray", "--distributed-executor-backend ray"),
            ("--task", "--runner and --convert"),
        ],
    )
    def test_dead_flags_name_their_successor(self, name: str, successor: str) -> None:
        (problem,) = check(f"{name} 4")
        assert problem.kind == "unknown-flag"
        assert successor in problem.successor_or_hint

    def test_template_openai(self) -> None:
        found = check_command("vllm", VLLM, shlex.split(TEMPLATE_OPENAI))
        assert {(problem.flag, problem.severity) for problem in found} == {
            ("vllm.entrypoints.openai.api_server", "warn"),
            ("--disable-log-requests", "warn"),
        }
        older = check_command("vllm", "0.27.1", shlex.split(TEMPLATE_OPENAI))
        assert [problem.flag for problem in errors(older)] == ["--disable-log-requests"]
        assert all(problem.successor_or_hint for problem in (*found, *older))

    def test_template_demo(self) -> None:
        found = errors(check_command("vllm", VLLM, shlex.split(TEMPLATE_DEMO)))
        assert [problem.flag for problem in found] == [
            "vllm.entrypoints.api_server",
            "--enable-prometheus-exporter",
            "--worker-use-ray",
        ]
        assert all(problem.successor_or_hint for problem in found)

    def test_template_of_another_engine(self) -> None:
        found = errors(check(TEMPLATE_SGLANG))
        assert [problem.flag for problem in found] == [
            "--model-path",
            "--tp",
            "--enable-torch-compile",
            "--disable-radix-cache",
            "--mem-fraction-static",
            "--context-length",
            "--enable-ep-moe",
            "--chunked-prefill-size",
            "--schedule-policy",
        ]

    def test_problems_for_an_error(self) -> None:
        (problem,) = problems_of(check("--swap-space 4 --tensor-par 8"), "engine.args")
        assert problem.where == "engine.args --swap-space"
        assert "--kv-offloading-size" in problem.next


def values_for(found: Flag) -> st.SearchStrategy[str]:
    """Values of the right type for a flag."""
    if found.choices is not None:
        return st.sampled_from(found.choices)
    # A word with a leading letter is never taken for an option.
    word = st.from_regex(r"[a-z][a-z0-9/:_]{0,8}", fullmatch=True)
    match found.kind:
        case "int":
            return st.integers(0, 10**6).map(str)
        case "float":
            return st.floats(0, 1000, allow_nan=False).map(str)
        case "human_readable_int" | "human_readable_int_or_auto":
            return st.one_of(st.integers(0, 10**6).map(str), st.sampled_from(["1k", "2.5m", "8K", "1G"]))
        case "json" | "json_config":
            keys = found.keys or ("any",)
            return st.dictionaries(st.sampled_from(keys), st.integers() | st.text(max_size=5)).map(json.dumps)
        case "json_or_str":
            return st.one_of(word, st.just('{"a": 1}'))
    return word


@st.composite
def good_use(draw: st.DrawFn, found: Flag) -> list[str]:
    """One flag in one of its accepted forms."""
    option = draw(st.sampled_from((found.name, *found.aliases, *found.negatives)))
    if option.startswith("--") and draw(st.booleans()):
        option = "--" + option[2:].replace("-", "_")
    if found.takes_value == "boolean" or option in found.negatives:
        return [option]
    if found.takes_value == "optional" and draw(st.booleans()):
        return [option]
    if found.nargs == "+":
        return [option, *draw(st.lists(values_for(found), min_size=1, max_size=3))]
    value = draw(values_for(found))
    if option.startswith("--") and draw(st.booleans()):
        return [f"{option}={value}"]
    return [option, value]


@st.composite
def good_argv(draw: st.DrawFn) -> list[str]:
    chosen = draw(st.lists(st.sampled_from(MATRIX.flags), max_size=8, unique_by=lambda item: item.name))
    parts = [draw(good_use(item)) for item in chosen]
    return ["model", *(token for part in parts for token in part)]


@given(good_argv())
@settings(max_examples=300, deadline=None)
def test_any_argv_from_the_matrix_passes(argv: list[str]) -> None:
    assert errors(check_args("vllm", VLLM, argv)) == []


@st.composite
def corrupted(draw: st.DrawFn) -> str:
    """The name of a flag with one character changed, taken out or put in."""
    name = draw(st.sampled_from(sorted(MATRIX.options)).filter(lambda option: option.startswith("--")))
    letters = string.ascii_lowercase + string.digits
    place = draw(st.integers(2, len(name) - 1))
    letter = draw(st.sampled_from(letters))
    how = draw(st.sampled_from(["change", "remove", "insert"]))
    tail = name[place:] if how == "insert" else name[place + 1 :]
    return name[:place] + ("" if how == "remove" else letter) + tail


@given(corrupted())
@settings(max_examples=500, deadline=None)
def test_a_corrupted_name_is_named(token: str) -> None:
    if token in MATRIX.options or token == "--":
        return
    found = check_args("vllm", VLLM, [token])
    assert token in {problem.flag for problem in found}


def rebuilt(matrix: Matrix) -> argparse.ArgumentParser:
    """A plain argparse parser with the flags of a matrix: the judge of what is accepted."""

    class Refusing(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise ValueError(message)

    parser = Refusing(add_help=False)
    parser.add_argument("model", nargs="?")
    for item in matrix.flags:
        options = (item.name, *item.aliases, *item.negatives)
        if item.takes_value == "boolean":
            parser.add_argument(*options, dest=item.name, action="store_true")
            continue
        convert: Any = {"int": int, "float": float}.get(item.kind, str)
        choices: Any = None
        if item.choices is not None and not item.nullable and item.kind in ("int", "str"):
            choices = [convert(choice) for choice in item.choices]
        if item.nullable:
            convert = str
        parser.add_argument(*options, dest=item.name, nargs=item.nargs, type=convert, choices=choices)
    return parser


PARSER = rebuilt(MATRIX)
SHAPE = {
    "unknown-flag",
    "ambiguous-prefix",
    "value-missing",
    "value-to-boolean",
    "unexpected-value",
}


@given(
    st.lists(
        st.one_of(
            st.sampled_from(sorted(MATRIX.options)),
            st.sampled_from(sorted(MATRIX.options)).map(lambda option: option[:-3]),
            st.sampled_from(sorted(MATRIX.options)).map(lambda option: f"{option}=1"),
            corrupted(),
            st.sampled_from(["-1", "-0", "word", "true", "two words", "-n4", "-x", "-", "--tensor"]),
        ).filter(lambda token: token != "--" and len(token) > 0),
        max_size=6,
    )
)
@settings(max_examples=500, deadline=None)
def test_shape_of_a_line_is_judged_as_argparse_does(tokens: list[str]) -> None:
    """Values are left out here: every option is given ones that the plain parser takes as text."""
    found = check_args("vllm", VLLM, ["model", *tokens])
    refused_here = any(problem.kind in SHAPE for problem in found)
    try:
        PARSER.parse_args(["model", *tokens])
        refused_there = False
    except ValueError as exc:
        if "invalid" in str(exc):  # a value of the wrong type, reported before the rest of the line is read
            return
        refused_there = True
    assert refused_here == refused_there, [str(problem) for problem in found]


class TestEnv:
    def test_known_and_foreign_names_pass(self) -> None:
        assert check_env("vllm", VLLM, ["VLLM_WORKER_MULTIPROC_METHOD", "HF_HOME", "VLLM_HOST_IP"]) == []

    def test_dead_names(self) -> None:
        found = check_env("vllm", VLLM, ["VLLM_USE_V1", "VLLM_ATTENTION_BACKEND", "VLLM_HOST_IPP"])
        assert [problem.name for problem in found] == [
            "VLLM_USE_V1",
            "VLLM_ATTENTION_BACKEND",
            "VLLM_HOST_IPP",
        ]
        assert "--attention-backend" in found[1].successor_or_hint
        assert found[2].successor_or_hint == "did you mean VLLM_HOST_IP?"


class TestPromql:
    @pytest.mark.parametrize(
        ("expr", "subject", "hint"),
        [
            ("vllm:gpu_cache_usage_perc > 0.9", "vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"),
            (
                "rate(vllm:time_per_output_token_seconds_sum[5m])",
                "vllm:time_per_output_token_seconds_sum",
                "use vllm:inter_token_latency_seconds_sum",
            ),
            (
                "vllm:time_per_output_token_seconds",
                "vllm:time_per_output_token_seconds",
                "use vllm:inter_token_latency_seconds",
            ),
            ("vllm:queue_length", "vllm:queue_length", "vllm:num_requests_waiting"),
            (
                "vllm:gpu_prefix_cache_hits_total",
                "vllm:gpu_prefix_cache_hits_total",
                "vllm:prefix_cache_hits_total",
            ),
            ("rate(vllm:num_preemptions[5m])", "vllm:num_preemptions", "vllm:num_preemptions_total"),
            ("vllm:kv_cache_usage_perc_total", "vllm:kv_cache_usage_perc_total", "it is a gauge"),
            ('{__name__="vllm:queue_length"}', "vllm:queue_length", "vllm:num_requests_waiting"),
            ('{"vllm:queue_length", model_name="m"}', "vllm:queue_length", "vllm:num_requests_waiting"),
            ('{__name__=~"vllm:gpu_.+"}', "vllm:gpu_.+", ""),
            ('sum(vllm:num_requests_waiting{model="m"})', "model", "model_name"),
            ("sum by (model) (vllm:num_requests_waiting)", "model", "model_name"),
            ("sum(vllm:num_requests_waiting) by (model)", "model", "model_name"),
            ("sum without (engin) (vllm:num_requests_waiting)", "engin", "did you mean engine?"),
            ('vllm:kv_cache_usage_perc{le="1"}', "le", ""),
            ('rate(vllm:request_success_total{reason="stop"}[5m])', "reason", "finished_reason"),
        ],
    )
    def test_refused(self, expr: str, subject: str, hint: str) -> None:
        (problem,) = check_promql("vllm", VLLM, expr)
        assert problem.subject == subject
        assert hint in problem.successor_or_hint

    @pytest.mark.parametrize(
        "expr",
        [
            "histogram_quantile(0.95, sum by (le, model_name, pod) "
            '(rate(vllm:time_to_first_token_seconds_bucket{namespace="a"}[$__rate_interval])))',
            'vllm:num_requests_running{model_name="} by (model) vllm:queue_length{"}',
            "vllm:num_requests_running{model_name='it\\'s'} # vllm:queue_length",
            "vllm:num_requests_running / on (pod) group_left (node) kube_pod_info",
            "sum by (anything) (container_memory_usage_bytes)",
            "sum by (uid) (vllm:num_requests_running * on (pod) group_left (uid) kube_pod_info)",
            'sum by (zone) (label_replace(vllm:num_requests_running, "zone", "$1", "node", "(.*)"))',
            'vllm:cache_config_info{block_size="16"}',
            "avg_over_time(vllm:kv_cache_usage_perc[5m:1m] offset 1h)",
            'rate({__name__=~"vllm:.*tokens_total", model_name="m"}[5m])',
            "time() - vllm:num_preemptions_created",
            "max by ($group) (vllm:num_requests_running)",
            'vllm:num_requests_running{model_name=`a"b`}',
        ],
    )
    def test_accepted(self, expr: str) -> None:
        assert check_promql("vllm", VLLM, expr) == []

    def test_names_of_the_deployment(self) -> None:
        assert check_promql("vllm", VLLM, "vllm:ttft:p95", recorded=["vllm:ttft:p95"]) == []
        assert check_promql("vllm", VLLM, 'vllm:num_requests_running{rack="a"}', extra_labels=["rack"]) == []
        assert [p.kind for p in check_promql("vllm", VLLM, "vllm:ttft:p95")] == ["unknown-metric"]

    @pytest.mark.parametrize("expr", ["sum(vllm:num_requests_running", "a) b", 'x{y="', "a ; b"])
    def test_syntax(self, expr: str) -> None:
        (problem,) = check_promql("vllm", VLLM, expr)
        assert problem.kind == "syntax"

    @given(st.text(alphabet=st.characters(blacklist_categories=("Cs",)), max_size=20))
    @settings(max_examples=100, deadline=None)
    def test_any_string_may_stand_in_a_matcher(self, text: str) -> None:
        quoted = json.dumps(text, ensure_ascii=False)
        assert check_promql("vllm", VLLM, f"vllm:num_requests_running{{model_name={quoted}}}") == []

    @given(st.sampled_from(sorted(metric_names("vllm", VLLM))))
    @settings(max_examples=100, deadline=None)
    def test_every_exported_series_is_accepted(self, name: str) -> None:
        assert check_promql("vllm", VLLM, f'rate({name}{{pod="a"}}[5m])') == []


# --- the extractor, on a package tree of our own ----------------------------------------------------

FAKE = {
    "fake/__init__.py": "",
    "fake/names.py": 'BASE = "fake"\n\n\nclass Names:\n    QUEUE = f"{BASE}:queue_depth"\n',
    "fake/envs.py": (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    FAKE_PORT: int | None = None\n"
        '    FAKE_HOST: str = "here"\n'
        "environment_variables: dict = {\n"
        "    'FAKE_PORT': lambda: None,\n"
        '    "FAKE_HOST": lambda: "here",\n'
        '    "FAKE_BARE": lambda: 1,\n'
        "}\n"
    ),
    "fake/v1/metrics/loggers.py": (
        "from prometheus_client import Counter, Gauge, Histogram\n"
        "from fake.names import Names\n"
        "from ...names import BASE\n\n\n"
        "class PrometheusStatLogger:\n"
        "    _gauge_cls = Gauge\n    _counter_cls = Counter\n    _histogram_cls = Histogram\n\n"
        "    def __init__(self, config):\n"
        "        labelnames = ['model_name', 'engine']\n"
        "        self.extra = 'adapter'\n"
        "        a = self._gauge_cls(name=Names.QUEUE, documentation='', labelnames=labelnames)\n"
        "        own = labelnames + ['why']\n"
        "        b = self._counter_cls(name=f'{BASE}:done', documentation='', labelnames=own)\n"
        "        if config.adapters:\n"
        "            c = self._histogram_cls('fake:wait_seconds', '', [self.extra])\n"
        "        table = [('fake:one', 'One.'), ('fake:two', 'Two.')]\n"
        "        d = [Counter(name, doc, labelnames) for name, doc in table]\n"
        "        e = Gauge(name='fake:info', documentation='', labelnames=config.facts().keys())\n"
        "        f = Gauge(name=config.name, documentation='')\n"
        "        g = Gauge(name='other:thing', documentation='')\n"
    ),
    "fake/part.py": (
        "class PartCounterMetadata:\n    pass\n\n\n"
        "def named(name):\n    return f'fake:{name}'\n\n\n"
        "def table():\n    return {named('moved_bytes'): PartCounterMetadata(labelnames=('tier',))}\n"
    ),
    "fake/cli.py": (
        "def warn():\n"
        '    """--old is deprecated, says a docstring, which is no message."""\n'
        '    return "--old-flag is deprecated. " "Use --new-flag instead."\n'
    ),
    "fake/entrypoints/server.py": 'if __name__ == "__main__":\n    pass\n',
    "fake/entrypoints/library.py": "x = 1\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FAKE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TOOLS))
    import parser_dump
    import release
    import source_ast

    yield argparse.Namespace(release=release, dump=parser_dump, source=source_ast)
    for name in ("release", "parser_dump", "source_ast"):
        sys.modules.pop(name, None)


class TestExtraction:
    def test_metrics(self, tree: Path, tools: Any) -> None:
        read = tools.source.read_metrics(tree, "fake", "fake:")
        assert [(m.name, m.kind, m.labels, m.when) for m in read.found] == [
            ("fake:done", "counter", ("engine", "model_name", "why"), ()),
            ("fake:info", "gauge", None, ()),
            ("fake:moved_bytes", "counter", ("engine", "model_name", "tier"), ()),
            ("fake:one", "counter", ("engine", "model_name"), ()),
            ("fake:queue_depth", "gauge", ("engine", "model_name"), ()),
            ("fake:two", "counter", ("engine", "model_name"), ()),
            ("fake:wait_seconds", "histogram", ("adapter",), ("config.adapters",)),
        ]
        assert read.unresolved == ["fake/v1/metrics/loggers.py: config.name"]

    def test_environment(self, tree: Path, tools: Any) -> None:
        assert tools.source.read_environment(tree, "fake") == [
            {"name": "FAKE_BARE", "type": None},
            {"name": "FAKE_HOST", "type": "str", "default": "here"},
            {"name": "FAKE_PORT", "type": "int | None", "default": None},
        ]

    def test_deprecations_and_entrypoints(self, tree: Path, tools: Any) -> None:
        assert tools.source.read_deprecations(tree, ["fake/cli.py", "fake/missing.py"]) == {
            "--old-flag": "--old-flag is deprecated. Use --new-flag instead."
        }
        assert tools.source.read_entrypoints(tree, "fake") == ["fake.entrypoints.server"]

    def test_parser_dump(self, tools: Any) -> None:
        def optional_type(return_type: Any) -> Any:
            def _optional_type(text: str) -> Any:
                return None if text in ("", "None") else return_type(text)

            return _optional_type

        parser = argparse.ArgumentParser()
        parser.add_argument("model", nargs="?")
        parser.add_argument("--size", "-s", type=optional_type(int), default=3)
        parser.add_argument("--cache", action=argparse.BooleanOptionalAction, default=True)
        parser.add_argument("--mode", choices=["b", "a"], type=lambda text: text.lower().replace("-", "_"))
        parser.add_argument("--rank", type=int, choices=[16, 8])
        parser.add_argument("--extra", action="append", default=[])
        parser.add_argument("--facts", type=json.loads, default=object())
        parser.add_argument("--token", nargs="?", const=True)
        dumped = tools.dump.dump(parser)
        by_name = {entry["name"]: entry for entry in dumped["flags"]}
        assert sorted(by_name) == list(by_name)
        assert (by_name["--size"]["type"], by_name["--size"]["nullable"]) == ("int", True)
        assert (by_name["--size"]["aliases"], by_name["--size"]["default"]) == (["-s"], 3)
        assert by_name["--cache"]["negatives"] == ["--no-cache"]
        assert by_name["--cache"]["takes_value"] == "boolean"
        assert (by_name["--mode"]["type"], by_name["--mode"]["choices"]) == (
            "str_lower_underscore",
            ["a", "b"],
        )
        assert by_name["--rank"]["choices"] == ["8", "16"]
        assert by_name["--extra"]["repeatable"] is True
        assert by_name["--facts"]["type"] == "json"
        assert "default" not in by_name["--facts"]
        assert by_name["--token"]["takes_value"] == "optional"
        assert dumped["positionals"] == [{"name": "model", "nargs": "?"}]
        assert dumped["rewrites"] == {}

    def test_a_package_that_is_not_the_pinned_one_is_refused(self, tmp_path: Path, tools: Any) -> None:
        name = tools.release.pinned("vllm", VLLM)["file"]
        (tmp_path / "packages").mkdir()
        (tmp_path / "packages" / name).write_bytes(b"not the release")
        with pytest.raises(tools.release.ExtractionError, match="sha256 is"):
            tools.release.obtain("vllm", VLLM, tmp_path)
        with pytest.raises(tools.release.ExtractionError, match="not pinned"):
            tools.release.obtain("vllm", "0.0.1", tmp_path)

    def test_written_form_is_what_the_data_has(self, tools: Any) -> None:
        path = resources.files("rackwright").joinpath(f"catalog/engines/matrix/vllm-{VLLM}.json")
        text = path.read_text(encoding="utf-8")
        assert tools.release.render(json.loads(text)) == text
