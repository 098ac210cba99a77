"""One service among several: the plan that it has alone, and where it stands in the joint one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackwright.catalog import Catalog
from rackwright.plan import Cost, Load, Plan, Pool, Rack
from rackwright.sizing.cost import Costing, costing
from rackwright.sizing.layout import choose
from rackwright.sizing.load import demand
from rackwright.sizing.pricing import pricing
from rackwright.sizing.sharing import Unit
from rackwright.sizing.size import stand_of


@dataclass(frozen=True)
class Part:
    """One service with the plan that it would have alone."""

    name: str
    plan: Plan
    catalog: Catalog
    unit: Unit | None = None

    @property
    def pool(self) -> Pool:
        return self.plan.pools[0]

    @property
    def deployment(self) -> str:
        return self.plan.deployments[0].name

    @property
    def nodes(self) -> int:
        return len(self.pool.nodes)

    @property
    def racks(self) -> tuple[Rack, ...]:
        return self.plan.sites[0].racks

    def costing(self) -> Costing:
        workload = self.plan.workload
        stand, asked = stand_of(workload, self.catalog, self.unit), demand(workload)
        return costing(stand, asked, choose(stand, asked), pricing(workload, self.catalog), self.catalog)

    @property
    def load(self) -> Load:
        assert self.plan.load is not None
        return self.plan.load

    @property
    def cost(self) -> Cost:
        assert self.plan.cost is not None
        return self.plan.cost


@dataclass(frozen=True)
class Place:
    """Where a service stands. ``renamed``: names of its plan alone to those of the joint one.
    ``number``: of its pool in the joint plan."""

    number: int
    pool: Pool
    racks: tuple[Rack, ...]
    renamed: Mapping[str, str]
    rack_offset: int
