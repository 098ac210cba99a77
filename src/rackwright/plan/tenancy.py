"""Who shares nodes and accelerators with whom: one pool for all services of the plan."""

from __future__ import annotations

from typing import Literal

from rackwright.plan.base import Section


class Slice(Section):
    """One kind of share of an accelerator.

    ``resource``: what the device plugin advertises it as. ``per_gpu``: how many a GPU is divided into.
    ``memory_mib``: of each, at least. ``profile``: of MIG.
    """

    resource: str
    per_gpu: int
    memory_mib: int
    profile: str | None = None


class Place(Section):
    """How many replicas of ``deployment`` a node holds at most, and of which resource each takes how many."""

    deployment: str
    per_node: int
    resource: str
    each: int


class Tenancy(Section):
    """Every node of ``pool`` is divided alike, and holds the same services.

    ``config``: name of the division: the value of the node's label, and the key in the operator's
    configuration. ``trusted``: whether the tenants trust one another.
    """

    mode: Literal["gpus", "mig", "mps"]
    pool: str
    trusted: bool
    config: str | None = None
    slices: tuple[Slice, ...] = ()
    places: tuple[Place, ...]

    def place(self, deployment: str) -> Place | None:
        return next((place for place in self.places if place.deployment == deployment), None)

    def capacity(self, gpus: int, whole: str) -> dict[str, int]:
        """Extended resources that a node of ``gpus`` accelerators advertises; ``whole``: the usual one."""
        if not self.slices:
            return {whole: gpus}
        return {piece.resource: piece.per_gpu * gpus for piece in self.slices}
