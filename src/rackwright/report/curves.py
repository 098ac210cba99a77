"""What the sizing report draws: the estimator and the cost model of the plan over a range, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from rackwright.catalog import Catalog
from rackwright.errors import InputErrors, Problem
from rackwright.plan import Plan
from rackwright.plan.cost import Way
from rackwright.sizing import economics
from rackwright.sizing.cost import Costing, costing
from rackwright.sizing.estimate import Estimated, Point, estimate
from rackwright.sizing.layout import Chosen, choose
from rackwright.sizing.load import Demand, demand
from rackwright.sizing.pricing import pricing
from rackwright.sizing.sharing import Unit
from rackwright.sizing.size import stand_of

MOST_MONTHS = 72
DECADES = (0.1, 10.0)
"""Users from and to, relative to the plan's, over which cost is drawn."""
STEPS = 60


@dataclass(frozen=True)
class Basis:
    """The parts of the plan that curves are computed from."""

    plan: Plan
    demand: Demand
    chosen: Chosen
    costing: Costing


@dataclass(frozen=True)
class Curve:
    """One way over users or months: x, y in the plan's currency."""

    name: str
    kind: str
    points: tuple[tuple[float, float], ...]


def basis(plan: Plan, catalog: Catalog, unit: Unit | None = None) -> Basis:
    """``plan`` sized again, so that curves pass through its figures; ``unit``: what its replicas take.

    Raises:
        InputErrors: today's catalog and program give another plan; the curves would belie its figures.
    """
    stand, asked = stand_of(plan.workload, catalog, unit), demand(plan.workload)
    chosen = choose(stand, asked)
    deployment = plan.deployments[0]
    now = (chosen.replicas, round(chosen.candidate.at.output_tok_s))
    then = (deployment.layout.replicas, round(deployment.estimate.output_tok_s))
    if now != then:
        raise InputErrors(
            Problem(
                "PLAN deployments[0]",
                "must be what its workload gives with this catalog",
                f"{then[0]:,} replicas of {then[1]:,} tok/s; now {now[0]:,} of {now[1]:,}",
                "curves of the report are computed anew and would not meet the plan's figures",
                "size the workload again: rackwright size WORKLOAD.yaml -o plan.yaml",
            )
        )
    return Basis(plan, asked, chosen, costing(stand, asked, chosen, pricing(plan.workload, catalog), catalog))


def frontier(b: Basis) -> tuple[Estimated, ...]:
    """One replica from a single request to twice the planned concurrency."""
    planned = b.chosen.candidate.sequences
    counts = {1, 2, 4, 8, planned, 2 * planned, *(round(planned * k / 8) for k in range(2, 16))}
    return tuple(
        estimate(b.chosen.candidate.shape, Point(b.demand.input_tokens, b.demand.output_tokens, n))
        for n in sorted(n for n in counts if n >= 1)
    )


def cost_over_users(b: Basis) -> tuple[Curve, ...]:
    """A month of each way from a tenth to ten times the plan's users."""
    c = b.costing
    low, high = (max(1.0, c.users * end) for end in DECADES)
    users = [low * (high / low) ** (i / STEPS) for i in range(STEPS + 1)]
    own = Curve("own", "own", tuple((n, c.own_month(n)) for n in users))
    others = [
        Curve(offer.name, offer.kind, tuple((n, c.other_month(offer, n)) for n in users))
        for offer in c.offers
    ]
    return (own, *others)


def paid_over_months(b: Basis) -> tuple[Curve, ...]:
    """All that was paid by the end of each month, at the plan's users."""
    c = b.costing
    nodes = c.fleet.nodes(c.users)
    paying = [w.break_even_month for w in _ways(b) if w.break_even_month is not None]
    months = min(MOST_MONTHS, max(c.at.depreciation_months, *paying, 1) + 6)
    spent, running = economics.capex(c.at, nodes), economics.monthly(c.at, nodes).running
    own = Curve("own", "own", tuple((m, spent + running * m) for m in range(months + 1)))
    others = [
        Curve(
            offer.name,
            offer.kind,
            tuple((m, c.other_month(offer, c.users) * m) for m in range(months + 1)),
        )
        for offer in c.offers
    ]
    return (own, *others)


def _ways(b: Basis) -> tuple[Way, ...]:
    return b.plan.cost.ways if b.plan.cost is not None else ()
