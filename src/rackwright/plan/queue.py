"""Queues of Kueue: who may take how much of the pools."""

from __future__ import annotations

from pydantic import Field

from rackwright.plan.base import Section


class Flavor(Section):
    """What may be taken of ``pool``: quantities by resource, as Kubernetes writes them."""

    name: str
    pool: str
    node_labels: dict[str, str]
    quota: dict[str, str]


class Queue(Section):
    """One cluster queue with a local queue of the same name, into which every engine goes.

    ``levels``: labels of nodes from the widest domain to the host, where Kueue places pods by topology.
    ``needs``: what the sized replicas take, a rollout included; every quota covers it.
    """

    name: str
    cohort: str | None = None
    levels: tuple[str, ...] = ()
    flavors: tuple[Flavor, ...]
    needs: dict[str, str] = Field(default_factory=dict)
