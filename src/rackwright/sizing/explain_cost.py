"""How every amount of a plan's cost came about."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.catalog import Figure
from rackwright.plan.cost import Cost, Explanation, Money, Way
from rackwright.sizing.cost import GUIDE_UTILISATION, Costing
from rackwright.sizing.explained import GUIDE, OWN, Evidence, cited, entry

NONE = "the price list has none"


def explanations(cost: Cost, c: Costing) -> Iterator[Explanation]:
    """One row an amount, in the order of the section."""
    yield from _list(cost, c)
    yield from _own(cost, c)
    yield from _rates(cost, c)
    yield from _power(cost, c)
    for index, way in enumerate(cost.ways):
        yield from _way(f"cost.ways[{index}]", way, cost, c)
    yield from _sensitivity(cost, c)


def _list(cost: Cost, c: Costing) -> Iterator[Explanation]:
    prices = c.pricing.prices
    yield entry(
        "cost.prices",
        cost.prices,
        "site.prices, else the list of site.country, else the nearest one, else cn",
        {"found": cost.prices_why},
        OWN,
    )
    yield entry(
        "cost.currency",
        cost.currency,
        "the currency of the list's energy; other amounts are converted at its own rates",
        {"cny_per_usd": prices.cny_per_usd, "eur_per_usd": prices.eur_per_usd or NONE},
        *cited(prices.cny_per_usd),
    )


def _own(cost: Cost, c: Costing) -> Iterator[Explanation]:
    a, prices, nodes = c.at, c.pricing.prices, c.fleet.nodes(c.users)
    price = prices.machines[c.fleet.stand.machine.id]
    bought: Evidence = "vendor" if price.verified else "assumed"
    inputs = {"nodes": nodes, "machine": f"{price.value:.10g} {price.unit}"}
    if a.fabric:
        inputs["fabric a node"] = f"{prices.fabric_per_node.value:.10g} {prices.fabric_per_node.unit}"
        bought = bought if prices.fabric_per_node.verified else "assumed"
    yield entry(
        "cost.capex",
        cost.capex.amount,
        "nodes × (machine + share of the fabric)",
        inputs,
        price.source,
        bought,
    )
    yield entry(
        "cost.power_month",
        cost.power_month.amount,
        "mean power × PUE × hours × price of a kWh",
        {
            "mean W": cost.mean_w,
            "PUE": cost.pue,
            "hours": prices.hours_month,
            "price of a kWh": f"{cost.electricity_per_kwh.amount:.10g} {cost.currency}",
        },
        _tariff(c).source,
        cited(_tariff(c))[1],
    )
    space, place = prices.colocation, c.fleet.stand.machine.full_load
    yield entry(
        "cost.space_month",
        cost.space_month.amount,
        "nodes × full load in kW × price of a kW",
        {"nodes": nodes, "full load": place, "price": space or NONE},
        *(cited(space) if space is not None else (OWN, "assumed")),
    )
    staff = prices.staff
    yield entry(
        "cost.staff_month",
        cost.staff_month.amount,
        "people × person-month",
        {"people": cost.people, "person-month": staff.person_month if staff is not None else NONE},
        *(cited(staff.person_month) if staff is not None else (OWN, "assumed")),
    )
    yield entry(
        "cost.people",
        cost.people,
        "by daily users, the step of the largest threshold reached",
        {"users": c.users, "steps": staff.people_from_users if staff is not None else NONE},
        staff.source if staff is not None else OWN,
        "vendor" if staff is not None and staff.verified else "assumed",
    )
    months = prices.depreciation_months
    yield entry(
        "cost.depreciation_months",
        cost.depreciation_months,
        "from the price list",
        {"depreciation": months or f"{a.depreciation_months} (usual)"},
        *(cited(months) if months is not None else (OWN, "assumed")),
    )
    yield entry(
        "cost.depreciation_month",
        cost.depreciation_month.amount,
        "capex / months of depreciation, straight",
        {"capex": cost.capex.amount, "months": cost.depreciation_months},
        OWN,
        bought,
    )
    parts = {
        "depreciation": cost.depreciation_month.amount,
        "power": cost.power_month.amount,
        "space": cost.space_month.amount,
        "staff": cost.staff_month.amount,
    }
    yield entry(
        "cost.month", cost.month.amount, "depreciation + power + space + staff", parts, OWN, "assumed"
    )
    running = {k: v for k, v in parts.items() if k != "depreciation"}
    yield entry(
        "cost.tco",
        cost.tco.amount,
        "capex + months of depreciation × (power + space + staff)",
        {"capex": cost.capex.amount, "months": cost.depreciation_months, **running},
        OWN,
        "assumed",
    )


def _rates(cost: Cost, c: Costing) -> Iterator[Explanation]:
    demand, chosen = c.fleet.demand, c.fleet.chosen
    yield entry(
        "cost.per_million_tokens",
        cost.per_million_tokens.amount,
        "tco / (tokens a day, input and output × 365 / 12 × months) × 10⁶",
        {
            "tco": cost.tco.amount,
            "load.tokens_per_day": demand.tokens_per_day,
            "months": cost.depreciation_months,
        },
        OWN,
        "assumed",
    )
    yield entry(
        "cost.per_million_guide",
        cost.per_million_guide.amount,
        f"(capex + power without PUE over the life) / output at {GUIDE_UTILISATION * 100:.0f} % of the "
        "estimated rate × 10⁶",
        {
            "capex": cost.capex.amount,
            "power without PUE a month": cost.power_month.amount / cost.pue,
            "estimate of a replica tok/s": chosen.candidate.at.output_tok_s,
            "replicas": chosen.replicas,
        },
        GUIDE + ", cost: hardware, power and depreciation at 70 %, no rent, no staff",
        chosen.candidate.at.evidence,
    )


def _tariff(c: Costing) -> Figure:
    place = c.pricing.place
    return place.electricity if place is not None else c.pricing.prices.electricity


def _power(cost: Cost, c: Costing) -> Iterator[Explanation]:
    machine, prices, place = c.fleet.stand.machine, c.pricing.prices, c.pricing.place
    nodes = c.fleet.nodes(c.users)
    pue = place.pue if place is not None and place.pue is not None else prices.pue
    yield entry(
        "cost.pue",
        cost.pue,
        "facility power over the machines' own, of the region or the list",
        {"pue": pue or "1 (the list has none)", "region": cost.region or "none given"},
        *(cited(pue) if pue is not None else (OWN, "assumed")),
    )
    yield entry(
        "cost.mean_w",
        cost.mean_w,
        "nodes × (idle + utilisation × (full − idle))",
        {
            "nodes": nodes,
            "idle": machine.idle,
            "full": machine.full_load,
            "utilisation": prices.utilisation,
        },
        *cited(machine.full_load),
    )
    yield entry(
        "cost.full_load_w",
        cost.full_load_w,
        "nodes × full load",
        {"nodes": nodes, "full load": machine.full_load},
        *cited(machine.full_load),
    )
    yield entry(
        "cost.electricity_per_kwh",
        cost.electricity_per_kwh.amount,
        "tariff of site.region, else of the list",
        {"tariff": _tariff(c), "region": cost.region or "none given"},
        *cited(_tariff(c)),
    )
    yield entry(
        "cost.currency_rate_cny_per_usd",
        cost.currency_rate_cny_per_usd,
        "from the price list",
        {"rate": prices.cny_per_usd},
        *cited(prices.cny_per_usd),
    )


def _way(where: str, way: Way, cost: Cost, c: Costing) -> Iterator[Explanation]:
    evidence: Evidence = "vendor" if way.verified else "assumed"
    inputs: dict[str, object] = {"nodes": c.fleet.nodes(c.users)}
    if way.kind == "own":
        formula = "as cost.month"
        inputs = {"cost.month": cost.month.amount}
    elif way.kind == "api":
        formula = "tokens a day × price of a million × 365 / 12; the model's own price, else the market's"
        made = c.fleet.demand.output_tokens_per_day
        inputs = {"input a day": c.fleet.demand.tokens_per_day - made, "output a day": made}
    else:
        formula = "nodes × price of an hour × hours a month + the same staff"
        inputs |= {"machine of the offer": way.machine, "staff": cost.staff_month.amount}
    terms = f"binds for {way.commitment_months} months" if way.commitment_months else "binds for no time"
    yield entry(where, way.name, f"an offer of the price list; {terms}", {}, way.source, evidence)
    yield entry(f"{where}.month", way.month.amount, formula, inputs, way.source, evidence)
    if way.break_even_month is not None:
        yield entry(
            f"{where}.break_even_month",
            way.break_even_month,
            "first whole month of capex / (this way a month − power, space and staff of owning)",
            {"capex": cost.capex.amount, "this way": way.month.amount, "running": _running(cost).amount},
            way.source,
            evidence,
        )
    if way.break_even_users is not None:
        yield entry(
            f"{where}.break_even_users",
            way.break_even_users,
            "least daily users at which a month of owning costs no more; whole nodes, staff in steps",
            {"own a month here": cost.month.amount, "this way here": way.month.amount},
            way.source,
            evidence,
        )


def _running(cost: Cost) -> Money:
    amount = cost.power_month.amount + cost.space_month.amount + cost.staff_month.amount
    return Money(amount=amount, currency=cost.currency)


def _sensitivity(cost: Cost, c: Costing) -> Iterator[Explanation]:
    ways = c.fleet.chosen.candidate.at.evidence
    for index, bar in enumerate(cost.sensitivity):
        yield entry(
            f"cost.sensitivity[{index}]",
            f"{bar.at_low.amount:,.0f} to {bar.at_high.amount:,.0f} {cost.currency}",
            f"tco with {bar.name} at {bar.low:g} and at {bar.high:g} {bar.unit}, all else as planned".replace(
                " ,", ","
            ),
            {"tco": cost.tco.amount},
            "range of the figure's source" if bar.from_source else OWN + ": a usual spread",
            ways if bar.name == "throughput of a replica" else "assumed",
        )
