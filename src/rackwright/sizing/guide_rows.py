"""The guide's own answers, asked again: its seven tiers, its kinds of users, its decision tree.

Each row is a workload with the guide's model and machine; ``guide_answers`` sizes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["tier", "kind of users", "decision"]
RELAXED = {"ttft_p95": "3 s", "tpot_p50": "80 ms"}
"""Objectives of one person or a small team, who read along: the guide gives none for them."""
ROOM = {"country": "CN", "rack": {"rating": "200 kW"}}
"""A cabinet that feeds every machine: what refuses is then the machine, not its rack."""


@dataclass(frozen=True)
class Row:
    """``nodes``: of the guide, where it gives a count; ``capex``, ``month``: its CNY. ``others``: machines to
    look at where its own does not serve."""

    id: str
    kind: Kind
    asked: str
    answer: str
    workload: dict[str, Any]
    nodes: int | None = None
    capex: str = "–"
    month: str = "–"
    others: tuple[str, ...] = ()
    remark: str = ""


def _load(dau: int, model: str, machine: str, quantisation: str | None = None, **more: Any) -> dict[str, Any]:
    fabric = {"-ib": "infiniband"}.get(machine[-3:], "none")
    chosen: dict[str, Any] = {"id": model, "context": more.pop("context", "16 ki tokens")}
    if quantisation is not None:
        chosen["quantisation"] = quantisation
    return {
        "name": "guide",
        "users": {"dau": dau},
        "model": chosen,
        "hardware": {"machine": machine, "fabric": fabric},
        "site": ROOM,
        **more,
    }


CARDS = ("pro6000-2", "pro6000s-8", "l40s-8", "hgx-h100-8", "hgx-h200-8")
NODES = ("hgx-h200-8", "hgx-h200-8-ib", "hgx-b200-8-ib", "hgx-b300-8-ib")
DENSE, MOE, LARGE = "qwen2.5-72b-instruct", "qwen3-235b-a22b", "deepseek-v3"
PERSON: dict[str, Any] = {"slo": RELAXED, "redundancy": 1.0}

ROWS: tuple[Row, ...] = (
    Row(
        "1k",
        "tier",
        "1,000 daily users",
        "1 × RTX PRO 6000, 72B FP8",
        _load(1_000, DENSE, "pro6000-1", "fp8"),
        1,
        "230k",
        "5.3k",
        CARDS,
        "its advice: an API first",
    ),
    Row(
        "5k",
        "tier",
        "5,000 daily users",
        "2 × (2 × PRO 6000), 72B FP8",
        _load(5_000, DENSE, "pro6000-2", "fp8"),
        2,
        "0.9–1.1M",
        "24.5k",
        CARDS,
    ),
    Row(
        "10k",
        "tier",
        "10,000 daily users",
        "1 × 8 × H200, DeepSeek V3",
        _load(10_000, LARGE, "hgx-h200-8"),
        1,
        "3.5–4.2M",
        "55k",
    ),
    Row(
        "50k",
        "tier",
        "50,000 daily users",
        "4 × 8 × H200, DeepSeek V3 FP8",
        _load(50_000, LARGE, "hgx-h200-8"),
        4,
        "14–17M",
        "200k",
    ),
    Row(
        "100k",
        "tier",
        "100,000 daily users",
        "8 × 8 × H200, 400G RDMA",
        _load(100_000, LARGE, "hgx-h200-8-ib"),
        8,
        "28–33M",
        "560k",
    ),
    Row(
        "500k",
        "tier",
        "500,000 daily users",
        "32 × 8 × H200",
        _load(500_000, LARGE, "hgx-h200-8-ib"),
        32,
        "130–150M",
        "2.16M",
    ),
    Row(
        "1M",
        "tier",
        "1,000,000 daily users",
        "GB200/GB300 NVL72 cabinets with HGX tiers",
        _load(1_000_000, LARGE, "gb200-nvl72"),
        None,
        "250–300M",
        "4.3M",
        NODES,
    ),
    Row(
        "personal",
        "kind of users",
        "one to three people",
        "RTX 5090, 14B",
        _load(3, "qwen3-14b", "rtx5090-1", "fp8", **PERSON),
        1,
        others=("pro6000-1",),
    ),
    Row(
        "start-up",
        "kind of users",
        "a team of 10–30, 200–500 daily users",
        "1 × PRO 6000, 70–72B FP8",
        _load(300, DENSE, "pro6000-1", "fp8", **PERSON),
        1,
        others=CARDS,
    ),
    Row(
        "team-b",
        "kind of users",
        "a team with a large mixture",
        "2 × PRO 6000, 235B INT4",
        _load(500, MOE, "pro6000-2", "int4", **PERSON),
        1,
        others=CARDS,
    ),
    Row(
        "smb",
        "kind of users",
        "a company that fine-tunes 7B–14B",
        "1 × 8 × RTX 6000 Ada or PRO 6000",
        _load(2_000, "qwen2.5-14b-instruct", "pro6000s-8", **PERSON),
        1,
        remark="serving only; training is not planned here: train in the cloud, infer on site",
    ),
    Row(
        "small-few",
        "decision",
        "≤ 14B, 1–3 users",
        "RTX 5090",
        _load(3, "qwen3-14b", "rtx5090-1", "fp8", **PERSON),
        1,
        others=("pro6000-1",),
    ),
    Row(
        "small-many",
        "decision",
        "≤ 14B, 10–50 at a time",
        "1 × PRO 6000",
        _load(1_000, "qwen3-14b", "pro6000-1", "fp8", **PERSON),
        1,
        others=CARDS,
    ),
    Row(
        "32b-personal",
        "decision",
        "32B, one person",
        "RTX 5090 or DGX Spark",
        _load(1, "qwen3-32b", "rtx5090-1", "int4", context="8 ki tokens", **PERSON),
        1,
        others=("pro6000-1",),
    ),
    Row(
        "32b-product",
        "decision",
        "32B, production",
        "PRO 6000, FP8",
        _load(1_000, "qwen3-32b", "pro6000-1", "fp8", **PERSON),
        1,
        others=CARDS,
    ),
    Row(
        "70b-single",
        "decision",
        "70B, one user",
        "Mac Studio",
        _load(1, "llama-3.3-70b-instruct", "mac-studio-m3-ultra-256", **PERSON),
        others=("pro6000-1", "pro6000-2"),
    ),
    Row(
        "70b-team",
        "decision",
        "70B, small team",
        "1 × PRO 6000, FP8",
        _load(300, DENSE, "pro6000-1", "fp8", **PERSON),
        1,
        others=CARDS,
    ),
    Row(
        "70b-product",
        "decision",
        "70B, product",
        "2 × PRO 6000 or 8 × H100",
        _load(5_000, DENSE, "hgx-h100-8", "fp8"),
        others=CARDS,
    ),
    Row(
        "200b-offline",
        "decision",
        "200B+ mixture, offline",
        "Mac Studio, Q4",
        _load(1, MOE, "mac-studio-m3-ultra-256", **PERSON),
        others=("pro6000-2", "hgx-h200-8"),
    ),
    Row(
        "200b-team",
        "decision",
        "200B+ mixture, team",
        "2 × PRO 6000 or 8 × H200",
        _load(500, MOE, "hgx-h200-8", "fp8", **PERSON),
        1,
    ),
    Row(
        "200b-many",
        "decision",
        "200B+ mixture, many at a time",
        "several nodes of 8 × H200/B200",
        _load(50_000, MOE, "hgx-h200-8", "fp8"),
    ),
    Row("600b", "decision", "600B+, production", "8 × H200/B200/B300", _load(5_000, LARGE, "hgx-h200-8")),
    Row(
        "600b-mac",
        "decision",
        "600B+, experiment",
        "Mac Studio 512 GB",
        _load(1, LARGE, "mac-studio-m3-ultra-512", **PERSON),
        others=("hgx-h200-8",),
    ),
    Row(
        "1t",
        "decision",
        "1T+",
        "B200/B300 or NVL72",
        _load(10_000, "kimi-k2-instruct", "hgx-b200-8-ib"),
        others=NODES,
    ),
    Row(
        "domestic",
        "decision",
        "domestic compliance",
        "Atlas 800I A2",
        _load(1_000, MOE, "atlas-800i-a2"),
        others=("hgx-h20-8",),
    ),
)
