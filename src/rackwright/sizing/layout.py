"""How one replica is laid over GPUs, and how many replicas the peak needs.

A layout stands when it keeps both red lines and carries at least one request within the objectives.
Tensor parallelism stays inside a node, pipeline stages are whole nodes. A mixture of experts may fill a node
with ranks that attend to requests of their own and share the experts (DP). Of the layouts that stand, the one
that needs the fewest nodes is taken; between equals the smallest replica, which loses least when it fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rackwright.catalog import Accelerator, CalibrationEntry, EngineEntry, Machine, ModelEntry
from rackwright.engines.registry import LAUNCHERS, batched_flag, ranks, spans
from rackwright.errors import Infeasible, InputErrors, Problem, listing
from rackwright.plan.deployments import degrees
from rackwright.sizing import trays
from rackwright.sizing.adapters import slots_of
from rackwright.sizing.calibrating import calibrated
from rackwright.sizing.estimate import (
    GIB,
    KV_SHARE,
    RED_LINE_BANDWIDTH,
    RED_LINE_MEMORY,
    Bounds,
    Estimated,
    Limit,
    Memory,
    Point,
    Shape,
    bandwidth_share,
    capacity,
    estimate,
    kv_bytes_per_gpu,
    memory,
)
from rackwright.sizing.load import Demand, demand
from rackwright.sizing.sharing import Unit
from rackwright.workload import Workload

TTFT_CUTOFF_MS = 5_000.0
"""Requests that wait longer for their first token are cut off (deployment checklist)."""
TOTAL_CUTOFF_MS = 60_000.0
"""Requests that take longer in all are cut off (deployment checklist)."""
PCIE_TP_MAX = 2
"""Tensor parallelism over PCIe beyond two cards does not pay (hardware-selection guide)."""
MESHES = frozenset({"xgmi", "hccs", "ub"})
"""Links of other vendors that join all accelerators of a node."""
PIPELINES = (1, 2, 4, 8)
MOST_NODES = 4096
"""Nodes of one plan: as many as a workload may name, and half of what a rail addresses."""
SEQUENCE_STEP = 8
"""Concurrency is planned in multiples of this: engines capture graphs for such batch sizes."""


@dataclass(frozen=True)
class Stand:
    """What a choice is made from: the entries the workload names."""

    workload: Workload
    machine: Machine
    accelerator: Accelerator
    model: ModelEntry
    engine: EngineEntry
    quantisation: str
    kv_bits: Literal[8, 16]
    flags: Mapping[str, str | int | float | bool]
    """The workload's engine flags by their full names."""
    calibrations: tuple[CalibrationEntry, ...] = ()
    unit: Unit | None = None
    """What a replica takes where accelerators are shared."""

    @property
    def gpus(self) -> int:
        return int(self.machine.gpus.value)

    @property
    def sized(self) -> Accelerator:
        """What a replica is sized for: a whole accelerator, or a slice of one."""
        return self.unit.accelerator if self.unit is not None else self.accelerator

    def replicas_per_node(self, candidate: Candidate) -> int:
        if self.unit is not None and self.unit.places:
            return self.unit.places
        return candidate.replicas_per_node(self.gpus)


@dataclass(frozen=True)
class Candidate:
    """One layout that stands: its memory, its planned concurrency, and what the estimator says there.

    ``max_num_seqs``: what the engine is told; the planned concurrency unless overridden. ``tray_gpus``: of a
    node, where replicas may span the nodes of an NVLink domain; else 0.
    """

    shape: Shape
    memory: Memory
    sequences: int
    max_num_seqs: int
    at: Estimated
    bound_by: Limit | None
    stream_share: float
    tray_gpus: int = 0

    @property
    def nodes_per_replica(self) -> int:
        if self.tray_gpus:
            return max(self.shape.pp, -(-self.shape.gpus // self.tray_gpus))
        return self.shape.pp

    def replicas_per_node(self, gpus: int) -> int:
        return max(1, gpus // self.shape.gpus) if self.nodes_per_replica == 1 else 1


@dataclass(frozen=True)
class Refusal:
    """Why a layout does not stand. ``reached`` of ``bound`` in ``unit``."""

    tp: int
    pp: int
    dp: int
    limit: Limit


@dataclass(frozen=True)
class Chosen:
    """The layout taken and the count of replicas and nodes that carry the peak, without spares."""

    candidate: Candidate
    replicas: int
    nodes: int


def divisions(stand: Stand) -> Iterator[tuple[int, int, int]]:
    """TP × PP × DP that divide the model and fit the machines, smallest first, ranks last."""
    overrides = stand.workload.overrides
    asked = overrides.tensor_parallel
    able = [t for t in ((1, 2, 4, 8, 16) if asked is None else (asked,)) if _divides(stand, t)]
    if overrides.data_parallel in (None, 1):
        for tp in able:
            for pp in (overrides.pipeline_parallel,) if overrides.pipeline_parallel else PIPELINES:
                if pp == 1 or (tp == stand.gpus and joined(stand)):
                    yield tp, pp, 1
    if overrides.pipeline_parallel in (None, 1) and ranked(stand):
        for tp in reversed(able):
            dp = stand.gpus // tp
            if dp > 1 and tp * dp == stand.gpus and overrides.data_parallel in (None, dp):
                yield tp, 1, dp


def ranked(stand: Stand) -> bool:
    """Whether a node's GPUs can be ranks that share the experts: what they send each other at every layer
    needs NVIDIA's links, and the engine must be able to. It takes no adapters then, and the whole node."""
    whole = stand.unit is None and stand.workload.model.adapters is None
    linked = stand.accelerator.nvlink is not None
    return stand.model.experts is not None and ranks(stand.engine) and linked and whole


def joined(stand: Stand) -> bool:
    """Whether nodes can share a replica: a fabric joins them and the engine spans nodes.

    RDMA between nodes is planned for NVIDIA's accelerators only.
    """
    able = spans(stand.engine) == "nodes" and stand.accelerator.vendor == "nvidia" and stand.unit is None
    return stand.workload.hardware.fabric != "none" and able


def widest(stand: Stand) -> int:
    """The most GPUs that tensor parallelism may join: on one node, or over the trays of an NVLink domain."""
    if spans(stand.engine) == "gpu" or (stand.unit is not None and not stand.unit.parallel):
        return 1
    link = stand.accelerator.link
    if link is not None and link.kind in MESHES:
        return min(stand.gpus, link.domain)
    nvlink = stand.accelerator.nvlink
    if nvlink is not None and stand.machine.nodes > 1 and spans(stand.engine) == "nodes":
        return min(nvlink.domain, trays.WIDEST)
    return stand.gpus if nvlink is not None else min(stand.gpus, PCIE_TP_MAX)


def _divides(stand: Stand, tp: int) -> bool:
    """Whether ``tp`` GPUs of a node can share the attention heads evenly."""
    heads, groups = int(stand.model.heads.value), int(stand.model.kv_heads.value)
    even = stand.model.mla is not None or groups % tp == 0 or tp % groups == 0
    return tp <= widest(stand) and heads % tp == 0 and even


def shape_of(stand: Stand, tp: int, pp: int, dp: int = 1) -> Shape:
    nics = stand.machine.fabric
    share = nics.rate_gbps.value / 8 if nics is not None else 1.25
    shape = Shape(
        stand.sized,
        stand.model,
        stand.quantisation,
        stand.engine,
        tp,
        pp,
        stand.kv_bits,
        share,
        dp=dp,
        lora=slots_of(stand.workload, stand.engine),
    )
    return calibrated(shape, stand.calibrations)


def batched_tokens(stand: Stand) -> int:
    """Tokens of one engine step: the override, else the engine entry's."""
    given = stand.flags.get(batched_flag(stand.engine.id))
    return given if isinstance(given, int) else int(stand.engine.max_batched_tokens.value)


def stream_rate(workload: Workload) -> float:
    """Tokens a second that one user must see: the inverse of the objective for a token."""
    return 1000 / workload.slo.tpot_p50


def consider(stand: Stand, demand: Demand, tp: int, pp: int, dp: int = 1) -> Candidate | Refusal:
    """Whether the layout ``tp`` × ``pp`` × ``dp`` stands, and how much it carries."""

    def refused(limit: Limit) -> Refusal:
        return Refusal(tp, pp, dp, limit)

    workload, shape = stand.workload, shape_of(stand, tp, pp, dp)
    sequences = workload.overrides.max_num_seqs or int(stand.engine.max_num_seqs.value)
    batched = batched_tokens(stand)
    held = memory(
        shape,
        batched_tokens=batched,
        max_num_seqs=min(sequences, 256),
        utilization=workload.overrides.gpu_memory_utilization,
    )
    least = held.weights + held.activations
    one_rank = held.kv_tokens // dp
    if least / held.total > RED_LINE_MEMORY or one_rank < workload.model.context:
        need = (least + workload.model.context * kv_bytes_per_gpu(shape) / GIB) / held.total
        if need <= RED_LINE_MEMORY:
            return refused(Limit("one context", workload.model.context, one_rank, "tokens of KV cache"))
        return refused(Limit("red line 1", RED_LINE_MEMORY * 100, 100 * need, "% of memory"))
    if held.share > RED_LINE_MEMORY:
        return refused(Limit("red line 1", RED_LINE_MEMORY * 100, 100 * held.share, "% of memory"))
    share = bandwidth_share(shape, stream_rate(workload))
    if share > RED_LINE_BANDWIDTH:
        return refused(Limit("red line 2", RED_LINE_BANDWIDTH * 100, 100 * share, "% of bandwidth"))
    slo = workload.slo
    bounds = Bounds(slo.tpot_p50, slo.ttft_p95, slo.e2e_p95, held.kv_tokens, sequences)
    most, limit = capacity(shape, demand.input_tokens, demand.output_tokens, bounds)
    if most == 0:
        assert limit is not None
        return refused(limit)
    planned = most if most < SEQUENCE_STEP else most // SEQUENCE_STEP * SEQUENCE_STEP
    at = estimate(shape, Point(demand.input_tokens, demand.output_tokens, planned))
    asked = workload.overrides.max_num_seqs
    if asked is not None:
        resident = asked * (demand.input_tokens + demand.output_tokens / 2)
        if resident > KV_SHARE * held.kv_tokens:
            return refused(Limit("kv cache", KV_SHARE * held.kv_tokens, resident, "tokens"))
    tray_gpus = stand.gpus if stand.machine.nodes > 1 else 0
    return Candidate(shape, held, planned, asked or planned, at, limit, share, tray_gpus)


def choose(stand: Stand, demand: Demand) -> Chosen:
    """The layout that carries the peak on the fewest nodes.

    Raises:
        Infeasible: no layout stands, or the peak needs more machines than there are.
        InputErrors: an override of replicas, TP or PP cannot stand.
    """
    looked_at = [consider(stand, demand, *division) for division in divisions(stand)]
    standing = [c for c in looked_at if isinstance(c, Candidate)]
    if not standing:
        raise _none_stands(stand, [r for r in looked_at if isinstance(r, Refusal)])
    chosen = min(
        (_count(stand, demand, c) for c in standing), key=lambda c: (c.nodes, c.candidate.shape.gpus)
    )
    return _with_replicas(stand, chosen, demand)


def _count(stand: Stand, demand: Demand, candidate: Candidate) -> Chosen:
    replicas = max(1, math.ceil(demand.output_tok_s / candidate.at.low - 1e-9))
    return Chosen(candidate, replicas, _nodes(stand, candidate, replicas))


def _nodes(stand: Stand, candidate: Candidate, replicas: int) -> int:
    least = stand.unit.nodes if stand.unit is not None else 0
    group, per_node = candidate.nodes_per_replica, stand.replicas_per_node(candidate)
    return max(least, trays.nodes_for(replicas, stand.machine, group, per_node))


def _with_replicas(stand: Stand, chosen: Chosen, demand: Demand) -> Chosen:
    workload = stand.workload
    asked = workload.overrides.replicas
    if asked is not None and asked < chosen.replicas:
        carries = asked * chosen.candidate.at.low
        raise InputErrors(
            Problem(
                "overrides.replicas",
                f"must carry the peak of {demand.output_tok_s:,.0f} tok/s",
                f"{asked}, which carry {carries:,.0f} tok/s at the lower end of the estimate",
                "users would queue in the peak hour",
                f"raise it to {chosen.replicas}, or lower redundancy in the workload",
            )
        )
    if asked is not None:
        chosen = Chosen(chosen.candidate, asked, _nodes(stand, chosen.candidate, asked))
    available = min(workload.hardware.nodes or MOST_NODES, MOST_NODES)
    fewest = _count(stand, demand, chosen.candidate)
    if asked is not None and fewest.nodes + workload.hardware.spares <= available < (
        chosen.nodes + workload.hardware.spares
    ):
        raise InputErrors(
            Problem(
                "overrides.replicas",
                f"must fit {available:,} nodes, {workload.hardware.spares} of them spare",
                f"{asked:,}, which take {chosen.nodes:,} nodes",
                "replicas without a node never start",
                f"lower it; the peak needs {fewest.replicas:,}",
            )
        )
    if chosen.nodes + workload.hardware.spares > available:
        raise _too_few(stand, chosen, available, demand)
    return chosen


def _too_few(stand: Stand, chosen: Chosen, available: int, demand: Demand) -> Infeasible:
    spares = stand.workload.hardware.spares
    replicas = trays.slots(
        available - spares,
        stand.machine,
        chosen.candidate.nodes_per_replica,
        stand.replicas_per_node(chosen.candidate),
    )
    carried = max(0, replicas) * chosen.candidate.at.low
    users = int(stand.workload.users.dau * carried / demand.output_tok_s)
    best = f"{carried:,.0f} tok/s, which is {users:,} daily users"
    needed = f"the {chosen.nodes + spares:,} nodes that the peak of {demand.output_tok_s:,.0f} tok/s needs"
    if stand.workload.hardware.nodes is None:
        where, rule = "users.dau", f"must need at most {MOST_NODES:,} nodes, not {needed}"
        found, advice = f"{stand.workload.users.dau:,}; {available:,} nodes carry {best}", "split the load"
    else:
        where, rule = "hardware.nodes", f"must hold {needed}"
        found, advice = f"{available} with {spares} spare, which carry {best}", "raise hardware.nodes"
    return Infeasible(
        Problem(
            where,
            rule,
            found,
            "users would queue in the peak hour",
            f"{advice}, choose a faster machine, or lower redundancy",
        ),
        constraint=where,
        best=best,
    )


_FIELDS = {
    "red line 1": "hardware.machine",
    "red line 2": "slo.tpot_p50",
    "kv cache": "model.context",
    "one context": "model.context",
    "sequences": "overrides.max_num_seqs",
}
_ADVICE = {
    "red line 1": "choose more or larger GPUs (hardware.machine, with a fabric for several nodes), a smaller "
    "quantisation, or a shorter model.context",
    "red line 2": "choose hardware with more bandwidth or NVLink, a smaller quantisation, or raise "
    "slo.tpot_p50",
    "slo.tpot_p50": "raise slo.tpot_p50 or choose faster hardware",
    "slo.ttft_p95": "raise slo.ttft_p95, shorten users.input_per_session, or choose faster hardware",
    "slo.e2e_p95": "raise slo.e2e_p95 or shorten users.output_per_session",
    "kv cache": "choose more memory or a smaller quantisation",
    "sequences": "raise overrides.max_num_seqs",
    "one context": "give the engine more memory, or shorten model.context",
}


def _none_stands(stand: Stand, refusals: list[Refusal]) -> Infeasible | InputErrors:
    """Of all layouts the one that comes nearest says what binds. An override without which one stands is
    wrong input."""
    blamed = _blamed(stand)
    if not refusals:
        return _no_division(stand)
    nearest_one = min(refusals, key=lambda r: (_stage(r), _excess(r.limit)))
    limit, where = nearest_one.limit, _FIELDS.get(nearest_one.limit.name, nearest_one.limit.name)
    best = _best(limit, stand.workload)
    asked = f"{_plain(limit.bound)} {limit.unit}"
    division = degrees(nearest_one.tp, nearest_one.pp, nearest_one.dp)
    what = f"{division} of {stand.model.name} {stand.quantisation}"
    keeps = limit.name.startswith("red line") or limit.name == "one context" or blamed is not None
    problem = Problem(
        f"overrides.{blamed}" if blamed else where,
        f"must keep {limit.name} ({asked})" if keeps else f"must be reachable ({asked})",
        f"{_plain(limit.reached)} {limit.unit} at best, with {what} on {stand.machine.name}",
        _REASONS[limit.name],
        (f"drop overrides.{blamed}, or " if blamed else "")
        + _ADVICE[limit.name]
        + (f" to {best}" if limit.name == "red line 2" else ""),
    )
    return InputErrors(problem) if blamed else Infeasible(problem, constraint=where, best=best)


FORCING = ("tensor_parallel", "pipeline_parallel", "data_parallel", "gpu_memory_utilization", "max_num_seqs")


def without(stand: Stand, name: str) -> Stand:
    """``stand`` as if the override ``name`` had not been given."""
    if name.startswith("engine_flags."):
        kept = {k: v for k, v in stand.flags.items() if k != name.partition(".")[2]}
        return replace(stand, flags=kept)
    overrides = stand.workload.overrides.model_copy(update={name: None})
    return replace(stand, workload=stand.workload.model_copy(update={"overrides": overrides}))


def forced(stand: Stand) -> list[str]:
    """Overrides given that decide a layout."""
    given = [name for name in FORCING if getattr(stand.workload.overrides, name) is not None]
    batched = batched_flag(stand.engine.id)
    return [*given, f"engine_flags.{batched}"] if batched in stand.flags else given


def _blamed(stand: Stand) -> str | None:
    """The override without which a layout stands: one alone, else the first of them all together."""
    names, asked = forced(stand), demand(stand.workload)

    def stands(other: Stand) -> bool:
        return any(isinstance(consider(other, asked, *division), Candidate) for division in divisions(other))

    alone = next((name for name in names if stands(without(stand, name))), None)
    if alone or len(names) < 2:
        return alone
    bare = stand
    for name in names:
        bare = without(bare, name)
    return names[0] if stands(bare) else None


def _excess(limit: Limit) -> float:
    """How far a bound is missed, as a factor."""
    if limit.name == "one context":
        return limit.bound / max(limit.reached, 1.0)
    return limit.reached / limit.bound


_REASONS = {
    "red line 1": "above 85 % of memory the KV cache has no room and the engine preempts",
    "red line 2": "a stream cannot read its parameters that fast",
    "slo.tpot_p50": "one request alone already takes longer for a token",
    "slo.ttft_p95": "one prompt alone already takes longer",
    "slo.e2e_p95": "one request alone already takes longer",
    "kv cache": "requests beyond the KV cache are preempted and computed again",
    "sequences": "no request may run",
    "one context": "a request of model.context tokens could never run",
}


def _stage(refusal: Refusal) -> int:
    """How far a layout came: memory is asked first, then bandwidth, then the objectives."""
    return {"red line 1": 3, "one context": 2, "red line 2": 1}.get(refusal.limit.name, 0)


def _best(limit: Limit, workload: Workload) -> str:
    """The best achievable value of what binds; for red line 2 the time a token that keeps it."""
    if limit.name == "red line 2":
        return f"{math.ceil(10 * workload.slo.tpot_p50 * limit.reached / limit.bound) / 10:g} ms"
    return f"{_plain(limit.reached)} {limit.unit}"


def _plain(value: float) -> str:
    """Four digits, and never an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _no_division(stand: Stand) -> InputErrors:
    overrides = stand.workload.overrides
    tp = overrides.tensor_parallel
    if overrides.data_parallel not in (None, 1):
        return _no_ranks(stand)
    if tp is not None and not _divides(stand, tp):
        fit = [str(t) for t in range(1, widest(stand) + 1) if _divides(stand, t)]
        why = (
            "tensor parallelism stays inside a node"
            if (stand.accelerator.nvlink or widest(stand) > PCIE_TP_MAX) and spans(stand.engine) != "gpu"
            else f"{stand.engine.id} is planned on one GPU a replica"
            if spans(stand.engine) == "gpu"
            else f"tensor parallelism over PCIe beyond {PCIE_TP_MAX} cards does not pay"
        )
        return InputErrors(
            Problem(
                "overrides.tensor_parallel",
                f"must divide the {stand.model.heads.value:.0f} attention heads and be at most "
                f"{widest(stand)} on {stand.machine.name}",
                str(tp),
                why,
                f"drop the override, or set {listing(fit)}",
            )
        )
    return InputErrors(
        Problem(
            "overrides.pipeline_parallel",
            "must be 1 unless a fabric joins the nodes and TP fills a node"
            if spans(stand.engine) == "nodes"
            else f"must be 1 with {stand.engine.id}, whose replicas stay inside a node",
            f"{overrides.pipeline_parallel} with fabric {stand.workload.hardware.fabric} and "
            f"TP {tp or 'unset'} on {stand.gpus} GPUs",
            "pipeline stages are whole nodes that talk over RDMA",
            "set hardware.fabric, or drop the override",
        )
    )


def _no_ranks(stand: Stand) -> InputErrors:
    """Why the ranks of ``overrides.data_parallel`` cannot be."""
    overrides = stand.workload.overrides
    dp, tp = overrides.data_parallel, overrides.tensor_parallel
    drop = "drop the override, or set it to 1"
    if stand.model.experts is None:
        rule, found = "must be 1 without experts", f"{dp} with {stand.model.name}"
        why, advice = (
            "ranks share nothing but experts: they are replicas",
            f"{drop}; overrides.replicas adds some",
        )
    elif not ranks(stand.engine):
        able = listing(sorted(name for name, known in LAUNCHERS.items() if known.TRAITS.ranks))
        rule, found = f"must be 1 with {stand.engine.id}", str(dp)
        why, advice = "plans start ranks with some engines only", f"{drop}, or choose engine {able}"
    elif stand.accelerator.nvlink is None:
        rule, found = "must be 1 without NVLink", f"{dp} on {stand.machine.name}"
        why, advice = "ranks send each other every token at every layer of experts", drop
    elif stand.workload.model.adapters is not None:
        rule, found = "must be 1 with adapters", f"{dp} with model.adapters"
        why, advice = "engines keep adapters of attention in parallel by data out", drop
    elif stand.unit is not None:
        rule, found = "must be 1 in a tenancy", str(dp)
        why, advice = "ranks fill a node, and a tenancy shares it", drop
    elif overrides.pipeline_parallel not in (None, 1):
        rule, found = "must be 1 in a pipeline", f"{dp} with pipeline_parallel {overrides.pipeline_parallel}"
        why, advice = "ranks are planned inside a node", "drop one of the two overrides"
    else:
        pairs = [f"{stand.gpus // t} (TP {t})" for t in (1, 2, 4, 8) if _divides(stand, t) and t < stand.gpus]
        rule = f"must fill a node's {stand.gpus} GPUs with TP × DP: {listing(pairs)}"
        found = f"{dp} with TP {tp or 'unset'}"
        why, advice = "experts are shared by all GPUs of a node", f"{drop}, or take one of these"
    return InputErrors(Problem("overrides.data_parallel", rule, found, why, advice))
