"""The adapters of a workload as the plan holds them, and what is wrong with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from rackwright.catalog import EngineEntry, ModelEntry
from rackwright.engines.adapters import ENGINES, HOT_SWAP, MOST_RANK, max_rank
from rackwright.errors import Problem, listing
from rackwright.plan import Explanation
from rackwright.plan.adapters import Adapter, AdapterSet
from rackwright.sizing import lora
from rackwright.sizing.explained import cited, entry
from rackwright.sizing.lora import Slots
from rackwright.sizing.shape import GIB
from rackwright.workload import Workload

MIB = 2.0**20
FOLDER = "adapters"


def slots_of(workload: Workload, engine: EngineEntry) -> Slots | None:
    """Slots that every GPU holds; None where the workload has no adapters."""
    asked = workload.model.adapters
    if asked is None:
        return None
    return Slots(asked.active, max_rank(engine.id, [each.rank for each in asked.set]))


def section(
    workload: Workload, model: ModelEntry, engine: EngineEntry, tp: int, mount: str
) -> AdapterSet | None:
    """The plan's section of a deployment with ``tp``, its files under ``mount``."""
    asked, slots = workload.model.adapters, slots_of(workload, engine)
    if asked is None or slots is None:
        return None
    directory = f"{mount}/{FOLDER}/{model.id}"
    cached = asked.cached or max(asked.active, len(asked.set))
    return AdapterSet(
        active=asked.active,
        cached=cached,
        max_rank=slots.rank,
        slot_mib=round(lora.slot_bytes(model, slots.rank, tp) / MIB, 1),
        host_gib=round(cached * lora.parameters(model, slots.rank) * lora.ELEMENT / GIB, 2),
        directory=directory,
        hot_swap=asked.hot_swap,
        adapters=tuple(
            Adapter(
                name=each.name,
                source=each.source,
                revision=each.revision,
                rank=each.rank,
                bytes=round(lora.parameters(model, each.rank) * lora.ELEMENT),
                path=f"{directory}/{each.name}",
                manifest_path=f"{directory}/{each.name}/SHA256SUMS",
                manifest_sha256=each.manifest,
                alias=each.alias,
                weight=each.weight,
                priority=each.priority,
            )
            for each in asked.set
        ),
    )


def host_gib(found: AdapterSet | None) -> int:
    """Host memory of a pod for the adapters that it keeps there."""
    return 0 if found is None else math.ceil(found.host_gib)


def stored(found: AdapterSet | None) -> int:
    """Bytes of their files."""
    return 0 if found is None else sum(adapter.bytes for adapter in found.adapters)


def problems(workload: Workload, model: ModelEntry | None, engine: EngineEntry | None) -> Iterator[Problem]:
    """Adapters that the engine, the model or the target cannot serve, and names that clash."""
    asked, where = workload.model.adapters, "model.adapters"
    if asked is None:
        return
    if engine is not None and engine.id not in ENGINES:
        yield Problem(
            where,
            f"must be left out unless the engine is one of {listing(ENGINES)}",
            f'"{engine.id}"',
            "only their adapters' slots and flags are known",
            "set engine to vllm, or merge the adapter into the weights",
        )
    elif engine is not None and asked.hot_swap and engine.id not in HOT_SWAP:
        yield Problem(
            f"{where}.hot_swap",
            "must be false unless the engine is vllm",
            f'true with "{engine.id}"',
            "the engine finds no adapters by itself; each pod would have to be told through its own API",
            "set engine: vllm, or hot_swap: false",
        )
    if workload.site.target != "kubernetes":
        yield Problem(
            where,
            "must be left out where site.target is hosts",
            f"{len(asked.set)} adapters",
            "adapters are staged in the claim of the base's weights",
            "set site.target: kubernetes, or merge the adapter into the weights",
        )
    if model is not None and (
        model.experts is not None or model.mla is not None or any(g.kind == "linear" for g in model.groups)
    ):
        yield Problem(
            where,
            "must be left out for models with experts, latent or linear attention",
            model.id,
            "which of their layers an engine gives slots is not known, so that memory cannot be counted",
            "choose a dense model, or merge the adapter into the weights and add it to the catalog",
        )
    if asked.hot_swap and asked.cached is None:
        yield Problem(
            f"{where}.cached",
            "must be given with hot_swap",
            "nothing",
            "by the number of adapters it would change with each new one, and restart every engine",
            "set it to as many as host memory shall ever hold",
        )
    if asked.cached is not None and asked.cached < asked.active:
        yield Problem(
            f"{where}.cached",
            f"must be at least active, {asked.active}",
            str(asked.cached),
            "a slot is filled from the copy in host memory",
            "raise it, or lower active",
        )
    yield from _names(workload)


def _names(workload: Workload) -> Iterator[Problem]:
    asked, where = workload.model.adapters, "model.adapters.set"
    assert asked is not None
    names = Counter(each.name for each in asked.set)
    base = workload.model.id
    for index, each in enumerate(asked.set):
        if names[each.name] > 1 or each.name == base:
            yield Problem(
                f"{where}[{index}].name",
                "must differ from the other adapters' and from the model's",
                f'"{each.name}"',
                "requests choose by this name",
                "rename it",
            )
        if each.alias is not None and (each.alias in names or each.alias == base):
            yield Problem(
                f"{where}[{index}].alias",
                "must be the name of no adapter and not the model's",
                f'"{each.alias}"',
                "a request for it could mean either",
                "choose another alias",
            )
        if each.rank > MOST_RANK:
            yield Problem(
                f"{where}[{index}].rank",
                f"must be at most {MOST_RANK}",
                str(each.rank),
                "the engine would not start",
                "train it with a smaller rank, or merge it into the weights",
            )


def explained(found: AdapterSet | None, model: ModelEntry, tp: int) -> Iterator[Explanation]:
    if found is None:
        return
    where = "deployments[0].adapters"
    yield entry(
        f"{where}.max_rank",
        found.max_rank,
        "the largest rank of the set, rounded up to what the engine takes",
        {adapter.name: adapter.rank for adapter in found.adapters},
        "the engine's matrix: --max-lora-rank",
    )
    yield entry(
        f"{where}.slot_mib",
        found.slot_mib,
        "2 B × max_rank × (in + out of every linear layer, the divided side over TP) × layers",
        {
            "max_rank": found.max_rank,
            "tp": tp,
            "layers": model.layers,
            "hidden": model.hidden,
            "ffn": model.ffn,
        },
        *cited(model.layers),
    )
    yield entry(
        f"{where}.host_gib",
        found.host_gib,
        "cached × 2 B × max_rank × (in + out) × layers, whole",
        {"cached": found.cached, "max_rank": found.max_rank},
        *cited(model.layers),
    )
