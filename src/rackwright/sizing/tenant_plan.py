"""A plan of services that share their nodes: what changes in it beside the layout of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rackwright.errors import InputErrors
from rackwright.plan import Explanation, HostExpectation, NotApplicable, Plan, Pool
from rackwright.plan.expectations import GpuExpectation, NvlinkExpectation
from rackwright.plan.tenancy import Tenancy
from rackwright.sizing import tenancy
from rackwright.sizing.explained import OWN, entry
from rackwright.sizing.joint_parts import Part
from rackwright.sizing.tenancy import Shared

MIG_CONFIG = "nvidia.com/mig.config"
"""Label of a node: the MIG manager divides its cards as the configuration of this name says."""
PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
"""Label of a node: the device plugin shares its cards as the configuration of this name says."""
LABELS = {"mig": MIG_CONFIG, "mps": PLUGIN_CONFIG}
EXCLUSIVE = "Exclusive_Process"
"""Compute mode that the device plugin's MPS daemon sets (k8s-device-plugin, ``mps/daemon.go``)."""
DIVIDED = NotApplicable(not_applicable="MIG is on: instances reach no other card")
WHOLE = NotApplicable(not_applicable="MIG is on: what measures a whole card finds instances")
SHARED = NotApplicable(not_applicable="MPS is on: what measures a whole card gets a client's share")
_WHOLE_CARD = ("memory_bandwidth_min_gb_s", "host_bandwidth_min_gb_s", "diag_level")


def completed(plan: Plan, found: Shared) -> Plan:
    """``plan`` with its tenancy: labels of the pool, strategy of the platform, expectations.

    Raises:
        InputErrors: the pods of a full node ask for more of its host than there is.
    """
    pods = dict(zip((t.name for t in found.tenants), plan.deployments, strict=True))
    problems = list(
        tenancy.overcommitted(
            found,
            {name: d.resources.memory_gib for name, d in pods.items()},
            {name: d.resources.cpus for name, d in pods.items()},
        )
    )
    if problems:
        raise InputErrors(problems)
    pool = plan.pools[0]
    section = tenancy.section(found, pool.name, [d.name for d in plan.deployments])
    rules = plan.observability
    if rules is not None and section.mode == "mig":
        # DCGM reports no utilisation of a card that is divided.
        kept = tuple(rule for rule in rules.node_rules if "DCGM_FI_DEV_GPU_UTIL" not in rule.expr)
        rules = rules.model_copy(update={"node_rules": kept})
    strategy = "mixed" if section.mode == "mig" else "none"
    return plan.model_copy(
        update={
            "pools": (_labelled(pool, section),),
            "tenancy": section,
            "observability": rules,
            "platform": plan.platform and plan.platform.model_copy(update={"mig_strategy": strategy}),
            "expectations": {pool.name: _shown(plan.expectations[pool.name], section)},
            "explanations": (*plan.explanations, *_explained(section, found)),
        }
    )


def _labelled(pool: Pool, section: Tenancy) -> Pool:
    label = LABELS.get(section.mode)
    if label is None or section.config is None:
        return pool
    return pool.model_copy(update={"labels": {**pool.labels, label: section.config}})


def expectation(parts: Sequence[Part]) -> HostExpectation:
    """What hosts show that serve all of ``parts``: weights of all, processes of all their engines."""
    each = [part.plan.expectations[part.pool.name] for part in parts]
    first = each[0]
    rooms = [e.storage.headroom_bytes for e in each]
    processes = [e.gpu.processes_allowed for e in each]
    names = dict.fromkeys(name for known in processes if isinstance(known, tuple) for name in known)
    return first.model_copy(
        update={
            "storage": first.storage.model_copy(
                update={"headroom_bytes": sum(room for room in rooms if isinstance(room, int))}
            ),
            "gpu": first.gpu.model_copy(update={"processes_allowed": tuple(names)}),
        }
    )


def _shown(wants: HostExpectation, section: Tenancy) -> HostExpectation:
    if section.mode == "gpus":
        return wants
    gpu: GpuExpectation = wants.gpu
    if section.mode == "mps":
        mps = {"mps": True, "compute_mode": EXCLUSIVE, **dict.fromkeys(_WHOLE_CARD, SHARED)}
        return wants.model_copy(update={"gpu": gpu.model_copy(update=mps)})
    instances = tuple(name for piece in section.slices for name in (str(piece.profile),) * piece.per_gpu)
    mig = {"mig": tuple(sorted(instances)), **dict.fromkeys(_WHOLE_CARD, WHOLE)}
    nvlink = NvlinkExpectation.model_validate(dict.fromkeys(NvlinkExpectation.model_fields, DIVIDED))
    return wants.model_copy(update={"gpu": gpu.model_copy(update=mig), "nvlink": nvlink})


def _explained(section: Tenancy, found: Shared) -> Iterator[Explanation]:
    for index, (place, tenant) in enumerate(zip(section.places, found.tenants, strict=True)):
        yield entry(
            f"tenancy.places[{index}].per_node",
            place.per_node,
            "replicas of the service on every node, all divided alike, for the fewest nodes",
            {
                "replicas": tenant.chosen.replicas,
                "GPUs a node": found.machine.gpus,
                "serving nodes": tenant.unit.nodes,
            },
            OWN,
        )
        if tenant.unit.shown_gib is not None:
            yield entry(
                f"deployments[{index}].engine.roles[0].args",
                "see formula",
                "gpu-memory-utilization: memory.utilization × total_gib / the card's, which MPS shows every "
                "client, rounded down; kv-cache-memory-bytes: memory.kv_gib, which neighbours do not change",
                {
                    "memory.utilization": tenant.chosen.candidate.memory.utilization,
                    "memory.total_gib": tenant.unit.accelerator.memory_gib,
                    "the card's": tenant.unit.shown_gib,
                    "memory.kv_gib": tenant.chosen.candidate.memory.kv,
                },
                OWN + "; k8s-device-plugin#764: a client sees the memory of the whole card",
            )
    for index, piece in enumerate(section.slices):
        tenant = next(t for t in found.tenants if t.unit.resource == piece.resource)
        memory = tenant.unit.accelerator.memory
        yield entry(
            f"tenancy.slices[{index}].per_gpu",
            piece.per_gpu,
            "places a node of all services with it ÷ GPUs a node"
            if piece.profile
            else "tenancy.clients, as asked",
            {p.deployment: p.per_node for p in section.places if p.resource == piece.resource},
            OWN,
        )
        yield entry(
            f"tenancy.slices[{index}].memory_mib",
            piece.memory_mib,
            "of the profile, as nvidia-smi mig -lgip shows it"
            if piece.profile
            else "memory of the card ÷ clients, in whole MiB",
            {tenant.unit.accelerator.id: memory},
            memory.source,
            "vendor" if memory.verified else "assumed",
        )
