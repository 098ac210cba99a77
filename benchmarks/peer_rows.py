"""Run in an environment with aiconfigurator: predicts the rows of a CSV, one JSON object a row on stdout.

It imports nothing of the product. A row that aiconfigurator has no data for gives a reason.
"""

from __future__ import annotations

import csv
import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

SYSTEMS = {
    "H100": "h100_sxm", "H100-PCIe": "h100_pcie", "H200": "h200_sxm", "B200": "b200_sxm", "B300": "b300_sxm",
    "GB200": "gb200", "GB300": "gb300", "A100-SXM": "a100_sxm", "A100-PCIe": "a100_pcie", "L40S": "l40s",
    "L4": "l4", "RTXPRO6000S": "rtx_pro_6000_server",
}  # fmt: skip
MODELS = {
    "Qwen3-0.6B": "Qwen/Qwen3-0.6B", "Qwen3-8B": "Qwen/Qwen3-8B", "Qwen3-32B": "Qwen/Qwen3-32B",
    "Qwen3-30B-A3B": "Qwen/Qwen3-30B-A3B", "Qwen3-235B-A22B": "Qwen/Qwen3-235B-A22B",
    "Llama-3.1-8B": "meta-llama/Meta-Llama-3.1-8B", "Llama-3.3-70B": "meta-llama/Meta-Llama-3.1-70B",
    "Llama-3.1-405B": "meta-llama/Meta-Llama-3.1-405B", "DeepSeek-R1": "deepseek-ai/DeepSeek-R1",
    "DeepSeek-V3": "deepseek-ai/DeepSeek-V3", "DeepSeek-V3.2": "deepseek-ai/DeepSeek-V3.2",
    "Mixtral-8x7B": "mistralai/Mixtral-8x7B-v0.1", "MiniMax-M2.5": "MiniMaxAI/MiniMax-M2.5",
    "Kimi-K2.5": "moonshotai/Kimi-K2.5", "gpt-oss-120b": "openai/gpt-oss-120b",
    "gpt-oss-20b": "openai/gpt-oss-20b", "Qwen3.5-397B-A17B": "Qwen/Qwen3.5-397B-A17B",
    "GLM-5": "zai-org/GLM-5",
}  # fmt: skip
"""Names of measured.csv to checkpoints that aiconfigurator knows; Llama 3.3 has the shape of 3.1."""

WEIGHTS = {"bf16": "bfloat16", "fp8": "fp8", "fp4": "nvfp4"}
CACHE = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8"}


def predict(estimate: Any, row: dict[str, str]) -> dict[str, Any]:
    dp = int(row["dp"] or 1)
    tp = int(row["tp"] or 1)
    replicas = max(1, int(row["n_gpus"]) // (tp * dp * int(row["pp"] or 1)))
    batch = max(1, round(float(row["concurrency_or_rate"]) / replicas / dp))
    given: dict[str, Any] = {
        "backend_name": row["engine"],
        "database_mode": "HYBRID",
        "isl": int(float(row["input_len"])),
        "osl": int(float(row["output_len"])),
        "batch_size": batch,
        "tp_size": tp,
        "pp_size": int(row["pp"] or 1),
        "attention_dp_size": dp,
    }
    stated: dict[str, Any] = {"kvcache_quant_mode": CACHE.get(row["kvprec"])}
    if weights := WEIGHTS.get(row["wprec"]):
        stated |= {"gemm_quant_mode": weights, "moe_quant_mode": weights}
    if tp * dp > 1:
        given |= {"moe_tp_size": int(row["moe_tp"] or 1), "moe_ep_size": int(row["moe_ep"] or 1)}
    try:
        found = estimate(MODELS[row["model"]], SYSTEMS[row["hardware"]], **given, **stated)
    except Exception:  # no data for the row's precisions: then those of the checkpoint
        found = estimate(MODELS[row["model"]], SYSTEMS[row["hardware"]], **given)
    # A request takes TTFT and a TPOT for each further token; the batch is in flight all the time.
    seconds = (found.ttft + found.tpot * (given["osl"] - 1)) / 1000
    rate = batch * dp * replicas * given["osl"] / seconds
    return {"output_tok_s_total": rate, "ttft_ms": found.ttft, "tpot_ms": found.tpot}


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    from aiconfigurator.cli.api import cli_estimate

    with Path(sys.argv[1]).open(encoding="utf-8", newline="") as stream:
        rows = [r for r in csv.DictReader(stream) if r["metric_kind"] == "fixed_concurrency"]
    known = [r for r in rows if r["hardware"] in SYSTEMS and r["model"] in MODELS]
    for row in known:
        try:
            answer = predict(cli_estimate, row)
        except Exception as error:  # whatever it raises is its answer to this row
            answer = {"reason": f"{type(error).__name__}: {error}"[:200]}
        sys.stdout.write(json.dumps({"row_id": row["row_id"], **answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
