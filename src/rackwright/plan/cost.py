"""What it costs and what to beware of."""

from __future__ import annotations

from typing import Literal

from rackwright.plan.base import Section

Currency = Literal["CNY", "USD", "EUR"]


class Money(Section):
    """An amount; the currency is never implied."""

    amount: float
    currency: Currency


class Way(Section):
    """One way to serve the load. ``month``: all that it costs a month at the planned load.

    ``break_even_month``: first month by whose end owning has cost no more than this way; None: never.
    ``break_even_users``: least daily users from which owning costs no more a month; None: never up to ten
    million. ``machine``: what a rental's price is for.
    """

    name: str
    kind: Literal["own", "on-demand", "reserved", "spot", "api"]
    month: Money
    commitment_months: int = 0
    machine: str | None = None
    break_even_month: int | None = None
    break_even_users: int | None = None
    source: str
    verified: bool


class Bar(Section):
    """The total cost over the life at the low and at the high end of one assumption, all others as planned.

    ``low``, ``high``: the ends in ``unit``; ``from_source``: they are the source's, not a usual spread.
    """

    name: str
    unit: str
    low: float
    high: float
    at_low: Money
    at_high: Money
    from_source: bool


class Cost(Section):
    """What the plan costs, in the currency of one price list.

    ``month``: depreciation, power, space and staff. ``tco``: the machines, and ``depreciation_months`` of the
    rest. ``per_million_tokens``: of input and output at the planned load. ``per_million_guide``: by the
    guide's convention, hardware and power alone over the output of machines at 70 % of the estimated rate.
    """

    prices: str
    prices_why: str
    currency: Currency
    region: str | None = None
    capex: Money
    power_month: Money
    space_month: Money
    staff_month: Money
    depreciation_month: Money
    depreciation_months: int
    month: Money
    tco: Money
    per_million_tokens: Money
    per_million_guide: Money
    people: float
    pue: float
    mean_w: float
    full_load_w: float
    electricity_per_kwh: Money
    currency_rate_cny_per_usd: float
    ways: tuple[Way, ...]
    sensitivity: tuple[Bar, ...]
    basis: str


class Alternative(Section):
    """Another way that was sized. ``value``: of the objective; None where it does not stand, with ``why``."""

    machine: str
    quantisation: str
    engine: str | None = None
    nodes: int | None = None
    value: float | None = None
    why: str


class Alternatives(Section):
    """What a search looked at: the objective and its unit, the runners-up, and why the rest lost.

    ``engine_why``: what the guides say for the engine, where it was left open.
    """

    objective: str
    unit: str
    value: float
    engine_why: str | None = None
    considered: int
    runners_up: tuple[Alternative, ...] = ()
    refused: tuple[Alternative, ...] = ()


class Caution(Section):
    """``severity``: info, warn, or refuse (a red line). ``suppressed``: the reason given in the workload."""

    id: str
    severity: Literal["info", "warn", "refuse"]
    text: str
    evidence: str
    source: str
    suppressed: str | None = None


class Explanation(Section):
    """How one number came about: formula with names, its inputs, source and evidence class."""

    path: str
    value: str
    formula: str
    inputs: dict[str, str]
    source: str
    evidence: Literal["measured", "same-family", "extrapolated", "vendor", "assumed", "input"]
