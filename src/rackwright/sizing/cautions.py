"""What to beware of in a plan: one function a caution, each says when it applies and on what ground.

``refuse`` marks a red line that an override crossed; ``rackwright check`` reports it as a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from rackwright.catalog import Prices
from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.plan.cost import Caution, Cost
from rackwright.plan.fabric import Fabric
from rackwright.sizing.layout import Chosen, Stand
from rackwright.sizing.load import Demand
from rackwright.workload import Workload

GUIDE = "hardware-selection guide, May 2026"
Severity = Literal["info", "warn", "refuse"]


@dataclass(frozen=True)
class Sized:
    """What cautions look at."""

    stand: Stand
    demand: Demand
    chosen: Chosen
    nodes: int
    fabric: Fabric | None
    cost: Cost
    prices: Prices
    image_pinned: bool
    picker_pinned: bool
    pod_memory_gib: int

    @property
    def workload(self) -> Workload:
        return self.stand.workload


@dataclass(frozen=True)
class GuideTier:
    """One row of the guide's table. ``machine``: catalog ids that match what it recommends."""

    dau: int
    nodes: int
    answer: str
    machines: tuple[str, ...]


HOUSEHOLD_W = 1800
"""Full-load power from which a household circuit has nothing in hand: 2.3 kW / 1.2, rounded down."""
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

Finding = tuple[Severity, str, str, str]
"""Severity, text, evidence, source."""


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


def estimate_not_measured(s: Sized) -> Finding | None:
    """Nobody published a measurement of this pair."""
    at = s.chosen.candidate.at
    if at.evidence == "measured":
        return None
    return (
        "warn",
        f"Throughput is estimated ({at.evidence}): {at.output_tok_s:,.0f} tok/s a replica, 80 % interval "
        f"{at.low:,.0f}–{at.high:,.0f}. Measure at go-live and calibrate before buying for growth.",
        "median error of the estimator against public measurements 11–20 %, ninth decile 43–64 %",
        "public measurements of vLLM, SGLang and TensorRT-LLM",
    )


def ttft_unreliable(s: Sized) -> Finding | None:
    """Time to first token under load cannot be predicted well by anyone."""
    at = s.chosen.candidate.at
    return (
        "info",
        f"The time to first token of {at.ttft_ms:,.0f} ms (p95 {at.ttft_p95_ms:,.0f} ms) is a rough figure; "
        "it depends on how bursts arrive. Prove it in the soak at 1.5 × peak.",
        "best known predictors are 50–60 % off in the median",
        "public measurements, several estimators compared",
    )


def engine_image_unpinned(s: Sized) -> Finding | None:
    """The digest of the engine's image is not known to the catalog."""
    if s.image_pinned:
        return None
    return (
        "warn",
        f"The catalog holds no digest of {s.stand.engine.repository}:v{s.stand.engine.version}. The plan "
        "carries an all-zero digest, which no registry can serve: nothing unpinned is ever pulled. Put the "
        "digest that your registry serves under overrides.image_digest.",
        "not read from a registry",
        "deployment checklist: engine version pinned by digest",
    )


def picker_image_unpinned(s: Sized) -> Finding | None:
    """The endpoint picker's image has no known digest either."""
    if s.picker_pinned or s.workload.site.target != "kubernetes":
        return None
    return (
        "warn",
        "The endpoint picker's image carries an all-zero digest, which no registry can serve; pin the one "
        "your registry serves in the platform entry of the catalog.",
        "not read from a registry",
        "endpoint picker of the inference gateway",
    )


def weights_unproven(s: Sized) -> Finding | None:
    """No manifest proves that the weights are the right ones."""
    if s.workload.model.weights_manifest is not None:
        return None
    return (
        "warn",
        "No manifest of the weights is pinned: a model is identified by the SHA-256 of its weights, not by "
        "its name. Write one with sha256sum over the files and put its digest under model.weights_manifest.",
        "given by nobody",
        "deployment checklist: weights' SHA-256 checked and written to the start-up log",
    )


def trust_remote_code(s: Sized) -> Finding | None:
    """The model's repository runs code in the engine."""
    if not s.stand.model.trust_remote_code:
        return None
    return (
        "warn",
        f"{s.stand.model.name} needs --trust-remote-code: code of the weights' repository runs in the "
        "engine. Pin model.revision and model.weights_manifest, and review that code.",
        "model card",
        s.stand.model.hf_id,
    )


def context_shorter_than_model(s: Sized) -> Finding | None:
    """The model could read more than it is given."""
    most = s.stand.model.max_context.value
    if s.workload.model.context >= most:
        return None
    return (
        "info",
        f"Requests are cut at {s.workload.model.context:,.0f} tokens; the model reads {most:,.0f}. A longer "
        "model.context costs KV cache and with it concurrency.",
        "catalog",
        s.stand.model.hf_id,
    )


def prefill_heavy(s: Sized) -> Finding | None:
    """Prompts, not answers, take much of the GPUs' time."""
    share = s.chosen.candidate.at.prefill_share
    if share < 0.3:
        return None
    return (
        "warn",
        f"Reading prompts takes {share * 100:.0f} % of the GPUs' time at the planned concurrency. Prefix "
        "caching helps where prompts share beginnings (a hit rate of 50 % is not counted on here); longer "
        "prompts cost output throughput directly.",
        "estimate",
        "roofline of prefill; the guide has no red line for it",
    )


def pcie_tensor_parallel(s: Sized) -> Finding | None:
    """Tensor parallelism over PCIe beyond two cards does not pay."""
    shape = s.chosen.candidate.shape
    if s.stand.accelerator.nvlink is not None or shape.tp <= 2:
        return None
    return (
        "refuse",
        f"Tensor parallelism of {shape.tp} over PCIe: the all-reduces eat what the cards add.",
        "TP 2 over PCIe is the most that pays",
        GUIDE + ", pitfalls",
    )


def no_spare(s: Sized) -> Finding | None:
    """A lost node takes capacity away for as long as its repair lasts."""
    if s.workload.hardware.spares > 0:
        return None
    lost = s.chosen.candidate.at.low * max(1, s.chosen.replicas // max(1, s.chosen.nodes))
    severity: Severity = "warn" if s.chosen.replicas == 1 or s.workload.users.dau >= 10_000 else "info"
    return (
        severity,
        f"There is no spare node: losing one takes away about {lost:,.0f} tok/s until it is repaired, and an "
        "engine update has no free slot to start in.",
        "plan",
        "deployment checklist: one node taken away, redistributed within 60 s",
    )


def single_replica(s: Sized) -> Finding | None:
    """One replica is one failure away from none."""
    if s.chosen.replicas > 1:
        return None
    return (
        "warn",
        "A single replica serves everything: every restart is an outage of its load time.",
        "plan",
        GUIDE + ": active-active from 5,000 daily users",
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
        "or more; this plan has one site, and its cost counts neither.",
        "guide",
        GUIDE + ", 500,000 daily users",
    )


def api_first(s: Sized) -> Finding | None:
    """Few users cost little by an API."""
    if s.workload.users.dau >= 5_000:
        return None
    million_a_month = s.demand.tokens_per_day * 30 / 1e6
    return (
        "info",
        f"By a public API of open models at $0.30 a million tokens this load costs about "
        f"${million_a_month * 0.30:,.0f} a month; own hardware pays where data must stay, or above about "
        "5,000 daily users.",
        "guide's API price",
        GUIDE + ", API baseline",
    )


def household_power(s: Sized) -> Finding | None:
    """A household circuit carries 2.3 kW."""
    full = s.stand.machine.full_load.value
    if s.stand.machine.form != "workstation" or full < HOUSEHOLD_W:
        return None
    return (
        "warn",
        f"{s.stand.machine.name} draws {full:,.0f} W at full load: a 10 A/230 V household circuit is at its "
        "limit. The guide's 300 W a card is the Max-Q; this card takes 600 W.",
        "two cards and an EPYC draw 1.8 kW",
        GUIDE + ", power; card data",
    )


def consumer_card(s: Sized) -> Finding | None:
    """The licence of consumer drivers bars data centres."""
    if not s.stand.accelerator.eula_restricted:
        return None
    return (
        "refuse",
        f"The driver licence of {s.stand.accelerator.name} bars its use in a data centre; it has no NVLink, "
        "MIG or ECC.",
        "licence",
        GUIDE + ", pitfalls",
    )


def ecc_off_as_shipped(s: Sized) -> Finding | None:
    """Workstation cards come with ECC off."""
    if s.stand.accelerator.ecc != "switchable":
        return None
    return (
        "info",
        "ECC is off as shipped on workstation cards: nvidia-smi -e 1 and a reboot; the preflight expects it "
        "on.",
        "card data",
        "deployment checklist: ECC on",
    )


def kv_fp8(s: Sized) -> Finding | None:
    """FP8 KV cache is nearly, not fully, lossless."""
    if s.stand.kv_bits != 8:
        return None
    return (
        "info",
        "The KV cache is kept in FP8, which is nearly lossless; compare golden answers before go-live, or "
        "set model.kv_cache: bf16.",
        "guide",
        GUIDE + ", quantisation",
    )


def weights_published_elsewhere(s: Sized) -> Finding | None:
    """The quantised weights are not the model owner's."""
    weights = s.stand.model.quantisations[s.stand.quantisation]
    owner, publisher = s.stand.model.hf_id.split("/")[0], weights.hf_id.split("/")[0]
    if owner == publisher:
        return None
    return (
        "info",
        f"{weights.hf_id} is published by {publisher}, not by {owner}: check its licence and quality.",
        "catalog",
        weights.hf_id,
    )


def nic_names(s: Sized) -> Finding | None:
    """Names of NICs and their order differ between makers."""
    if s.fabric is None:
        return None
    return (
        "warn",
        "Names and PCI addresses of the fabric NICs are this catalog's; machines of other makers differ. The "
        "preflight compares them with every host: correct the catalog entry before the network is built. "
        "Where pods receive virtual functions, their devices must carry the names in NCCL_IB_HCA.",
        "not read from a machine",
        s.stand.machine.id,
    )


def latent_cache_repeated(s: Sized) -> Finding | None:
    """With tensor parallelism every GPU keeps the whole latent KV cache."""
    shape = s.chosen.candidate.shape
    if shape.model.mla is None or shape.tp == 1:
        return None
    return (
        "info",
        f"{shape.model.name} caches a latent that tensor parallelism does not divide: each of {shape.tp} "
        "GPUs holds and reads all of it. Data-parallel attention with expert parallelism would not; it is "
        "not planned here.",
        "memory arithmetic",
        "multi-head latent attention",
    )


def host_memory_small(s: Sized) -> Finding | None:
    """The pods of a node ask for more memory than it has."""
    pods = max(1, s.stand.gpus // s.chosen.candidate.shape.tp)
    asked, has = s.pod_memory_gib * pods, s.stand.machine.memory.value
    if asked <= has * 0.9:
        return None
    return (
        "refuse",
        f"{pods} pods of {s.pod_memory_gib} GiB do not fit {has:,.0f} GiB of a node with a tenth in hand; "
        "they would not be scheduled.",
        "1.2 × weights and shared memory a pod",
        "infrastructure guide: memory ≥ 1.2 × GPU memory used",
    )


def prices_assumed(s: Sized) -> Finding | None:
    """Part of the capital is no quoted price."""
    price = s.prices.machines[s.stand.machine.id]
    if price.verified and (s.fabric is None or s.prices.fabric_per_node.verified):
        return None
    what = "the machine" if not price.verified else "the fabric's share a node"
    return (
        "info",
        f"The price of {what} is assumed; ask for a quotation.",
        "assumed",
        price.source if not price.verified else s.prices.fabric_per_node.source,
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


CAUTIONS: dict[str, Callable[[Sized], Finding | None]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        guide_node_count,
        guide_figure_pro6000,
        estimate_not_measured,
        ttft_unreliable,
        prefill_heavy,
        pcie_tensor_parallel,
        host_memory_small,
        consumer_card,
        engine_image_unpinned,
        picker_image_unpinned,
        weights_unproven,
        weights_published_elsewhere,
        trust_remote_code,
        context_shorter_than_model,
        kv_fp8,
        latent_cache_repeated,
        single_replica,
        no_spare,
        kv_tiers,
        several_sites,
        nic_names,
        ecc_off_as_shipped,
        household_power,
        api_first,
        prices_assumed,
    )
}
"""Caution id to its function; ids are what ``overrides.suppress`` names."""

MINIMUM_REASON = 8


def suppress_problems(workload: Workload) -> Iterator[Problem]:
    """Suppressions that name no caution, or give no reason."""
    for name, reason in workload.overrides.suppress.items():
        if name not in CAUTIONS:
            yield Problem(
                f"overrides.suppress.{name}",
                f"must name a caution{nearest(name, CAUTIONS)}",
                f'"{name}"',
                f"there are {listing(sorted(CAUTIONS))}",
                "correct the name, or drop it",
            )
        elif len(reason.strip()) < MINIMUM_REASON:
            yield Problem(
                f"overrides.suppress.{name}",
                "must give a reason",
                f'"{reason}"',
                "whoever reviews the plan must see why the caution was accepted",
                "write the reason as its value",
            )


def cautions(sized: Sized) -> tuple[Caution, ...]:
    """All that apply, refusals first; a suppressed one stays, with the reason.

    Raises:
        InputErrors: an override suppresses what must not be: a refusal.
    """
    found = []
    for name, function in CAUTIONS.items():
        finding = function(sized)
        if finding is None:
            continue
        severity, text, evidence, source = finding
        reason = sized.workload.overrides.suppress.get(name)
        if reason is not None and severity == "refuse":
            raise InputErrors(
                Problem(
                    f"overrides.suppress.{name}",
                    "must not suppress a red line",
                    f'"{reason}"',
                    text,
                    "drop it, and change what crosses the line",
                )
            )
        found.append(
            Caution(
                id=name, severity=severity, text=text, evidence=evidence, source=source, suppressed=reason
            )
        )
    rank = {"refuse": 0, "warn": 1, "info": 2}
    return tuple(sorted(found, key=lambda c: rank[c.severity]))
