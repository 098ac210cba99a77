"""Whole command lines, of five parsers, and the launch lines of old guides."""

from __future__ import annotations

import json
import re

import pytest

from rackwright.engines.command_line import check_line, must_recognise, recognise, words_of
from rackwright.engines.matrix import load_matrix, successors, versions
from rackwright.engines.matrix_data import known_by_successors
from rackwright.errors import InputErrors
from tests.cli.test_size_errors import Run, rackwright
from tests.golden import SHARED

__all__ = ["rackwright"]


def judged(text: str, version: str | None = None) -> dict[str, tuple[str, str]]:
    """Word -> (kind, what to write instead)."""
    line = must_recognise(words_of(text))
    known = versions(line.engine)
    found = check_line(line, version or (known[-1] if known else ""))
    return {item.flag: (item.kind, item.successor_or_hint) for item in found}


class TestRecognised:
    @pytest.mark.parametrize(
        ("text", "engine", "program"),
        [
            ("vllm serve m --port 1", "vllm", "vllm serve"),
            ("/opt/bin/vllm serve m", "vllm", "vllm serve"),
            ("CUDA_VISIBLE_DEVICES=0 exec vllm serve m", "vllm", "vllm serve"),
            ("env A=b python3.12 -m vllm.entrypoints.cli.main", "vllm", "vllm.entrypoints.cli.main"),
            ("python -m vllm.gone", "vllm", "vllm.gone"),
            ("python -m sglang.launch_server --tp 8", "sglang", "sglang.launch_server"),
            ("sglang serve --model-path m", "sglang", "sglang serve"),
            ("./main -m x", "llama.cpp", "main"),
            ("./build/bin/llama-server -m x", "llama.cpp", "llama-server"),
            ("text-generation-launcher --model-id x", "tgi", "text-generation-launcher"),
            ("trtllm-build --output_dir O", "trtllm-build", "trtllm-build"),
        ],
    )  # fmt: skip
    def test_by_its_program(self, text: str, engine: str, program: str) -> None:
        line = must_recognise(words_of(text))
        assert (line.engine, line.program) == (engine, program)

    @pytest.mark.parametrize(
        "text", ["", "A=b", "vllm bench serve", "python serve.py", "python -m http.server"]
    )
    def test_others_are_not_guessed(self, text: str) -> None:
        assert recognise(words_of(text)) is None
        with pytest.raises(InputErrors, match="llama-server"):
            must_recognise(words_of(text))

    def test_lines_go_on(self) -> None:
        assert words_of("vllm serve m \\\n  --port 1  # the port") == ["vllm", "serve", "m", "--port", "1"]
        with pytest.raises(InputErrors, match="close the quote"):
            words_of("vllm serve 'm")


class TestDialects:
    """What each parser reads is what its own documentation or source says."""

    def test_argparse_takes_no_underscores_for_dashes(self) -> None:
        assert judged("sglang serve --model_path m")["--model_path"][0] == "unknown-flag"
        assert judged("vllm serve m --max_num_seqs 4") == {}

    def test_argparse_knows_no_dotted_keys(self) -> None:
        assert judged("sglang serve --model-path m --json.key 1")["--json.key"][0] == "unknown-flag"

    def test_sizes_with_a_suffix_are_not_those_of_vllm(self) -> None:
        name = next(f.name for f in load_matrix("sglang", "0.5.23").flags if f.kind == "si_int")
        assert judged(f"sglang serve --model-path m {name} 8Ki") == {}
        assert judged(f"sglang serve --model-path m {name} 8K")[name][0] == "wrong-type"
        assert judged("vllm serve m --max-num-batched-tokens 8K") == {}

    def test_llama_cpp_reads_a_value_as_a_word_of_its_own(self) -> None:
        found = judged("llama-server -m x --ctx-size=4096")
        assert found["--ctx-size"] == ("joined-value", "write --ctx-size 4096")
        assert judged("llama-server -m x --ctx_size 4096 -ngl -1") == {}

    def test_llama_cpp_takes_no_beginnings(self) -> None:
        assert judged("llama-server -m x --ctx 4096")["--ctx"][0] == "unknown-flag"

    def test_llama_cpp_knows_flags_only_to_refuse_them(self) -> None:
        kind, hint = judged("llama-server -m x --draft-max 8")["--draft-max"]
        assert (kind, "--spec-draft-n-max" in hint) == ("unknown-flag", True)

    def test_clap(self) -> None:
        assert judged("text-generation-launcher --model-id m --sharded true -p 80") == {}
        found = judged("text-generation-launcher --model-id m --shard true --quantize int4")
        assert (found["--shard"][0], found["--quantize"][0]) == ("unknown-flag", "not-a-choice")


def test_a_variable_that_only_warns() -> None:
    found = judged("SGLANG_SCHEDULER_DECREASE_PREFILL_IDLE=1 SGLANG_NO_SUCH=1 sglang serve --model-path m")
    assert found["SGLANG_SCHEDULER_DECREASE_PREFILL_IDLE"] == (
        "deprecated-variable",
        "Please use '--enable-prefill-delayer' instead.",
    )
    assert found["SGLANG_NO_SUCH"][0] == "unknown-variable"


class TestOldLines:
    """Re-worded from lines that guides still print; versions are the newest known."""

    def test_vllm_demonstration_server(self) -> None:
        found = judged(
            "python -m vllm.entrypoints.api_server --model org/small --worker-use-ray "
            "--enable-prometheus-exporter"
        )
        assert found["vllm.entrypoints.api_server"][0] == "unknown-module"
        assert "vllm serve" in found["vllm.entrypoints.api_server"][1]
        assert "--distributed-executor-backend ray" in found["--worker-use-ray"][1]
        assert "always served" in found["--enable-prometheus-exporter"][1]

    def test_vllm_module_and_request_log(self) -> None:
        text = "VLLM_USE_V1=1 python -m vllm.entrypoints.openai.api_server --model m --disable-log-requests"
        assert judged(text)["VLLM_USE_V1"][0] == "unknown-variable"
        assert judged(text)["--disable-log-requests"][0] == "unstable"
        assert judged(text, "0.27.1")["--disable-log-requests"][0] == "unknown-flag"

    def test_sglang(self) -> None:
        found = judged(
            "python -m sglang.launch_server --model-path org/moe --tp 4 --disable-radix-cache false "
            "--enable-ep-moe --enable-torch-compile"
        )
        assert {name: kind for name, (kind, _) in found.items()} == {
            "sglang.launch_server": "legacy-module",
            "--tp": "prefix",
            "--disable-radix-cache": "value-to-boolean",
            "--enable-ep-moe": "unknown-flag",
        }
        assert "--ep-size" in found["--enable-ep-moe"][1]
        assert "--tp-size" in found["--tp"][1]

    def test_trtllm_build_says_what_was_not_checked(self) -> None:
        found = judged("trtllm-build --checkpoint_dir C --max_output_len 64 --weight_only_precision int8")
        assert found["--max_output_len"][0] == "unknown-flag"
        assert "--max_seq_len" in found["--max_output_len"][1]
        assert found["--weight_only_precision"][0] == "unknown-flag"
        assert found["trtllm-build"] == ("not-checked", "ask the program itself: trtllm-build --help")

    def test_llama_cpp(self) -> None:
        found = judged("./main -m q.gguf -ngl 99 -p Hi --stream")
        assert set(found) == {"main", "-p", "--stream"}
        assert "llama-server" in found["main"][1]
        assert '"stream": true' in found["--stream"][1]

    @pytest.mark.skipif(not SHARED.is_dir(), reason="the collected guides are not here")
    def test_word_for_word(self) -> None:
        text = (SHARED / "reference" / "guide-facts.md").read_text(encoding="utf-8")
        lines = re.findall(r"^- `((?:VLLM_|python -m|trtllm-build|\./main)[^`]*)`", text, re.MULTILINE)
        assert len(lines) == 5
        found = [{word: kind for word, (kind, _) in judged(line).items()} for line in lines]
        assert found == [
            {"vllm.entrypoints.openai.api_server": "legacy-module", "--disable-log-requests": "unstable"},
            {
                "sglang.launch_server": "legacy-module",
                "--tp": "prefix",
                "--disable-radix-cache": "value-to-boolean",
                "--enable-ep-moe": "unknown-flag",
            },
            {"vllm.entrypoints.api_server": "unknown-module"},
            {
                "--use_weight_only_quantization": "unknown-flag",
                "--weight_only_precision": "unknown-flag",
                "--max_output_len": "unknown-flag",
                "--paged_kv_cache": "unknown-flag",
                "trtllm-build": "not-checked",
            },
            {"main": "unknown-program", "-p": "unknown-flag", "--stream": "unknown-flag"},
        ]


class TestSuccessors:
    @pytest.mark.parametrize("engine", ["sglang", "llama.cpp"])
    def test_what_is_named_exists(self, engine: str) -> None:
        newest = load_matrix(engine, versions(engine)[-1])
        for name, entry in successors(engine, "flags").items():
            if entry.use:
                assert entry.use.split(" ")[0] in newest.options, name
            assert name not in newest.options or newest.options[name].deprecated, name
        declared = {metric.name for metric in newest.metrics}
        for name, entry in successors(engine, "metrics").items():
            assert entry.use in declared, name
            assert name not in declared, name

    def test_programs_without_a_matrix(self) -> None:
        assert known_by_successors() == ("trtllm-build",)


class TestCommand:
    def test_exit_status(self, rackwright: Run) -> None:
        assert rackwright("engines", "check", "--", "vllm", "serve", "m", "--port", "1").returncode == 0
        assert rackwright("engines", "check", "vllm serve m --swap-space 4").returncode == 1
        unknown = rackwright("engines", "check", "--", "serve-it", "--port", "1")
        assert (unknown.returncode, unknown.stdout) == (2, "")
        assert "llama-server" in unknown.stderr
        assert rackwright("engines", "check").returncode == 2
        assert rackwright("engines", "check", "--version", "0.1", "--", "vllm", "serve").returncode == 2

    def test_queries(self, rackwright: Run) -> None:
        names = ("gpu_cache_usage_perc", "gpu_cache_usage_ratio", "request_waiting_time_seconds",
                 "time_per_output_token_seconds", "queue_length")  # fmt: skip
        queries = [word for name in names for word in ("--query", f"avg(vllm:{name})")]
        done = rackwright("engines", "check", *queries, "--json")
        assert done.returncode == 1
        said = {item["subject"]: item["successor_or_hint"] for item in json.loads(done.stdout)["problems"]}
        uses = {name: re.sub(r"use (\S+) .*", r"\1", said[f"vllm:{name}"]) for name in names}
        assert uses == {
            "gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
            "gpu_cache_usage_ratio": "vllm:kv_cache_usage_perc",
            "request_waiting_time_seconds": "vllm:request_queue_time_seconds",
            "time_per_output_token_seconds": "vllm:inter_token_latency_seconds",
            "queue_length": "vllm:num_requests_waiting",
        }
        assert rackwright("engines", "check", "--query", "up").returncode == 2

    def test_a_secret_is_not_repeated(self, rackwright: Run) -> None:
        done = rackwright("engines", "check", "--", "vllm", "serve", "m", "--api-key", "hunter2x", "hunter3x")
        assert "hunter2x" not in done.stdout
