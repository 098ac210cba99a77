"""Pools whose nodes are made: by which provider, between which counts, from which objects."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from rackwright.plan.base import Section
from rackwright.plan.pools import Taint


class PoolObject(Section):
    """One object of the provider's API. ``protect``: deleting it deletes machines. ``remakes``: fields of its
    spec whose change makes machines anew."""

    api_version: str
    kind: str
    name: str
    namespace: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    protect: bool = False
    remakes: tuple[str, ...] = ()
    spec: dict[str, Any]


class Provisioned(Section):
    """How the nodes of ``pool`` come to be.

    ``nodes_min``, ``nodes_max``: between which the provider keeps them, spares included. ``named``: whether a
    node has the plan's name, so that its rack and block can be labelled once it has joined. ``gate``: the
    taint that a new node starts with until preflight has passed on it.
    """

    pool: str
    by: str
    tier: Literal["hot", "cold"]
    nodes_min: int
    nodes_max: int
    named: bool
    gate: Taint | None = None
    objects: tuple[PoolObject, ...]
