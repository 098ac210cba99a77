"""Several services on the same nodes: what a replica of each takes, and how many of each a node holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rackwright.catalog import Accelerator, Catalog, Machine, MigProfile, Partitioning
from rackwright.errors import Infeasible, InputErrors, Problem, listing
from rackwright.plan.tenancy import Place, Slice, Tenancy
from rackwright.sizing import sharing, tenancy_rules
from rackwright.sizing.devices import device_of
from rackwright.sizing.layout import Chosen, choose
from rackwright.sizing.load import demand
from rackwright.sizing.sharing import Mate, Unit
from rackwright.sizing.size import stand_of
from rackwright.workload import Tenancy as Asked
from rackwright.workload import Workload

MPS = "nvidia.com/gpu.shared"
"""As the device plugin renames what it shares, so that no pod takes a share for a whole card."""


@dataclass(frozen=True)
class Tenant:
    """One service as it stands in a share: the layout that it has there, and the profile, if any."""

    name: str
    workload: Workload
    unit: Unit
    chosen: Chosen
    profile: MigProfile | None = None

    @property
    def each(self) -> int:
        """Units of its resource that a replica takes."""
        return self.chosen.candidate.shape.tp


@dataclass(frozen=True)
class Shared:
    """All services of a workload on one pool, each with the unit that it is sized for."""

    asked: Asked
    machine: Machine
    tenants: tuple[Tenant, ...]

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(tenant.unit for tenant in self.tenants)


def shared(workload: Workload, services: Sequence[tuple[str, Workload]], catalog: Catalog) -> Shared:
    """What a replica of each of ``services`` takes, and how many of each every node holds.

    Raises:
        InputErrors: the ways of sharing contradict each other, the machine or what a service asks; all at
            once.
        Infeasible: a service stands in no share, or one replica of each does not fit.
    """
    asked = workload.tenancy
    assert asked is not None
    if problems := list(tenancy_rules.problems(workload, asked, services, catalog)):
        raise InputErrors(problems)
    machine = catalog.machine(str(workload.hardware.machine))
    card = catalog.accelerator_of(machine)
    alone = [(name, _probing(service, workload)) for name, service in services]
    tenants = [_tenant(name, service, asked, card, catalog) for name, service in alone]
    held = _held(asked, tenants, machine)
    nodes = max(-(-t.chosen.replicas // held[t.name]) for t in tenants)
    weights = {t.name: held[t.name] * (t.profile.size if t.profile else t.each) for t in tenants}
    mates = {t.name: _mate(t, held[t.name]) for t in tenants}
    placed = tuple(
        replace(
            t,
            workload=_spared(service, workload),
            unit=replace(
                t.unit,
                places=held[t.name],
                nodes=nodes,
                share=weights[t.name] / sum(weights.values()),
                mates=tuple(mate for name, mate in mates.items() if name != t.name),
            ),
        )
        for t, (_, service) in zip(tenants, services, strict=True)
    )
    return Shared(asked, machine, placed)


def _probing(service: Workload, workload: Workload) -> Workload:
    """``service`` on as many nodes as it likes: how many there are is asked of all together."""
    hardware = workload.hardware.model_copy(update={"nodes": None, "spares": 0})
    return service.model_copy(update={"hardware": hardware})


def _spared(service: Workload, workload: Workload) -> Workload:
    """``service`` on the workload's nodes and spares, which all services share."""
    return service.model_copy(update={"hardware": workload.hardware})


def _tenant(name: str, service: Workload, asked: Asked, card: Accelerator, catalog: Catalog) -> Tenant:
    if asked.mode == "gpus":
        unit = Unit(card, 0)
        return Tenant(name, service, unit, _chosen(service, catalog, unit))
    if asked.mode == "mps":
        assert asked.clients is not None
        client = sharing.client_of(card, asked.clients)
        unit = Unit(client, 0, MPS, parallel=False, shown_gib=card.memory_gib)
        try:
            return Tenant(name, service, unit, _chosen(service, catalog, unit))
        except Infeasible as error:
            raise _no_client(error, asked.clients, card) from None
    partitioning = catalog.partitioning_of(card)
    assert partitioning is not None
    return _sliced(name, service, asked.profiles.get(name), card, partitioning, catalog)


def _chosen(service: Workload, catalog: Catalog, unit: Unit) -> Chosen:
    return choose(stand_of(service, catalog, unit), demand(service))


def _sliced(  # noqa: PLR0917 - a service, its profile, and the card with its profiles
    name: str,
    service: Workload,
    asked: str | None,
    card: Accelerator,
    partitioning: Partitioning,
    catalog: Catalog,
) -> Tenant:
    """``service`` in the profile that it asks for, else in the smallest in which it stands."""
    order = sorted(partitioning.profiles, key=lambda p: (p.memory.value, p.processors.value))
    refused: dict[str, Infeasible] = {}
    for profile in order:
        unit = Unit(sharing.slice_of(card, partitioning, profile), 0, profile.resource, parallel=False)
        if asked not in (None, profile.name) and asked not in refused:
            continue
        try:
            chosen = _chosen(service, catalog, unit)
        except Infeasible as error:
            refused[profile.name] = error
            continue
        if refused and asked is not None:
            raise _unfit(name, asked, refused[asked], f"set it to {profile.name}, in which it stands")
        return Tenant(name, service, unit, chosen, profile)
    tried, last = (asked, refused[asked]) if asked is not None else list(refused.items())[-1]
    raise _unfit(
        name,
        tried,
        last,
        f"give it whole accelerators: take it out of tenancy, or {last.problems[0].next}",
        largest=asked is None,
    )


def _unfit(name: str, profile: str, error: Infeasible, advice: str, *, largest: bool = False) -> Infeasible:
    problem = error.problems[0]
    return Infeasible(
        Problem(
            f"tenancy.profiles.{name}",
            "must be a MIG profile in which the service stands",
            f"{profile}{', the largest' if largest else ''}: {problem.where} {problem.rule}; {problem.found}",
            problem.why,
            advice,
        ),
        constraint=f"tenancy.profiles.{name}",
        best=error.best,
    )


def _no_client(error: Infeasible, clients: int, card: Accelerator) -> Infeasible:
    problem = error.problems[0]
    return Infeasible(
        Problem(
            "tenancy.clients",
            f"must leave each of them a share of {card.name} in which the service stands",
            f"{clients}: {problem.where} {problem.rule}; {problem.found}",
            problem.why,
            "lower it, or give the service whole accelerators: tenancy.mode: gpus",
        ),
        constraint="tenancy.clients",
        best=error.best,
    )


def _mate(tenant: Tenant, places: int) -> Mate:
    return Mate(
        demand(tenant.workload).output_tok_s,
        tenant.chosen.candidate.at.low,
        places,
        max(1, tenant.workload.overrides.replicas or 1),
    )


def _held(asked: Asked, tenants: Sequence[Tenant], machine: Machine) -> Mapping[str, int]:
    """Replicas of each service that every node holds."""
    gpus = int(machine.gpus.value)
    replicas = {t.name: t.chosen.replicas for t in tenants}
    if asked.mode == "mig":
        profiles = {t.name: t.profile for t in tenants if t.profile is not None}
        divided = sharing.geometry(replicas, profiles, gpus)
        if divided is None:
            shown = listing([f"{name} {profile.name}" for name, profile in profiles.items()])
            raise Infeasible(
                Problem(
                    "tenancy.profiles",
                    "must fit on one accelerator together: every one is divided alike",
                    shown,
                    "a node divided unlike another could not take the pods of both",
                    "choose smaller profiles, or give a service a workload of its own",
                ),
                constraint="tenancy.profiles",
                best=shown,
            )
        return {name: count * gpus for name, count in divided.items()}
    room = gpus * (asked.clients or 1)
    held = sharing.places(replicas, {t.name: t.each for t in tenants}, room)
    if held is None:
        shown = " + ".join(f"{t.name} {t.each}" for t in tenants)
        raise Infeasible(
            Problem(
                "tenancy.mode",
                f"must leave room for a replica of each service on every node: {room} "
                f"{'accelerators' if asked.mode == 'gpus' else 'shares'}",
                shown,
                "all nodes hold the same, so that no service's pods keep another's from their place",
                "give a service a pool of its own: leave tenancy out, or size it as another workload",
            ),
            constraint="tenancy.mode",
            best=shown,
        )
    return held


def section(found: Shared, pool: str, deployments: Sequence[str]) -> Tenancy:
    """The plan's section: how the accelerators are divided and what stands on every node."""
    gpus, slices = int(found.machine.gpus.value), list[Slice]()
    for tenant in found.tenants:
        if tenant.unit.resource is None or any(s.resource == tenant.unit.resource for s in slices):
            continue
        same = [t for t in found.tenants if t.unit.resource == tenant.unit.resource]
        slices.append(
            Slice(
                resource=tenant.unit.resource,
                per_gpu=found.asked.clients or sum(t.unit.places for t in same) // gpus,
                memory_mib=int(tenant.unit.accelerator.memory.value),
                profile=tenant.profile.name if tenant.profile else None,
            )
        )
    return Tenancy(
        mode=found.asked.mode,
        pool=pool,
        trusted=found.asked.trusted,
        config=_config(found, slices),
        slices=tuple(slices),
        places=tuple(
            Place(
                deployment=deployment,
                per_node=tenant.unit.places,
                resource=tenant.unit.resource or device_of(tenant.unit.accelerator).resource,
                each=tenant.each,
            )
            for tenant, deployment in zip(found.tenants, deployments, strict=True)
        ),
    )


def _config(found: Shared, slices: Sequence[Slice]) -> str | None:
    """Says what it is: ``1g.18gb-x5_2g.35gb-x1``. As a label's value and a key it holds no other signs."""
    if found.asked.mode == "gpus":
        return None
    if found.asked.mode == "mps":
        return f"mps-x{found.asked.clients}"
    return "_".join(f"{s.profile}-x{s.per_gpu}" for s in sorted(slices, key=lambda s: str(s.profile)))


def overcommitted(found: Shared, memory_gib: Mapping[str, int], cpus: Mapping[str, int]) -> Iterator[Problem]:
    """Host memory and CPUs that the pods of a full node ask for and a node does not have."""
    for what, asked, has in (
        ("GiB of host memory", memory_gib, found.machine.memory.value * 0.9),
        ("CPU threads", cpus, found.machine.threads.value),
    ):
        total = sum(asked[t.name] * t.unit.places for t in found.tenants)
        if total > has:
            yield Problem(
                "tenancy",
                f"must leave the pods of a node {has:,.0f} {what} in all",
                f"{total:,}: "
                + ", ".join(f"{t.unit.places} × {asked[t.name]} {t.name}" for t in found.tenants),
                "pods beyond it would not be scheduled",
                "choose larger profiles or fewer clients, so that fewer pods share a node",
            )
