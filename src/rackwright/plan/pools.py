"""Node pools: identical nodes with one role."""

from __future__ import annotations

from typing import Literal

from rackwright.plan.base import Section


class Node(Section):
    """One machine.

    ``rail_addresses`` are its addresses, one a rail, with prefix length. ``block``: the nodes that one
    multi-node replica takes together; none where replicas fit one node.
    """

    name: str
    rack: str
    block: str | None = None
    spare: bool = False
    rail_addresses: tuple[str, ...] = ()


class Taint(Section):
    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class Pool(Section):
    """``nodes`` includes spares; a spare carries the pool's labels and is kept free of replicas' sizing."""

    name: str
    role: Literal["serving"] = "serving"
    tier: Literal["hot", "warm", "cold"] = "hot"
    site: str
    machine: str
    accelerator: str
    gpus_per_node: int
    gpu_memory_gib: float
    cpus_per_node: int
    memory_gib_per_node: float
    nvme_bytes_per_node: int
    idle_w_per_node: float
    full_load_w_per_node: float
    gpu_resource: str = "nvidia.com/gpu"
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    nodes: tuple[Node, ...]

    @property
    def spares(self) -> int:
        return sum(node.spare for node in self.nodes)
