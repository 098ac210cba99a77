"""Nodes, their names, and the racks they stand in."""

from __future__ import annotations

from dataclasses import dataclass

from rackwright.catalog import Machine
from rackwright.errors import Infeasible, Problem
from rackwright.plan.sites import Rack
from rackwright.workload import Workload

POWER_FACTOR = 1.2
"""Full-load power of a rack × 1.2 must stay below its rating (deployment checklist)."""


@dataclass(frozen=True)
class Placed:
    """Node names in order with their rack, and the racks."""

    names: tuple[str, ...]
    rack_of: dict[str, str]
    racks: tuple[Rack, ...]
    per_rack: int
    block_of: dict[str, str]


def blocks(pool: str, racks: tuple[Rack, ...], group: int) -> dict[str, str]:
    """Node name → block. A block is ``group`` nodes of one rack, the domain that one replica has to itself;
    nodes left over in a rack stand in none."""
    if group == 1:
        return {}
    found: dict[str, str] = {}
    count = 0
    for rack in racks:
        for start in range(0, len(rack.nodes) // group * group, group):
            count += 1
            found.update(dict.fromkeys(rack.nodes[start : start + group], f"{pool}-b{count:02d}"))
    return found


def node_names(pool: str, count: int) -> tuple[str, ...]:
    """``pool-01`` …: as many digits as the last needs, two at least, so that names sort."""
    digits = max(2, len(str(count)))
    return tuple(f"{pool}-{number:0{digits}d}" for number in range(1, count + 1))


def nodes_per_rack(workload: Workload, machine: Machine) -> int:
    """The most nodes whose full-load power × 1.2 stays below the rating, at most ``max_nodes``.

    Raises:
        Infeasible: not even one may stand there.
    """
    rack = workload.site.rack
    each = machine.full_load.value * POWER_FACTOR
    most = int(rack.rating // each)
    if most * each >= rack.rating:
        most -= 1
    if most < 1:
        raise Infeasible(
            Problem(
                "site.rack.rating",
                f"must exceed {POWER_FACTOR} × the full load of one node ({each:,.0f} W)",
                f"{rack.rating:,.0f} W",
                "a rack at its rating trips when every GPU runs at once",
                "use a stronger rack, or a smaller machine",
            ),
            constraint="site.rack.rating",
            best=f"{rack.rating / POWER_FACTOR:,.0f} W a node",
        )
    most = min(most, rack.max_nodes) if rack.max_nodes else most
    if machine.nodes > 1 and most < machine.nodes:
        raise Infeasible(
            Problem(
                "site.rack.rating",
                f"must feed the whole of {machine.name}: {machine.nodes} nodes at {POWER_FACTOR} × full load "
                f"({each * machine.nodes:,.0f} W)",
                f"{rack.rating:,.0f} W, {most} nodes",
                "its nodes are wired in one rack and cannot be spread over several",
                "use a stronger rack, or a machine of one node",
            ),
            constraint="site.rack.rating",
            best=f"{rack.rating / POWER_FACTOR:,.0f} W",
        )
    return machine.nodes if machine.nodes > 1 else most


def place(workload: Workload, machine: Machine, count: int, group: int) -> Placed:
    """``count`` nodes in racks, in order. Nodes of one multi-node group share a rack where it holds them."""
    per_rack = nodes_per_rack(workload, machine)
    fill = per_rack // group * group if per_rack >= group and machine.nodes == 1 else per_rack
    names = node_names(machine.pool, count)
    rack_of: dict[str, str] = {}
    racks = []
    total = -(-count // fill)
    for index in range(total):
        standing = names[index * fill : (index + 1) * fill]
        name = f"{workload.site.name}-r{index + 1:0{max(2, len(str(total)))}d}"
        rack_of.update(dict.fromkeys(standing, name))
        racks.append(
            Rack(
                name=name,
                rating_w=workload.site.rack.rating,
                power_factor=POWER_FACTOR,
                planned_full_load_w=machine.full_load.value * len(standing),
                nodes=standing,
            )
        )
    return Placed(names, rack_of, tuple(racks), per_rack, blocks(machine.pool, tuple(racks), group))
