"""The cluster's objects that configure the same NICs: read for agreement with the profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from rackwright.errors import Problem
from rackwright.fabric.leaves import Settings, tree, unreadable
from rackwright.fabric.topology import Topology
from rackwright.plan import Qos
from rackwright.plan.links import interface

AGAIN = "render the objects again: rackwright render PLAN -o DIR"


def check(path: str, text: str, fabric: Topology, problems: list[Problem]) -> str | None:
    """Add what is wrong with the fabric's objects in ``text``; the kind of file, None where it has none."""
    if not path.endswith((".yaml", ".yml")) or (
        "NicConfigurationTemplate" not in text and "CIDRPool" not in text
    ):
        return None
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        problems.append(
            Problem(
                path, "must be YAML", str(error).replace("\n", " "), "what is not read is not proven", AGAIN
            )
        )
        return "kubernetes"
    for content in documents:
        kind = content.get("kind") if isinstance(content, dict) else None
        if kind == "NicConfigurationTemplate":
            problems += _template(path, content, fabric)
        elif kind == "CIDRPool":
            problems += _pool(path, content, fabric)
    return "kubernetes"


def settings(text: str, source: str) -> Settings:
    """Every field of every object, by its kind and name.

    Raises:
        InputErrors: it is no YAML, or holds something else than objects.
    """
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise unreadable(source, "YAML", str(error).replace("\n", " ")) from None
    found: Settings = {}
    for content in documents:
        if not isinstance(content, dict):
            raise unreadable(source, "Kubernetes objects", type(content).__name__)
        name = f"{content.get('kind')} {_get(content, 'metadata', 'name')}"
        found |= {f"{name} {path}": setting for path, setting in tree(content).items()}
    return found


def _template(path: str, content: Mapping[str, Any], fabric: Topology) -> Iterator[Problem]:
    qos = fabric.fabric.qos
    if qos is None:
        return
    roce = _get(content, "spec", "template", "roceOptimized", "qos")
    where = (
        f"{path} NicConfigurationTemplate {_get(content, 'metadata', 'name')} spec.template.roceOptimized.qos"
    )
    for key, wanted in _wanted(qos).items():
        found = _get(roce, *key.split("."))
        if found != wanted:
            yield Problem(
                f"{where}.{key}",
                f"must be {wanted}, as the switches have it",
                repr(found),
                "the operator applies it over what the host set, and frames of RDMA are dropped under load",
                AGAIN,
            )


def _wanted(qos: Qos) -> dict[str, object]:
    return {
        "trust": qos.trust,
        "pfc": ",".join(str(int(on)) for on in qos.pfc),
        "tos": qos.tos,
        "ecn.enabled": qos.ecn,
        "ecn.priority": qos.lossless_priority,
    }


def _pool(path: str, content: Mapping[str, Any], fabric: Topology) -> Iterator[Problem]:
    name = _get(content, "metadata", "name")
    position = next((i for i, r in enumerate(fabric.fabric.rails) if r.network == name), None)
    if position is None:
        return
    rail = fabric.fabric.rails[position]
    where = f"{path} CIDRPool {name} spec"
    spec = _get(content, "spec")
    if _get(spec, "cidr") != rail.subnet:
        yield _address(f"{where}.cidr", rail.subnet, _get(spec, "cidr"))
    given = {
        str(_get(a, "nodeName")): (_get(a, "prefix"), _get(a, "gateway"))
        for a in _get(spec, "staticAllocations") or []
    }
    for host in fabric.hosts:
        link = host.links[position]
        wanted = (str(interface(link.address).network), link.gateway)
        if given.get(host.node) != wanted:
            found = given.get(host.node)
            yield _address(f"{where}.staticAllocations {host.node}", " by ".join(wanted), found)


def _address(where: str, wanted: str, found: object) -> Problem:
    return Problem(
        where, f"must be {wanted}, the link's block at its switch", repr(found),
        "pods would get addresses that their switch port does not have", AGAIN,
    )  # fmt: skip


def _get(node: object, *path: str) -> Any:
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
