"""NVIDIA's k8s-launch-kit: its cluster-config.yaml as an inventory of NICs, held against the rails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackwright.errors import InputErrors, Problem, listing
from rackwright.plan import Plan, Rail
from rackwright.yamlio import load_yaml

AGAIN = "put the NICs as they are into a machine entry of your own catalog, and size again"
WHY = "addresses, names and switch ports are given by NIC"


@dataclass(frozen=True)
class Nic:
    rail: int | None
    pci_address: str
    netdev: str
    hca: str
    device_id: str
    place: str


@dataclass(frozen=True)
class Group:
    """Nodes of one kind. ``link``: Ethernet or Infiniband; empty where it was not verified."""

    machine: str
    link: str
    nodes: tuple[str, ...]
    nics: tuple[Nic, ...]
    place: str


def read(path: Path) -> tuple[Group, ...]:
    """The groups of a cluster-config.yaml, with their east-west NICs only.

    Raises:
        CannotRun: the file cannot be read.
        InputErrors: it has no ``clusterConfig`` of groups with ``pfs``.
    """
    document = load_yaml(path, next_command="l8k discover --save-cluster-config cluster-config.yaml")
    data = document.data
    groups = data.get("clusterConfig") if isinstance(data, dict) else None
    if not isinstance(groups, list) or not groups:
        raise InputErrors(
            Problem(
                f"{document.source} clusterConfig",
                "must be the groups that l8k discover writes",
                "nothing" if not groups else type(groups).__name__,
                WHY,
                "l8k discover --save-cluster-config cluster-config.yaml",
            )
        )
    return tuple(_group(g, f"{document.source} clusterConfig[{n}]") for n, g in enumerate(groups))


def _group(data: Any, place: str) -> Group:
    pfs = data.get("pfs") if isinstance(data, dict) else None
    if not isinstance(pfs, list):
        raise InputErrors(Problem(f"{place}.pfs", "must be a list of NICs", repr(pfs), WHY, "l8k discover"))
    nics = tuple(
        Nic(
            pf.get("rail") if isinstance(pf.get("rail"), int) else None,
            str(pf.get("pciAddress", "")),
            str(pf.get("networkInterface", "")),
            str(pf.get("rdmaDevice", "")),
            str(pf.get("deviceID", "")),
            f"{place}.pfs[{n}]",
        )
        for n, pf in enumerate(pfs)
        if isinstance(pf, dict) and pf.get("traffic", "east-west") == "east-west"
    )
    nodes = data.get("workerNodes") or []
    return Group(
        str(data.get("machineType", "")), str(data.get("linkType", "")), tuple(map(str, nodes)), nics, place
    )


def agree(groups: tuple[Group, ...], plan: Plan) -> None:
    """Prove that every group has the plan's rails.

    Raises:
        InputErrors: every rail without its NIC, and every NIC that is another than planned.
    """
    if plan.fabric is None:
        return
    planned = {node.name for pool in plan.pools for node in pool.nodes}
    concerned = [g for g in groups if not g.nodes or planned & set(g.nodes)]
    problems = [p for group in concerned for p in _problems(group, plan.fabric.rails, plan.fabric.kind)]
    if not concerned:
        nodes = listing([n for g in groups for n in g.nodes], 4)
        problems = [
            Problem(
                "clusterConfig", "must have nodes of the plan", nodes or "none", WHY, "name the right file"
            )
        ]
    if problems:
        raise InputErrors(problems)


def _problems(group: Group, rails: tuple[Rail, ...], kind: str) -> Iterator[Problem]:
    link = {"roce": "ethernet", "infiniband": "infiniband"}[kind]
    if group.link and group.link.lower() != link:
        yield Problem(f"{group.place}.linkType", f"must be {link}", group.link, WHY, AGAIN)
    if len(rails) > len(group.nics):
        yield Problem(
            f"{group.place}.pfs",
            f"must have {len(rails)} east-west NICs, one a rail of the plan",
            str(len(group.nics)),
            "a rail without a NIC carries nothing",
            AGAIN,
        )
    at = {nic.pci_address.lower(): nic for nic in group.nics}
    for rail in rails:
        nic = at.get(rail.pci_address.lower())
        if nic is None:
            yield Problem(
                f"{group.place}.pfs", f"must have the NIC of rail {rail.index} at {rail.pci_address}",
                listing(sorted(at), 8) or "none", WHY, AGAIN,
            )  # fmt: skip
            continue
        # Names may differ: the rules that the fabric renders give each NIC its planned name.
        if nic.rail is not None and nic.rail != rail.index:
            yield Problem(
                f"{nic.place}.rail", f"must be {rail.index}", str(nic.rail),
                "the NIC's cable leads to another rail's switch", AGAIN,
            )  # fmt: skip
