"""One run as each tool would tell it: 320 requests of 1,400 in and 600 out, 32 at a time.

A request takes 260 ms + 599 × 33.9 ms = 20,566.1 ms, so that 32 clients finish 1.556 a second: 933.6 tok/s.
Written in the shape of the tools' own results; no file of theirs is copied.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

REQUESTS, FAILED, INPUT, OUTPUT, CLIENTS = 320, 0, 1400.0, 600.0, 32.0
TTFT, TPOT = 260.0, 33.9
LATENCY = TTFT + (OUTPUT - 1) * TPOT
RATE = 1000 * CLIENTS / LATENCY
DURATION = REQUESTS / RATE
THROUGHPUT = RATE * OUTPUT

FACTS = (
    "--hardware", "h200-sxm", "--gpus", "8", "--tp", "8", "--model", "deepseek-v3", "--precision", "fp8",
    "--engine", "vllm", "--engine-version", "0.33.0",
)  # fmt: skip
DATE = ("--date", "2026-11-30")


def written(directory: Path, name: str, data: Any) -> Path:
    path = directory / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def vllm(**changes: Any) -> dict[str, Any]:
    return {
        "date": "20261130-101500",
        "endpoint_type": "vllm",
        "backend": "vllm",
        "label": "vllm",
        "model_id": "deepseek-ai/DeepSeek-V3",
        "tokenizer_id": "deepseek-ai/DeepSeek-V3",
        "num_prompts": REQUESTS,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 32,
        "duration": DURATION,
        "completed": REQUESTS,
        "failed": FAILED,
        "total_input_tokens": int(REQUESTS * INPUT),
        "total_output_tokens": int(REQUESTS * OUTPUT),
        "request_throughput": RATE,
        "request_goodput": None,
        "output_throughput": THROUGHPUT,
        "total_token_throughput": RATE * (INPUT + OUTPUT),
        "max_output_tokens_per_s": 1408.0,
        "max_concurrent_requests": 34,
        "mean_ttft_ms": TTFT,
        "median_ttft_ms": 243.0,
        "std_ttft_ms": 71.0,
        "p99_ttft_ms": 604.0,
        "mean_tpot_ms": TPOT,
        "median_tpot_ms": 33.8,
        "std_tpot_ms": 0.9,
        "p99_tpot_ms": 36.2,
        "mean_itl_ms": TPOT,
        "median_itl_ms": 32.0,
        "std_itl_ms": 9.0,
        "p99_itl_ms": 81.0,
        **changes,
    }


def _stats(unit: str, value: float) -> dict[str, Any]:
    """A record metric, with its distribution."""
    return {
        "unit": unit, "avg": value, "min": value * 0.8, "max": value * 1.4, "p1": value * 0.81,
        "p50": value * 0.99, "p90": value * 1.1, "p95": value * 1.2, "p99": value * 1.3, "std": value * 0.1,
        "count": REQUESTS, "sum": value * REQUESTS,
    }  # fmt: skip


def aiperf(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "benchmark_id": "0123456789ab",
        "request_throughput": {"unit": "requests/sec", "avg": RATE},
        "request_latency": _stats("ms", LATENCY),
        "request_count": {"unit": "requests", "avg": float(REQUESTS)},
        "time_to_first_token": _stats("ms", TTFT),
        "inter_token_latency": _stats("ms", TPOT),
        "output_token_throughput": {"unit": "tokens/sec", "avg": THROUGHPUT},
        "output_sequence_length": _stats("tokens", OUTPUT),
        "input_sequence_length": _stats("tokens", INPUT),
        "benchmark_duration": {"unit": "sec", "avg": DURATION},
        "input_config": {
            "models": {"items": [{"name": "deepseek-ai/DeepSeek-V3"}]},
            "endpoint": {"urls": ["http://localhost:8000"], "streaming": True},
            "phases": [
                {
                    "name": "warmup", "kind": "warmup", "type": "concurrency", "requests": 64,
                    "concurrency": 32,
                },
                {
                    "name": "profiling", "kind": "profiling", "type": "concurrency", "requests": REQUESTS,
                    "concurrency": 32,
                },
            ],
        },
        "was_cancelled": False,
        "start_time": "2026-11-30T10:11:00.000000",
        "end_time": "2026-11-30T10:15:00.000000",
        **changes,
    }  # fmt: skip


def aiperf_csv(**changes: str) -> str:
    statistics = (
        "avg",
        "min",
        "max",
        "sum",
        "p1",
        "p5",
        "p10",
        "p25",
        "p50",
        "p75",
        "p90",
        "p95",
        "p99",
        "std",
    )
    rows = {
        "Inter Token Latency (ms)": TPOT, "Input Sequence Length (tokens)": INPUT,
        "Output Sequence Length (tokens)": OUTPUT, "Request Latency (ms)": LATENCY,
        "Time to First Token (ms)": TTFT,
    }  # fmt: skip
    single = {
        "Benchmark Duration (sec)": f"{DURATION:.2f}",
        "Output Token Throughput (tokens/sec)": f"{THROUGHPUT:.2f}",
        "Request Count": f"{REQUESTS}.00", "Request Throughput (requests/sec)": f"{RATE:.2f}", **changes,
    }  # fmt: skip
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(["Metric", *statistics])
    table.writerows([name, *[f"{value:.2f}"] * len(statistics)] for name, value in sorted(rows.items()))
    table.writerow([])
    table.writerow(["Metric", "Value"])
    table.writerows(sorted(single.items()))
    return out.getvalue()


def _spread(value: float) -> dict[str, float]:
    return {"mean": value, "min": value * 0.8, "max": value * 1.4, "median": value * 0.99, "p90": value * 1.1}


def inference_perf(**changes: Any) -> dict[str, Any]:
    return {
        "benchmark_time_seconds": DURATION,
        "load_summary": {
            "count": REQUESTS, "schedule_delay": _spread(0.001), "send_duration": DURATION,
            "requested_rate": RATE, "achieved_rate": RATE, "concurrency": 32,
        },
        "successes": {
            "count": REQUESTS,
            "latency": {
                "request_latency": _spread(LATENCY / 1000),
                "normalized_time_per_output_token": _spread(LATENCY / OUTPUT / 1000),
                "time_per_output_token": _spread(TPOT / 1000),
                "time_to_first_token": _spread(TTFT / 1000),
                "inter_token_latency": _spread(TPOT / 1000),
            },
            "throughput": {
                "input_tokens_per_sec": RATE * INPUT, "output_tokens_per_sec": THROUGHPUT,
                "total_tokens_per_sec": RATE * (INPUT + OUTPUT), "requests_per_sec": RATE,
            },
            "prompt_tokens": {"total": REQUESTS * INPUT, "cached": 0.0, **_spread(INPUT)},
            "output_len": _spread(OUTPUT),
            "output_tokens": {"total": REQUESTS * OUTPUT, **_spread(OUTPUT)},
            "token_count_mismatches": 0,
        },
        "failures": {"count": FAILED, "request_latency": None},
        **changes,
    }  # fmt: skip


def run(**measured: Any) -> dict[str, Any]:
    return {
        "schema": "rackwright/run/1",
        "tool": "go-live run",
        "date": "2026-11-30",
        "under_test": {
            "hardware": "h200-sxm", "gpus": 8, "tensor_parallel": 8, "model": "deepseek-v3",
            "precision": "fp8", "engine": "vllm", "engine_version": "0.33.0",
        },
        "load": {
            "concurrency": 32, "input_tokens": 1400, "output_tokens": 600, "warmup_requests": 64,
            "duration_s": DURATION,
        },
        "measured": {
            "requests_completed": REQUESTS, "requests_failed": FAILED, "input_tokens": INPUT,
            "output_tokens": OUTPUT, "output_tok_s": THROUGHPUT, "ttft_ms": TTFT, "tpot_ms": TPOT, **measured,
        },
    }  # fmt: skip
