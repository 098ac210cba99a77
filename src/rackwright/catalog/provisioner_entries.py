"""What makes nodes: the objects that a provider's Kubernetes API takes for a pool, as data.

In an object, ``${name}`` alone stands for a value of any type, inside other text for its words. What is
nothing is left out: a key, an item, a mapping whose ``when`` is nothing, and whatever holds nothing then.
``sizing.pool_objects`` says which values there are.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rackwright.catalog.figures import Entry, Frozen

Text = Annotated[str, Field(min_length=4)]


class Input(Frozen):
    """What a workload says of its provider under ``provisioning.inputs``. ``default``: where it is left out;
    an input that is neither required nor has a default is nothing then."""

    about: Text
    pattern: str = r"[^\s]+"
    required: bool = False
    default: str | None = None


class Instance(Frozen):
    """A machine that the provider sells. ``vcpus``, ``memory_gib``: of a node. ``cards``: network cards that
    take RDMA, the first of which also carries the node's own traffic. ``named``: the provider's name of the
    accelerator, where its API asks for one."""

    accelerator: str
    gpus: Annotated[int, Field(ge=1, le=72)]
    vcpus: Annotated[int, Field(ge=1)]
    memory_gib: Annotated[int, Field(ge=1)]
    cards: Annotated[int, Field(ge=0, le=64)] = 0
    named: str | None = None
    source: Text
    verified: bool


class PoolTemplate(Frozen):
    """One object. ``each``: one of the pool, or one a host. ``protect``: deleting it deletes machines.
    ``remakes``: fields of its spec whose change makes machines anew."""

    each: Literal["pool", "host"] = "pool"
    api_version: str
    kind: str
    name: str
    namespace: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    protect: bool = False
    remakes: tuple[str, ...] = ()
    spec: dict[str, Any]


class Provisioner(Entry):
    """One way to make nodes.

    ``hosts``: whether a workload lists the machines. ``operator``: what must run in the cluster.
    ``tiers``: hot, nodes that stand whether they are asked or not; cold, nodes made when pods wait for them.
    ``startup``: whether a taint of a new node may be taken off without being put back: the gate of preflight.
    ``driver``: who may bring the GPU driver, ``image`` or ``none`` of it, and the provider's word for it.
    ``effects``: the provider's words for effects of taints.
    """

    kind: Literal["provisioner"]
    operator: Text
    source: Text
    verified: bool
    hosts: bool = False
    tiers: Annotated[tuple[Literal["hot", "cold"], ...], Field(min_length=1)]
    startup: bool
    driver: Annotated[dict[Literal["image", "none"], str], Field(min_length=1)]
    effects: dict[str, str] = Field(default_factory=dict)
    inputs: dict[str, Input] = Field(default_factory=dict)
    instances: dict[str, Instance] = Field(default_factory=dict)
    objects: Annotated[tuple[PoolTemplate, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _plausible(self) -> Provisioner:
        if not (self.hosts or self.instances):
            raise ValueError("instances must be given where no hosts are")
        for name, asked in self.inputs.items():
            re.compile(asked.pattern)
            if asked.default is not None and not re.fullmatch(asked.pattern, asked.default):
                raise ValueError(f"the default of inputs.{name} must fit its pattern")
        return self
