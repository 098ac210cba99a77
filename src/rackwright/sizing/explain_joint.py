"""How the numbers of several services together came about, and where those of each one stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rackwright.plan import Cost, Explanation, Load
from rackwright.plan.cost import Way
from rackwright.sizing.explained import OWN, Evidence
from rackwright.sizing.explained import entry as explained
from rackwright.sizing.joint_parts import Part, Place

SUMMED = (
    "tokens_per_day", "output_tokens_per_day", "peak_requests_per_s", "peak_input_tok_s", "peak_output_tok_s",
    "concurrency",
)  # fmt: skip
"""What adds up of a load."""

_OF_ONE = re.compile(r"^(deployments|volumes|routes|scaling)\[0\]")
_POOL = re.compile(r"^pools\[0\]")
_RACK = re.compile(r"^sites\[0\]\.racks\[(\d+)\]")


def explanations(
    parts: Sequence[Part], placed: Sequence[Place], load: Load, cost: Cost
) -> Iterator[Explanation]:
    """Those of the sums, then each service's at its place in the joint plan."""
    yield from _sums(parts, placed, load, cost)
    seen = set[str]()
    for index, (part, place) in enumerate(zip(parts, placed, strict=True)):
        for item in part.plan.explanations:
            path = _moved(item.path, index, part, place)
            if path is not None and path not in seen:
                seen.add(path)
                yield item.model_copy(update={"path": path})


def _moved(path: str, index: int, part: Part, place: Place) -> str | None:
    """Where a number of a service's own plan stands in the joint one; None: only the joint one has it."""
    if path.startswith(("load.", "cost.")):
        return f"shares[{index}].{path}"
    if path == "sites[0].racks":
        return None
    if found := _RACK.match(path):
        return f"sites[0].racks[{int(found[1]) + place.rack_offset}]{path[found.end() :]}"
    if found := _OF_ONE.match(path):
        return f"{found[1]}[{index}]{path[found.end() :]}"
    if found := _POOL.match(path):
        return f"pools[{place.number}]{path[found.end() :]}"
    old = f"expectations.{part.pool.name}"
    if path == old or path.startswith(f"{old}."):
        return f"expectations.{place.pool.name}{path.removeprefix(old)}"
    return path


def _sums(parts: Sequence[Part], placed: Sequence[Place], load: Load, cost: Cost) -> Iterator[Explanation]:
    def shares(path: str) -> dict[str, Any]:
        return {f"{part.deployment}, shares[{i}].{path}": _at(part, path) for i, part in enumerate(parts)}

    for name in SUMMED:
        path = f"load.{name}"
        yield explained(
            path, getattr(load, name), "sum of the services: their peaks may coincide", shares(path), OWN
        )
    yield explained(
        "load.scenario_factor",
        load.scenario_factor,
        "tokens of all services ÷ their tokens at factor 1",
        shares("load.tokens_per_day") | shares("load.scenario_factor"),
        OWN,
    )
    for name in ("capex", "power_month", "space_month", "depreciation_month"):
        path = f"cost.{name}"
        yield explained(path, getattr(cost, name).amount, "sum of the services", shares(path), OWN)
    for name in ("mean_w", "full_load_w"):
        path = f"cost.{name}"
        yield explained(path, getattr(cost, name), "sum of the services", shares(path), OWN)
    users = {f"{part.name}, users": part.plan.workload.users.carried for part in parts}
    yield explained(
        "cost.people", cost.people, "the price list's step for the users of all services", users, OWN
    )
    yield explained(
        "cost.staff_month",
        cost.staff_month.amount,
        "people × a month of one",
        {"people": cost.people, **shares("cost.staff_month"), **shares("cost.people")},
        OWN,
    )
    monthly = {n: getattr(cost, n).amount for n in ("power_month", "space_month", "staff_month")}
    yield explained(
        "cost.month",
        cost.month.amount,
        "depreciation + power + space + staff",
        {"depreciation_month": cost.depreciation_month.amount, **monthly},
        OWN,
    )
    months = cost.depreciation_months
    yield explained(
        "cost.tco",
        cost.tco.amount,
        "capex + months × (power + space + staff)",
        {"capex": cost.capex.amount, "months": months, **monthly},
        OWN,
    )
    yield explained(
        "cost.per_million_tokens",
        cost.per_million_tokens.amount,
        "tco ÷ (tokens a day × 365 / 12 × months) × 1,000,000",
        {"tco": cost.tco.amount, "load.tokens_per_day": load.tokens_per_day, "months": months},
        OWN,
    )
    yield explained(
        "cost.per_million_guide",
        cost.per_million_guide.amount,
        "mean of the services, weighted by the tokens that their machines can make",
        shares("cost.per_million_guide"),
        OWN,
    )
    for index, way in enumerate(cost.ways):
        yield from _way(f"cost.ways[{index}]", way, cost)
    for index, bar in enumerate(cost.sensitivity):
        ends = f"{bar.at_low.amount:,.0f} to {bar.at_high.amount:,.0f} {cost.currency}"
        formula = f"tco with {bar.name} at {bar.low:g} and at {bar.high:g} {bar.unit}".rstrip()
        source = "range of the figure's source" if bar.from_source else OWN + ": a usual spread"
        yield explained(
            f"cost.sensitivity[{index}]",
            ends,
            f"{formula}, all else as planned",
            {"tco": cost.tco.amount},
            source,
            "assumed",
        )
    yield explained(
        "sites[0].racks",
        len(placed[-1].racks) + placed[-1].rack_offset,
        "sum of the services, each in racks of its own"
        if placed[-1].number
        else "those of the pool that all services share",
        {part.name: len(part.racks) for part in parts},
        OWN,
    )


def _way(where: str, way: Way, cost: Cost) -> Iterator[Explanation]:
    formula = {
        "own": "as cost.month",
        "api": "sum of the services: tokens a day × price of a million × 365 / 12, the cheapest of each",
    }.get(way.kind, "sum of the services: nodes × price of an hour × hours a month; the staff once")
    evidence: Evidence = "vendor" if way.verified else "assumed"
    yield explained(
        f"{where}.month", way.month.amount, formula, {"staff": cost.staff_month.amount}, way.source, evidence
    )
    running = cost.power_month.amount + cost.space_month.amount + cost.staff_month.amount
    inputs = {"capex": cost.capex.amount, "this way": way.month.amount, "running": running}
    if way.break_even_month is not None:
        yield explained(
            f"{where}.break_even_month",
            way.break_even_month,
            "first whole month of capex / (this way a month − power, space and staff of owning)",
            inputs,
            way.source,
            evidence,
        )
    if way.break_even_users is not None:
        yield explained(
            f"{where}.break_even_users",
            way.break_even_users,
            "least daily users, shared as planned, at which a month of owning costs no more",
            inputs,
            way.source,
            evidence,
        )


def _at(part: Part, path: str) -> Any:
    section, _, name = path.partition(".")
    value = getattr(part.load if section == "load" else part.cost, name)
    return getattr(value, "amount", value)
