"""What one of several services of a plan asks for and costs."""

from __future__ import annotations

from rackwright.plan.base import Section
from rackwright.plan.cost import Alternatives, Cost
from rackwright.plan.load import Load


class Share(Section):
    """``load`` and ``cost`` of ``deployment`` alone. The plan's own are those of all; its people are fewer
    than the sum, since the same ones run every service."""

    service: str
    deployment: str
    load: Load
    cost: Cost
    alternatives: Alternatives | None = None
