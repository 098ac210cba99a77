"""One page that shows a sized plan: self-contained, without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rackwright.catalog import Catalog
from rackwright.errors import InputErrors, Problem
from rackwright.plan import Plan
from rackwright.plan.cost import Cost, Way
from rackwright.render import render
from rackwright.report import plots
from rackwright.report.charts import WIDTH
from rackwright.report.curves import basis
from rackwright.sizing import tenancy
from rackwright.sizing.joint import named_services, plan_of, sharing_parts
from rackwright.sizing.sharing import Unit

TEMPLATE = "report/sizing.html.j2"


def page(plan: Plan, catalog: Catalog) -> str:
    """The HTML of ``plan``'s sizing report; the same plan gives the same bytes.

    Raises:
        InputErrors: the plan has no load, deployment or cost, or its workload gives another plan today.
        CannotRun: the template is not there.
    """
    return render(TEMPLATE, view(plan, catalog))


def pages(plan: Plan, catalog: Catalog, output: Path) -> dict[Path, str]:
    """The page of ``plan`` at ``output``; of several services one each, the others' named after them.

    Raises:
        InputErrors, CannotRun: as ``page``.
    """
    if not plan.shares and plan.tenancy is None:
        return {output: page(plan, catalog)}
    found: dict[Path, str] = {}
    for name, alone, unit in _services(plan, catalog):
        place = output.with_stem(f"{output.stem}-{name}") if found else output
        title = f"{plan.header.name}: {name}"
        found[place] = render(TEMPLATE, {**view(alone, catalog, unit), "title": title})
    return found


def _services(plan: Plan, catalog: Catalog) -> Iterator[tuple[str, Plan, Unit | None]]:
    """Name and plan of each service; of those that share nodes, with its share of them."""
    if plan.tenancy is None:
        for name, alone in named_services(plan.workload):
            yield name, plan_of(alone, catalog), None
        return
    shared = tenancy.shared(plan.workload, list(named_services(plan.workload)), catalog)
    for part in sharing_parts(shared, catalog):
        yield part.name, part.plan, part.unit


def view(plan: Plan, catalog: Catalog, unit: Unit | None = None) -> dict[str, Any]:
    """Everything the template prints."""
    if plan.cost is None or plan.load is None or not plan.deployments or not plan.pools:
        raise InputErrors(
            Problem(
                "PLAN",
                "must have load, pools, deployments and cost",
                "a plan without one of them",
                "the report shows all of them",
                "size the workload again: rackwright size WORKLOAD.yaml -o plan.yaml",
            )
        )
    cost, found = plan.cost, basis(plan, catalog, unit)
    return {
        "title": plan.header.name,
        "digest": plan.digest,
        "generated_by": plan.header.generated_by,
        "headline": _headline(plan, cost),
        "facts": _facts(plan, cost),
        "width": WIDTH,
        "charts": [
            plots.frontier(found),
            plots.memory(plan),
            plots.over_users(found, cost),
            plots.over_months(found, cost),
            plots.tornado(cost),
        ],
        "ways": [_way(way, cost) for way in cost.ways],
        "cost": _cost(cost),
        "assumptions": [e for e in plan.explanations if e.path.startswith(("load.", "cost."))],
        "others": [e for e in plan.explanations if not e.path.startswith(("load.", "cost."))],
        "cautions": plan.cautions,
        "alternatives": plan.alternatives,
    }


def _headline(plan: Plan, cost: Cost) -> str:
    pool, layout = plan.pools[0], plan.deployments[0].layout
    running = cost.power_month.amount + cost.space_month.amount + cost.staff_month.amount
    return (
        f"{len(pool.nodes):,} × {pool.machine} carry {plan.workload.users.dau:,} daily users of "
        f"{plan.deployments[0].model}: {cost.capex.amount:,.0f} {cost.currency} to buy, then {running:,.0f} "
        f"{cost.currency} a month. Replicas: {layout.replicas:,} × "
        f"{layout.words}."
    )


def _facts(plan: Plan, cost: Cost) -> list[tuple[str, str]]:
    load, users, deployment, pool = plan.load, plan.workload.users, plan.deployments[0], plan.pools[0]
    assert load is not None
    at = deployment.estimate
    racks = list(plan.racks())
    return [
        ("users", f"{users.dau:,} a day, {users.scenario}, preset {users.preset}"),
        (
            "tokens a day",
            f"{load.tokens_per_day / 1e6:,.0f} M, {load.output_tokens_per_day / 1e6:,.0f} M out",
        ),
        (
            "peak",
            f"{load.peak_output_tok_s:,.0f} tok/s out, {load.peak_input_tok_s:,.0f} in, "
            f"{load.peak_requests_per_s:,.2f} requests/s, {load.concurrency:,.0f} at a time",
        ),
        (
            "model",
            f"{deployment.model}, {deployment.weights.quantisation}, {deployment.context_tokens:,} tokens",
        ),
        ("engine", f"{deployment.engine.name} {deployment.engine.version}"),
        ("nodes", f"{len(pool.nodes):,} × {pool.machine}, {pool.spares or 'none'} of them spare"),
        ("racks", f"{len(racks)}, {cost.full_load_w / 1000:,.1f} kW at full load"),
        (
            "estimate",
            f"{at.output_tok_s:,.0f} tok/s a replica, 80 %: {at.output_tok_s_low:,.0f}–"
            f"{at.output_tok_s_high:,.0f}, {at.evidence}",
        ),
        (
            "latency",
            f"{at.tpot_ms:,.1f} ms a token (objective {deployment.slo.tpot_p50_ms:g}), first token "
            f"{at.ttft_ms:,.0f} ms (objective p95 {deployment.slo.ttft_p95_ms:g})",
        ),
        ("prices", f"{cost.prices}, {cost.prices_why}" + (f", region {cost.region}" if cost.region else "")),
    ]


def _cost(cost: Cost) -> list[tuple[str, str]]:
    unit = cost.currency
    rows = [
        ("to buy", cost.capex),
        (f"depreciation over {cost.depreciation_months} months, a month", cost.depreciation_month),
        ("power a month", cost.power_month),
        ("space a month", cost.space_month),
        ("staff a month", cost.staff_month),
        ("all, a month", cost.month),
        (f"all, {cost.depreciation_months} months", cost.tco),
    ]
    return [(name, f"{money.amount:,.0f} {unit}") for name, money in rows] + [
        ("a million tokens of this load", f"{cost.per_million_tokens.amount:,.2f} {unit}"),
        ("a million by the guide's convention", f"{cost.per_million_guide.amount:,.2f} {unit}"),
    ]


def _users(least: int | None) -> str:
    return "never" if least is None else "any number" if least == 1 else f"{least:,}"


def _way(way: Way, cost: Cost) -> dict[str, str]:
    own = way.kind == "own"
    return {
        "name": way.name,
        "month": f"{way.month.amount:,.0f} {cost.currency}",
        "binds": f"{way.commitment_months} months" if way.commitment_months else "–",
        "month_pays": "–" if own else str(way.break_even_month or "never"),
        "users_pay": "–" if own else _users(way.break_even_users),
        "source": way.source + ("" if way.verified else " (unverified)"),
    }
