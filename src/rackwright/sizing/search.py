"""Which hardware for a workload: every machine, precision and engine of the catalog, sized and ranked.

Each option is sized by the same code as a plan (``stand_of``, ``choose``), so that what is ranked here is
what a plan would say. An option that does not stand says which constraint binds and the best value it
reaches; nothing is relaxed to make it fit.

Objectives, less is better:
    tco              all that is paid over the months of depreciation
    capex            what is paid before the first token
    cost-per-token   tco over the tokens of those months, a million of them
    energy           kWh for a million tokens, at the facility's meter
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rackwright.catalog import Catalog, EngineEntry, Machine, ModelEntry, find, unknown_entry
from rackwright.engines.registry import loads
from rackwright.errors import Infeasible, InputErrors, Problem, RackwrightError, listing
from rackwright.plan import Plan
from rackwright.plan.cost import Alternative, Alternatives
from rackwright.sizing import economics, engine_choice
from rackwright.sizing.cost import costing
from rackwright.sizing.estimate import Evidence
from rackwright.sizing.layout import Chosen, choose
from rackwright.sizing.load import Demand, demand
from rackwright.sizing.nodes import POWER_FACTOR
from rackwright.sizing.pricing import Pricing, pricing
from rackwright.sizing.size import size, stand_of
from rackwright.workload import AUTO, Objective, Workload

DOMESTIC = ("huawei", "moore-threads", "biren", "cambricon")
"""Vendors that a domestic-compliance rule in China accepts."""

RUNNERS_UP = 5
"""Runners-up that a plan keeps; ``rackwright search`` prints them all."""


@dataclass(frozen=True)
class Option:
    """One way that stands. ``workload``: with the machine, precision, engine and fabric filled in."""

    workload: Workload
    machine: Machine
    quantisation: str
    chosen: Chosen
    nodes: int
    capex: float
    tco: float
    cost_per_million: float
    energy_kwh_per_million: float
    currency: str

    @property
    def evidence(self) -> Evidence:
        return self.chosen.candidate.at.evidence

    def unit(self, objective: Objective) -> str:
        return {
            "tco": self.currency,
            "capex": self.currency,
            "cost-per-token": f"{self.currency} a million tokens",
            "energy": "kWh a million tokens",
        }[objective]

    def value(self, objective: Objective) -> float:
        return {
            "tco": self.tco,
            "capex": self.capex,
            "cost-per-token": self.cost_per_million,
            "energy": self.energy_kwh_per_million,
        }[objective]


@dataclass(frozen=True)
class Lost:
    """One way that does not stand. ``stage``: how far it came; later is nearer to standing."""

    machine: str
    quantisation: str
    constraint: str
    best: str
    text: str
    stage: int
    engine: str = ""


@dataclass(frozen=True)
class Found:
    """Options best first, and all that were refused."""

    objective: Objective
    options: tuple[Option, ...]
    lost: tuple[Lost, ...]

    @property
    def best(self) -> Option:
        return self.options[0]

    @property
    def several_engines(self) -> bool:
        """Whether more than one engine was looked at."""
        looked = {o.workload.engine for o in self.options} | {item.engine for item in self.lost}
        return len(looked - {""}) > 1


def search(workload: Workload, catalog: Catalog) -> Found:
    """Every option of the catalog for ``workload``; its own machine, where it names one, is the only one.

    Raises:
        InputErrors: what is wrong whatever the machine: an unknown model or engine, a name, a flag.
        Infeasible: nothing stands; the constraint that binds the option that came nearest.
    """
    model = catalog.model(workload.model.id)
    _open_engines(workload, catalog)
    asked, priced = demand(workload), pricing(workload, catalog)
    own = (workload.hardware.machine, *workload.search.machines)
    named = {m.id for name in own if name and (m := find(catalog.machines, name)) is not None}
    options: list[Option] = []
    lost: list[Lost] = []
    wrong: list[InputErrors] = []
    for candidate in _candidates(workload, catalog, model):
        machine = catalog.machine(str(candidate.hardware.machine))
        quantisation = candidate.model.quantisation or model.default_quantisation
        refused = _beforehand(candidate, machine, catalog, named)
        if refused is not None:
            lost.append(Lost(machine.id, quantisation, *refused, candidate.engine))
            continue
        try:
            option = _sized(candidate, machine, quantisation, catalog, asked, priced)
        except Infeasible as error:
            stage, text = _stage(error), _short(error)
            lost.append(
                Lost(machine.id, quantisation, error.constraint, error.best, text, stage, candidate.engine)
            )
            continue
        except InputErrors as error:
            wrong.append(error)
            where, text = error.problems[0].where, _short(error)
            lost.append(Lost(machine.id, quantisation, where, "", text, 0, candidate.engine))
            continue
        over = _over_budget(candidate, option, priced)
        if over is not None:
            lost.append(over)
            continue
        options.append(option)
    if options:
        objective = workload.search.objective
        ranked = sorted(options, key=lambda o: (o.value(objective), o.nodes, o.machine.id, o.quantisation))
        # Options come in the order that the rules prefer their engines in, and sorting keeps it among equals.
        return Found(objective, tuple(ranked), tuple(lost))
    raise _nothing(workload, lost, wrong)


def plan_of(workload: Workload, catalog: Catalog) -> Plan:
    """The plan of ``workload``: of the machine and engine that it names, or of the best that are found.

    Raises:
        InputErrors, Infeasible: as ``size`` and ``search``.
    """
    if workload.hardware.machine is not None and workload.engine != AUTO:
        return size(workload, catalog)
    return planned(search(workload, catalog), catalog)


def planned(found: Found, catalog: Catalog) -> Plan:
    """The plan of the best option, with what it was preferred to and what was refused."""
    best, objective = found.best, found.objective
    plan = size(best.workload, catalog)
    ahead = best.value(objective)
    several = found.several_engines
    runners = tuple(
        Alternative(
            machine=o.machine.id,
            quantisation=o.quantisation,
            engine=o.workload.engine if several else None,
            nodes=o.nodes,
            value=round(o.value(objective), 4),
            why=why_behind(o, best, objective),
        )
        for o in found.options[1 : 1 + RUNNERS_UP]
    )
    refused = tuple(
        Alternative(
            machine=r.machine,
            quantisation=r.quantisation,
            engine=r.engine if several and r.engine else None,
            why=r.text,
        )
        for r in found.lost
    )
    return plan.model_copy(
        update={
            "alternatives": Alternatives(
                objective=objective,
                unit=best.unit(objective),
                value=round(ahead, 4),
                engine_why=_spoken_for(best, catalog) if several else None,
                considered=len(found.options) + len(found.lost),
                runners_up=runners,
                refused=refused,
            )
        }
    )


def _spoken_for(option: Option, catalog: Catalog) -> str:
    """The objective decided; what the guides' rules say of the engine that it chose."""
    model = catalog.model(option.workload.model.id)
    case = engine_choice.case_of(model, catalog.accelerator_of(option.machine), option.workload.requirements)
    engine = option.workload.engine
    said = engine_choice.verdict(engine, case, catalog.engines.values())
    return f"{engine} is best by {option.workload.search.objective}; {said}"


def why_behind(option: Option, best: Option, objective: Objective) -> str:
    """Why ``option`` is behind ``best``: the factor, and the count of nodes that makes it."""
    ahead, value = best.value(objective), option.value(objective)
    factor = value / ahead if ahead else float("inf")
    each = option.chosen.candidate.at.low * option.chosen.replicas / option.chosen.nodes
    count = "1 node" if option.nodes == 1 else f"{option.nodes:,} nodes"
    return f"{factor:.2f} × the {objective} of the best: {count} of {each:,.0f} tok/s (low end)"


def _open_engines(workload: Workload, catalog: Catalog) -> None:
    """Raises InputErrors where what is said of engines cannot be followed."""
    only, problems = workload.search.engines, list[Problem]()
    if workload.tenancy is not None:
        problems.append(
            Problem(
                "tenancy",
                "must be left out of a search",
                f"mode {workload.tenancy.mode}",
                "options are whole machines of one service; a share would be compared with them as one",
                "drop it and search, or size it: rackwright size WORKLOAD.yaml",
            )
        )
    for name in only or ():
        entry = find(catalog.engines, name)
        if entry is None:
            problems.append(unknown_entry(catalog.engines, name, "search.engines", "engine"))
        elif not entry.launchable:
            startable = [e.id for e in catalog.engines.values() if e.launchable]
            problems.append(
                Problem(
                    "search.engines",
                    f"must be engines that plans can launch: {listing(startable)}",
                    f'"{name}"',
                    "its command line is not written yet; the catalog has it for estimates",
                    "drop it",
                )
            )
    if workload.engine == AUTO and workload.overrides.engine_flags:
        problems.append(
            Problem(
                "overrides.engine_flags",
                "must be empty where the engine is searched",
                listing(sorted(workload.overrides.engine_flags)),
                "flags are those of one engine",
                "name the engine, or drop them",
            )
        )
    if workload.engine != AUTO and only is not None:
        problems.append(
            Problem(
                "search.engines",
                f"must be left out unless engine is {AUTO}",
                f"engine {workload.engine} and {listing(only)}",
                "the engine is named already",
                f"set engine: {AUTO}, or drop search.engines",
            )
        )
    if problems:
        raise InputErrors(problems)


def _engines(workload: Workload, machine: Machine, model: ModelEntry, catalog: Catalog) -> list[EngineEntry]:
    """Engines to size on ``machine``: the one named, or those that start, run there and are barred by no
    rule, the preferred ones first."""
    if workload.engine != AUTO:
        named = find(catalog.engines, workload.engine)
        if named is None:
            raise InputErrors(unknown_entry(catalog.engines, workload.engine, "engine", "engine"))
        return [named]
    card = catalog.accelerator_of(machine)
    case = engine_choice.case_of(model, card, workload.requirements, workload.model.quantisation)
    if workload.search.engines is None:
        fits = engine_choice.named(case, catalog.engines.values())
    else:
        asked = [entry for name in workload.search.engines if (entry := find(catalog.engines, name))]
        fits = engine_choice.allowed(case, asked)
    return [
        engine
        for engine in fits
        if engine.launchable and card.vendor in engine.vendors and card.efficiency_key in engine.efficiency
    ]


def _candidates(workload: Workload, catalog: Catalog, model: ModelEntry) -> Iterator[Workload]:
    """The workload with each machine, precision, engine and fabric that it leaves open.

    A fabric is taken only where the machine has one; without one the replica stays inside a node, which is
    tried too: it saves the switches. Precisions that an engine does not load are no options of it.
    """
    hardware = workload.hardware
    names = [hardware.machine] if hardware.machine else (workload.search.machines or catalog.machines)
    for name in names:
        machine = catalog.machine(name)
        layer = machine.fabric.layer if machine.fabric is not None else None
        fabric = {"Ethernet": "roce", "InfiniBand": "infiniband", None: "none"}[layer]
        chosen = hardware.model_copy(
            update={"machine": machine.id, "fabric": hardware.fabric if hardware.machine else fabric}
        )
        engines = _engines(workload, machine, model, catalog)
        if not engines:
            engines = [_any(catalog)]  # sized, so that what bars the machine is said as for a named engine
        for engine in engines:
            for quantisation in _precisions(workload, model, engine):
                yield workload.model_copy(
                    update={
                        "engine": engine.id,
                        "hardware": chosen,
                        "model": workload.model.model_copy(update={"quantisation": quantisation}),
                    }
                )


def _any(catalog: Catalog) -> EngineEntry:
    return next(e for e in catalog.engines.values() if e.launchable)


def _precisions(workload: Workload, model: ModelEntry, engine: EngineEntry) -> list[str]:
    if workload.model.quantisation is not None:
        return [workload.model.quantisation]
    return [name for name in sorted(model.quantisations) if name in loads(engine)] or [
        model.default_quantisation
    ]


def _beforehand(
    workload: Workload, machine: Machine, catalog: Catalog, named: Collection[str]
) -> tuple[str, str, str, int] | None:
    """What rules a machine out before it is sized: vendor, compliance, consumer cards, power of the rack.

    ``named``: machines that the workload itself names.
    """
    wanted, card = workload.search, catalog.accelerator_of(machine)
    if wanted.vendors and card.vendor not in wanted.vendors:
        return "search.vendors", card.vendor, f"{card.vendor} is not among {listing(wanted.vendors)}", 0
    if wanted.domestic and card.vendor not in DOMESTIC:
        return "search.domestic", card.vendor, f"{card.vendor} is no domestic vendor", 0
    if card.eula_restricted and (wanted.datacentre or machine.id not in named):
        text = "the driver's licence bars consumer cards from data centres; where it stands in none, name it"
        return "search.datacentre", card.id, f"{text} under search.machines", 0
    drawn, rating = machine.full_load.value * POWER_FACTOR, workload.site.rack.rating
    if drawn > rating:
        text = (
            f"one node draws {drawn / 1000:,.1f} kW with {POWER_FACTOR:g} in hand, of the rack's "
            f"{rating / 1000:,.1f} kW"
        )
        return "site.rack.rating", f"{drawn / 1000:,.1f} kW", text, 1
    return None


def _sized(  # noqa: PLR0917 - what one option is made of
    workload: Workload,
    machine: Machine,
    quantisation: str,
    catalog: Catalog,
    asked: Demand,
    priced: Pricing,
) -> Option:
    stand = stand_of(workload, catalog)
    chosen = choose(stand, asked)
    costs = costing(stand, asked, chosen, priced, catalog)
    nodes, a = costs.fleet.nodes(costs.users), costs.at
    return Option(
        workload=workload,
        machine=machine,
        quantisation=quantisation,
        chosen=chosen,
        nodes=int(nodes),
        capex=economics.capex(a, nodes),
        tco=economics.tco(a, nodes, a.depreciation_months),
        cost_per_million=economics.per_million(a, nodes, asked.tokens_per_day),
        energy_kwh_per_million=economics.energy_per_million(a, nodes, asked.tokens_per_day),
        currency=a.currency,
    )


def _over_budget(workload: Workload, option: Option, priced: Pricing) -> Lost | None:
    budget = workload.search.budget
    if budget is None:
        return None
    limit = economics.convert(budget.amount, budget.currency, priced.currency, priced.prices)
    if option.capex <= limit:
        return None
    best = f"{option.capex:,.0f} {option.currency}"
    text = f"costs {best} to buy, above the budget of {budget.amount:,.0f} {budget.currency}"
    return Lost(option.machine.id, option.quantisation, "search.budget", best, text, 5)


_STAGES = {"hardware.machine": 1, "model.context": 1, "slo.tpot_p50": 2, "slo.ttft_p95": 2, "slo.e2e_p95": 2}


def _stage(error: Infeasible) -> int:
    """How far an option came: memory first, then the objectives, then the count of nodes."""
    return _STAGES.get(error.constraint, 3)


def _short(error: RackwrightError) -> str:
    first = error.problems[0]
    return f"{first.where} {first.rule}; found {first.found}"


def _nothing(workload: Workload, lost: list[Lost], wrong: list[InputErrors]) -> RackwrightError:
    if wrong and len(wrong) == len(lost):
        return wrong[0]
    if not lost:
        return InputErrors(
            Problem(
                "search.machines", "must leave a machine to look at", "none", "there is nothing to size",
                "rackwright catalog list machine",
            )
        )  # fmt: skip
    furthest = max(item.stage for item in lost)
    near = [item for item in lost if item.stage == furthest]
    nearest = min(near, key=lambda item: (_number(item.best), item.machine, item.quantisation))
    return Infeasible(
        Problem(
            nearest.constraint,
            "must leave one machine of the catalog that serves the workload",
            f"none of {len(lost)}; nearest {nearest.machine} {nearest.quantisation}: {nearest.text}",
            "a plan that misses an objective, a red line or the budget is no plan",
            f"relax {nearest.constraint} to {nearest.best}"
            if nearest.best
            else f"change {nearest.constraint}",
        ),
        constraint=nearest.constraint,
        best=nearest.best,
    )


def _number(text: str) -> float:
    head = text.partition(" ")[0].replace(",", "")
    try:
        return float(head)
    except ValueError:
        return float("inf")
