"""What a size costs over its life: to own, to rent, by API; where they cross; what moves the figure.

All amounts are in one stated currency; figures of a price list in another one are converted at the list's
own rate and say so. Pure functions over frozen values: no catalog look-ups but in ``assumptions``.

    own a month      = machines and fabric / months of depreciation + power + space + staff
    power a month    = nodes × mean W × PUE × hours × price of a kWh
    mean W           = idle + utilisation × (full load − idle)
    $/M tokens       = cost over the life / tokens made over the life
    break-even month = first month at which what was paid to own is no more than what was paid otherwise
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from rackwright.catalog import Figure, Machine, Prices
from rackwright.catalog.price_entries import Currency
from rackwright.errors import InputErrors, Problem, listing

DAYS_A_MONTH = 365 / 12


@dataclass(frozen=True)
class Assumptions:
    """Every figure that a cost is made of. Money in ``currency``; ``low``/``high`` bounds for sensitivity.

    ``machine``, ``fabric``: a node. ``kwh``: of energy. ``space``: a kW and month of rated power, without
    energy. ``person``: an engineer a month. ``utilisation``: mean share between idle and full load.
    """

    currency: Currency
    machine: float
    fabric: float
    kwh: float
    pue: float
    space: float
    person: float
    people: float
    utilisation: float
    depreciation_months: int
    hours_month: float
    idle_w: float
    full_load_w: float


@dataclass(frozen=True)
class Monthly:
    """A month of owning ``nodes`` nodes."""

    depreciation: float
    power: float
    space: float
    staff: float

    @property
    def running(self) -> float:
        """What is paid every month once the machines are paid for."""
        return self.power + self.space + self.staff

    @property
    def total(self) -> float:
        return self.depreciation + self.running


@dataclass(frozen=True)
class Offer:
    """Another way to serve the same load. ``month``: what it costs; ``commitment``: months it binds for.

    ``machine``: what a rental's price is for.
    """

    name: str
    kind: Literal["on-demand", "reserved", "spot", "api"]
    month: float
    commitment: int
    source: str
    verified: bool
    machine: str | None = None


@dataclass(frozen=True)
class Tokens:
    """Tokens a day of one model: ``given`` to it, ``made`` by it."""

    model: str
    given: float
    made: float


@dataclass(frozen=True)
class Swing:
    """One bar of the tornado: the figure at the low and at the high end of one assumption."""

    name: str
    low: float
    high: float
    at_low: float
    at_high: float

    @property
    def width(self) -> float:
        return abs(self.at_high - self.at_low)


def convert(amount: float, unit: str, currency: Currency, prices: Prices) -> float:
    """``amount`` of ``unit`` (a currency, or one before a slash) in ``currency``.

    Raises:
        InputErrors: the list has no rate for it.
    """
    source = unit.partition("/")[0]
    if source == currency:
        return amount
    rate = prices.cny_per_usd.value
    euro = prices.eur_per_usd.value if prices.eur_per_usd is not None else None
    per_usd = {"USD": 1.0, "CNY": rate, "EUR": euro}
    given, wanted = per_usd.get(source), per_usd.get(currency)
    if given is None or wanted is None:
        raise InputErrors(
            Problem(
                f"catalog/prices/{prices.id}",
                f"must have a rate of exchange from {source} to {currency}",
                f"rates for {listing(sorted(k for k, v in per_usd.items() if v))}",
                "amounts of several currencies are added up",
                f"give {source.lower()}_per_usd there",
            )
        )
    return amount / given * wanted


def assumptions(
    machine: Machine,
    prices: Prices,
    users: float,
    currency: Currency,
    *,
    region: str | None = None,
    fabric: bool = False,
) -> Assumptions:
    """The figures of ``prices`` for ``machine``. A list without colocation or staff counts none.

    Raises:
        InputErrors: no price of the machine, no such region, or a currency without a rate.
    """
    price = prices.machines.get(machine.id)
    if price is None:
        raise InputErrors(
            Problem(
                "hardware.machine",
                f"must have a price in the list {prices.id}",
                f'"{machine.id}" without one' + (f": {machine.no_price}" if machine.no_price else ""),
                "a plan without its cost would be compared as if it were free",
                "put your quotation into a price list of your own",
            )
        )
    if region is not None and region not in prices.regions:
        raise InputErrors(
            Problem(
                "site.region",
                f"must be one of the price list {prices.id}: {listing(sorted(prices.regions))}",
                f'"{region}"',
                "the price of energy depends on it",
                "write one of those",
            )
        )
    place = prices.regions[region] if region is not None else None
    power = place.electricity if place is not None else prices.electricity
    pue = place.pue if place is not None and place.pue is not None else prices.pue

    def money(figure: Figure | None) -> float:
        return 0.0 if figure is None else convert(figure.value, figure.unit, currency, prices)

    staff = prices.staff
    months = prices.depreciation_months
    return Assumptions(
        currency=currency,
        machine=convert(price.value, price.unit, currency, prices) / machine.nodes,
        fabric=convert(prices.fabric_per_node.value, prices.fabric_per_node.unit, currency, prices)
        if fabric
        else 0.0,
        kwh=money(power),
        pue=pue.value if pue is not None else 1.0,
        space=money(prices.colocation),
        person=money(staff.person_month) if staff is not None else 0.0,
        people=people(staff.people_from_users, users) if staff is not None else 0.0,
        utilisation=prices.utilisation.value,
        depreciation_months=int(months.value) if months is not None else 36,
        hours_month=prices.hours_month.value,
        idle_w=machine.idle.value,
        full_load_w=machine.full_load.value,
    )


def people(steps: dict[int, float], users: float) -> float:
    """Engineers for ``users`` daily users: the step of the largest threshold that they reach."""
    reached = [count for least, count in sorted(steps.items()) if users >= least]
    return reached[-1] if reached else 0.0


def capex(a: Assumptions, nodes: float) -> float:
    """What is paid before the first token."""
    return nodes * (a.machine + a.fabric)


def mean_w(a: Assumptions) -> float:
    """Mean draw of a node, W, at its own supply."""
    return a.idle_w + a.utilisation * (a.full_load_w - a.idle_w)


def power_month(a: Assumptions, nodes: float) -> float:
    """Energy of ``nodes`` nodes a month, at the facility's meter."""
    return nodes * mean_w(a) / 1000 * a.pue * a.hours_month * a.kwh


def energy_per_million(a: Assumptions, nodes: float, tokens_per_day: float) -> float:
    """kWh at the facility's meter for a million tokens."""
    return nodes * mean_w(a) / 1000 * a.pue * a.hours_month / DAYS_A_MONTH / tokens_per_day * 1e6


def monthly(a: Assumptions, nodes: float) -> Monthly:
    """A month of owning ``nodes`` nodes."""
    return Monthly(
        depreciation=capex(a, nodes) / a.depreciation_months,
        power=power_month(a, nodes),
        space=nodes * a.full_load_w / 1000 * a.space,
        staff=a.people * a.person,
    )


def tco(a: Assumptions, nodes: float, months: int) -> float:
    """All that is paid over ``months``: the machines once, the rest monthly."""
    return capex(a, nodes) + months * monthly(a, nodes).running


def per_million(a: Assumptions, nodes: float, tokens_per_day: float) -> float:
    """Cost of a million tokens over the time of depreciation at a load of ``tokens_per_day``.

    Raises:
        ValueError: no tokens.
    """
    if tokens_per_day <= 0:
        raise ValueError("a cost per token needs tokens")
    months = a.depreciation_months
    return tco(a, nodes, months) / (tokens_per_day * DAYS_A_MONTH * months) * 1e6


def offers(
    machine: Machine,
    prices: Prices,
    nodes: float,
    tokens: Tokens,
    currency: Currency,
    *,
    like: frozenset[str] = frozenset(),
) -> Iterator[Offer]:
    """Rentals of the machine (or of one in ``like``), and what an API asks for the same tokens.

    An API price of the model comes before the market's level; input and output are priced apart where
    the list tells them apart.
    """
    exact = [r for r in prices.rentals if r.machine == machine.id]
    for rental in exact or [r for r in prices.rentals if r.machine in like]:
        hour = convert(rental.price.value, rental.price.unit, currency, prices)
        yield Offer(
            f"rent {rental.term}, {rental.provider}",
            rental.term,
            nodes * hour * prices.hours_month.value / machine.nodes,
            rental.commitment_months,
            rental.price.source,
            rental.price.verified,
            rental.machine,
        )
    own = [api for api in prices.apis if api.model and api.model == tokens.model]
    for api in own or [api for api in prices.apis if not api.model]:
        figure = api.blended or api.output or api.input
        if figure is None:
            continue
        given = api.blended or api.input or figure
        made = api.blended or api.output or figure
        day = (
            convert(given.value, given.unit, currency, prices) * tokens.given
            + convert(made.value, made.unit, currency, prices) * tokens.made
        ) / 1e6
        yield Offer(f"API, {api.provider}", "api", day * DAYS_A_MONTH, 0, figure.source, figure.verified)


def break_even_month(a: Assumptions, nodes: float, other_month: float) -> int | None:
    """The first month by whose end owning has cost no more than ``other_month`` every month; None: never."""
    saved = other_month - monthly(a, nodes).running
    if saved <= 0:
        return None
    return max(1, math.ceil(capex(a, nodes) / saved - 1e-9))


def break_even_users(
    own_month: Callable[[float], float], other_month: Callable[[float], float], most: int = 10_000_000
) -> int | None:
    """The least daily users from which owning costs no more a month than the other way; None: never.

    Owned capacity comes in whole nodes, so that the difference is no monotone function: powers of two are
    tried, and the first that pays is narrowed down. At the answer owning pays.
    """
    good = next((n for n in _doubling(most) if own_month(n) <= other_month(n)), None)
    if good is None:
        return None
    bad = good // 2
    while good - bad > 1:
        middle = (good + bad) // 2
        if own_month(middle) <= other_month(middle):
            good = middle
        else:
            bad = middle
    return good


def _doubling(most: int) -> Iterator[int]:
    value = 1
    while value < most:
        yield value
        value *= 2
    yield most


def tornado(
    a: Assumptions, bounds: dict[str, tuple[float, float]], figure: Callable[[Assumptions], float]
) -> tuple[Swing, ...]:
    """``figure`` at the low and the high end of each assumption named in ``bounds``, widest first.

    Raises:
        ValueError: a name that is no assumption.
    """
    known = {f.name for f in fields(Assumptions)}
    unknown = sorted(set(bounds) - known)
    if unknown:
        raise ValueError(f"no such assumption: {', '.join(unknown)}")
    swings = []
    for name, (low, high) in bounds.items():
        whole = isinstance(getattr(a, name), int)
        ends = (round(low), round(high)) if whole else (low, high)
        changes: list[dict[str, Any]] = [{name: end} for end in ends]
        at_low, at_high = (figure(replace(a, **change)) for change in changes)
        swings.append(Swing(name, low, high, at_low, at_high))
    return tuple(sorted(swings, key=lambda s: (-s.width, s.name)))
