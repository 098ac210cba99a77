"""How every derived number of a plan came about: formula, inputs, source, evidence class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rackwright.catalog import load_catalog
from rackwright.engines import monitoring, pod
from rackwright.engines.registry import LAUNCHERS
from rackwright.fabric import addressing, qos
from rackwright.plan.cost import Cost, Explanation
from rackwright.plan.deployments import Deployment
from rackwright.plan.fabric import Fabric
from rackwright.plan.load import Load
from rackwright.plan.pools import Pool
from rackwright.sizing import estimate as model
from rackwright.sizing import expectations, explain_calibration, explain_cost, nodes, services
from rackwright.sizing.cost import Costing
from rackwright.sizing.explained import GUIDE, OWN
from rackwright.sizing.explained import cited as _cited
from rackwright.sizing.explained import entry as _entry
from rackwright.sizing.layout import SEQUENCE_STEP, TTFT_CUTOFF_MS, Chosen, Stand, batched_tokens
from rackwright.sizing.load import Demand
from rackwright.sizing.nodes import Placed
from rackwright.sizing.shape import Shape
from rackwright.sizing.work import expert_gb

CHECKLIST = GUIDE + ", deployment checklist"


@dataclass(frozen=True)
class Facts:
    """The finished parts that explanations speak of."""

    stand: Stand
    demand: Demand
    chosen: Chosen
    placed: Placed
    fabric: Fabric | None
    pool: Pool
    deployment: Deployment
    cost: Cost
    costing: Costing
    load: Load
    slots: int
    load_s: float


def explanations(facts: Facts) -> tuple[Explanation, ...]:
    """One entry a derived number, in the order of the plan."""
    return tuple(
        item
        for section in (
            _load,
            _racks,
            _pool,
            _fabric,
            _layout,
            _weights,
            _memory,
            _estimate,
            _limits,
            _probes,
            _arguments,
            _resources,
            _rollout,
            _services,
            _cost,
            _expectations,
        )
        for item in section(facts)
    )


def _load(f: Facts) -> Iterator[Explanation]:
    users, load = f.stand.workload.users, f.load
    base = {
        "users.dau" if users.growth is None else "users.dau at the end of users.growth": users.carried,
        "users.sessions_per_day": users.sessions_per_day,
        "scenario factor": load.scenario_factor,
    }
    busiest = "users.peak_hour" if users.hourly is None else "busiest hour of users.hourly"
    peak = {busiest: users.peak_share, "redundancy": f.stand.workload.redundancy}
    yield _entry(
        "load.scenario_factor",
        load.scenario_factor,
        "tokens relative to an interactive product; 1 with the scenario's own lengths",
        {"users.scenario": users.scenario, "users.preset": users.preset},
        load_catalog().scenario(users.scenario).factor.source,
    )
    yield _entry(
        "load.tokens_per_day",
        load.tokens_per_day,
        "dau × sessions × (input + output) × factor",
        {**base, "input": f.demand.input_tokens, "output": f.demand.output_tokens},
        GUIDE,
    )
    yield _entry(
        "load.output_tokens_per_day",
        load.output_tokens_per_day,
        "dau × sessions × output × factor",
        {**base, "output": f.demand.output_tokens},
        GUIDE,
    )
    yield _entry(
        "load.peak_requests_per_s",
        load.peak_requests_per_s,
        "dau × sessions × factor × peak hour / 3600 s × redundancy",
        {**base, **peak},
        GUIDE,
    )
    yield _entry(
        "load.peak_input_tok_s",
        load.peak_input_tok_s,
        "peak requests × input",
        {"requests": load.peak_requests_per_s, "input": f.demand.input_tokens},
        GUIDE,
    )
    yield _entry(
        "load.peak_output_tok_s",
        load.peak_output_tok_s,
        "output tokens a day × peak hour / 3600 s × redundancy",
        {"output tokens a day": load.output_tokens_per_day, **peak},
        GUIDE,
    )
    at = f.chosen.candidate.at
    yield _entry(
        "load.concurrency",
        load.concurrency,
        "peak requests × (time to first token + output × time a token); not peak / 40 tok/s, which holds "
        "at 25 ms a token only",
        {
            "requests": load.peak_requests_per_s,
            "ttft_ms": at.ttft_ms,
            "tpot_ms": at.tpot_ms,
            "output": f.demand.output_tokens,
        },
        "rate × latency (Little's law)",
        at.evidence,
    )


def _racks(f: Facts) -> Iterator[Explanation]:
    machine = f.stand.machine
    source, evidence = _cited(machine.full_load)
    for index, rack in enumerate(f.placed.racks):
        yield _entry(
            f"sites[0].racks[{index}].planned_full_load_w",
            rack.planned_full_load_w,
            "nodes × full load",
            {"nodes": len(rack.nodes), "full load": machine.full_load},
            source,
            evidence,
        )
    yield _entry(
        "sites[0].racks",
        len(f.placed.racks),
        f"nodes / nodes a rack, where nodes a rack × full load × {nodes.POWER_FACTOR} < rating; a "
        "multi-node group shares a rack where it holds one",
        {
            "nodes": len(f.placed.names),
            "nodes a rack": f.placed.per_rack,
            "group": f.chosen.candidate.nodes_per_replica,
            "rating_w": f.stand.workload.site.rack.rating,
        },
        CHECKLIST,
    )
    yield _entry("sites[0].racks[0].power_factor", nodes.POWER_FACTOR, "safety factor", {}, CHECKLIST)


def _pool(f: Facts) -> Iterator[Explanation]:
    spares, machine, accelerator = f.stand.workload.hardware.spares, f.stand.machine, f.stand.accelerator
    yield _entry(
        "pools[0].nodes",
        len(f.pool.nodes),
        "nodes that carry the peak + spares",
        {
            "replicas": f.chosen.replicas,
            "nodes a replica": f.chosen.candidate.nodes_per_replica,
            "replicas a node": f.stand.replicas_per_node(f.chosen.candidate),
            "serving nodes": f.chosen.nodes,
            "hardware.spares": spares,
        },
        OWN,
    )
    for name, value, figure in (
        ("gpus_per_node", f.pool.gpus_per_node, machine.gpus),
        ("gpu_memory_gib", f.pool.gpu_memory_gib, accelerator.memory),
        ("cpus_per_node", f.pool.cpus_per_node, machine.threads),
        ("memory_gib_per_node", f.pool.memory_gib_per_node, machine.memory),
        ("nvme_bytes_per_node", f.pool.nvme_bytes_per_node, machine.nvme_each),
        ("idle_w_per_node", f.pool.idle_w_per_node, machine.idle),
        ("full_load_w_per_node", f.pool.full_load_w_per_node, machine.full_load),
    ):
        source, evidence = _cited(figure)
        yield _entry(f"pools[0].{name}", value, "from the catalog", {machine.id: figure}, source, evidence)


def _fabric(f: Facts) -> Iterator[Explanation]:
    if f.fabric is None or f.stand.machine.fabric is None:
        return
    rate = f.stand.machine.fabric.rate_gbps
    source, evidence = _cited(rate)
    yield _entry(
        "fabric.rate_gbps",
        f.fabric.rate_gbps,
        "from the catalog",
        {f.stand.machine.id: rate},
        source,
        evidence,
    )
    yield _entry(
        "fabric.mtu",
        f.fabric.mtu,
        "jumbo frames, which carry an RDMA payload of 4096 bytes",
        {"active_mtu": f.fabric.active_mtu},
        "RoCE v2 practice",
        "vendor",
    )
    yield _entry(
        "fabric.active_mtu",
        f.fabric.active_mtu,
        "the largest RDMA path MTU",
        {},
        "RoCE v2 practice",
        "vendor",
    )
    yield _entry(
        "fabric.rails",
        len(f.fabric.rails),
        f"{_rail_space(f)} a rail, a /{addressing.NODE_PREFIX} a node in the order of nodes",
        {"NICs a node": len(f.fabric.rails)},
        OWN,
    )
    if f.fabric.qos is not None:
        yield from qos.explained(f.fabric.qos, f.fabric.switching, f.fabric.rate_gbps)
        yield _entry(
            "fabric.qos.dscp",
            f.fabric.qos.dscp,
            "falls into the lossless priority under DSCP >> 3",
            {"priority": f.fabric.qos.lossless_priority},
            OWN,
        )
        yield _entry(
            "fabric.qos.tos",
            f.fabric.qos.tos,
            "DSCP << 2",
            {"dscp": f.fabric.qos.dscp},
            "IP header",
            "vendor",
        )
        yield _entry(
            "fabric.qos.lossless_priority",
            f.fabric.qos.lossless_priority,
            "the one priority that PFC guards",
            {},
            "RoCE v2 practice",
            "vendor",
        )
        yield _entry(
            "fabric.qos.cnp_dscp",
            qos.CNP_DSCP,
            "congestion notifications at priority 6 under DSCP >> 3",
            {"priority": qos.CNP_PRIORITY},
            "RoCE v2 practice",
            "vendor",
        )
        yield _entry(
            "fabric.qos.cnp_priority",
            qos.CNP_PRIORITY,
            "strict priority of congestion notifications",
            {},
            "RoCE v2 practice",
            "vendor",
        )


def _rail_space(f: Facts) -> str:
    asked = f.stand.workload.fabric
    if asked is not None and asked.subnets:
        return "the workload's subnets, one"
    return f"a /{addressing.RAIL_PREFIX} of {addressing.SPACE}"


def _layout(f: Facts) -> Iterator[Explanation]:
    at, shape = f.chosen.candidate.at, f.chosen.candidate.shape
    where = "deployments[0].layout"
    override = f.stand.workload.overrides.replicas
    yield _entry(
        f"{where}.replicas",
        f.chosen.replicas,
        "the override" if override else "peak output / lower end of a replica's estimate, rounded up",
        {
            "peak output tok/s": f.demand.output_tok_s,
            "lower end tok/s": at.low,
            **({"overrides.replicas": override} if override else {}),
        },
        OWN,
        at.evidence,
    )
    why = (
        "of the layouts that keep red lines 1 and 2 and the objectives the one that needs the fewest nodes, "
        "then the smallest replica"
    )
    inputs = {
        "red line 1": f"{f.chosen.candidate.memory.share * 100:.1f} % of 85 %",
        "red line 2": f"{f.chosen.candidate.stream_share * 100:.1f} % of 70 %",
        "serving nodes": f.chosen.nodes,
    }
    overrides = f.stand.workload.overrides
    for name, degree, given, limit in (
        (
            "tensor_parallel",
            shape.tp,
            overrides.tensor_parallel,
            "; inside a node" if f.stand.machine.nodes == 1 else "; inside a rack",
        ),
        ("pipeline_parallel", shape.pp, overrides.pipeline_parallel, "; stages are whole nodes"),
        ("data_parallel", shape.dp, overrides.data_parallel, "; ranks of one node share the experts"),
    ):
        if name == "data_parallel" and degree == 1:
            continue
        formula = "the override, which keeps red lines 1 and 2 and the objectives" if given else why
        yield _entry(f"{where}.{name}", degree, formula + limit, inputs, OWN, at.evidence)
    group = f.chosen.candidate.nodes_per_replica
    if f.stand.machine.nodes > 1:
        trays = {"gpus": shape.gpus, "GPUs a node": f.stand.gpus}
        yield _entry(f"{where}.nodes_per_replica", group, "GPUs ÷ GPUs of a node, in one rack", trays, OWN)
    else:
        yield _entry(f"{where}.nodes_per_replica", group, "one node a pipeline stage", {"pp": shape.pp}, OWN)
    ranks = _ranks(shape)
    by_ranks = " × DP" if ranks else ""
    yield _entry(
        f"{where}.gpus_per_pod",
        f.deployment.layout.gpus_per_pod,
        f"one pod a node of the replica{': TP' + by_ranks if ranks else ''}",
        {"tp": shape.tp, **ranks},
        OWN,
    )
    yield _entry(
        f"{where}.gpus_per_replica", shape.gpus, f"TP × PP{by_ranks}",
        {"tp": shape.tp, "pp": shape.pp, **ranks}, OWN,
    )  # fmt: skip


def _ranks(shape: Shape) -> dict[str, int]:
    """The number of ranks as an input, where there are several."""
    return {"dp": shape.dp} if shape.dp > 1 else {}


def _weights(f: Facts) -> Iterator[Explanation]:
    weights = f.chosen.candidate.shape.weights
    yield _entry(
        "deployments[0].weights.bytes",
        f.deployment.weights.bytes,
        "size of the checkpoint on disk",
        {weights.hf_id: weights.disk},
        *_cited(weights.disk),
    )
    yield _entry(
        "deployments[0].context_tokens",
        f.deployment.context_tokens,
        "as asked",
        {"model.context": f.stand.workload.model.context},
        "the workload",
    )


def _memory(f: Facts) -> Iterator[Explanation]:
    held, shape = f.deployment.memory, f.chosen.candidate.shape
    engine, where = f.stand.engine, "deployments[0].memory"
    source, evidence = _cited(f.stand.sized.memory)
    yield _entry(
        f"{where}.total_gib",
        held.total_gib,
        "memory that nvidia-smi shows / 1024",
        {f.stand.sized.id: f.stand.sized.memory},
        source,
        evidence,
    )
    yield _entry(
        f"{where}.weights_gib",
        held.weights_gib,
        (
            "(loaded bytes − experts) / TP + experts / (TP × DP)"
            if shape.dp > 1
            else "loaded bytes × share of the fullest stage / TP"
        )
        + (" + slots for adapters × slot × share of the fullest stage" if f.deployment.adapters else ""),
        {
            "loaded": shape.weights.loaded,
            **(
                {"experts": f"{expert_gb(shape):.1f} GB", "tp": shape.tp, **_ranks(shape)}
                if shape.dp > 1
                else {"stage share": shape.stage_share, "tp": shape.tp}
            ),
            **(
                {"slots": f.deployment.adapters.active, "slot_mib": f.deployment.adapters.slot_mib}
                if f.deployment.adapters
                else {}
            ),
        },
        *_cited(shape.weights.loaded),
    )
    yield _entry(
        f"{where}.activations_gib",
        held.activations_gib,
        "tokens × (4 hidden + 2 ffn/TP) × 2 B + routed copies + logits of 256 sequences",
        {"tokens a step": batched_tokens(f.stand), "hidden": f.stand.model.hidden, "tp": shape.tp},
        "tensor sizes of a transformer step",
        "assumed",
    )
    yield _entry(
        f"{where}.overhead_gib",
        held.overhead_gib,
        "context and communication buffers + captured graphs",
        {"overhead": engine.overhead, "graphs": engine.graphs},
        engine.overhead.source,
        "assumed",
    )
    override = f.stand.workload.overrides.gpu_memory_utilization
    yield _entry(
        f"{where}.utilization",
        held.utilization,
        "the override"
        if override
        else "85 % + overhead / total, rounded down: red line 1 for weights, KV "
        "cache and activations, overhead on top",
        {"total": held.total_gib, "overhead": held.overhead_gib},
        GUIDE + ", red line 1",
    )
    yield _entry(
        f"{where}.kv_gib",
        held.kv_gib,
        "utilization × total − overhead − weights − activations",
        {"utilization": held.utilization, "total": held.total_gib},
        "memory arithmetic",
    )
    yield _entry(
        f"{where}.kv_bytes_per_token",
        held.kv_bytes_per_token,
        "layers × (latent + rope) × bytes"
        if shape.model.mla
        else "2 × layers × KV heads × head size × bytes",
        {"layers": shape.model.layers, "bits": shape.kv_bits},
        *_cited(shape.model.layers),
    )
    yield _entry(
        f"{where}.kv_tokens",
        held.kv_tokens,
        "KV memory / bytes a token on one GPU; heads divide over TP, a latent does not, stages divide layers"
        + ("; × DP, as each rank keeps its own requests" if shape.dp > 1 else ""),
        {
            "kv_gib": held.kv_gib,
            "bytes a token and GPU": model.kv_bytes_per_gpu(shape),
            **_ranks(shape),
        },
        "memory arithmetic",
    )


def _estimate(f: Facts) -> Iterator[Explanation]:
    candidate, where = f.chosen.candidate, "deployments[0].estimate"
    at, shape, got = candidate.at, candidate.shape, f.deployment.estimate
    uncalibrated = model.evidence_of(shape)
    roofline = f"roofline with constants fitted to public measurements ({uncalibrated})"
    base = {"concurrency": at.concurrency, "input": f.demand.input_tokens, "output": f.demand.output_tokens}
    low, high = at.low / at.output_tok_s, at.high / at.output_tok_s
    constants = model.constants_for(shape)
    yield from explain_calibration.explanations(shape, at, base)
    times = explain_calibration.times(shape)
    yield _entry(
        f"{where}.output_tok_s",
        got.output_tok_s,
        "concurrency × output / (time to first token + output × time a token)" + times.throughput,
        {**base, **times.uncalibrated(at)},
        roofline,
        at.evidence,
    )
    for name, value, factor in (("low", got.output_tok_s_low, low), ("high", got.output_tok_s_high, high)):
        yield _entry(
            f"{where}.output_tok_s_{name}",
            value,
            f"estimate × {factor:.3f}: the 80 % interval of this class" + times.interval,
            {"output_tok_s": got.output_tok_s},
            "error against public measurements" + times.source,
            at.evidence,
        )
    context = f.demand.input_tokens + f.demand.output_tokens / 2
    step = model.decode_step_s(shape, at.concurrency, context) * 1e3
    yield _entry(
        f"{where}.tpot_ms",
        got.tpot_ms,
        "decode step + share × concurrency × prefill of a prompt / output" + times.tpot,
        {
            **base,
            "decode step ms": step,
            "share": constants.interleaved,
            "share of prefill": at.prefill_share,
        },
        roofline,
        at.evidence,
    )
    yield _entry(
        f"{where}.ttft_ms",
        got.ttft_ms,
        "start + half a step + factor × prefill alone + share of the other requests' prompts" + times.ttft,
        {
            **base,
            "start ms": constants.first * 1e3,
            "factor": constants.alone,
            "share": constants.behind_clients,
        },
        roofline + "; rough under load",
        "assumed",
    )
    yield _entry(
        f"{where}.prefill_tok_s",
        got.prefill_tok_s,
        "input / (2 × active parameters × input + attention) × FLOP/s × efficiency × GPUs",
        {"active": shape.model.active, "gpus": shape.gpus, "efficiency": constants.prefill_flops},
        roofline,
        uncalibrated,
    )
    bound = candidate.bound_by
    yield _entry(
        f"{where}.concurrency",
        got.concurrency,
        f"the most requests within every bound, down to a multiple of {SEQUENCE_STEP}",
        {
            "bound by": bound.name if bound else "nothing",
            **({"bound": bound.bound, "at one more": bound.reached} if bound else {}),
        },
        OWN,
        at.evidence,
    )
    yield _entry(
        f"{where}.bandwidth_share",
        got.bandwidth_share,
        "tokens a second of one stream × active bytes / (TP × bandwidth); red line 2: at most 70 %",
        {
            "stream tok/s": 1000 / f.stand.workload.slo.tpot_p50,
            "active bytes": model.active_bytes(shape),
            "bandwidth": f.stand.sized.bandwidth,
        },
        GUIDE + ", red line 2",
        _cited(f.stand.sized.bandwidth)[1],
    )


def _limits(f: Facts) -> Iterator[Explanation]:
    got, where, per = (
        f.deployment.limits,
        "deployments[0].limits",
        f.demand.requests_per_s / f.chosen.replicas,
    )
    yield _entry(
        f"{where}.max_num_seqs",
        got.max_num_seqs,
        "the override, else the planned concurrency of a replica",
        {"estimate.concurrency": f.deployment.estimate.concurrency},
        OWN,
    )
    yield _entry(
        f"{where}.max_queued_requests",
        got.max_queued_requests,
        "requests that reach a replica until the first of them would be cut off, at least 8",
        {"requests a second and replica": per, "cut-off ms": TTFT_CUTOFF_MS},
        OWN,
    )
    yield _entry(
        f"{where}.requests_per_s",
        got.requests_per_s,
        "peak requests, redundancy included",
        {"load.peak_requests_per_s": f.load.peak_requests_per_s},
        CHECKLIST,
    )
    yield _entry(
        f"{where}.tokens_per_s",
        got.tokens_per_s,
        "peak output tokens, redundancy included",
        {"load.peak_output_tok_s": f.load.peak_output_tok_s},
        CHECKLIST,
    )
    yield _entry(
        f"{where}.connections",
        got.connections,
        "replicas × (running + queued)",
        {"replicas": f.chosen.replicas, "running": got.max_num_seqs, "queued": got.max_queued_requests},
        CHECKLIST,
    )
    yield _entry(
        f"{where}.ttft_cutoff_ms",
        got.ttft_cutoff_ms,
        "5 s, or the objective where it is longer",
        {"slo.ttft_p95": f.deployment.slo.ttft_p95_ms},
        CHECKLIST,
    )
    yield _entry(
        f"{where}.total_cutoff_ms",
        got.total_cutoff_ms,
        "60 s, or the objective where it is longer",
        {"slo.e2e_p95": f.deployment.slo.e2e_p95_ms},
        CHECKLIST,
    )


def _probes(f: Facts) -> Iterator[Explanation]:
    got, where, engine = f.deployment.probes, "deployments[0].probes", f.stand.engine
    yield _entry(
        f"{where}.startup_failures",
        got.startup_failures,
        f"{pod.STARTUP_MARGIN} × expected load / period",
        {
            "load s": f.load_s,
            "load rate": engine.load_rate,
            "fixed": engine.load_fixed,
            "period s": got.startup_period_s,
        },
        engine.load_rate.source,
        "assumed",
    )
    for name in (
        "startup_period_s",
        "readiness_period_s",
        "readiness_failures",
        "liveness_period_s",
        "liveness_failures",
    ):
        yield _entry(
            f"{where}.{name}",
            getattr(got, name),
            "fixed: quick to take out of rotation, slow to restart, since a restart costs the whole load",
            {},
            OWN,
        )


def _arguments(f: Facts) -> Iterator[Explanation]:
    """Numbers of the command line that stand nowhere else in the plan."""
    derived = LAUNCHERS[f.stand.engine.id].TRAITS.derived
    if not derived:
        return
    held, limits = f.deployment.memory, f.deployment.limits
    yield _entry(
        "deployments[0].engine.roles[0].args",
        "see formula",
        "; ".join(f"--{flag}: {formula}" for flag, formula in derived),
        {
            "weights": held.weights_gib,
            "KV cache": held.kv_gib,
            "total": held.total_gib,
            "context of the driver": f.stand.engine.overhead,
            "KV cache tokens": held.kv_tokens,
            "max_num_seqs": limits.max_num_seqs,
            "max_queued_requests": limits.max_queued_requests,
            "model context": f.deployment.context_tokens,
            "tokens of a step": batched_tokens(f.stand),
        },
        f"{f.stand.engine.name} {f.stand.engine.version}",
    )


def _resources(f: Facts) -> Iterator[Explanation]:
    got, where = f.deployment.resources, "deployments[0].resources"
    yield _entry(f"{where}.gpus", got.gpus, "GPUs of one pod", {"tp": got.gpus}, OWN)
    yield _entry(
        f"{where}.cpus",
        got.cpus,
        f"threads × {pod.CPU_SHARE} × GPUs of the pod / GPUs of the node, at least {pod.CPUS_PER_GPU} a GPU",
        {"threads": f.stand.machine.threads, "gpus": got.gpus},
        GUIDE + ": CPU : GPU ≥ 2 : 1",
    )
    yield _entry(
        f"{where}.memory_gib",
        got.memory_gib,
        f"{pod.MEMORY_PER_WEIGHTS} × weights of the pod + shared memory, which counts against it"
        + (" + copies of adapters" if f.deployment.adapters else ""),
        {"weights a GPU": f.deployment.memory.weights_gib, "gpus": got.gpus, "shm_gib": got.shm_gib},
        "infrastructure guide: memory ≥ 1.2 × GPU memory used",
    )
    yield _entry(
        f"{where}.shm_gib",
        got.shm_gib,
        f"{pod.SHM_GIB_PER_GPU} GiB a GPU for tensor parallelism",
        {"gpus": got.gpus},
        OWN,
        "assumed",
    )


def _rollout(f: Facts) -> Iterator[Explanation]:
    got, where = f.deployment.rollout, "deployments[0].rollout"
    drains = LAUNCHERS[f.stand.engine.id].TRAITS.drains
    stops = pod.shutdown_seconds(f.deployment.limits.total_cutoff_ms)
    free = {"slots": f.slots, "replicas": f.chosen.replicas}
    yield _entry(f"{where}.max_surge", got.max_surge, "1 where the pool has a free slot, else 0", free, OWN)
    yield _entry(f"{where}.max_unavailable", got.max_unavailable, "1 − surge", free, OWN)
    yield _entry(
        f"{where}.drain_s",
        got.drain_s,
        "until every router has dropped the pod"
        + ("" if drains else ", then until the longest request is done: the engine ends at once"),
        {} if drains else {"routers s": pod.DRAIN_S, "request s": stops},
        OWN,
        "assumed",
    )
    yield _entry(
        f"{where}.termination_grace_s",
        got.termination_grace_s,
        "drain + shutdown + 30 s" if drains else "drain + 30 s",
        {"drain": got.drain_s, **({"shutdown": stops} if drains else {})},
        f"{f.stand.engine.name} {f.stand.engine.version} behaviour",
    )
    yield _entry(
        f"{where}.progress_deadline_s",
        got.progress_deadline_s,
        f"{pod.STARTUP_MARGIN} × expected load + 300 s, up to a minute",
        {"load s": f.load_s},
        OWN,
        "assumed",
    )
    yield _entry(
        "deployments[0].disruption_max_unavailable",
        f.deployment.disruption_max_unavailable,
        "one replica at a time",
        {},
        OWN,
    )


def _services(f: Facts) -> Iterator[Explanation]:
    weights = f.chosen.candidate.shape.weights
    yield _entry(
        "volumes[0].size_gib",
        "see formula",
        f"{services.VOLUME_FACTOR} × weights on disk"
        + (" and adapters" if f.deployment.adapters else "")
        + ": two versions",
        {weights.hf_id: weights.disk},
        *_cited(weights.disk),
    )
    yield _entry(
        "routes[0].request_timeout",
        "see formula",
        "the total cut-off",
        {"limits.total_cutoff_ms": f.deployment.limits.total_cutoff_ms},
        CHECKLIST,
    )
    yield _entry(
        "scaling[0].min_replicas",
        f.chosen.replicas,
        "the override, which carries the peak"
        if f.stand.workload.overrides.replicas
        else "what the peak needs",
        {"replicas": f.chosen.replicas},
        OWN,
    )
    yield _entry(
        "scaling[0].max_replicas",
        max(f.slots - f.deployment.rollout.max_surge, f.chosen.replicas),
        "max(replicas, what the pool holds, spares included − a rollout's surge)",
        {"slots": f.slots, "surge": f.deployment.rollout.max_surge, "replicas": f.chosen.replicas},
        OWN,
    )
    yield _entry(
        "scaling[0].fallback_replicas",
        f.chosen.replicas,
        "the planned count while metrics are missing",
        {"replicas": f.chosen.replicas},
        OWN,
    )
    yield _entry(
        "scaling[0].cooldown_s",
        "see formula",
        "2 × expected load, at least 10 min",
        {"load s": f.load_s},
        OWN,
    )
    yield _entry(
        "scaling[0].triggers",
        "see formula",
        f"waiting > max_num_seqs / 16 a replica; KV cache > {monitoring.KV_SCALE}; running > "
        f"{monitoring.RUNNING_SHARE} × max_num_seqs",
        {"max_num_seqs": f.deployment.limits.max_num_seqs},
        GUIDE + ", alert table",
    )
    yield _entry("observability.scrape_s", services.SCRAPE_S, "scrape every 5 s", {}, GUIDE)
    yield _entry(
        "observability.deployment_rules",
        "see formula",
        f"TTFT p95 > {monitoring.TTFT_ALERT} × objective for 3 min; between tokens p95 > 50 ms or "
        f"1.5 × objective; waiting > 0; KV cache > {monitoring.KV_ALERT}; running ≥ "
        f"{monitoring.RUNNING_SHARE} × max_num_seqs",
        {"slo.ttft_p95_ms": f.deployment.slo.ttft_p95_ms, "max_num_seqs": f.deployment.limits.max_num_seqs},
        GUIDE + ", alert table",
    )


def _cost(f: Facts) -> Iterator[Explanation]:
    yield from explain_cost.explanations(f.cost, f.costing)


def _expectations(f: Facts) -> Iterator[Explanation]:
    where, accelerator = f"expectations.{f.pool.name}", f.stand.accelerator
    tenancy = f.stand.workload.tenancy
    sharing = {"mig": "MIG on and divided as tenancy says, MPS off", "mps": "MPS on, MIG off"}.get(
        tenancy.mode if tenancy else "", "MIG and MPS off"
    )
    yield _entry(
        f"{where}.gpu",
        accelerator.product,
        "card data of the catalog; driver ≥ 560, CUDA ≥ 12.6, ECC and "
        f"persistence on, {sharing}, hottest GPU below 85 °C",
        {"accelerator": accelerator.id},
        CHECKLIST,
    )
    if accelerator.nvlink is not None:
        source, evidence = _cited(accelerator.nvlink.link_gb_s)
        yield _entry(
            f"{where}.nvlink",
            accelerator.nvlink.topology,
            "links and rate as nvidia-smi prints them",
            {"links": accelerator.nvlink.links, "rate": accelerator.nvlink.link_gb_s},
            source,
            evidence,
        )
    yield _entry(
        f"{where}.storage.headroom_bytes",
        "see formula",
        f"{expectations.STORAGE_FACTOR} × weights on disk",
        {"weights.bytes": f.deployment.weights.bytes},
        CHECKLIST,
    )
    yield _entry(
        f"{where}.os.memory_gib",
        f.stand.machine.memory.value,
        f"from the catalog, ± {expectations.MEMORY_TOLERANCE * 100:.0f} %",
        {f.stand.machine.id: f.stand.machine.memory},
        *_cited(f.stand.machine.memory),
    )
    yield _entry(
        f"{where}.os",
        "see formula",
        f"THP {f.stand.workload.overrides.thp or 'never'}, idle states POLL and C1 only, governor "
        f"performance, swap off, clock within {expectations.CLOCK_OFFSET_MS:g} ms",
        {},
        CHECKLIST,
    )
    yield _entry(
        f"{where}.power",
        f.stand.machine.full_load.value,
        f"full load × {nodes.POWER_FACTOR} below the rack's rating; inlet to outlet below "
        f"{f.stand.workload.site.inlet_outlet_delta:g} °C",
        {"full load": f.stand.machine.full_load},
        CHECKLIST,
    )
