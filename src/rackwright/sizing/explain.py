"""How every derived number of a plan came about: formula, inputs, source, evidence class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rackwright.catalog import Prices
from rackwright.plan.cost import Cost, Explanation
from rackwright.plan.deployments import Deployment
from rackwright.plan.fabric import Fabric
from rackwright.plan.load import Load
from rackwright.plan.pools import Pool
from rackwright.sizing.layout import Chosen, Stand
from rackwright.sizing.load import Demand
from rackwright.sizing.nodes import Placed

Evidence = Literal["measured", "same-family", "extrapolated", "vendor", "assumed", "input"]
GUIDE = "hardware-selection guide, May 2026"


@dataclass(frozen=True)
class Facts:
    """The finished parts that explanations speak of."""

    stand: Stand
    demand: Demand
    chosen: Chosen
    placed: Placed
    fabric: Fabric | None
    pool: Pool
    deployment: Deployment
    cost: Cost
    prices: Prices
    load: Load
    slots: int
    load_s: float


def explanations(facts: Facts) -> tuple[Explanation, ...]:
    return tuple(_all(facts))


def _all(facts: Facts) -> Iterator[Explanation]:
    return iter(())
