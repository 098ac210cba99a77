"""What has changed under a plan: calibrations that came, went or were measured anew.

Where one has, most derived values differ for that reason alone; they are not told one by one as if a person
had edited them. Edits are still told by the digest of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.catalog import Catalog
from rackwright.errors import Problem
from rackwright.plan import Plan
from rackwright.sizing.estimate import Estimated, Point, estimate
from rackwright.sizing.joint import services_of, units_of
from rackwright.sizing.layout import shape_of
from rackwright.sizing.load import demand
from rackwright.sizing.size import stand_of

AGAIN = "review what changes: rackwright size WORKLOAD.yaml -o new.yaml; rackwright diff plan.yaml new.yaml"
_TYPED = ("workload", "header.name", "header.workload_digest")


def typed(path: str) -> bool:
    """Whether ``path`` is what a person wrote: no calibration changes it, so that a difference is an edit."""
    return path.startswith(_TYPED)


def problems(plan: Plan, fresh: Plan, catalog: Catalog) -> Iterator[Problem]:
    """Calibrations that ``fresh``, the plan as it is sized today, uses otherwise than ``plan``; and where
    what they say of the planned point leaves the interval that the plan was made with."""
    for index, (was, now) in enumerate(zip(plan.deployments, fresh.deployments, strict=False)):
        where = f"deployments[{index}].estimate"
        before, today = was.estimate.calibration, now.estimate.calibration
        if before == today and _steps(plan, index) == _steps(fresh, index):
            continue
        yield Problem(
            f"{where}.calibration",
            f"must be {today}, which the catalog has" if today else "must be none, as the catalog has none",
            "that entry with other measurements" if before == today else before or "none",
            _change(plan, fresh, index),
            AGAIN,
        )
        low, high = was.estimate.output_tok_s_low, was.estimate.output_tok_s_high
        at = _planned_point(plan, index, catalog)
        if today is not None and not low <= at.output_tok_s <= high:
            yield Problem(
                f"{where}.output_tok_s",
                f"must lie within the plan's interval of {low:,.0f}–{high:,.0f} tok/s",
                f"{at.output_tok_s:,.0f} tok/s at {at.concurrency:,.0f} requests, by {today}",
                "the plan counts on more than was measured"
                if at.output_tok_s < low
                else "the plan buys more than the load needs",
                AGAIN,
            )


def _planned_point(plan: Plan, index: int, catalog: Catalog) -> Estimated:
    """The layout and the concurrency of a deployment of the plan, estimated with today's catalog."""
    deployment, alone = plan.deployments[index], services_of(plan.workload)[index]
    machine, layout = plan.pool(deployment.pool).machine, deployment.layout
    stands = alone.model_copy(
        update={
            "hardware": alone.hardware.model_copy(update={"machine": machine}),
            "model": alone.model.model_copy(update={"quantisation": deployment.weights.quantisation}),
            "engine": deployment.engine.name,
        }
    )
    asked = demand(stands)
    degrees = (layout.tensor_parallel, layout.pipeline_parallel, layout.data_parallel)
    unit = units_of(plan.workload, catalog)[index]
    shape = shape_of(stand_of(stands, catalog, unit), *degrees)
    return estimate(shape, Point(asked.input_tokens, asked.output_tokens, deployment.estimate.concurrency))


def _steps(plan: Plan, index: int) -> list[dict[str, str]]:
    path = f"deployments[{index}].estimate.calibration"
    return [{**e.inputs, "source": e.source} for e in plan.explanations if e.path == path]


def _change(plan: Plan, fresh: Plan, index: int) -> str:
    was, now = plan.deployments[index], fresh.deployments[index]
    before, nodes = (sum(len(pool.nodes) for pool in p.pools) for p in (plan, fresh))
    lows = (now.estimate.output_tok_s_low, was.estimate.output_tok_s_low)
    return (
        f"low end of a replica {lows[0]:,.0f} tok/s, {lows[1]:,.0f} in the plan; it would be "
        f"{now.layout.replicas:,} replicas on {nodes:,} nodes, {before:,} in the plan"
    )
