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
