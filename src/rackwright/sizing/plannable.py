"""What the catalog knows and a plan cannot use yet: said before anything is computed."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.catalog import Catalog, EngineEntry, Machine, ModelEntry, Prices
from rackwright.engines.registry import LAUNCHERS, loads
from rackwright.errors import Problem, listing
from rackwright.sizing import engine_choice, trays
from rackwright.sizing.devices import device_of
from rackwright.workload import Workload


def problems(  # noqa: PLR0917 - the entries that a workload names
    workload: Workload,
    machine: Machine | None,
    model: ModelEntry | None,
    engine: EngineEntry | None,
    prices: Prices,
    catalog: Catalog,
) -> Iterator[Problem]:
    """What the catalog knows and no plan can use yet, or not together."""
    if engine is not None and not engine.launchable:
        usable = [e.id for e in catalog.engines.values() if e.launchable]
        yield Problem(
            "engine",
            "must be an engine that plans can launch",
            f'"{engine.id}"',
            "its command line is not written yet; the catalog has it for estimates",
            f"set engine to {listing(usable)}",
        )
    if engine is not None and model is not None:
        yield from _rules(workload, machine, model, engine, catalog)
        yield from _precision(workload, model, engine, catalog)
        yield from _cache(workload, engine)
    if machine is not None:
        yield from _machine(machine, engine, prices, catalog)
        yield from _image(workload, machine, engine, catalog)


def _rules(
    workload: Workload, machine: Machine | None, model: ModelEntry, engine: EngineEntry, catalog: Catalog
) -> Iterator[Problem]:
    """Rules of the guides that bar the engine here, with the engines that they leave."""
    card = catalog.accelerator_of(machine) if machine is not None else None
    case = engine_choice.case_of(model, card, workload.requirements, workload.model.quantisation)
    left = [e.id for e in engine_choice.allowed(case, catalog.engines.values())]
    startable = [name for name in left if catalog.engines[name].launchable]
    for rule in engine_choice.barring(engine.id, case):
        said = rule.id in _SAID_BETTER and (card is None or card.vendor not in engine.vendors)
        if said or rule.id == "gguf":  # by the check of the machine, and by that of the precision
            continue
        fits = listing([name for name in rule.engines if name in left] or list(rule.engines))
        never = rule.kind == "never"
        yield Problem(
            "engine",
            f"must not be {engine.id} for {rule.when}" if never else f"must be {fits} for {rule.when}",
            f'"{engine.id}"',
            rule.why,
            f"set engine to {listing(startable)}"
            if startable
            else "no engine that plans can start keeps every rule: change the model, the machine or the "
            "requirements",
        )


_SAID_BETTER = frozenset({"ascend", "rocm", "apple"})
"""Rules that the check of the machine says better, where the engine's entry lacks the vendor."""


def _cache(workload: Workload, engine: EngineEntry) -> Iterator[Problem]:
    known = LAUNCHERS.get(engine.id)
    if workload.model.kv_cache == "fp8" and known is not None and not known.TRAITS.fp8_cache:
        yield Problem(
            "model.kv_cache",
            f"must not be fp8 with {engine.id}",
            '"fp8"',
            "the engine has no KV cache in FP8",
            "set it to auto",
        )


def _precision(
    workload: Workload, model: ModelEntry, engine: EngineEntry, catalog: Catalog
) -> Iterator[Problem]:
    """A precision that the model is offered in and the engine does not load."""
    asked = workload.model.quantisation or model.default_quantisation
    if asked not in model.quantisations or asked in loads(engine):
        return
    fits = [name for name in model.quantisations if name in loads(engine)]
    others = [e.id for e in catalog.engines.values() if e.launchable and asked in loads(e)]
    ways = [f"set model.quantisation to {listing(fits)}"] if fits else []
    ways += [f"set engine to {listing(others)}"] if others else []
    yield Problem(
        "model.quantisation",
        f"must be a precision that {engine.id} loads: {listing(loads(engine))}",
        f'"{asked}"' + ("" if workload.model.quantisation else f", the model's own default ({model.id})"),
        "the engine would not start with these weights",
        ", or ".join(ways) or "choose another model",
    )


def _image(
    workload: Workload, machine: Machine, engine: EngineEntry | None, catalog: Catalog
) -> Iterator[Problem]:
    """Images for other accelerators than NVIDIA's: there is one a vendor, and no digest of any is known."""
    card = catalog.accelerator_of(machine)
    if engine is None or card.vendor == "nvidia" or card.vendor not in engine.vendors:
        return
    if not device_of(card).resource:
        if workload.site.target == "kubernetes":
            yield Problem(
                "site.target",
                f"must be hosts for {card.name}",
                '"kubernetes"',
                "no cluster runs its pods on such machines",
                "set site.target: hosts",
            )
        return
    if workload.overrides.image_digest is None:
        yield Problem(
            "overrides.image_digest",
            f"must be given for {engine.id} on {card.name}",
            "nothing",
            f"the image for {card.vendor} is another than the catalog's; its digest is not known, and none "
            "is made up",
            f"look up the digest that your registry serves for {engine.repository} and set it",
        )


def _machine(
    machine: Machine, engine: EngineEntry | None, prices: Prices, catalog: Catalog
) -> Iterator[Problem]:
    where, card = "hardware.machine", catalog.accelerator_of(machine)
    if engine is not None and (
        card.vendor not in engine.vendors or card.efficiency_key not in engine.efficiency
    ):
        yield Problem(
            where,
            f"must have accelerators that plans for {engine.id} know",
            f"{machine.id} with {card.name}",
            "neither its speed nor its host's checks are known for this engine",
            "choose another machine: rackwright catalog list machine",
        )
    if machine.nodes > 1 and not trays.in_domain(machine, card):
        yield Problem(
            where,
            "must be a machine of one node",
            f"{machine.id}, {machine.nodes} nodes with one link between all",
            "a plan names every node and places ranks on it; of several only NVLink domains are planned",
            "choose a machine of one node: rackwright catalog list machine",
        )
    if machine.id not in prices.machines:
        yield Problem(
            where,
            f"must have a price in the price list of this site ({prices.id})",
            f"{machine.id} without one" + (f": {machine.no_price}" if machine.no_price else ""),
            "a plan without its cost would be compared with others as if it were free",
            "put your quotation into a price list of your own, with replaces: true",
        )
