"""What one section of a plan says of another must hold: a digest proves who wrote it, not that it fits."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from rackwright.errors import Problem, listing, nearest
from rackwright.plan.deployments import Deployment
from rackwright.plan.fabric import Fabric
from rackwright.plan.pools import Pool

if TYPE_CHECKING:
    from rackwright.plan import Plan

AGAIN = "size the workload again: rackwright size WORKLOAD.yaml -o plan.yaml"
WHY = "everything downstream follows it"


def link_problems(plan: Plan) -> Iterator[Problem]:
    """Names that lead nowhere, counts that cannot be, addresses that are none."""
    yield from _present(plan)
    yield from _unique(plan)
    for index, pool in enumerate(plan.pools):
        yield from _pool(plan, pool, f"pools[{index}]")
    for index, deployment in enumerate(plan.deployments):
        yield from _deployment(plan, deployment, f"deployments[{index}]")
    yield from _services(plan)
    yield from _racks(plan)
    yield from _tenancy(plan)
    yield from _claims(plan)
    yield from _fabric(plan)
    for index, made in enumerate(plan.provisioning or ()):
        yield from _known(f"provisioning[{index}].pool", made.pool, [p.name for p in plan.pools], "pool")


def _problem(where: str, rule: str, found: str) -> Problem:
    return Problem(where, rule, found, WHY, AGAIN)


def _known(where: str, name: str, known: Collection[str], what: str) -> Iterator[Problem]:
    if name not in known:
        yield _problem(where, f"must name a {what} of the plan{nearest(name, list(known))}", f'"{name}"')


def _at_least(where: str, value: float, least: float = 1) -> Iterator[Problem]:
    if not value >= least:
        yield _problem(where, f"must be at least {least:g}", f"{value:g}")


def _present(plan: Plan) -> Iterator[Problem]:
    for section in ("sites", "pools"):
        if not getattr(plan, section):
            yield _problem(section, "must have an entry", "none")


def _unique(plan: Plan) -> Iterator[Problem]:
    for what, names in (
        ("sites", [s.name for s in plan.sites]),
        ("pools", [p.name for p in plan.pools]),
        ("pools nodes", [n.name for p in plan.pools for n in p.nodes]),
        ("deployments", [d.name for d in plan.deployments]),
    ):
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            yield _problem(what, "must have names that differ", f"twice: {listing(twice)}")


def _pool(plan: Plan, pool: Pool, where: str) -> Iterator[Problem]:
    yield from _known(f"{where}.site", pool.site, [s.name for s in plan.sites], "site")
    yield from _at_least(f"{where}.gpus_per_node", pool.gpus_per_node)
    if not pool.nodes:
        yield _problem(f"{where}.nodes", "must have an entry", "none")
    if pool.name not in plan.expectations:
        yield _problem(f"expectations.{pool.name}", "must say what the pool's hosts show", "nothing")
    racks = {rack.name for rack in plan.racks()}
    for index, node in enumerate(pool.nodes):
        yield from _known(f"{where}.nodes[{index}].rack", node.rack, racks, "rack")
        for rail, address in enumerate(node.rail_addresses):
            if not _is_address(address):
                yield _problem(
                    f"{where}.nodes[{index}].rail_addresses[{rail}]",
                    "must be an address with its prefix length, such as 10.240.0.1/31",
                    f'"{address}"',
                )
        rails = len(plan.fabric.rails) if plan.fabric else 0
        if len(node.rail_addresses) != rails:
            yield _problem(
                f"{where}.nodes[{index}].rail_addresses",
                f"must have {rails} entries, one a rail",
                str(len(node.rail_addresses)),
            )


interface = lru_cache(maxsize=65536)(ipaddress.ip_interface)
"""An address with its network; each of a plan's is read for three purposes."""


def _is_address(text: str) -> bool:
    try:
        interface(text)
    except ValueError:
        return False
    return "/" in text


def _deployment(plan: Plan, deployment: Deployment, where: str) -> Iterator[Problem]:
    yield from _known(f"{where}.pool", deployment.pool, [p.name for p in plan.pools], "pool")
    layout = deployment.layout
    for name in type(layout).model_fields:
        yield from _at_least(f"{where}.layout.{name}", getattr(layout, name))
    pool = next((p for p in plan.pools if p.name == deployment.pool), None)
    if pool is not None and layout.gpus_per_pod > pool.gpus_per_node:
        yield _problem(
            f"{where}.layout.gpus_per_pod",
            f"must be at most the {pool.gpus_per_node} GPUs of a node",
            str(layout.gpus_per_pod),
        )
    wanted = {"leader", "worker"} if layout.nodes_per_replica > 1 else {"server"}
    roles = [role.role for role in deployment.engine.roles]
    if sorted(roles) != sorted(wanted):
        yield _problem(
            f"{where}.engine.roles",
            f"must be {' and '.join(sorted(wanted))} where a replica takes {layout.nodes_per_replica} nodes",
            listing(roles) or "none",
        )
    yield from _at_least(f"{where}.limits.max_num_seqs", deployment.limits.max_num_seqs)
    yield from _at_least(f"{where}.memory.total_gib", deployment.memory.total_gib, 0.001)


def _services(plan: Plan) -> Iterator[Problem]:
    names = [d.name for d in plan.deployments]
    for section in ("volumes", "routes", "scaling"):
        for index, entry in enumerate(getattr(plan, section)):
            yield from _known(f"{section}[{index}].deployment", entry.deployment, names, "deployment")
    for name in plan.observability.deployment_rules if plan.observability else ():
        yield from _known("observability.deployment_rules", name, names, "deployment")
    for name in plan.expectations:
        yield from _known("expectations", name, [p.name for p in plan.pools], "pool")


def _tenancy(plan: Plan) -> Iterator[Problem]:
    """Every service has its place, and all places of a node fit what it advertises."""
    tenancy = plan.tenancy
    if tenancy is None:
        return
    yield from _known("tenancy.pool", tenancy.pool, [p.name for p in plan.pools], "pool")
    placed = [place.deployment for place in tenancy.places]
    for index, name in enumerate(placed):
        yield from _known(f"tenancy.places[{index}].deployment", name, [d.name for d in plan.deployments],
                          "deployment")  # fmt: skip
    pool = next((p for p in plan.pools if p.name == tenancy.pool), None)
    if pool is None:
        return
    has = tenancy.capacity(pool.gpus_per_node, pool.gpu_resource)
    taken: Counter[str] = Counter()
    for place in tenancy.places:
        taken[place.resource] += place.per_node * place.each
    for resource, count in taken.items():
        if count > has.get(resource, 0):
            yield _problem(
                "tenancy.places",
                f"must take at most the {has.get(resource, 0)} {resource} of a node",
                str(count),
            )
    serving = len(pool.nodes) - pool.spares
    for index, deployment in enumerate(plan.deployments):
        room = tenancy.place(deployment.name)
        replicas = deployment.layout.replicas
        if room is None or replicas > room.per_node * serving:
            yield _problem(
                f"deployments[{index}].layout.replicas",
                f"must fit the places of {serving} serving nodes",
                f"{replicas} with {room.per_node if room else 0} a node",
            )


def _claims(plan: Plan) -> Iterator[Problem]:
    """Either every deployment claims its accelerators, or none does."""
    model = plan.platform.device_model if plan.platform else None
    if plan.claims is None:
        if model == "dra":
            yield _problem("claims", "must be given where platform.device_model is dra", "nothing")
        return
    if model != "dra":
        yield _problem("platform.device_model", "must be dra where accelerators are claimed", f'"{model}"')
    names = [d.name for d in plan.deployments]
    for section in ("claims", "domains"):
        for index, entry in enumerate(getattr(plan.claims, section)):
            yield from _known(f"claims.{section}[{index}].deployment", entry.deployment, names, "deployment")
    for index, name in enumerate(names):
        if plan.claims.claim(name) is None:
            yield _problem(f"deployments[{index}]", "must have a claim where others have one", "none")


def _racks(plan: Plan) -> Iterator[Problem]:
    nodes = {n.name for p in plan.pools for n in p.nodes}
    for s, site in enumerate(plan.sites):
        for r, rack in enumerate(site.racks):
            for n, name in enumerate(rack.nodes):
                yield from _known(f"sites[{s}].racks[{r}].nodes[{n}]", name, nodes, "node")


def _fabric(plan: Plan) -> Iterator[Problem]:
    if plan.fabric is None:
        return
    if not plan.fabric.rails:
        yield _problem("fabric.rails", "must have an entry", "none")
    yield from _subnets(plan.fabric)
    if plan.fabric.kind == "roce":
        yield from _lossless(plan.fabric)


def _subnets(fabric: Fabric) -> Iterator[Problem]:
    """Rails and the switches' own addresses must not share one."""
    networks = [(f"fabric.rails[{i}].subnet", rail.subnet) for i, rail in enumerate(fabric.rails)]
    if fabric.switching is not None and fabric.switching.loopbacks:
        networks.append(("fabric.switching.loopbacks", fabric.switching.loopbacks))
    read = []
    for where, text in networks:
        try:
            read.append((where, ipaddress.ip_network(text)))
        except ValueError as error:
            yield _problem(where, "must be a network", str(error))
    for position, (where, network) in enumerate(read):
        for other, taken in read[:position]:
            if network.overlaps(taken):
                yield _problem(where, f"must not overlap {other}", f"{network} and {taken}")


def _lossless(fabric: Fabric) -> Iterator[Problem]:
    """One lossless class, which PFC guards and into which the DSCP of RDMA falls."""
    qos = fabric.qos
    if qos is None:
        yield _problem("fabric.qos", "must be a profile where RDMA runs over Ethernet", "nothing")
        return
    if qos.lossless != (qos.lossless_priority,):
        guarded = listing([str(p) for p in qos.lossless]) or "no priority"
        yield _problem(
            "fabric.qos.pfc", f"must guard the one lossless priority {qos.lossless_priority}", guarded
        )
    if qos.tos != qos.dscp << 2:
        yield _problem("fabric.qos.tos", f"must be DSCP << 2, {qos.dscp << 2}", str(qos.tos))
    least, most = qos.ecn_min_bytes, qos.ecn_max_bytes
    if least is not None and most is not None and not least < most:
        yield _problem("fabric.qos.ecn_max_bytes", f"must be above ecn_min_bytes, {least}", str(most))
