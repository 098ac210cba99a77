"""The plan of several services on one site: each is sized alone, then they stand side by side.

Every service has a pool of its own, so that no pod of one takes GPUs that another was sized for; racks,
addresses and the names of nodes go on where the service before ends.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rackwright.catalog import Catalog
from rackwright.errors import Infeasible, InputErrors, Problem, RackwrightError, listing
from rackwright.fabric import addressing
from rackwright.placement import POOL_LABEL
from rackwright.plan import Caution, Load, Node, Plan, Platform, Route
from rackwright.plan.cost import Cost
from rackwright.plan.fabric import Fabric
from rackwright.plan.services import Observability
from rackwright.plan.shares import Share
from rackwright.sizing import (
    claims,
    explain_joint,
    joint_cost,
    provisioning,
    queues,
    search,
    services,
    tenancy,
    tenant_plan,
)
from rackwright.sizing.economics import convert
from rackwright.sizing.joint_parts import Part, Place
from rackwright.sizing.pricing import pricing
from rackwright.sizing.sharing import Unit
from rackwright.sizing.size import size
from rackwright.sizing.tenancy import Shared
from rackwright.workload import Service, Workload


def plan_of(workload: Workload, catalog: Catalog) -> Plan:
    """The plan of ``workload`` and of all that it serves ``also``.

    Raises:
        InputErrors: what is wrong in any of the services, all at once; services that cannot share a site.
        Infeasible: one of them does not stand, or together they cost more than the budget.
    """
    plan = _plan_of(workload, catalog)
    plan = claims.claimed(plan, catalog.machine(plan.pools[0].machine))
    return queues.queued(provisioning.provisioned(plan, catalog))


def _plan_of(workload: Workload, catalog: Catalog) -> Plan:
    if workload.tenancy is not None:
        return _sharing(workload, catalog)
    if not workload.also:
        return search.plan_of(workload, catalog)
    parts, problems = [], list[Problem]()
    for index, asked in enumerate(services_of(workload)):
        try:
            parts.append(Part(_name(workload, index), search.plan_of(asked, catalog), catalog))
        except InputErrors as error:
            problems += _placed(error, index)
        except Infeasible as error:
            problem = _placed(error, index)[0]
            raise Infeasible(problem, constraint=error.constraint, best=error.best) from None
    if not problems and workload.hardware.fabric == "none":
        parts = _without_rails(parts)
    if problems or (problems := list(_together(parts))):
        raise InputErrors(problems)
    return _joined(workload, parts, catalog)


def _sharing(workload: Workload, catalog: Catalog) -> Plan:
    """The plan of services that share their nodes: one pool, every node with the same services.

    Raises:
        InputErrors, Infeasible: as ``plan_of``.
    """
    found = tenancy.shared(workload, list(named_services(workload)), catalog)
    parts = sharing_parts(found, catalog)
    if problems := list(_together(parts)):
        raise InputErrors(problems)
    joined = _joined(workload, parts, catalog) if workload.also else parts[0].plan
    return tenant_plan.completed(joined, found)


def sharing_parts(found: Shared, catalog: Catalog) -> list[Part]:
    """Each service that shares its nodes, sized for its share of them.

    Raises:
        InputErrors: what is wrong in any of them, all at once.
    """
    parts, problems = [], list[Problem]()
    for index, tenant in enumerate(found.tenants):
        try:
            plan = size(tenant.workload, catalog, tenant.unit)
            parts.append(Part(tenant.name, plan, catalog, tenant.unit))
        except InputErrors as error:
            problems += _placed(error, index)
    if problems:
        raise InputErrors(problems)
    return parts


def units_of(workload: Workload, catalog: Catalog) -> tuple[Unit | None, ...]:
    """What a replica of each service takes; None where it takes whole accelerators of nodes of its own."""
    services = list(named_services(workload))
    if workload.tenancy is None:
        return (None,) * len(services)
    return tenancy.shared(workload, services, catalog).units


def services_of(workload: Workload) -> tuple[Workload, ...]:
    """Each service as the workload that it would be alone."""
    alone = workload.model_copy(update={"also": ()})
    return (alone, *(_alone(alone, service) for service in workload.also))


def named_services(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """Name and workload of each service."""
    for index, service in enumerate(services_of(workload)):
        yield _name(workload, index), service


def _alone(workload: Workload, service: Service) -> Workload:
    hardware = workload.hardware.model_copy(
        update={
            "machine": service.machine or workload.hardware.machine,
            "nodes": service.nodes,
            "spares": service.spares,
        }
    )
    taken = ("users", "model", "slo", "redundancy", "engine", "overrides")
    return workload.model_copy(
        update={"hardware": hardware, **{name: getattr(service, name) for name in taken}}
    )


def _name(workload: Workload, index: int) -> str:
    return workload.also[index - 1].name if index else workload.name


def _placed(error: RackwrightError, index: int) -> list[Problem]:
    """The problems of a service at its place in the file."""
    if index == 0:
        return list(error.problems)
    return [replace(p, where=f"also[{index - 1}].{_field(p.where)}") for p in error.problems]


def _field(where: str) -> str:
    """``hardware.machine`` of a workload is ``machine`` of a service."""
    return re.sub(r"^hardware\.(machine|nodes|spares)\b", r"\1", where)


def _together(parts: Sequence[Part]) -> Iterator[Problem]:
    """Why services that stand alone cannot stand side by side."""
    names = [part.deployment for part in parts]
    for index, part in enumerate(parts[1:], start=1):
        where = f"also[{index - 1}]"
        if part.deployment in names[:index]:
            yield Problem(
                f"{where}.model.id",
                "must be a model that no other service of the workload has",
                f'"{part.plan.workload.model.id}" twice',
                "requests and metrics are told apart by the model's name",
                "add its users to the other service, or size it as a workload of its own",
            )
        if _rails(part) != _rails(parts[0]):
            yield Problem(
                f"{where}.machine",
                "must have the fabric of the others: the same NICs on the same rails",
                f"{part.pool.machine} beside {parts[0].pool.machine}",
                "one set of rails, networks and addresses serves the site",
                "use one machine for all, set hardware.fabric: none, or size it as a workload of its own",
            )


def _without_rails(parts: Sequence[Part]) -> list[Part]:
    """Where a search gave services networks that differ, those whose replicas stay in a node go without."""
    if all(_rails(part) == _rails(parts[0]) for part in parts):
        return list(parts)
    return [
        part
        if part.plan.fabric is None or part.plan.deployments[0].layout.nodes_per_replica > 1
        else replace(part, plan=_without_fabric(part.plan, part.catalog))
        for part in parts
    ]


def _without_fabric(plan: Plan, catalog: Catalog) -> Plan:
    hardware = plan.workload.hardware.model_copy(update={"fabric": "none"})
    alone = size(plan.workload.model_copy(update={"hardware": hardware}), catalog)
    return alone.model_copy(update={"alternatives": plan.alternatives})


def _rails(part: Part) -> Fabric | None:
    """The fabric without what follows from the number of nodes, or the service's name."""
    fabric = part.plan.fabric
    return fabric and fabric.model_copy(update={"switching": None, "subnet": None})


def _joined(workload: Workload, parts: Sequence[Part], catalog: Catalog) -> Plan:
    first = parts[0].plan
    shared = workload.tenancy is not None
    placed = list(_same_place(parts) if shared else _places(workload, parts))
    stands = placed[:1] if shared else placed
    deployments = tuple(
        part.plan.deployments[0].model_copy(update={"pool": place.pool.name})
        for part, place in zip(parts, placed, strict=True)
    )
    together = joint_cost.cost(joint_cost.Joint([part.costing() for part in parts]))
    _within_budget(workload, together, catalog)
    load = _load(parts)
    return Plan(
        header=first.header.model_copy(
            update={
                "workload_digest": _pinned(workload, parts).digest,
                "catalog_digest": hashlib.sha256(
                    "".join(part.plan.header.catalog_digest for part in parts).encode()
                ).hexdigest(),
            }
        ),
        workload=_pinned(workload, parts),
        load=load,
        sites=(
            first.sites[0].model_copy(
                update={"racks": tuple(rack for place in stands for rack in place.racks)}
            ),
        ),
        pools=tuple(place.pool for place in stands),
        fabric=_fabric(parts),
        deployments=deployments,
        volumes=tuple(volume for part in parts for volume in part.plan.volumes),
        routes=tuple(_route(part, workload) for part in parts),
        scaling=tuple(scaling for part in parts for scaling in part.plan.scaling),
        observability=_observability(parts),
        platform=_platform(parts),
        expectations={placed[0].pool.name: tenant_plan.expectation(parts)}
        if shared
        else {
            place.pool.name: part.plan.expectations[part.pool.name]
            for part, place in zip(parts, placed, strict=True)
        },
        cost=together,
        shares=tuple(
            Share(
                service=part.name,
                deployment=part.deployment,
                load=part.load,
                cost=part.cost,
                alternatives=part.plan.alternatives,
            )
            for part in parts
        ),
        cautions=tuple(_cautions(parts)),
        explanations=tuple(explain_joint.explanations(parts, placed, load, together)),
    )


def _fabric(parts: Sequence[Part]) -> Fabric | None:
    """The first service's fabric, with switches for the nodes of all that have one."""
    first = parts[0]
    if first.plan.fabric is None:
        return None
    nodes = sum(part.nodes for part in parts if part.plan.fabric is not None)
    return services.fabric(
        first.plan.workload, first.catalog.machine(first.pool.machine), first.catalog, nodes
    )


def _pinned(workload: Workload, parts: Sequence[Part]) -> Workload:
    """The workload with what was searched for: sizing it again gives the same plan."""
    chosen = [part.plan.workload for part in parts]
    return workload.model_copy(
        update={
            "hardware": chosen[0].hardware,
            "model": chosen[0].model,
            "engine": chosen[0].engine,
            "also": tuple(
                service.model_copy(
                    update={"machine": own.hardware.machine, "model": own.model, "engine": own.engine}
                )
                for service, own in zip(workload.also, chosen[1:], strict=True)
            ),
        }
    )


def _same_place(parts: Sequence[Part]) -> Iterator[Place]:
    """All services on the nodes of the first: they are as many for each."""
    first = parts[0]
    names = {name: name for rack in first.racks for name in (rack.name, *rack.nodes)}
    for _ in parts:
        yield Place(0, first.pool, first.racks, names, 0)


def _places(workload: Workload, parts: Sequence[Part]) -> Iterator[Place]:
    total = sum(len(part.racks) for part in parts)
    digits = max(2, len(str(total)))
    racks, nodes = 0, 0
    for index, part in enumerate(parts):
        old = part.pool
        name = old.name if index == 0 else f"{old.name}-{part.name}"
        renamed = {node.name: _after(node.name, old.name, name) for node in old.nodes}
        renamed |= {
            rack.name: f"{workload.site.name}-r{racks + number:0{digits}d}"
            for number, rack in enumerate(part.racks, start=1)
        }
        renamed |= {n.block: _after(n.block, old.name, name) for n in old.nodes if n.block is not None}
        rails = part.plan.fabric.rails if part.plan.fabric else ()
        pool = old.model_copy(
            update={
                "name": name,
                "labels": {**old.labels, POOL_LABEL: name},
                "nodes": tuple(
                    Node(
                        name=renamed[node.name],
                        rack=renamed[node.rack],
                        block=None if node.block is None else renamed[node.block],
                        spare=node.spare,
                        rail_addresses=addressing.addresses(rails, nodes + number)
                        if node.rail_addresses
                        else (),
                    )
                    for number, node in enumerate(old.nodes)
                ),
            }
        )
        standing = tuple(
            rack.model_copy(
                update={"name": renamed[rack.name], "nodes": tuple(renamed[n] for n in rack.nodes)}
            )
            for rack in part.racks
        )
        yield Place(index, pool, standing, renamed, racks)
        racks += len(part.racks)
        nodes += part.nodes


def _after(name: str, old: str, new: str) -> str:
    return new + name.removeprefix(old)


def _within_budget(workload: Workload, cost: Cost, catalog: Catalog) -> None:
    budget = workload.search.budget
    if budget is None:
        return
    prices = pricing(workload, catalog).prices
    most = convert(budget.amount, budget.currency, cost.currency, prices)
    if cost.capex.amount > most:
        raise Infeasible(
            Problem(
                "search.budget",
                "must pay for the machines of all services",
                f"{most:,.0f} {cost.currency} for {cost.capex.amount:,.0f} {cost.currency}",
                "each service alone is within it, together they are not",
                "raise the budget, or leave a service out",
            ),
            constraint="search.budget",
            best=f"{cost.capex.amount:,.0f} {cost.currency}",
        )


def _load(parts: Sequence[Part]) -> Load:
    """The peaks of all services at once: they may come in the same hour."""
    sums = {name: sum(getattr(part.load, name) for part in parts) for name in explain_joint.SUMMED}
    plain = sum(part.load.tokens_per_day / part.load.scenario_factor for part in parts)
    return Load(scenario_factor=sums["tokens_per_day"] / plain, **sums)


def _route(part: Part, workload: Workload) -> Route:
    """Every service has a hostname of its own; the first keeps the workload's."""
    return part.plan.routes[0].model_copy(update={"hostname": f"{part.name}.{workload.site.domain}"})


def _observability(parts: Sequence[Part]) -> Observability | None:
    """The rules of every engine; of the rules on GPUs each that differs (limits of other accelerators)."""
    found = [part.plan.observability for part in parts if part.plan.observability is not None]
    if not found:
        return None
    known = {rule.model_dump_json(): rule for each in found for rule in each.node_rules}
    return found[0].model_copy(
        update={
            "deployment_rules": {
                name: rules for each in found for name, rules in each.deployment_rules.items()
            },
            "node_rules": tuple(known.values()),
        }
    )


def _platform(parts: Sequence[Part]) -> Platform | None:
    found = [part.plan.platform for part in parts if part.plan.platform is not None]
    if not found:
        return None
    operators = {o.name: o for each in found for o in each.operators}
    widest = max(found, key=lambda each: len(each.operators))
    order = dict.fromkeys([*(o.name for o in widest.operators), *operators])
    return found[0].model_copy(update={"operators": tuple(operators[name] for name in order)})


def _cautions(parts: Sequence[Part]) -> Iterator[Caution]:
    """Each once; what does not hold for every service says for which."""
    said: dict[tuple[str, str], list[str]] = {}
    kept: dict[tuple[str, str], Caution] = {}
    for part in parts:
        for caution in part.plan.cautions:
            key = caution.id, caution.text
            said.setdefault(key, []).append(part.deployment)
            kept.setdefault(key, caution)
    order = {"refuse": 0, "warn": 1, "info": 2}
    for key, caution in sorted(kept.items(), key=lambda item: order[item[1].severity]):
        if len(said[key]) == len(parts):
            yield caution
        else:
            yield caution.model_copy(update={"text": f"{listing(said[key])}: {caution.text}"})
