"""How well founded an estimate is, and the 80 % interval that goes with it.

``measured``: this hardware, model and engine were measured, and the constants were fitted to it too.
``same-family``: this hardware was measured under this engine with other models, and a model of this
design under this engine on other hardware. ``extrapolated``: less than that.

The intervals are quantiles of measured over predicted of pairs of hardware and model that were left out of
the fit (``docs/estimator-fit.md``), by kind of load and class.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from rackwright.sizing.constants import Table, fitted
from rackwright.sizing.shape import Shape, spoken

Evidence = Literal["measured", "same-family", "extrapolated", "vendor", "assumed"]

UNKNOWN = (1 / 1.8, 1.8)
"""Factors of the interval where there is no measurement to take it from."""


def nearness(
    shape: Shape, designs: frozenset[tuple[str, str]], hardware: frozenset[tuple[str, str]]
) -> Evidence:
    """The class of a pair that was not measured itself."""
    engine = spoken(shape.engine.id)
    known = (shape.accelerator.id, engine) in hardware
    alike = (shape.model.architecture or shape.model.id, engine) in designs
    return "same-family" if known and alike and shape.pp == 1 else "extrapolated"


def evidence_of(shape: Shape) -> Evidence:
    """The class of ``shape``. Stages over nodes, drafts and adapters are extrapolated: they were hardly
    measured."""
    if shape.draft is not None or shape.lora is not None:
        return "extrapolated"
    table, engine = fitted(), spoken(shape.engine.id)
    if (shape.accelerator.id, shape.model.id, engine) in table.measured and shape.pp == 1:
        return "measured"
    return nearness(shape, _designs(), _hardware())


@cache
def _designs() -> frozenset[tuple[str, str]]:
    return frozenset(fitted().designs)


@cache
def _hardware() -> frozenset[tuple[str, str]]:
    return frozenset((hardware, engine) for hardware, _, engine in fitted().measured)


def interval(kind: str, evidence: str, table: Table | None = None) -> tuple[float, float]:
    """Factors of the 80 % interval of throughput."""
    known = (table or fitted()).intervals
    classes = known.get(kind) or known.get("all", {})
    return classes.get(evidence) or classes.get("extrapolated") or UNKNOWN
