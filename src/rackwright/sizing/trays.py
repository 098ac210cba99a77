"""Racks that are one machine of many nodes: a tray is a node, the rack is bought and wired whole.

The NVLink domain of such a rack reaches over its trays, so that a replica may span them without a network.
"""

from __future__ import annotations

import math

from rackwright.catalog import Accelerator, Figure, Machine

WIDEST = 16
"""GPUs that one replica joins over trays: as far as attention heads are divided."""


def in_domain(machine: Machine, card: Accelerator) -> bool:
    """Whether one NVLink domain holds all nodes of the machine."""
    link = card.nvlink
    return machine.nodes > 1 and link is not None and link.domain >= machine.gpus.value


def tray_of(machine: Machine) -> Machine:
    """One node of ``machine``, with its share of what the entry says of all; itself where it is one node."""
    if machine.nodes == 1:
        return machine

    def share(figure: Figure) -> Figure:
        note = f"{figure.source}; one of {machine.nodes} nodes"
        return figure.model_copy(update={"value": figure.value / machine.nodes, "source": note})

    shared = (
        "gpus", "sockets", "cores", "threads", "numa_nodes", "memory", "nvme_count", "idle", "full_load",
    )  # fmt: skip
    return machine.model_copy(update={name: share(getattr(machine, name)) for name in shared})


def nodes_for(replicas: int, machine: Machine, group: int, per_node: int) -> int:
    """Nodes that hold ``replicas``, each on ``group`` nodes or ``per_node`` of them on one.

    Of machines of many nodes whole ones: a replica stays within one.
    """
    if machine.nodes == 1:
        return replicas * group if group > 1 else math.ceil(replicas / per_node)
    return math.ceil(replicas / replicas_in(machine.nodes, group, per_node)) * machine.nodes


def replicas_in(nodes: int, group: int, per_node: int) -> int:
    """Replicas that ``nodes`` nodes of one machine hold."""
    return nodes // group if group > 1 else nodes * per_node


def slots(count: int, machine: Machine, group: int, per_node: int) -> int:
    """Replicas that ``count`` nodes could hold."""
    if machine.nodes == 1:
        return replicas_in(count, group, per_node)
    return count // machine.nodes * replicas_in(machine.nodes, group, per_node)
