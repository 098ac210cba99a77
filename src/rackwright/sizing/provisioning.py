"""Pools whose nodes are made: what a provider can make, what is refused, and the plan's section of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackwright.catalog import Accelerator, Catalog, Figure, Machine, find, unknown_entry
from rackwright.catalog.provisioner_entries import Instance, Provisioner
from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.placement import TIER_LABEL
from rackwright.plan import Plan, Pool, Provisioned
from rackwright.sizing import pool_objects
from rackwright.workload import Provisioning, Workload

RESERVED_CPUS, RESERVED_GIB = 2, 32
"""Kept of a node for the system and agents, beside what engines ask (assumed)."""


def as_sold(machine: Machine, workload: Workload, catalog: Catalog) -> Machine:
    """``machine`` with the threads and memory of the instance that is asked for."""
    asked = workload.provisioning
    instance = catalog.provisioners[asked.by].instances.get(asked.instance or "") if asked else None
    if instance is None:
        return machine

    def sold(figure: Figure, value: int) -> Figure:
        return figure.model_copy(
            update={"value": float(value), "source": instance.source, "verified": instance.verified}
        )

    return machine.model_copy(
        update={
            "threads": sold(machine.threads, instance.vcpus),
            "memory": sold(machine.memory, instance.memory_gib),
        }
    )


def problems(workload: Workload, card: Accelerator | None, catalog: Catalog) -> Iterator[Problem]:
    """What the workload asks of its provisioner that it cannot make."""
    asked = workload.provisioning
    if asked is None:
        return
    entry = find(catalog.provisioners, asked.by)
    if entry is None:
        yield unknown_entry(catalog.provisioners, asked.by, "provisioning.by", "provisioner")
        return
    yield from _site(workload)
    yield from _inputs(asked, entry)
    yield from _driver(workload, asked, entry)
    yield from _machines(asked, entry, card)
    if asked.tier not in entry.tiers:
        yield Problem(
            "provisioning.tier",
            f"must be {listing(list(entry.tiers))} with {entry.id}",
            f'"{asked.tier}"',
            "it cannot make or power nodes by itself when pods wait for them",
            f"set it to {entry.tiers[0]}",
        )


def _site(workload: Workload) -> Iterator[Problem]:
    if workload.site.target != "kubernetes":
        yield Problem(
            "provisioning",
            "must be left out where site.target is hosts",
            "given",
            "nodes are made through a cluster's API",
            "drop provisioning",
        )
    if workload.also and workload.tenancy is None:
        yield Problem(
            "provisioning",
            "must be left out where services have pools of their own",
            "given with also",
            "one set of instances and hosts would be meant for several pools",
            "size each service as a workload of its own, or let them share nodes (tenancy)",
        )


def _inputs(asked: Provisioning, entry: Provisioner) -> Iterator[Problem]:
    for name, value in asked.inputs.items():
        known = entry.inputs.get(name)
        if known is None:
            yield Problem(
                f"provisioning.inputs.{name}",
                f"must be an input of {entry.id}{nearest(name, list(entry.inputs))}",
                "another",
                f"it would be ignored; {entry.id} takes {listing(list(entry.inputs)) or 'none'}",
                f"rackwright catalog show {entry.id}",
            )
        elif not re.fullmatch(known.pattern, value):
            yield Problem(
                f"provisioning.inputs.{name}",
                f"must be the {known.about} ({known.pattern})",
                f'"{value}"',
                "the provider refuses it, or takes it for something else",
                f"rackwright catalog show {entry.id}",
            )
    for name, known in entry.inputs.items():
        if known.required and name not in asked.inputs:
            yield Problem(
                f"provisioning.inputs.{name}",
                f"must be given: {known.about}",
                "nothing",
                f"{entry.name} makes no node without it",
                f"add provisioning.inputs.{name}",
            )
    if {"capacity", "reservation"} <= set(entry.inputs):
        reserved = asked.inputs.get("capacity") == "reserved"
        if reserved != ("reservation" in asked.inputs):
            yield Problem(
                "provisioning.inputs.capacity",
                "must be reserved with a reservation, on-demand without",
                f'"{asked.inputs.get("capacity", "")}"',
                "nodes would be bought on demand beside a reservation that is paid, or never come",
                "give both or neither",
            )


def _driver(workload: Workload, asked: Provisioning, entry: Provisioner) -> Iterator[Problem]:
    """One owner of the driver: image and operator would both load one, or neither would."""
    owner = workload.hardware.driver_owner
    if (asked.image_driver, owner) == (True, "gpu-operator"):
        yield Problem(
            "hardware.driver_owner",
            "must be host where the nodes' image brings the driver",
            '"gpu-operator" and provisioning.image_driver: two owners',
            "the operator's driver does not load over the image's, and nodes never become ready",
            "set hardware.driver_owner: host, or take an image without driver",
        )
    elif (asked.image_driver, owner) == (False, "host"):
        yield Problem(
            "provisioning.image_driver",
            "must be true where hardware.driver_owner is host",
            "false: an image without driver",
            "nobody installs one, and nodes advertise no accelerator",
            "take an image with the driver, or set hardware.driver_owner: gpu-operator",
        )
    elif ("image" if asked.image_driver else "none") not in entry.driver:
        yield Problem(
            "provisioning.image_driver",
            f"must be {str('image' in entry.driver).lower()} with {entry.id}",
            str(asked.image_driver).lower(),
            f"images of {entry.name} come with the driver"
            if "image" in entry.driver
            else "its images bring none",
            "set it so, with hardware.driver_owner to match",
        )


def _machines(asked: Provisioning, entry: Provisioner, card: Accelerator | None) -> Iterator[Problem]:
    if entry.hosts:
        if not asked.hosts:
            yield _missing("hosts", "a list of machines with bmc and mac", entry)
        if asked.credentials is None and any(h.credentials is None for h in asked.hosts):
            yield _missing("credentials", "the Secret with username and password of the controllers", entry)
        for field in ("mac", "bmc"):
            known = [getattr(host, field) for host in asked.hosts]
            for twice in sorted({value for value in known if known.count(value) > 1}):
                yield Problem(
                    "provisioning.hosts",
                    f"must have a {field} each",
                    f'"{twice}" twice',
                    "two hosts would be one machine",
                    "mend the list",
                )
    elif asked.hosts:
        yield Problem(
            "provisioning.hosts",
            f"must be left out with {entry.id}",
            f"{len(asked.hosts)} hosts",
            "the provider chooses the machines",
            "drop it",
        )
    if entry.instances:
        yield from _instance(asked, entry, card)


def _missing(name: str, what: str, entry: Provisioner) -> Problem:
    return Problem(
        f"provisioning.{name}",
        f"must be given: {what}",
        "nothing",
        f"{entry.name} makes no node without it",
        f"add provisioning.{name}",
    )


def _instance(asked: Provisioning, entry: Provisioner, card: Accelerator | None) -> Iterator[Problem]:
    known = [n for n, i in entry.instances.items() if card is None or i.accelerator == card.id]
    instance = entry.instances.get(asked.instance or "")
    if instance is None:
        yield Problem(
            "provisioning.instance",
            f"must be an instance of {entry.id}{nearest(asked.instance or '', list(entry.instances))}",
            f'"{asked.instance}"' if asked.instance else "nothing",
            f"its accelerators and size are needed; for this machine: {listing(known) or 'none is known'}",
            f"rackwright catalog show {entry.id}",
        )
        return
    if card is not None and instance.accelerator != card.id:
        yield Problem(
            "provisioning.instance",
            f"must have the accelerator that was sized, {card.name}",
            f'"{asked.instance}" with {instance.accelerator}',
            "memory and speed of the plan would be another card's",
            f"take {listing(known)}" if known else "choose another hardware.machine",
        )
    if asked.rdma and not instance.cards:
        yield Problem(
            "provisioning.rdma",
            f"must be false with {asked.instance}",
            "true",
            "the catalog knows no RDMA cards of it",
            "drop rdma",
        )


def provisioned(plan: Plan, catalog: Catalog) -> Plan:
    """``plan`` with how its pool's nodes are made, where its workload asks for it.

    Raises:
        InputErrors: what was sized does not fit what is made.
    """
    asked = plan.workload.provisioning
    if asked is None:
        return plan
    entry, pool = catalog.provisioners[asked.by], plan.pools[0]
    instance = entry.instances.get(asked.instance or "")
    found = [*_counted(plan, pool, entry, asked), *(_fits(plan, pool, instance, asked) if instance else ())]
    if found:
        raise InputErrors(found)
    tiered = pool.model_copy(update={"tier": asked.tier, "labels": {**pool.labels, TIER_LABEL: asked.tier}})
    plan = plan.model_copy(update={"pools": (tiered, *plan.pools[1:])})
    made = Provisioned(
        pool=pool.name,
        by=entry.id,
        tier=asked.tier,
        nodes_min=len(pool.nodes) if asked.tier == "hot" else 0,
        nodes_max=len(pool.nodes),
        named=entry.hosts,
        gate=pool_objects.gate_of(entry, asked),
        objects=pool_objects.objects(plan, tiered, entry, asked),
    )
    return plan.model_copy(update={"provisioning": (made,)})


def _counted(plan: Plan, pool: Pool, entry: Provisioner, asked: Provisioning) -> Iterator[Problem]:
    if entry.hosts and len(asked.hosts) != len(pool.nodes):
        spares = f", {pool.spares} of them spare" if pool.spares else ""
        yield Problem(
            "provisioning.hosts",
            f"must be the {len(pool.nodes)} nodes of the plan{spares}",
            f"{len(asked.hosts)} hosts",
            "nodes without a machine never come; machines without a node stand idle and unplanned",
            "list the hosts that are missing, lower hardware.spares, or raise hardware.nodes and spares",
        )
    for deployment in plan.deployments:
        if not entry.hosts and deployment.layout.nodes_per_replica > 1:
            yield Problem(
                "provisioning.by",
                "must make nodes of known racks where replicas span nodes",
                f"{entry.id}, and replicas of {deployment.layout.nodes_per_replica} nodes",
                "groups are placed by racks and rails of the plan, which a provider's nodes do not have",
                "use metal3 or nodes that exist, or a layout that fits one node",
            )


def _fits(plan: Plan, pool: Pool, instance: Instance, asked: Provisioning) -> Iterator[Problem]:
    if instance.gpus != pool.gpus_per_node:
        yield Problem(
            "provisioning.instance",
            f"must have {pool.gpus_per_node} accelerators, as {pool.machine}",
            f'"{asked.instance}" with {instance.gpus}',
            "replicas were placed by that number",
            "choose another hardware.machine or instance",
        )
    for deployment in plan.deployments:
        part = deployment.resources
        per_node = max(1, pool.gpus_per_node // max(1, deployment.layout.gpus_per_pod))
        for what, need, has, kept in (
            ("CPUs", part.cpus * per_node, instance.vcpus, RESERVED_CPUS),
            ("GiB of memory", part.memory_gib * per_node, instance.memory_gib, RESERVED_GIB),
        ):
            if need > has - kept:
                yield Problem(
                    "provisioning.instance",
                    f"must have {need + kept:,.0f} {what}: {per_node} pods, and {kept} for the system",
                    f'"{asked.instance}" with {has:,}',
                    "pods would stay pending on nodes that are paid for",
                    "choose a larger instance, or a hardware.machine of its size",
                )
