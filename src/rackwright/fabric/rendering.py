"""Every file of a fabric, both ends of each cable, from one plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rackwright.errors import CannotRun, InputErrors, Problem
from rackwright.fabric import cables, hosts, infiniband, networks
from rackwright.fabric.switches import OS
from rackwright.fabric.switching import unknown_os
from rackwright.fabric.topology import Topology, topology
from rackwright.files import write_whole
from rackwright.plan import Plan

MLX5 = "15b3"
"""PCI vendor of NVIDIA's NICs."""
EXECUTABLE, PRIVATE = 0o755, 0o600


def render(plan: Plan) -> tuple[Topology, dict[str, str]]:
    """The fabric of ``plan`` and its files by path.

    Raises:
        CannotRun: the plan has no fabric, or no switch for it.
        InputErrors: its switches run a system that there is no configuration for.
    """
    fabric = topology(plan)
    switching = fabric.fabric.switching
    if fabric.fabric.kind == "roce" and switching is None:
        raise CannotRun(
            Problem(
                "fabric.switching",
                "must be a section of a plan whose RDMA runs over Ethernet",
                f"nothing: the catalog has no switch of {fabric.fabric.rate_gbps} Gb/s for that system",
                "the switch end of every cable would be left to chance",
                "add one to your catalog (rackwright catalog list switch), name it under fabric.switch in "
                "the workload, and size again",
            )
        )
    if fabric.fabric.qos is not None and fabric.fabric.nic_vendor != MLX5:
        raise CannotRun(
            Problem(
                "fabric.nic_vendor",
                f'must be "{MLX5}", whose NICs the mlx5 driver runs',
                f'"{fabric.fabric.nic_vendor}"',
                "lossless settings are made with mlnx_qos and cma_roce_tos, which know no other NIC",
                "set that vendor's NICs by its own tools, with the values of fabric.qos",
            )
        )
    found: dict[str, str] = {}
    if switching is not None and fabric.configured:
        if switching.os not in OS:
            raise InputErrors(unknown_os("fabric.switching.os", switching.os))
        system = OS[switching.os]
        for switch in fabric.switches:
            found[f"switches/{switch.name}/{system.file}"] = system.render(switch, fabric)
    if switching is not None:
        found[cables.CABLES] = cables.cable_map(fabric)
    if fabric.fabric.subnet is not None:
        found |= infiniband.files(fabric)
    found |= dict(hosts.files(fabric))
    found |= dict(cables.port_tables(fabric))
    found |= networks.files(fabric)
    return fabric, found


def write(files: Mapping[str, str], directory: Path) -> list[str]:
    """Write ``files`` below ``directory``.

    Returns the paths of an earlier rendering's files that are no longer among them. They
    are left where they are: a switch that is gone from the plan may still be in its rack.

    Raises:
        CannotRun: the place cannot be written, or holds something else.
    """
    if directory.exists() and not directory.is_dir():
        raise CannotRun(
            Problem(
                str(directory),
                "must be a directory",
                "a file",
                "many files are written there",
                "name another",
            )
        )
    for path, text in files.items():
        target = directory / path
        write_whole(target, text)
        if path.endswith(hosts.SCRIPT):
            target.chmod(EXECUTABLE)
        if path.endswith(hosts.NETPLAN):
            target.chmod(PRIVATE)  # netplan refuses to be quiet about anything wider
    if not directory.is_dir():
        return []
    places = ("switches", "nodes", "pools", "racks", "infiniband", "kubernetes")
    return sorted(
        str(p.relative_to(directory))
        for place in places
        for p in (directory / place).rglob("*")
        if p.is_file() and str(p.relative_to(directory)) not in files
    )
