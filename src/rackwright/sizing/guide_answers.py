"""The guide's rows, sized: a plan, or a typed refusal and the best plan on another machine.

Where an answer differs from the guide's, the reason is a caution or a figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rackwright.catalog import Catalog
from rackwright.errors import Infeasible, InputErrors, RackwrightError
from rackwright.plan import Plan
from rackwright.sizing.guide_rows import ROWS, Row
from rackwright.sizing.search import planned, search
from rackwright.sizing.size import size
from rackwright.workload import Workload


@dataclass(frozen=True)
class Outcome:
    """``plan``: on the guide's machine, else on the best of the others. ``refused``: why not on its own."""

    row: Row
    plan: Plan | None
    refused: str | None
    constraint: str | None
    reasons: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        if self.refused is not None:
            return "another machine" if self.plan is not None else "not plannable"
        if self.reasons:
            return "differs"
        return "reproduced"


def outcomes(catalog: Catalog, rows: tuple[Row, ...] = ROWS) -> Iterator[Outcome]:
    """Every row, sized."""
    for row in rows:
        yield outcome(row, catalog)


def outcome(row: Row, catalog: Catalog) -> Outcome:
    """One row: the guide's machine first, then the best of the others."""
    asked = Workload.model_validate(row.workload)
    try:
        plan = size(asked, catalog)
    except (InputErrors, Infeasible) as error:
        return Outcome(
            row, _elsewhere(row, asked, catalog), _said(error), _constraint(error), (_said(error),)
        )
    return Outcome(row, plan, None, None, tuple(_reasons(row, plan)))


def _elsewhere(row: Row, asked: Workload, catalog: Catalog) -> Plan | None:
    if not row.others:
        return None
    free = asked.model_copy(
        update={
            "hardware": asked.hardware.model_copy(update={"machine": None, "fabric": "none"}),
            "search": asked.search.model_copy(update={"machines": row.others}),
        }
    )
    try:
        return planned(search(free, catalog), catalog)
    except (InputErrors, Infeasible):
        return None


def _said(error: RackwrightError) -> str:
    first = error.problems[0]
    return f"{first.where} {first.rule}; found {first.found}"


def _constraint(error: RackwrightError) -> str:
    return error.constraint if isinstance(error, Infeasible) else error.problems[0].where


def _reasons(row: Row, plan: Plan) -> Iterator[str]:
    """Why the plan is not the guide's answer: what it must not be, and another count of nodes."""
    for caution in plan.cautions:
        if caution.severity == "refuse":
            yield f"{caution.id}: {caution.text}"
    nodes = len(plan.pools[0].nodes)
    if row.nodes is None or row.nodes == nodes:
        return
    said = next((c.text for c in plan.cautions if c.id == "guide-node-count"), None)
    at, load = plan.deployments[0].estimate, plan.load
    assert load is not None
    yield said or (
        f"{nodes} nodes, not {row.nodes}: the peak of {load.peak_output_tok_s:,.0f} tok/s at "
        f"{at.output_tok_s_low:,.0f} tok/s a replica, the low end of the estimate"
    )


def markdown(catalog: Catalog) -> Iterator[str]:
    """The page of all rows."""
    found = list(outcomes(catalog))
    yield "# The guide's answers, sized again"
    yield ""
    yield (
        "Printed by `rackwright tiers --markdown`. The guide's model on the guide's machine, with its own "
        "arithmetic (20 sessions of 2,000 tokens, 600 of them output, 15 % in the peak hour, redundancy 1.5) "
        "and the checklist's objectives (first token 500 ms, 30 tok/s a user); one person and small teams "
        "get 3 s, 80 ms a token and no redundancy. Amounts are in CNY; a month is power, space and staff."
    )
    for kind, title in (
        ("tier", "Seven tiers"),
        ("kind of users", "Kinds of users"),
        ("decision", "Decision tree"),
    ):
        rows = [o for o in found if o.row.kind == kind]
        yield f"\n## {title}\n"
        yield "| asked | guide | guide: nodes, to buy, a month | here | nodes, to buy, a month | |"
        yield "|---|---|---|---|---|---|"
        for o in rows:
            theirs = f"{o.row.nodes or '–'}, {o.row.capex}, {o.row.month}"
            yield f"| {o.row.asked} | {o.row.answer} | {theirs} | {_here(o)} | {_figures(o)} | {o.verdict} |"
        yield "\nWhere they differ:\n"
        for o in rows:
            notes = [*o.reasons, *([o.row.remark] if o.row.remark else [])]
            yield from (f"- *{o.row.asked}*: {note}" for note in notes)


def _here(o: Outcome) -> str:
    if o.plan is None:
        return "none"
    deployment, layout = o.plan.deployments[0], o.plan.deployments[0].layout
    return (
        f"{o.plan.pools[0].machine}, {deployment.model} {deployment.weights.quantisation}, {layout.replicas} "
        f"× TP {layout.tensor_parallel}"
        + (f" × PP {layout.pipeline_parallel}" if layout.pipeline_parallel > 1 else "")
        + (f" × DP {layout.data_parallel}" if layout.data_parallel > 1 else "")
    )


def _figures(o: Outcome) -> str:
    if o.plan is None or o.plan.cost is None:
        return "–"
    cost = o.plan.cost
    running = cost.power_month.amount + cost.space_month.amount + cost.staff_month.amount
    return f"{len(o.plan.pools[0].nodes)}, {_short(cost.capex.amount)}, {_short(running)}"


def _short(amount: float) -> str:
    return f"{amount / 1e6:,.2f}M" if amount >= 1e6 else f"{amount / 1e3:,.1f}k"
