"""From a workload to a plan. ``size`` reads as the plan's table of contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rackwright import __version__
from rackwright.catalog import Catalog, EngineEntry, Machine, ModelEntry, find, unknown_entry
from rackwright.catalog.entries import Entry
from rackwright.engines import monitoring, owned, pod, registry
from rackwright.engines.adapters import with_adapters
from rackwright.engines.launcher import GpuMemory, Launcher, Serve
from rackwright.errors import Infeasible, InputErrors, Problem, listing, nearest
from rackwright.fabric import addressing
from rackwright.images import mirrored
from rackwright.placement import POOL_LABEL, TIER_LABEL
from rackwright.plan import (
    Caution,
    Cost,
    Header,
    HostExpectation,
    Load,
    Node,
    Observability,
    Plan,
    Pool,
    Scaling,
    Site,
    Taint,
)
from rackwright.plan.deployments import (
    Deployment,
    Engine,
    Estimate,
    Layout,
    MemoryBudget,
    PodResources,
    Slo,
    Weights,
)
from rackwright.plan.fabric import Fabric
from rackwright.sizing import (
    adapters,
    claims,
    constants,
    nodes,
    plannable,
    pricing,
    provisioning,
    queues,
    services,
    trays,
)
from rackwright.sizing import cautions as warnings
from rackwright.sizing.cost import Costing, cost, costing
from rackwright.sizing.devices import device_of
from rackwright.sizing.expectations import expectation
from rackwright.sizing.explain import Facts, explanations
from rackwright.sizing.layout import (
    TOTAL_CUTOFF_MS,
    TTFT_CUTOFF_MS,
    Candidate,
    Chosen,
    Stand,
    batched_tokens,
    choose,
    forced,
    without,
)
from rackwright.sizing.load import Demand, demand, lengths
from rackwright.sizing.sharing import Unit, share_of_shown
from rackwright.workload import Workload

PLACEHOLDER = "sha256:" + "0" * 64
"""Stands where no digest is known; no registry can serve it, so that nothing unpinned runs."""


@dataclass(frozen=True)
class Decided:
    """What the rest of the plan is written from."""

    stand: Stand
    demand: Demand
    chosen: Chosen
    placed: nodes.Placed
    fabric: Fabric | None

    @property
    def candidate(self) -> Candidate:
        return self.chosen.candidate

    @property
    def launcher(self) -> Launcher:
        return registry.LAUNCHERS[self.stand.engine.id]

    @property
    def slots(self) -> int:
        """Replicas that the whole pool could hold, spares included."""
        group, per_node = self.candidate.nodes_per_replica, self.stand.replicas_per_node(self.candidate)
        return trays.slots(len(self.placed.names), self.stand.machine, group, per_node)

    @property
    def requests_per_replica(self) -> float:
        return self.demand.requests_per_s / self.chosen.replicas

    @property
    def total_cutoff_ms(self) -> float:
        """When a request is cut off: the checklist's limit, or the objective where it is longer."""
        return max(TOTAL_CUTOFF_MS, self.stand.workload.slo.e2e_p95)

    @property
    def shutdown_s(self) -> int:
        return pod.shutdown_seconds(self.total_cutoff_ms)

    @property
    def load_s(self) -> float:
        """Seconds from the start of a replica to its first answer."""
        engine = self.stand.engine
        share = self.candidate.shape.weights.loaded.value / self.candidate.nodes_per_replica
        return pod.load_seconds(share, engine.load_rate.value, engine.load_fixed.value)


def size(workload: Workload, catalog: Catalog, unit: Unit | None = None) -> Plan:
    """The plan of ``workload``: the same inputs give the same plan, byte for byte.

    ``unit``: what a replica takes, where nodes or accelerators are shared (``sizing.tenancy``).

    Raises:
        InputErrors: the workload names what the catalog does not have, or an override breaks a rule; all
            problems at once.
        Infeasible: no layout or not enough machines; with the binding constraint and the best value.
    """
    stand = stand_of(workload, catalog, unit)
    decided = _decide(stand, catalog)
    pool = _pool(decided)
    deployment = _deployment(decided)
    costs = costing(stand, decided.demand, decided.chosen, pricing.pricing(workload, catalog), catalog)
    spent = cost(costs)
    weights = decided.candidate.shape.weights
    platform = services.platform(
        workload,
        catalog,
        stand.accelerator,
        multi_node=deployment.layout.nodes_per_replica > 1,
    )
    sized = _sized(decided, catalog, costs, deployment)
    found = warnings.cautions(sized)
    _refuse_overrides(sized, found, catalog)
    return Plan(
        header=_header(decided, catalog),
        workload=workload,
        load=_load(decided),
        sites=(_site(decided),),
        pools=(pool,),
        fabric=decided.fabric,
        deployments=(deployment,),
        volumes=(services.volume(workload, deployment.name, weights, adapters.stored(deployment.adapters)),),
        routes=(services.route(workload, catalog, deployment.name, deployment.limits.total_cutoff_ms),),
        scaling=(_scaling(decided, catalog, deployment),),
        observability=_observability(decided, deployment),
        platform=platform,
        expectations={
            pool.name: _expectation(decided, platform.driver_version, adapters.stored(deployment.adapters))
        },
        cost=spent,
        cautions=found,
        explanations=(
            *explanations(_facts(decided, pool, deployment, spent, costs)),
            *adapters.explained(deployment.adapters, stand.model, deployment.layout.tensor_parallel),
        ),
    )


def _refuse_overrides(sized: warnings.Sized, found: tuple[Caution, ...], catalog: Catalog) -> None:
    """A red line that an override crossed, and that holds without it, is wrong input.

    Raises:
        InputErrors: for each such line, under the override.
    """
    crossed = [c for c in found if c.severity == "refuse"]
    problems = []
    for name in forced(sized.stand) if crossed else ():
        kept = _crossed_without(sized.stand, name, catalog)
        problems += [
            Problem(
                f"overrides.{name}",
                f"must not cross a red line ({caution.id})",
                str(getattr(sized.workload.overrides, name, sized.stand.flags.get(name.rpartition(".")[2]))),
                caution.text,
                "drop the override",
            )
            for caution in crossed
            if caution.id not in kept
        ]
    if problems:
        raise InputErrors(problems)


def _crossed_without(stand: Stand, name: str, catalog: Catalog) -> set[str]:
    """Red lines still crossed when the override ``name`` is dropped; all of them where nothing stands."""
    try:
        decided = _decide(without(stand, name), catalog)
        deployment = _deployment(decided)
    except (InputErrors, Infeasible):
        return set(warnings.CAUTIONS)
    costs = costing(stand, decided.demand, decided.chosen, pricing.pricing(stand.workload, catalog), catalog)
    found = warnings.cautions(_sized(decided, catalog, costs, deployment))
    return {c.id for c in found if c.severity == "refuse"}


def stand_of(workload: Workload, catalog: Catalog, unit: Unit | None = None) -> Stand:
    """The catalog entries that the workload names.

    Raises:
        InputErrors: every reason why they do not go together.
    """
    problems: list[Problem] = []
    named = workload.hardware.machine
    machine = find(catalog.machines, named) if named is not None else None
    if named is None:
        problems.append(_nameless())
    elif machine is None:
        problems.append(_unknown(catalog.machines, named, "hardware.machine", "machine"))
    else:
        problems.extend(_fabric_problems(workload, machine, catalog))
    engine = find(catalog.engines, workload.engine)
    if engine is None:
        problems.append(_unknown(catalog.engines, workload.engine, "engine", "engine"))
    model = find(catalog.models, workload.model.id)
    if model is None:
        problems.append(_unknown(catalog.models, workload.model.id, "model.id", "model"))
    else:
        problems.extend(_model_problems(workload, model))
    problems.extend(warnings.suppress_problems(workload))
    problems.extend(_name_problems(workload, catalog))
    problems.extend(pricing.problems(workload, catalog))
    prices = pricing.pricing(workload, catalog).prices
    problems.extend(plannable.problems(workload, machine, model, engine, prices, catalog))
    problems.extend(adapters.problems(workload, model, engine))
    card = catalog.accelerator_of(machine) if machine is not None else None
    problems.extend(claims.problems(workload, machine, card))
    problems.extend(claims.domain_problems(workload, machine, card))
    problems.extend(provisioning.problems(workload, card, catalog))
    problems.extend(queues.problems(workload))
    spoken = engine if engine is not None and engine.launchable else catalog.engines["vllm"]
    problems.extend(owned.problems(spoken.id, spoken.version, workload.overrides.engine_flags))
    if problems or machine is None or engine is None or model is None:
        raise InputErrors(problems)
    quantisation = workload.model.quantisation or model.default_quantisation
    return Stand(
        workload,
        provisioning.as_sold(trays.tray_of(machine), workload, catalog),
        catalog.accelerator_of(machine),
        model,
        engine,
        quantisation,
        _kv_bits(workload, model, engine, quantisation),
        owned.canonical(engine.id, engine.version, workload.overrides.engine_flags),
        tuple(catalog.calibrations.values()),
        unit,
    )


def _nameless() -> Problem:
    return Problem(
        "hardware.machine",
        "must name a machine of the catalog",
        "nothing",
        "a plan is made for one kind of machine",
        "rackwright search WORKLOAD.yaml chooses one",
    )


def _unknown(known: Mapping[str, Entry], name: str, path: str, what: str) -> Problem:
    """As the catalog says it; a name that differs in case, or is part of one, is suggested too."""
    problem = unknown_entry(known, name, path, what)
    if "did you mean" in problem.rule:
        return problem
    low = name.lower()
    inside = sorted((k for k in known if low in k.lower()), key=len)
    hint = nearest(inside[0], inside) if inside else nearest(low, known)
    return replace(problem, rule=problem.rule + hint)


def _name_problems(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Namespaces that are somebody else's: a workload's namespace is labelled, guarded and cleaned up."""
    taken = {o.namespace for entry in catalog.platforms.values() for o in entry.operators.values()}
    name = workload.name
    if name == "default" or name.startswith("kube-") or name in taken:
        yield Problem(
            "name",
            "must not be a namespace of the cluster or of an operator",
            f'"{name}"',
            "the workload's namespace of this name would get its labels, quotas and network policies",
            "choose another name",
        )


def _kv_bits(workload: Workload, model: ModelEntry, engine: EngineEntry, quantisation: str) -> Literal[8, 16]:
    choice = workload.model.kv_cache
    known = registry.LAUNCHERS.get(engine.id)
    if choice == "auto" and known is not None and not known.TRAITS.fp8_cache:
        choice = "bf16"
    if choice == "auto":
        choice = "fp8" if model.quantisations[quantisation].bits <= 8 and model.mla is None else "bf16"
    return 8 if choice == "fp8" else 16


def _fabric_problems(workload: Workload, machine: Machine, catalog: Catalog) -> list[Problem]:
    asked = workload.hardware.fabric
    layer = machine.fabric.layer if machine.fabric else None
    has = {"Ethernet": "roce", "InfiniBand": "infiniband", None: "none"}[layer]
    if asked in ("none", has):
        return []
    others = [
        m.id
        for m in catalog.machines.values()
        if m.accelerator == machine.accelerator
        and m.fabric
        and {"Ethernet": "roce", "InfiniBand": "infiniband"}[m.fabric.layer] == asked
    ]
    return [
        Problem(
            "hardware.fabric",
            'must be "none"'
            + (f' or what the machine has ("{has}")' if layer else ", since the machine has none"),
            f'"{asked}" on {machine.id}',
            "ranks across nodes would find no such network",
            f"use machine {listing(others)}" if others else f'set it to "{has}"',
        )
    ]


def _model_problems(workload: Workload, model: ModelEntry) -> list[Problem]:
    problems = []
    wanted = workload.model.quantisation
    if wanted is not None and wanted not in model.quantisations:
        problems.append(
            Problem(
                "model.quantisation",
                f"must be one that the model is offered in{nearest(wanted, model.quantisations)}",
                f'"{wanted}"',
                f"{model.name} has {listing(sorted(model.quantisations))}",
                "choose one of those",
            )
        )
    if workload.model.context > model.max_context.value:
        problems.append(
            Problem(
                "model.context",
                f"must be at most the model's {model.max_context.value:,.0f} tokens",
                f"{workload.model.context:,.0f} tokens",
                "the engine refuses to start with more",
                f"set it to {model.max_context.value:.0f} tokens or fewer",
            )
        )
    needed = sum(lengths(workload.users))
    if needed > workload.model.context:
        problems.append(
            Problem(
                "model.context",
                f"must hold a session of {needed:,.0f} tokens",
                f"{workload.model.context:,.0f} tokens",
                "requests would be refused or cut",
                "raise it, or shorten users.input_per_session",
            )
        )
    return problems


def _decide(stand: Stand, catalog: Catalog) -> Decided:
    workload, asked = stand.workload, demand(stand.workload)
    chosen = choose(stand, asked)
    if workload.site.target == "hosts" and chosen.candidate.nodes_per_replica > 1:
        raise InputErrors(
            Problem(
                "site.target",
                "must be kubernetes where a replica spans nodes",
                '"hosts"',
                "groups of nodes are started and restarted together by LeaderWorkerSet",
                "set site.target: kubernetes, or choose a model that fits one node",
            )
        )
    count = chosen.nodes + workload.hardware.spares
    placed = nodes.place(workload, stand.machine, count, chosen.candidate.nodes_per_replica)
    fabric = services.fabric(workload, stand.machine, catalog, len(placed.names))
    return Decided(stand, asked, chosen, placed, fabric)


def _header(decided: Decided, catalog: Catalog) -> Header:
    stand, calibration = decided.stand, decided.candidate.shape.calibration
    prices = pricing.pricing(stand.workload, catalog).prices.id
    used = [stand.machine.id, stand.accelerator.id, stand.model.id, stand.engine.id, prices, "kubernetes"]
    used += [calibration.id] if calibration else []
    return Header(
        name=stand.workload.name,
        workload_digest=stand.workload.digest,
        catalog_digest=catalog.digest_of(*used, stand.workload.users.scenario, estimator=constants.digest()),
        generated_by=f"rackwright {__version__}",
    )


def _load(decided: Decided) -> Load:
    asked, at = decided.demand, decided.candidate.at
    latency_s = (at.ttft_ms + asked.output_tokens * at.tpot_ms) / 1000
    return Load(
        scenario_factor=asked.factor,
        tokens_per_day=asked.tokens_per_day,
        output_tokens_per_day=asked.output_tokens_per_day,
        peak_requests_per_s=asked.requests_per_s,
        peak_input_tok_s=asked.input_tok_s,
        peak_output_tok_s=asked.output_tok_s,
        concurrency=round(asked.requests_per_s * latency_s, 1),
    )


def _site(decided: Decided) -> Site:
    site = decided.stand.workload.site
    return Site(
        name=site.name,
        country=site.country,
        target=site.target,
        zone=site.name,
        racks=decided.placed.racks,
    )


def _pool(decided: Decided) -> Pool:
    machine, accelerator = decided.stand.machine, decided.stand.accelerator
    spares = decided.stand.workload.hardware.spares
    names, device = decided.placed.names, device_of(accelerator)
    first_spare = len(names) - spares
    return Pool(
        name=machine.pool,
        site=decided.stand.workload.site.name,
        machine=machine.id,
        accelerator=accelerator.id,
        gpus_per_node=decided.stand.gpus,
        gpu_memory_gib=round(accelerator.memory_gib, 2),
        cpus_per_node=int(machine.threads.value),
        memory_gib_per_node=machine.memory.value,
        nvme_bytes_per_node=int(machine.nvme_count.value * machine.nvme_each.value * 1e9),
        idle_w_per_node=machine.idle.value,
        full_load_w_per_node=machine.full_load.value,
        gpu_resource=device.resource,
        labels={POOL_LABEL: machine.pool, TIER_LABEL: "hot"},
        taints=(Taint(key=device.taint, value="present"),) if device.taint else (),
        nodes=tuple(
            Node(
                name=name,
                rack=decided.placed.rack_of[name],
                block=decided.placed.block_of.get(name),
                spare=index >= first_spare,
                rail_addresses=addressing.addresses(decided.fabric.rails, index) if decided.fabric else (),
            )
            for index, name in enumerate(names)
        ),
    )


def _deployment(decided: Decided) -> Deployment:
    stand, candidate, asked = decided.stand, decided.candidate, decided.demand
    workload, shape = stand.workload, candidate.shape
    serve = _serve(decided)
    env = decided.fabric.nccl_env if decided.fabric and shape.pp > 1 else {}
    roles = decided.launcher.roles(serve, env)
    engine = stand.engine
    lora = adapters.section(workload, stand.model, engine, shape.tp, services.MOUNT)
    if lora is not None:
        roles = with_adapters(engine.id, roles, lora)
    problems = list(registry.flag_problems(engine.id, engine.version, roles, "overrides.engine_flags"))
    if problems:
        raise InputErrors(problems)
    gpus_per_pod = shape.gpus // candidate.nodes_per_replica
    weights_gib = candidate.memory.weights * gpus_per_pod
    slo = workload.slo
    return Deployment(
        name=services.slug(stand.model.id),
        pool=stand.machine.pool,
        model=stand.model.id,
        served_name=serve.served_name,
        context_tokens=serve.context,
        weights=_weights(decided),
        adapters=lora,
        layout=Layout(
            replicas=decided.chosen.replicas,
            tensor_parallel=shape.tp,
            pipeline_parallel=shape.pp,
            data_parallel=shape.dp,
            nodes_per_replica=candidate.nodes_per_replica,
            gpus_per_pod=gpus_per_pod,
            gpus_per_replica=shape.gpus,
        ),
        engine=Engine(
            name=stand.engine.id,
            version=stand.engine.version,
            image=f"{_repository(decided)}@{_digest(decided)}",
            image_verified=_digest(decided) != PLACEHOLDER and stand.engine.digest_verified,
            port=stand.engine.port,
            roles=roles,
        ),
        memory=_memory(decided),
        estimate=_estimate(decided),
        slo=Slo(
            ttft_p95_ms=slo.ttft_p95,
            tpot_p50_ms=slo.tpot_p50,
            e2e_p95_ms=slo.e2e_p95,
            success_share=slo.success,
        ),
        limits=pod.limits(
            max_num_seqs=serve.max_num_seqs,
            queued=serve.max_queued,
            replicas=decided.chosen.replicas,
            requests_per_s=asked.requests_per_s,
            tokens_per_s=asked.output_tok_s,
            ttft_cutoff_ms=max(TTFT_CUTOFF_MS, slo.ttft_p95),
            total_cutoff_ms=decided.total_cutoff_ms,
        ),
        probes=pod.probes(decided.load_s, decided.launcher.TRAITS),
        resources=_resources(decided, weights_gib, adapters.host_gib(lora)),
        rollout=pod.rollout(
            decided.load_s,
            decided.slots - decided.chosen.replicas,
            decided.shutdown_s,
            drains=decided.launcher.TRAITS.drains,
        ),
    )


def _resources(decided: Decided, weights_gib: float, adapters_gib: int) -> PodResources:
    """What the pods ask for; of a shared accelerator, the share of the node's threads that goes with it."""
    found = _pod_resources(decided, weights_gib)
    return found.model_copy(update={"memory_gib": found.memory_gib + adapters_gib})


def _pod_resources(decided: Decided, weights_gib: float) -> PodResources:
    stand, candidate = decided.stand, decided.candidate
    gpus = candidate.shape.gpus // candidate.nodes_per_replica
    threads, unit = int(stand.machine.threads.value), stand.unit
    if unit is None or unit.resource is None:
        return pod.resources(gpus, stand.gpus, threads, weights_gib)
    part = pod.resources(1, unit.places / unit.share, threads, weights_gib)
    tenancy = stand.workload.tenancy
    if tenancy is not None and tenancy.mode == "mps":
        # The device plugin mounts the MPS server's /dev/shm; one of the pod's own would hide it.
        part = part.model_copy(update={"memory_gib": part.memory_gib - part.shm_gib, "shm_gib": 0})
    return part.model_copy(update={"resource": unit.resource})


def _repository(decided: Decided) -> str:
    return mirrored(decided.stand.engine.repository, services.mirror_of(decided.stand.workload))


def _digest(decided: Decided) -> str:
    engine = decided.stand.engine
    return decided.stand.workload.overrides.image_digest or engine.digests.get(engine.version, PLACEHOLDER)


def _serve(decided: Decided) -> Serve:
    stand, candidate = decided.stand, decided.candidate
    return Serve(
        path=f"{services.MOUNT}/{stand.model.id}",
        served_name=stand.model.id,
        port=stand.engine.port,
        tp=candidate.shape.tp,
        pp=candidate.shape.pp,
        nodes=candidate.nodes_per_replica,
        dp=candidate.shape.dp,
        context=int(stand.workload.model.context),
        max_num_seqs=candidate.max_num_seqs,
        max_queued=pod.max_queued(decided.demand.requests_per_s, decided.chosen.replicas, TTFT_CUTOFF_MS),
        batched_tokens=batched_tokens(stand),
        utilization=share_of_shown(stand.unit, candidate.memory.utilization)
        if stand.unit
        else candidate.memory.utilization,
        memory=GpuMemory(
            total=candidate.memory.total,
            weights=candidate.memory.weights,
            kv=candidate.memory.kv,
            activations=candidate.memory.activations,
            context=stand.engine.overhead.value,
        ),
        kv_fp8=stand.kv_bits == 8,
        quantisation=candidate.shape.weights.engine_flag,
        trust_remote_code=stand.model.trust_remote_code,
        shutdown_s=decided.shutdown_s,
        replica_tokens=candidate.memory.kv_tokens,
        cache_bytes=_fixed_cache(decided),
        extra=stand.flags,
    )


def _fixed_cache(decided: Decided) -> int | None:
    """The KV cache in bytes where the engine is shown memory that is its neighbours'."""
    unit = decided.stand.unit
    if unit is None or unit.shown_gib is None:
        return None
    return int(decided.candidate.memory.kv * 2**30)


def _weights(decided: Decided) -> Weights:
    chosen, model = decided.candidate.shape.weights, decided.stand.model
    path = f"{services.MOUNT}/{model.id}"
    return Weights(
        source=f"hf://{chosen.hf_id}",
        revision=decided.stand.workload.model.revision or model.revision,
        quantisation=decided.stand.quantisation,
        bytes=round(chosen.disk.value * 1e9),
        path=path,
        manifest_path=f"{path}/SHA256SUMS",
        manifest_sha256=decided.stand.workload.model.weights_manifest,
    )


def _memory(decided: Decided) -> MemoryBudget:
    held = decided.candidate.memory
    return MemoryBudget(
        total_gib=round(held.total, 2),
        weights_gib=round(held.weights, 2),
        kv_gib=round(held.kv, 2),
        activations_gib=round(held.activations, 2),
        overhead_gib=round(held.overhead, 2),
        utilization=held.utilization,
        kv_bytes_per_token=held.kv_bytes_per_token,
        kv_tokens=held.kv_tokens,
    )


def _estimate(decided: Decided) -> Estimate:
    at, calibration = decided.candidate.at, decided.candidate.shape.calibration
    return Estimate(
        output_tok_s=round(at.output_tok_s),
        output_tok_s_low=round(at.low),
        output_tok_s_high=round(at.high),
        tpot_ms=round(at.tpot_ms, 2),
        ttft_ms=round(at.ttft_ms, 1),
        prefill_tok_s=round(at.prefill_tok_s),
        concurrency=at.concurrency,
        bandwidth_share=round(decided.candidate.stream_share, 4),
        calibration=calibration.id if calibration else None,
        evidence=at.evidence,
    )


def _scaling(decided: Decided, catalog: Catalog, deployment: Deployment) -> Scaling:
    return services.scaling(
        decided.stand.workload,
        catalog,
        deployment.name,
        deployment.served_name,
        engine=deployment.engine.name,
        replicas=decided.chosen.replicas,
        slots=decided.slots - deployment.rollout.max_surge,
        nodes_per_replica=deployment.layout.nodes_per_replica,
        max_num_seqs=deployment.limits.max_num_seqs,
        load_s=decided.load_s,
    )


def _observability(decided: Decided, deployment: Deployment) -> Observability:
    rules = monitoring.rules(
        decided.launcher.NAMES,
        decided.stand.workload.name,
        deployment.served_name,
        ttft_p95_ms=deployment.slo.ttft_p95_ms,
        tpot_p50_ms=deployment.slo.tpot_p50_ms,
        max_num_seqs=deployment.limits.max_num_seqs,
        ranks=deployment.layout.data_parallel,
    )
    return services.observability({deployment.name: rules}, decided.stand.accelerator)


def _expectation(decided: Decided, driver: str, adapters_bytes: int) -> HostExpectation:
    return expectation(
        decided.stand.workload,
        decided.stand.machine,
        decided.stand.accelerator,
        fabric=decided.fabric,
        driver=driver,
        engine=decided.stand.engine.id,
        image=_repository(decided),
        weight_bytes=round(decided.candidate.shape.weights.disk.value * 1e9) + adapters_bytes,
        power_factor=nodes.POWER_FACTOR,
    )


def _sized(decided: Decided, catalog: Catalog, costs: Costing, deployment: Deployment) -> warnings.Sized:
    return warnings.Sized(
        stand=decided.stand,
        demand=decided.demand,
        chosen=decided.chosen,
        nodes=len(decided.placed.names),
        fabric=decided.fabric,
        costing=costs,
        image_pinned=not deployment.engine.image.endswith(PLACEHOLDER),
        picker_pinned=catalog.platforms["kubernetes"].picker_verified,
        pod_memory_gib=deployment.resources.memory_gib,
        load_s=decided.load_s,
    )


def _facts(decided: Decided, pool: Pool, deployment: Deployment, spent: Cost, costs: Costing) -> Facts:
    return Facts(
        stand=decided.stand,
        demand=decided.demand,
        chosen=decided.chosen,
        placed=decided.placed,
        fabric=decided.fabric,
        pool=pool,
        deployment=deployment,
        cost=spent,
        costing=costs,
        load=_load(decided),
        slots=decided.slots,
        load_s=decided.load_s,
    )
