"""Sites and their racks."""

from __future__ import annotations

from collections.abc import Iterable

from rackwright.plan.base import Section


class Rack(Section):
    """One cabinet: what it may draw and what stands in it.

    ``planned_full_load_w`` is the sum over its nodes; ``power_factor`` × that must stay below ``rating_w``.
    """

    name: str
    rating_w: float
    power_factor: float
    planned_full_load_w: float
    nodes: tuple[str, ...]


class Site(Section):
    """A data centre or region. ``target``: kubernetes or hosts."""

    name: str
    country: str
    target: str
    zone: str
    racks: tuple[Rack, ...] = ()


def on_hosts(sites: Iterable[Site]) -> bool:
    """Whether a plan's sites are hosts of their own. One of both kinds is refused where it is applied."""
    return any(site.target == "hosts" for site in sites)
