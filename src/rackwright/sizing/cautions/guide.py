"""Where a plan and the guide it follows disagree."""

from __future__ import annotations

from dataclasses import dataclass

from rackwright.sizing.cautions.base import GUIDE, Finding, Rule, Sized


@dataclass(frozen=True)
class GuideTier:
    """One row of the guide's table. ``machine``: catalog ids that match what it recommends."""

    dau: int
    nodes: int
    answer: str
    machines: tuple[str, ...]


HGX = ("hgx-h200-8", "hgx-h200-8-roce", "hgx-h200-8-ib")
TIERS = (
    GuideTier(1_000, 1, "1 × RTX PRO 6000, 72B FP8", ("pro6000-1", "pro6000-2")),
    GuideTier(5_000, 2, "2 × (2 × RTX PRO 6000), 72B FP8", ("pro6000-2",)),
    GuideTier(10_000, 1, "1 node of 8 × H200, Qwen3-235B or DeepSeek V3", HGX),
    GuideTier(50_000, 4, "4 nodes of 8 × H200, DeepSeek V3 FP8", HGX),
    GuideTier(100_000, 8, "8 nodes of 8 × H200", HGX),
    GuideTier(500_000, 32, "32 nodes of 8 × H200", HGX),
    GuideTier(1_000_000, 0, "GB200/GB300 NVL72 cabinets with HGX tiers", ()),
)


def guide_node_count(s: Sized) -> Finding | None:
    """The guide's table gives another number of nodes for as many users."""
    tier = next(
        (t for t in TIERS if t.dau == s.workload.users.dau and s.stand.machine.id in t.machines), None
    )
    if tier is None or tier.nodes == s.chosen.nodes or s.workload.users.scenario != "chat":
        return None
    implied = tier.dau * 0.75 / tier.nodes
    per_node = s.chosen.candidate.at.output_tok_s * s.chosen.replicas / s.chosen.nodes
    return (
        "warn",
        f"The guide answers {tier.dau:,} daily users with {tier.answer}; this plan needs {s.chosen.nodes} "
        f"serving nodes. The guide's peak of {tier.dau * 0.75:,.0f} tok/s asks {implied:,.0f} tok/s of each "
        f"of its nodes, which its own measurements do not reach; the estimate here is {per_node:,.0f} tok/s "
        f"a node of output while the same GPUs also read {s.demand.input_tokens:,.0f} tokens a prompt, and "
        "the plan counts on the lower end of its interval.",
        f"{s.chosen.candidate.at.evidence} estimate; guide: 1,500–2,500 tok/s measured on 8 × H200 with "
        "DeepSeek V3, 550–600 on one PRO 6000 with a 70–72B model",
        GUIDE + ", tier table and measured figures",
    )


def guide_figure_pro6000(s: Sized) -> Finding | None:
    """The guide's single-stream figure of the PRO 6000 breaks its own ceiling."""
    if not s.stand.accelerator.id.startswith("rtx-pro-6000") or s.stand.model.active.value < 60:
        return None
    stream = s.stand.accelerator.bandwidth.value / (
        s.stand.model.active.value
        * s.stand.model.quantisations[s.stand.quantisation].loaded.value
        / s.stand.model.total.value
    )
    return (
        "info",
        "The guide quotes 50–55 tok/s for a single stream of a 70–72B model in FP8 on this card; its "
        f"bandwidth allows {stream:.1f} at most. Its 550–600 tok/s at batch 32 is plausible for decoding "
        "alone.",
        "bandwidth over active bytes",
        GUIDE + ", measured figures",
    )


def kv_tiers(s: Sized) -> Finding | None:
    """Over ten thousand users the guide keeps KV caches beyond GPU memory."""
    if s.workload.users.dau <= 10_000:
        return None
    return (
        "info",
        "Over 10,000 daily users the guide adds KV-cache tiers (GPU, CPU, NVMe); this plan caches prefixes "
        "in GPU memory only.",
        "a prefix hit cuts time to first token 5–10 ×",
        GUIDE + ", KV-cache tiers",
    )


def several_sites(s: Sized) -> Finding | None:
    """Half a million users should not hang on one data centre."""
    if s.workload.users.dau < 500_000:
        return None
    return (
        "warn",
        "At this size the guide asks for several active sites, disaster recovery and a platform team of ten "
        "or more; this plan has one site, and a second one is not in its cost.",
        "guide",
        GUIDE + ", 500,000 daily users",
    )


RULES: tuple[Rule, ...] = (
    guide_node_count,
    guide_figure_pro6000,
    kv_tiers,
    several_sites,
)
