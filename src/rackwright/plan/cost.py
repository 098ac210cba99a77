"""What it costs and what to beware of."""

from __future__ import annotations

from typing import Literal

from rackwright.plan.base import Section


class Money(Section):
    """An amount; the currency is never implied."""

    amount: float
    currency: Literal["CNY", "USD"]


class Cost(Section):
    capex: Money
    power_month: Money
    currency_rate_cny_per_usd: float
    full_load_w: float
    electricity_per_kwh: Money
    basis: str


class Alternative(Section):
    """Another way that was sized. ``value``: of the objective; None where it does not stand, with ``why``."""

    machine: str
    quantisation: str
    nodes: int | None = None
    value: float | None = None
    why: str


class Alternatives(Section):
    """What a search looked at: the objective and its unit, the runners-up, and why the rest lost."""

    objective: str
    unit: str
    value: float
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
