"""What a plan costs to own, against rental and API: ``economics`` on the plan's own counts.

Owning, rental and API carry the same load. Rented are as many nodes as are owned, spares included, and the
same people run them; an API needs neither. Nothing is financed, and nothing is sold at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rackwright.catalog import Catalog, Machine
from rackwright.catalog.entries import PricePoint
from rackwright.catalog.figures import Figure
from rackwright.plan.cost import Bar, Cost, Currency, Money, Way
from rackwright.sizing import economics, trays
from rackwright.sizing.economics import Assumptions, Offer, Tokens
from rackwright.sizing.layout import Chosen, Stand
from rackwright.sizing.load import Demand
from rackwright.sizing.pricing import Pricing

GUIDE_UTILISATION = 0.7
"""Share of the estimated rate that the guide counts as produced (hardware-selection guide, cost)."""
USERS_SPREAD = 0.3
"""Daily users are varied by this much either way."""
PRICE_SPREAD = 0.1
TARIFF_SPREAD = 0.25
PUE_SPREAD = 0.15
UTILISATION_SPREAD = 0.2
"""Spreads for assumptions whose source gives no range."""


@dataclass(frozen=True)
class Fleet:
    """How many nodes carry a peak. Replicas of an override are kept whatever the load.

    Of nodes that several services share it counts the service's share.
    """

    stand: Stand
    chosen: Chosen
    demand: Demand

    @property
    def spares(self) -> int:
        return self.stand.workload.hardware.spares

    def nodes(self, users: float, rate: float | None = None) -> float:
        """Nodes for ``users`` daily users at ``rate`` tok/s a replica (default: what the plan counts on)."""
        own, unit = self._own(users, rate), self.stand.unit
        if unit is None or not unit.mates:
            return own
        grown = users / self.stand.workload.users.carried
        return unit.share * max(own, *(mate.nodes(grown) + self.spares for mate in unit.mates))

    def _own(self, users: float, rate: float | None) -> int:
        candidate = self.chosen.candidate
        peak = self.demand.output_tok_s * users / self.stand.workload.users.carried
        replicas = max(1, math.ceil(peak / (rate or candidate.at.low) - 1e-9))
        replicas = max(replicas, self.stand.workload.overrides.replicas or 0)
        group, per_node = candidate.nodes_per_replica, self.stand.replicas_per_node(candidate)
        return trays.nodes_for(replicas, self.stand.machine, group, per_node) + self.spares


@dataclass(frozen=True)
class Costing:
    """The assumptions behind a plan's cost, and the other ways at any number of users."""

    fleet: Fleet
    pricing: Pricing
    at: Assumptions
    offers: tuple[Offer, ...]

    @property
    def users(self) -> float:
        return self.fleet.stand.workload.users.carried

    def assumed(self, users: float) -> Assumptions:
        """The assumptions with as many people as ``users`` need."""
        staff = self.pricing.prices.staff
        count = economics.people(staff.people_from_users, users) if staff is not None else 0.0
        return replace(self.at, people=count)

    def own_month(self, users: float) -> float:
        return economics.monthly(self.assumed(users), self.fleet.nodes(users)).total

    def other_month(self, offer: Offer, users: float) -> float:
        """A month of ``offer`` at ``users``: nodes and people of a rental, tokens of an API."""
        if offer.kind == "api":
            return offer.month * users / self.users
        assumed = self.assumed(users)
        rent = offer.month * self.fleet.nodes(users) / self.fleet.nodes(self.users)
        return rent + assumed.people * assumed.person


def costing(stand: Stand, demand: Demand, chosen: Chosen, pricing: Pricing, catalog: Catalog) -> Costing:
    """Assumptions and offers for a layout.

    Raises:
        InputErrors: the machine has no price in the list, or a currency has no rate.
    """
    users = stand.workload.users.carried
    currency = pricing.currency
    fleet = Fleet(stand, chosen, demand)
    joined = stand.workload.hardware.fabric != "none"
    at = economics.assumptions(
        stand.machine, pricing.prices, users, currency, region=pricing.region, fabric=joined
    )
    tokens = Tokens(
        stand.model.id, demand.tokens_per_day - demand.output_tokens_per_day, demand.output_tokens_per_day
    )
    found = economics.offers(
        stand.machine,
        pricing.prices,
        fleet.nodes(users),
        tokens,
        currency,
        like=_like(stand.machine, catalog),
    )
    return Costing(fleet, pricing, at, tuple(found))


def _like(machine: Machine, catalog: Catalog) -> frozenset[str]:
    """Machines of as many of the same accelerators: what is rented may have another fabric."""
    return frozenset(
        m.id
        for m in catalog.machines.values()
        if m.accelerator == machine.accelerator and m.gpus.value == machine.gpus.value
    )


def cost(c: Costing) -> Cost:
    """The plan's cost section."""
    a, prices, users = c.at, c.pricing.prices, c.users
    nodes = c.fleet.nodes(users)
    month = economics.monthly(a, nodes)
    demand = c.fleet.demand

    def money(amount: float) -> Money:
        return Money(amount=round(amount), currency=a.currency)

    return Cost(
        prices=prices.id,
        prices_why=c.pricing.why,
        currency=a.currency,
        region=c.pricing.region,
        capex=money(economics.capex(a, nodes)),
        power_month=money(month.power),
        space_month=money(month.space),
        staff_month=money(month.staff),
        depreciation_month=money(month.depreciation),
        depreciation_months=a.depreciation_months,
        month=money(month.total),
        tco=money(economics.tco(a, nodes, a.depreciation_months)),
        per_million_tokens=fine(economics.per_million(a, nodes, demand.tokens_per_day), a.currency),
        per_million_guide=fine(per_million_guide(c), a.currency),
        people=a.people,
        pue=a.pue,
        mean_w=round(nodes * economics.mean_w(a), 1),
        full_load_w=nodes * a.full_load_w,
        electricity_per_kwh=fine(a.kwh, a.currency),
        currency_rate_cny_per_usd=prices.cny_per_usd.value,
        ways=tuple(_ways(c)),
        sensitivity=sensitivity(c),
        basis=basis(c.at, f"{nodes:g} × {c.fleet.stand.machine.name}"),
    )


def fine(amount: float, currency: Currency) -> Money:
    """Small amounts keep four digits behind the point."""
    return Money(amount=round(amount, 4), currency=currency)


def per_million_guide(c: Costing) -> float:
    """Hardware and power over the output made at 70 % of the estimated rate: no PUE, space or staff."""
    bare = replace(c.at, pue=1.0, space=0.0, people=0.0)
    made = c.fleet.chosen.candidate.at.output_tok_s * c.fleet.chosen.replicas * 86_400 * GUIDE_UTILISATION
    return economics.per_million(bare, c.fleet.nodes(c.users), made)


def _ways(c: Costing) -> Iterator[Way]:
    a, nodes = c.at, c.fleet.nodes(c.users)
    price = c.pricing.prices.machines[c.fleet.stand.machine.id]
    yield Way(
        name="own",
        kind="own",
        month=Money(amount=round(c.own_month(c.users)), currency=a.currency),
        source=price.source,
        verified=price.verified,
    )
    for offer in c.offers:
        other = c.other_month(offer, c.users)
        yield Way(
            name=offer.name,
            kind=offer.kind,
            month=Money(amount=round(other), currency=a.currency),
            commitment_months=offer.commitment,
            machine=offer.machine,
            break_even_month=economics.break_even_month(a, nodes, other),
            break_even_users=economics.break_even_users(c.own_month, _at(c, offer)),
            source=offer.source,
            verified=offer.verified,
        )


def _at(c: Costing, offer: Offer) -> Callable[[float], float]:
    return lambda users: c.other_month(offer, users)


def basis(a: Assumptions, machines: str) -> str:
    """What the figures rest on; ``machines``: how many of which."""
    joined = " with its share of the fabric" if a.fabric else ""
    return (
        f"{machines}{joined}; power at {a.utilisation * 100:.0f} % between idle and full load, "
        f"PUE {a.pue:g}, {a.hours_month:.0f} h a month; rented are as many nodes, run by the same people; an "
        "API needs neither; without financing and resale"
    )


def sensitivity(c: Costing) -> tuple[Bar, ...]:
    """Total cost over the life at both ends of each assumption, the widest first."""
    return tuple(sorted(_bars(c), key=lambda b: (-abs(b.at_high.amount - b.at_low.amount), b.name)))


def _bars(c: Costing) -> Iterator[Bar]:
    a, prices = c.at, c.pricing.prices
    nodes = c.fleet.nodes(c.users)
    months = a.depreciation_months
    price = prices.machines[c.fleet.stand.machine.id]
    place = c.pricing.place
    tariff = place.electricity if place is not None else prices.electricity
    bounds = {
        "machine": spread(a.machine, price, PRICE_SPREAD),
        "kwh": spread(a.kwh, tariff, TARIFF_SPREAD),
        "utilisation": spread(a.utilisation, prices.utilisation, None),
        "pue": (max(1.0, a.pue - PUE_SPREAD), a.pue + PUE_SPREAD, False),
    }
    names = {
        "machine": ("price of a machine", a.currency),
        "kwh": ("price of energy", f"{a.currency}/kWh"),
        "utilisation": ("utilisation", "%"),
        "pue": ("PUE", ""),
    }
    swings = economics.tornado(
        a, {k: (low, high) for k, (low, high, _) in bounds.items()}, lambda x: economics.tco(x, nodes, months)
    )
    for swing in swings:
        label, unit = names[swing.name]
        scale = 100 if unit == "%" else 1
        yield bar(a, label, unit, (swing.low * scale, swing.high * scale), (swing.at_low, swing.at_high),
                   from_source=bounds[swing.name][2])  # fmt: skip

    def at(users: float, rate: float | None = None) -> float:
        return economics.tco(c.assumed(users), c.fleet.nodes(users, rate), months)

    low, high = c.users * (1 - USERS_SPREAD), c.users * (1 + USERS_SPREAD)
    yield bar(a, "daily users", "users", (round(low), round(high)), (at(low), at(high)), from_source=False)
    got = c.fleet.chosen.candidate.at
    ends = (at(c.users, got.low), at(c.users, got.high))
    yield bar(
        a, "throughput of a replica", "tok/s", (round(got.low), round(got.high)), ends, from_source=True
    )


def bar(
    a: Assumptions,
    name: str,
    unit: str,
    ends: tuple[float, float],
    costs: tuple[float, float],
    *,
    from_source: bool,
) -> Bar:
    return Bar(
        name=name,
        unit=unit,
        low=round(ends[0], 4),
        high=round(ends[1], 4),
        at_low=Money(amount=round(costs[0]), currency=a.currency),
        at_high=Money(amount=round(costs[1]), currency=a.currency),
        from_source=from_source,
    )


def spread(value: float, given: Figure | PricePoint, share: float | None) -> tuple[float, float, bool]:
    """Low, high, and whether they are the source's: its own range, scaled as ``value`` is to its figure.

    ``share``: the usual spread; None: of a share, by ``UTILISATION_SPREAD`` either way.
    """
    if given.low is not None or given.high is not None:
        scale = value / given.value if given.value else 1.0
        low = given.value if given.low is None else given.low
        high = given.value if given.high is None else given.high
        return low * scale, high * scale, True
    if share is None:
        return max(0.0, value - UTILISATION_SPREAD), min(1.0, value + UTILISATION_SPREAD), False
    return value * (1 - share), value * (1 + share), False
