"""What several services on one site cost together: the figures of each, the same people for all.

The whole fleet is one machine to ``economics``: its price, its draw and its space are those of all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from rackwright.plan.cost import Bar, Cost, Money, Way
from rackwright.sizing import economics
from rackwright.sizing.cost import (
    PRICE_SPREAD,
    PUE_SPREAD,
    TARIFF_SPREAD,
    USERS_SPREAD,
    Costing,
    bar,
    basis,
    fine,
    per_million_guide,
    spread,
)
from rackwright.sizing.economics import Assumptions, Offer

Kind = Literal["on-demand", "reserved", "spot", "api"]
KINDS: tuple[Kind, ...] = ("on-demand", "reserved", "spot", "api")


@dataclass(frozen=True)
class Joint:
    """The costings of all services, in the plan's order. Daily users are counted once a service."""

    parts: Sequence[Costing]

    @cached_property
    def users(self) -> float:
        return sum(part.users for part in self.parts)

    def fleet(self, users: float) -> Assumptions:
        """All nodes that ``users`` need, as one machine; every service keeps its share of the users."""
        grown = users / self.users
        counted = [(part.at, part.fleet.nodes(part.users * grown)) for part in self.parts]
        staff = self.parts[0].pricing.prices.staff
        return replace(
            self.parts[0].at,
            machine=sum(a.machine * nodes for a, nodes in counted),
            fabric=sum(a.fabric * nodes for a, nodes in counted),
            idle_w=sum(a.idle_w * nodes for a, nodes in counted),
            full_load_w=sum(a.full_load_w * nodes for a, nodes in counted),
            people=economics.people(staff.people_from_users, users) if staff is not None else 0.0,
        )

    def own_month(self, users: float) -> float:
        return economics.monthly(self.fleet(users), 1).total

    def other_month(self, offers: Sequence[Offer], users: float) -> float:
        """A month of one offer a service: rents, and the people of all once; tokens of an API."""
        grown, run = users / self.users, 0.0
        for part, offer in zip(self.parts, offers, strict=True):
            if offer.kind == "api":
                run += offer.month * grown
            else:
                run += offer.month * part.fleet.nodes(part.users * grown) / part.fleet.nodes(part.users)
        people = 0.0 if offers[0].kind == "api" else self.fleet(users).people
        return run + people * self.parts[0].at.person

    def cheapest(self, kind: Kind) -> tuple[Offer, ...] | None:
        """The cheapest offer of ``kind`` for each service; None where one has none."""
        found = [
            min((o for o in part.offers if o.kind == kind), key=lambda o: o.month, default=None)
            for part in self.parts
        ]
        offers = tuple(offer for offer in found if offer is not None)
        return offers if len(offers) == len(found) else None


def cost(joint: Joint) -> Cost:
    """The cost section of all services together."""
    a, first = joint.fleet(joint.users), joint.parts[0]
    month = economics.monthly(a, 1)
    tokens = sum(part.fleet.demand.tokens_per_day for part in joint.parts)

    def money(amount: float) -> Money:
        return Money(amount=round(amount), currency=a.currency)

    return Cost(
        prices=first.pricing.prices.id,
        prices_why=first.pricing.why,
        currency=a.currency,
        region=first.pricing.region,
        capex=money(economics.capex(a, 1)),
        power_month=money(month.power),
        space_month=money(month.space),
        staff_month=money(month.staff),
        depreciation_month=money(month.depreciation),
        depreciation_months=a.depreciation_months,
        month=money(month.total),
        tco=money(economics.tco(a, 1, a.depreciation_months)),
        per_million_tokens=fine(economics.per_million(a, 1, tokens), a.currency),
        per_million_guide=fine(_guide(joint), a.currency),
        people=a.people,
        pue=a.pue,
        mean_w=round(economics.mean_w(a), 1),
        full_load_w=a.full_load_w,
        electricity_per_kwh=fine(a.kwh, a.currency),
        currency_rate_cny_per_usd=first.pricing.prices.cny_per_usd.value,
        ways=tuple(_ways(joint, a)),
        sensitivity=tuple(
            sorted(_bars(joint, a), key=lambda b: (-abs(b.at_high.amount - b.at_low.amount), b.name))
        ),
        basis=basis(
            a, ", ".join(f"{p.fleet.nodes(p.users):g} × {p.fleet.stand.machine.name}" for p in joint.parts)
        ),
    )


def _guide(joint: Joint) -> float:
    """The guide's convention, each service weighted by the tokens that its machines can make."""
    made = [p.fleet.chosen.candidate.at.output_tok_s * p.fleet.chosen.replicas for p in joint.parts]
    each = [per_million_guide(p) for p in joint.parts]
    return sum(m * e for m, e in zip(made, each, strict=True)) / sum(made)


def _ways(joint: Joint, a: Assumptions) -> Iterator[Way]:
    prices = joint.parts[0].pricing.prices.machines
    owned = [prices[part.fleet.stand.machine.id] for part in joint.parts]
    yield Way(
        name="own",
        kind="own",
        month=Money(amount=round(joint.own_month(joint.users)), currency=a.currency),
        source="; ".join(dict.fromkeys(price.source for price in owned)),
        verified=all(price.verified for price in owned),
    )
    for kind in KINDS:
        offers = joint.cheapest(kind)
        if offers is None:
            continue
        other = joint.other_month(offers, joint.users)
        yield Way(
            name=" + ".join(dict.fromkeys(offer.name for offer in offers)),
            kind=kind,
            month=Money(amount=round(other), currency=a.currency),
            commitment_months=max(offer.commitment for offer in offers),
            machine=", ".join(dict.fromkeys(o.machine for o in offers if o.machine)) or None,
            break_even_month=economics.break_even_month(a, 1, other),
            break_even_users=economics.break_even_users(joint.own_month, _at(joint, offers)),
            source="; ".join(dict.fromkeys(offer.source for offer in offers)),
            verified=all(offer.verified for offer in offers),
        )


def _at(joint: Joint, offers: Sequence[Offer]) -> Callable[[float], float]:
    return lambda users: joint.other_month(offers, users)


def _bars(joint: Joint, a: Assumptions) -> Iterator[Bar]:
    first, months = joint.parts[0], a.depreciation_months
    prices, place = first.pricing.prices, first.pricing.place
    ends = {
        "kwh": spread(a.kwh, place.electricity if place else prices.electricity, TARIFF_SPREAD),
        "utilisation": spread(a.utilisation, prices.utilisation, None),
        "pue": (max(1.0, a.pue - PUE_SPREAD), a.pue + PUE_SPREAD, False),
    }
    names = {
        "kwh": ("price of energy", f"{a.currency}/kWh"),
        "utilisation": ("utilisation", "%"),
        "pue": ("PUE", ""),
    }
    limits = {name: (low, high) for name, (low, high, _) in ends.items()}
    for swing in economics.tornado(a, limits, lambda x: economics.tco(x, 1, months)):
        label, unit = names[swing.name]
        scale = 100 if unit == "%" else 1
        bounds, at = (swing.low * scale, swing.high * scale), (swing.at_low, swing.at_high)
        yield bar(a, label, unit, bounds, at, from_source=ends[swing.name][2])
    users = (joint.users * (1 - USERS_SPREAD), joint.users * (1 + USERS_SPREAD))
    costs = tuple(economics.tco(joint.fleet(count), 1, months) for count in users)
    yield bar(
        a, "daily users", "users", (round(users[0]), round(users[1])), (costs[0], costs[1]), from_source=False
    )
    for part in joint.parts:
        yield from _own_bars(part, a, months)


def _own_bars(part: Costing, a: Assumptions, months: int) -> Iterator[Bar]:
    """What one service alone depends on; all else as planned."""
    machine, nodes = part.fleet.stand.machine, part.fleet.nodes(part.users)
    low, high, stated = spread(part.at.machine, part.pricing.prices.machines[machine.id], PRICE_SPREAD)
    whole = economics.tco(a, 1, months)
    moved = tuple(whole + nodes * (price - part.at.machine) for price in (low, high))
    yield bar(
        a,
        f"price of a machine, {machine.id}",
        a.currency,
        (low, high),
        (moved[0], moved[1]),
        from_source=stated,
    )
    got, alone = part.fleet.chosen.candidate.at, replace(part.at, people=0.0)
    now = economics.tco(alone, nodes, months)
    ends = tuple(
        whole - now + economics.tco(alone, part.fleet.nodes(part.users, rate), months)
        for rate in (got.low, got.high)
    )
    yield bar(
        a,
        f"throughput of a replica, {part.fleet.stand.model.id}",
        "tok/s",
        (round(got.low), round(got.high)),
        (ends[0], ends[1]),
        from_source=True,
    )
