"""What the running service will meet."""

from __future__ import annotations

from rackwright.catalog import load_catalog
from rackwright.engines.registry import LAUNCHERS
from rackwright.errors import listing
from rackwright.sizing.cautions.base import (
    CHECKLIST,
    GUIDE,
    INFRASTRUCTURE,
    Finding,
    Rule,
    Severity,
    Sized,
    many,
)
from rackwright.sizing.layout import TOTAL_CUTOFF_MS, ranked
from rackwright.sizing.services import SCRAPE_S

LOW_BITS = 4.6
"""Bits a weight, scales included, of what is called four bits."""
GIANT = 600
"""Billions of parameters from which one machine holds a model in four bits only."""
WASTE = 0.01
LONG_PROMPT = 8_000
TOKENIZED = 100_000
"""Prompt tokens a second and node from which tokenising is worth a look: a tenth of what a core does."""
SHARING = 0.3
SCRAPED = 16


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


def no_spare(s: Sized) -> Finding | None:
    """A lost node takes capacity away for as long as its repair lasts."""
    if s.workload.hardware.spares > 0:
        return None
    candidate, replicas = s.chosen.candidate, s.chosen.replicas
    most = s.stand.replicas_per_node(candidate)
    lost = min(replicas, most)
    severity: Severity = "warn" if replicas == 1 or s.workload.users.dau >= 10_000 else "info"
    if lost == replicas:
        text = "There is no spare node: losing one stops the service until it is repaired"
    else:
        text = (
            f"There is no spare node: losing one takes away {many(lost, 'replica')} of {replicas:,}, about "
            f"{candidate.at.low * lost:,.0f} tok/s, until it is repaired"
        )
    full = candidate.nodes_per_replica > 1 or s.chosen.nodes * most <= replicas
    return (
        severity,
        text + (", and an engine update has no free slot to start in." if full else "."),
        "plan",
        CHECKLIST + ": one node taken away, redistributed within 60 s",
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


def latent_cache_repeated(s: Sized) -> Finding | None:
    """With tensor parallelism every GPU keeps the whole latent KV cache."""
    shape = s.chosen.candidate.shape
    if shape.model.mla is None or shape.tp == 1:
        return None
    return (
        "info",
        f"{shape.model.name} caches a latent that tensor parallelism does not divide: each of {shape.tp} "
        f"GPUs holds and reads all of it. {_instead(s)}",
        "memory arithmetic",
        "multi-head latent attention",
    )


def _instead(s: Sized) -> str:
    """What is said of ranks with requests of their own, where a layout of tensor parallelism was taken."""
    if s.chosen.candidate.nodes_per_replica > 1:
        return "Ranks that attend to requests of their own are planned inside a node only."
    if not ranked(s.stand):
        return "Ranks that attend to requests of their own would not; they are not planned here."
    if s.workload.overrides.data_parallel == 1:
        return "overrides.data_parallel: 1 keeps ranks that attend to requests of their own out."
    return "Ranks that attend to requests of their own (DP) were sized too, and need as many nodes or more."


def ranks_share_experts(s: Sized) -> Finding | None:
    """Ranks of a replica wait for each other at every layer of experts, and fail together."""
    shape = s.chosen.candidate.shape
    if shape.dp == 1:
        return None
    kubernetes = s.workload.site.target == "kubernetes"
    blind = " The endpoint picker goes by prefixes alone: it would take one rank's gauges for the pod's."
    return (
        "info",
        f"Each replica is {shape.dp} ranks that attend to requests of their own and share the experts: a "
        f"rank that fails takes all {shape.gpus} GPUs with it, and uneven requests make the others wait."
        + (blind if kubernetes else ""),
        "the engine's documentation of data-parallel attention",
        "expert parallelism",
    )


def low_bits_of_a_giant(s: Sized) -> Finding | None:
    """Four bits are what makes a giant fit one machine, and may cost it answers."""
    weights, model = s.stand.model.quantisations[s.stand.quantisation], s.stand.model
    if weights.bits > LOW_BITS or model.total.value < GIANT or s.chosen.candidate.nodes_per_replica > 1:
        return None
    return (
        "warn",
        f"{model.name} in {s.stand.quantisation} on one machine: run a regression test of your own tasks "
        "against the owner's precision before anybody depends on it.",
        f"{weights.bits:g} bits a weight",
        GUIDE + ", pitfalls",
    )


def load_longer_than_requests(s: Sized) -> Finding | None:
    """A replica that starts takes longer to load than any request may last."""
    if s.load_s * 1000 <= TOTAL_CUTOFF_MS:
        return None
    return (
        "info",
        f"A replica loads for about {s.load_s:,.0f} s, longer than any request may last: the start-up probe "
        "waits twice as long and no traffic comes before it is ready, so that scaling out answers a peak "
        "only after that.",
        "weights over the load rate, assumed until measured",
        GUIDE + ", pitfalls",
    )


def kv_blocks_half_empty(s: Sized) -> Finding | None:
    """Paged KV cache wastes half a block a sequence; with many short ones it shows."""
    held, traits = s.chosen.candidate.memory, s.traits
    given = s.stand.flags.get(traits.block_flag)
    block = given if isinstance(given, int) else traits.block
    share = s.chosen.candidate.sequences * block / 2 / max(held.kv_tokens, 1)
    if share < WASTE:
        return None
    return (
        "info",
        f"Blocks of {block} tokens leave {share * 100:.1f} % of the KV cache empty at "
        f"{s.chosen.candidate.sequences:,} requests; smaller blocks waste less, larger ones read long "
        "contexts faster.",
        "half a block a sequence",
        INFRASTRUCTURE + ": block size 16 against 32",
    )


def tokenizer_cost(s: Sized) -> Finding | None:
    """Long prompts are split into tokens on the CPU before a GPU sees them."""
    rate = s.demand.input_tok_s / s.chosen.nodes
    if s.demand.input_tokens < LONG_PROMPT and rate < TOKENIZED:
        return None
    return (
        "info",
        f"Prompts of {s.demand.input_tokens:,.0f} tokens are tokenised on the CPU, {rate:,.0f} tok/s a node "
        "at the peak: it is part of the time to first token and is not in the estimate. Keep the CPUs that "
        "the plan gives each pod.",
        "CPU time",
        INFRASTRUCTURE + ", tokenizer",
    )


def prefix_sharing(s: Sized) -> Finding | None:
    """Prompts that begin alike need not be read twice."""
    entry = load_catalog().scenario(s.workload.users.scenario)
    shared = entry.prefix_sharing
    if shared is None or shared.value < SHARING:
        return None
    return (
        "info",
        f"Prompts of {entry.id} share about {shared.value * 100:.0f} % of their tokens with earlier ones. "
        "Prefix caching is on and requests are routed to where their prefix lies, but the plan counts on "
        "none of it: watch the hit rate, 30 % and more in chat, 50–70 % with retrieval and agents.",
        shared.source + ("" if shared.verified else " (unverified)"),
        CHECKLIST + ": KV hit rate",
    )


def prompts_beyond_context(s: Sized) -> Finding | None:
    """The longest twentieth of the scenario's requests does not fit the context."""
    users = s.workload.users
    entry = load_catalog().scenario(users.scenario)
    given, made = entry.input.p95, entry.output.p95
    if users.preset != "scenario" or given is None or made is None:
        return None
    if given.value + made.value <= s.workload.model.context:
        return None
    return (
        "warn",
        f"One in twenty requests of {entry.id} is longer than {given.value:,.0f} tokens in or "
        f"{made.value:,.0f} out; model.context holds {s.workload.model.context:,.0f}. They would be refused: "
        "raise it, or cut prompts before they are sent.",
        given.source + ("" if given.verified else " (unverified)"),
        entry.name,
    )


def one_zone(s: Sized) -> Finding | None:
    """Gateway and engines belong into one zone; then that zone's loss takes both."""
    if s.workload.site.target != "kubernetes" or s.chosen.replicas == 1:
        return None
    return (
        "info",
        f"Gateway and engines stand in one zone, {s.workload.site.name}: no request crosses zones, replicas "
        "are spread over its nodes, and the loss of the zone takes all of them.",
        "plan",
        INFRASTRUCTURE + ", topology spread",
    )


def prompts_in_logs(s: Sized) -> Finding | None:
    """A flag that logs requests logs prompts."""
    flags = s.stand.flags
    loud = [n for n in s.traits.loud if flags.get(n) not in (None, False)]
    if str(flags.get("uvicorn-log-level", "")) in ("debug", "trace"):
        loud.append("uvicorn-log-level")
    if not loud:
        return None
    return (
        "warn",
        f"{listing(loud)} writes requests into the log: prompts are personal data, and the log slows every "
        "request. Log a hash of the prompt at the gateway instead.",
        "overrides.engine_flags",
        CHECKLIST + ": never the prompt; " + INFRASTRUCTURE + ", log level",
    )


def scrape_memory(s: Sized) -> Finding | None:
    """Scraping every five seconds is paid in Prometheus' memory."""
    if s.chosen.replicas < SCRAPED:
        return None
    return (
        "info",
        f"{s.chosen.replicas:,} replicas are scraped every {SCRAPE_S} s, which multiplies what Prometheus "
        "keeps in memory by six against 30 s: size its memory for it; a shorter retention does not help.",
        "two hours of samples are held in memory",
        INFRASTRUCTURE + ", scrape interval",
    )


def health_is_shallow(s: Sized) -> Finding | None:
    """A process can be alive with a KV cache that is full."""
    if s.traits.generates:
        return None
    return (
        "info",
        "The probes ask whether the engine answers, not whether it generates: one with its KV cache full "
        "passes them. Have one token generated from outside, with a deadline of 1 s, on the path that users "
        "take; the alerts on KV cache and waiting requests see it from inside.",
        "a fixed prompt, a non-empty first choice, below 1,000 ms",
        INFRASTRUCTURE + ", health check",
    )


def engine_metrics_missing(s: Sized) -> Finding | None:
    """What the checklist wants measured, and this engine does not say."""
    missing = LAUNCHERS[s.stand.engine.id].NAMES.missing
    if not missing:
        return None
    blind = " The endpoint picker does not know its queue either and goes by prefixes alone."
    return (
        "warn",
        f"{s.stand.engine.name} {s.stand.engine.version} exports no {listing(missing)}: nothing is recorded "
        "or alerted on them. Measure them at the gateway."
        + ("" if s.traits.picked_by_load or s.workload.site.target != "kubernetes" else blind),
        "metrics of the pinned version",
        CHECKLIST + ", observability",
    )


RULES: tuple[Rule, ...] = (
    single_replica,
    no_spare,
    ranks_share_experts,
    low_bits_of_a_giant,
    prompts_beyond_context,
    prompts_in_logs,
    context_shorter_than_model,
    kv_fp8,
    kv_blocks_half_empty,
    latent_cache_repeated,
    load_longer_than_requests,
    prefix_sharing,
    tokenizer_cost,
    one_zone,
    scrape_memory,
    health_is_shallow,
    engine_metrics_missing,
)
