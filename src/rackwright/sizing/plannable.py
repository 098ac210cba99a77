"""What the catalog knows and a plan cannot use yet: said before anything is computed."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.catalog import Catalog, EngineEntry, Machine, ModelEntry, Prices
from rackwright.errors import Problem, listing


def problems(
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
    encoder_decoder = model is not None and model.encoder_decoder
    if (
        model is not None
        and engine is not None
        and encoder_decoder
        and "encoder-decoder" not in engine.serves
    ):
        yield Problem(
            "model.id",
            f"must be a model that {engine.id} serves: {listing(engine.serves)}",
            f'"{model.id}", an encoder-decoder',
            "the engine refuses it",
            "choose a decoder-only model",
        )
    if machine is not None:
        yield from _machine(machine, engine, prices, catalog)


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
    if machine.nodes > 1:
        yield Problem(
            where,
            "must be a machine of one node",
            f"{machine.id}, {machine.nodes} nodes with one link between all",
            "a plan names every node and places ranks on it; domains over several nodes are not planned yet",
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
