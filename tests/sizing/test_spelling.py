"""Names, loads and precisions as a file of strangers writes them."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest

from rackwright.catalog import load_catalog
from rackwright.sizing import batch
from rackwright.sizing.rows import KINDS, CannotEstimate, case_of
from tests.golden import SHARED

CATALOG = load_catalog()
REFERENCE = SHARED / "reference/sizing"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("H100 SXM5", "h100-sxm"),
        ("NVIDIA H200 SXM 141GB", "h200-sxm"),
        ("GeForce RTX 5090 32GB", "rtx-5090"),
        ("RTX PRO 6000 Blackwell WS 96GB", "rtx-pro-6000"),
        ("RTX PRO 6000 Blackwell Server 96GB", "rtx-pro-6000-server"),
        ("AMD Instinct MI300X", "mi300x"),
        ("DGX Spark GB10 128GB", "gb10"),
        ("Huawei Ascend 910B (64GB, 910B2/B3)", "ascend-910b"),
        ("8 x H200", "h200-sxm"),
    ],
)
def test_hardware_is_found_by_what_it_is_called(written: str, meant: str) -> None:
    assert case_of({"hardware": written, "model": "Llama-3.1-8B"}, CATALOG).shape.accelerator.id == meant


@pytest.mark.parametrize("written", ["A100-40GB", "H100 PCIe 40GB", "H800", "RTX 6000", "100", "GPU"])
def test_hardware_of_another_memory_or_of_no_entry_is_not_guessed(written: str) -> None:
    with pytest.raises(CannotEstimate, match="not in the catalog"):
        case_of({"hardware": written, "model": "Llama-3.1-8B"}, CATALOG)


@pytest.mark.parametrize(
    ("written", "model", "precision"),
    [
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1", "fp8"),
        ("nvidia/DeepSeek-R1-0528-FP4-V2", "deepseek-r1", "nvfp4"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "qwen3-30b-a3b", "fp8"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct-BF16", "llama-3.1-8b", "bf16"),
        ("Qwen2.5-72B-Instruct-AWQ", "qwen2.5-72b-instruct", "int4"),
        ("openai/gpt-oss-120b", "gpt-oss-120b", "mxfp4"),
    ],
)
def test_checkpoints_of_a_shape_are_found_with_the_precision_in_their_name(
    written: str, model: str, precision: str
) -> None:
    shape = case_of({"hardware": "H200", "n_gpus": "16", "model": written}, CATALOG).shape
    assert (shape.model.id, shape.quantisation) == (model, precision)


@pytest.mark.parametrize(
    "written", ["Llama-3.1", "DeepSeek", "Qwen3-7B", "DeepSeek-R1-Distill-Qwen-32B", "fp8"]
)
def test_a_model_of_another_shape_is_not_guessed(written: str) -> None:
    with pytest.raises(CannotEstimate, match="not in the catalog"):
        case_of({"hardware": "H200", "n_gpus": "16", "model": written}, CATALOG)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("vLLM 0.11.0", "vllm"), ("TensorRT-LLM", "trtllm"), ("trt-llm", "trtllm"), ("NIM", "trtllm"),
        ("SGLang v0.5.3", "sglang"), ("llamacpp", "llama.cpp"), ("mlx-lm", "mlx"), 
        ("dynamo-sglang", "sglang"),        ("", "vllm"), ("other", "vllm"), ("n/a", "vllm"),
    ],
)  # fmt: skip
def test_engines_are_found_by_their_other_names(written: str, meant: str) -> None:
    row = {"hardware": "H200", "model": "Llama-3.1-8B", "engine": written}
    assert case_of(row, CATALOG).shape.engine.id == meant


@pytest.mark.parametrize(
    ("written", "clients", "rate"),
    [
        ("64", 64, 0), ("64.0", 64, 0), ("c64", 64, 0), ("concurrency=64", 64, 0), ("1,024", 1024, 0),
        ("64 users", 64, 0), ("batch 96", 96, 0), ("batch 12/GPU", 96, 0), ("inf", 1e5, 0),
        ("Offline", 1e5, 0),        ("", 1e5, 0), ("16 req/s", 1e5, 16), ("2.5 qps", 1e5, 2.5),
    ],
)  # fmt: skip
def test_load_is_read_as_it_is_written(written: str, clients: float, rate: float) -> None:
    row = {
        "hardware": "H200",
        "n_gpus": "8",
        "tp": "8",
        "model": "Llama-3.1-8B",
        "concurrency_or_rate": written,
    }
    case = case_of(row, CATALOG)
    assert (case.clients, case.rate) == (clients, rate)


@pytest.mark.parametrize(
    ("fields", "tp", "dp"),
    [
        ({"tp": "8"}, 8, 1),
        ({"tp": "1", "dp": "8", "ep": "8"}, 1, 8),
        ({"tp": "8", "dp": "8"}, 1, 8),
        ({"tp": "8", "dp": "4"}, 2, 4),
        ({"concurrency_or_rate": "16"}, 8, 1),
        ({"concurrency_or_rate": "256"}, 1, 8),
        ({"metric_kind": "saturated", "concurrency_or_rate": "inf"}, 1, 8),
        ({"metric_kind": "saturated", "dp": "1"}, 8, 1),
    ],
)
def test_latent_attention_is_split_as_said_or_by_data_above_eight_clients_a_gpu(
    fields: dict[str, str], tp: int, dp: int
) -> None:
    case = case_of({"hardware": "H200", "n_gpus": "8", "model": "DeepSeek-R1", **fields}, CATALOG)
    assert (case.shape.tp, case.shape.dp, case.replicas) == (tp, dp, 1)
    assert ("assumed" in case.layout) == ("tp" not in fields)
    assert f"attention TP {tp} x DP {dp}, experts over 8 accelerators" in case.layout


def test_one_server_command_is_one_replica_however_its_ranks_were_multiplied() -> None:
    row = {"hardware": "H200", "n_gpus": "64", "tp": "1", "dp": "8", "model": "DeepSeek-R1"}
    assert case_of(row, CATALOG).replicas == 8
    assert case_of({**row, "notes": "python3 -m sglang.launch_server --tp 8 --dp 8"}, CATALOG).replicas == 1


def test_clients_fewer_than_replicas_leave_replicas_idle() -> None:
    row = {"hardware": "H200", "n_gpus": "8", "tp": "1", "model": "Llama-3.1-8B", "concurrency_or_rate": "2"}
    case = case_of(row, CATALOG)
    assert (case.replicas, case.clients) == (2, 1)


def listed(name: str) -> list[dict[str, str]]:
    path: Path = REFERENCE / name
    if not path.exists():
        pytest.skip(f"{path} is not here: the reference of hardware and models")
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_all_hardware_and_models_of_the_reference_are_found_by_key_name_and_repository() -> None:
    hardware = [name for row in listed("hardware.csv") for name in (row["key"], row["name"])]
    models = [name for row in listed("models.csv") for name in (row["name"], row["hf_id"]) if name]
    asked = [{"hardware": name, "model": "Llama-3.1-8B"} for name in hardware]
    asked += [{"hardware": "GB300", "n_gpus": "16", "model": name} for name in models]
    refused = [found for found in batch.predictions(asked, CATALOG) if isinstance(found, str)]
    assert len(asked) > 150
    assert refused == []


def strange(rng: random.Random) -> dict[str, str]:
    """A row of a known accelerator and model, its other fields in any spelling, or none."""
    pick = rng.choice
    accelerator, model = pick(list(CATALOG.accelerators.values())), pick(list(CATALOG.models.values()))
    upper = pick([str, str.upper, str.lower])
    fields = {
        "n_gpus": ["8", "16", "64", "8.0"],
        "tp": ["", "1", "2", "8"],
        "pp": ["", "1", "2"],
        "dp": ["", "1", "8"],
        "ep": ["", "1", "8"],
        "moe_tp": ["", "8"],
        "engine": ["", "vLLM", "SGLang", "trt-llm", "other"],
        "engine_version": ["", "v9.9.9", "main", "2031-01", "TensorRT 10.11, CUDA 12.9", "0.6.5.dev964"],
        "precision": ["", "fp8/fp8", "bf16/", "FP16", "fp4/fp8", "int4", "w4a16/auto", "nvfp4/fp8", "-/-"],
        "input_len": ["", "0", "1", "1024", "1,024", "200000", "512.5"],
        "output_len": ["", "1", "128", "8192"],
        "concurrency_or_rate": ["", "inf", "1", "4096", "0.5 req/s", "500 req/s", "batch 4/GPU", "Server"],
        "metric_kind": ["", *(kind for kind in KINDS if kind != "claim"), "Offline", "single-stream"],
        "nreq": ["", "1", "1000"],
        "date": ["", "2025-11", "soon"],
        "notes": ["", "x", "vllm serve y"],
        "ttft_ms": ["", "abc"],
    }
    row = {
        "hardware": upper(pick([accelerator.id, accelerator.name])),
        "model": upper(pick([model.id, model.name])),
        **{name: pick(values) for name, values in fields.items()},
    }
    return {name: value for name, value in row.items() if name in ("hardware", "model") or rng.random() < 0.8}


@pytest.mark.parametrize("seed", range(4))
def test_strange_rows_are_predicted_or_do_not_fit(seed: int) -> None:
    """Finite, positive and inside their interval; only models larger than the memory are refused."""
    rng = random.Random(seed)
    asked = [strange(rng) for _ in range(400)]
    refused = []
    for row, found in zip(asked, batch.predictions(asked, CATALOG), strict=True):
        if isinstance(found, str):
            refused.append(found)
            continue
        assert 0 < found.low < found.output_tok_s < found.high < 1e9, row
        assert 0 < found.ttft_ms < 1e12, row
        assert found.ttft_p95_ms >= found.ttft_ms * 0.99, row
        assert 0 < found.tpot_ms < 1e8, row
        assert 0 < found.memory_gb < 1000, row
    assert [reason for reason in refused if "do not fit" not in reason] == []
    assert len(refused) < 0.5 * len(asked)
