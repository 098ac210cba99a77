"""Ways of sharing that contradict each other, the machine, or what a service asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rackwright.catalog import Accelerator, Catalog, find
from rackwright.engines.registry import LAUNCHERS
from rackwright.errors import Problem, listing, nearest
from rackwright.workload import AUTO, Tenancy, Workload

MPS_ENGINES = tuple(name for name, known in LAUNCHERS.items() if known.TRAITS.fixed_cache)
"""Engines that can be told the bytes of their KV cache: the others count what is free at their start, which
under MPS their neighbours change."""


def problems(
    workload: Workload, asked: Tenancy, services: Sequence[tuple[str, Workload]], catalog: Catalog
) -> Iterator[Problem]:
    """Every reason why the services cannot share as asked."""
    yield from _site(workload)
    yield from _same_machine(workload)
    for index, (name, service) in enumerate(services):
        yield from _service(asked, name, service, f"also[{index - 1}]." if index else "")
    yield from _options(asked, [name for name, _ in services])
    named = workload.hardware.machine
    machine = find(catalog.machines, named) if named is not None else None
    if machine is not None:
        yield from _card(asked, catalog.accelerator_of(machine), catalog)


def _site(workload: Workload) -> Iterator[Problem]:
    if workload.site.target != "kubernetes":
        yield Problem(
            "tenancy",
            "must be left out where site.target is hosts",
            f"mode {workload.tenancy.mode if workload.tenancy else ''}",
            "accelerators are divided by the GPU operator and handed out by the device plugin",
            "set site.target: kubernetes, or drop tenancy",
        )
    if workload.hardware.machine is None:
        yield Problem(
            "hardware.machine",
            "must name a machine where services share nodes",
            "nothing",
            "the search looks at whole machines of one service",
            "name one: rackwright catalog list machine",
        )
    if workload.hardware.fabric != "none":
        yield Problem(
            "hardware.fabric",
            "must be none where services share nodes",
            f'"{workload.hardware.fabric}"',
            "no replica spans nodes there: the fabric would be bought and stand idle",
            "set it to none, or drop tenancy",
        )


def _same_machine(workload: Workload) -> Iterator[Problem]:
    for index, service in enumerate(workload.also):
        where = f"also[{index}]"
        if service.machine not in (None, workload.hardware.machine):
            yield Problem(
                f"{where}.machine",
                "must be the workload's where services share nodes",
                f'"{service.machine}"',
                "they stand on the same nodes",
                "leave it out, or drop tenancy",
            )
        for field, usual in (("nodes", None), ("spares", 0)):
            value = getattr(service, field)
            if value != usual:
                yield Problem(
                    f"{where}.{field}",
                    "must be left out where services share nodes",
                    str(value),
                    "the nodes are those of all services",
                    f"set hardware.{field}",
                )


def _service(asked: Tenancy, name: str, service: Workload, where: str) -> Iterator[Problem]:
    overrides = service.overrides
    if service.engine == AUTO:
        yield Problem(
            f"{where}engine",
            "must be named where services share nodes",
            AUTO,
            "the search looks at whole machines of one service",
            "name one: rackwright catalog list engine",
        )
    elif asked.mode == "mps" and service.engine not in MPS_ENGINES:
        yield Problem(
            f"{where}engine",
            f"must be {listing(MPS_ENGINES)} under mps",
            f'"{service.engine}"',
            "other engines size their KV cache by what is free at their start, which neighbours change",
            "set tenancy.mode: mig, or another engine",
        )
    if (overrides.pipeline_parallel or 1) > 1:
        yield Problem(
            f"{where}overrides.pipeline_parallel",
            "must be 1 where services share nodes",
            str(overrides.pipeline_parallel),
            "pipeline stages are whole nodes",
            "drop the override, or drop tenancy",
        )
    if asked.mode != "gpus" and (overrides.tensor_parallel or 1) > 1:
        what = "a MIG instance reaches no other one" if asked.mode == "mig" else "a pod gets one share only"
        yield Problem(
            f"{where}overrides.tensor_parallel",
            f"must be 1 under {asked.mode}",
            str(overrides.tensor_parallel),
            f"{what}: there is no peer-to-peer path for NCCL",
            f"drop the override; {name} takes whole accelerators under tenancy.mode: gpus",
        )


def _options(asked: Tenancy, names: Sequence[str]) -> Iterator[Problem]:
    if asked.mode != "mig" and asked.profiles:
        yield Problem(
            "tenancy.profiles",
            "must be left out unless mode is mig",
            listing(list(asked.profiles)),
            "profiles are MIG's",
            "set tenancy.mode: mig, or drop them",
        )
    for name in asked.profiles:
        if name not in names:
            yield Problem(
                f"tenancy.profiles.{name}",
                f"must name a service of the workload: {listing(names)}{nearest(name, names)}",
                f'"{name}"',
                "nothing would stand in its slices",
                "write the service's name",
            )
    if asked.mode == "mps" and asked.clients is None:
        yield Problem(
            "tenancy.clients",
            "must say how many replicas share an accelerator under mps",
            "nothing",
            "memory and threads are divided by it",
            "set it to 2 or more",
        )
    if asked.mode != "mps" and asked.clients is not None:
        yield Problem(
            "tenancy.clients",
            "must be left out unless mode is mps",
            str(asked.clients),
            "only MPS divides an accelerator evenly",
            "set tenancy.mode: mps, or drop it",
        )
    if asked.mode == "mps" and not asked.trusted:
        yield Problem(
            "tenancy.trusted",
            "must be true under mps: its tenants must trust one another",
            "false",
            "MPS limits each client's memory and threads, but a fatal fault of one ends all on its "
            "accelerator, and they share one server process",
            "set tenancy.mode: mig, which separates faults too, or trusted: true where they do",
        )


def _card(asked: Tenancy, card: Accelerator, catalog: Catalog) -> Iterator[Problem]:
    if asked.mode == "gpus":
        return
    if card.vendor != "nvidia":
        yield Problem(
            "tenancy.mode",
            f"must be gpus on {card.name}",
            f'"{asked.mode}"',
            "MIG and MPS are NVIDIA's",
            "set it to gpus",
        )
        return
    if asked.mode != "mig":
        return
    partitioning = catalog.partitioning_of(card)
    if not card.mig_slices.value:
        yield Problem(
            "tenancy.mode",
            f"must not be mig on {card.name}",
            '"mig"',
            "the card has no MIG",
            "set it to gpus, or to mps where the tenants trust one another",
        )
    elif partitioning is None:
        known = sorted({p.accelerator for p in catalog.partitionings.values()})
        yield Problem(
            "tenancy.mode",
            f"must not be mig on a card whose profiles are not known: {card.name}",
            '"mig"',
            f"memory and processors of its profiles are needed to size; known are {listing(known)}",
            "add an entry of the kind partitioning from nvidia-smi mig -lgip and -lgipp "
            "(rackwright catalog show h200-sxm-mig --yaml)",
        )
    else:
        names = [profile.name for profile in partitioning.profiles]
        for service, profile in asked.profiles.items():
            if profile not in names:
                yield Problem(
                    f"tenancy.profiles.{service}",
                    f"must be a MIG profile of {card.name}: {listing(names)}{nearest(profile, names)}",
                    f'"{profile}"',
                    "the MIG manager would refuse the whole configuration",
                    "write one of those, or leave it out",
                )
