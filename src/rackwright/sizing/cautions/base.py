"""What cautions look at and what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rackwright.engines.launcher import Traits
from rackwright.engines.registry import LAUNCHERS
from rackwright.plan.fabric import Fabric
from rackwright.sizing.cost import Costing
from rackwright.sizing.layout import Chosen, Stand
from rackwright.sizing.load import Demand
from rackwright.workload import Workload

GUIDE = "hardware-selection guide, May 2026"
INFRASTRUCTURE = "infrastructure guide"
CHECKLIST = "deployment checklist"
Severity = Literal["info", "warn", "refuse"]


@dataclass(frozen=True)
class Sized:
    """What cautions look at. ``load_s``: from a replica's start to its first answer."""

    stand: Stand
    demand: Demand
    chosen: Chosen
    nodes: int
    fabric: Fabric | None
    costing: Costing
    image_pinned: bool
    picker_pinned: bool
    pod_memory_gib: int
    load_s: float

    @property
    def workload(self) -> Workload:
        return self.stand.workload

    @property
    def traits(self) -> Traits:
        return LAUNCHERS[self.stand.engine.id].TRAITS


Finding = tuple[Severity, str, str, str]
"""Severity, text, evidence, source."""

Rule = Callable[[Sized], Finding | None]


def many(count: float, noun: str) -> str:
    """``1 daily user``, ``2,000 daily users``."""
    return f"{count:,.0f} {noun}{'' if count == 1 else 's'}"
