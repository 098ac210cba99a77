"""Nodes are not the plan's: it sets some labels and taints on them, and nobody else's may be lost by it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rackwright.errors import Problem
from stacks.cluster_facts import MANAGER, Facts, Object
from stacks.cluster_rules import Wanted
from stacks.manifests import Manifest
from stacks.model import APPLIED

CONDITIONS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that controllers put back by themselves."""


def problems(wanted: Wanted, facts: Facts) -> Iterator[Problem]:
    readable = not any(n.resource == "nodes" and n.verb == "get" for n in facts.denied)
    for manifest in wanted.manifests:
        if manifest.purpose != "node":
            continue
        live = facts.live.get(manifest.identity)
        if live is None:
            yield from [_absent(wanted, manifest)] if readable else []
        elif not wanted.adopt:
            yield from _labels(wanted, manifest, live)
            yield from _taints(wanted, manifest, live)


def _absent(wanted: Wanted, manifest: Manifest) -> Problem:
    return Problem(
        f"Pulumi.{wanted.stack}.yaml rackwright:joined",
        "must name nodes of the cluster",
        f'"{manifest.name}", which has not joined it',
        "its labels and taints have no node to be on",
        f"join it first, or leave it out: kubectl --context {wanted.context} get nodes",
    )


def _labels(wanted: Wanted, manifest: Manifest, live: Object) -> Iterator[Problem]:
    """Labels whose value is somebody else's choice; one that the plan set before and was edited is drift."""
    given, found = _given(live)["labels"], live["metadata"].get("labels") or {}
    for key, value in (manifest.content["metadata"].get("labels") or {}).items():
        if key not in found or found[key] == value:
            continue
        owner, applied = _owner(live, key)
        if owner != MANAGER and (applied or key not in given):
            yield Problem(
                f"node {manifest.name} label {key}",
                f'must be "{value}" or free for the plan to set',
                f'"{found[key]}", set by {owner or "somebody"}',
                "whatever reads their value would be misled, and they may set it again",
                f"kubectl label node {manifest.name} {key}- where it is wrong; "
                f"or take it over: {wanted.setting('adopt', 'true')}",
            )


def _taints(wanted: Wanted, manifest: Manifest, live: Object) -> Iterator[Problem]:
    """Taints are one list with one owner: setting ours drops every other. Judged where ours will be set."""
    planned = _pairs((manifest.content.get("spec") or {}).get("taints") or [])
    found = _pairs((live.get("spec") or {}).get("taints") or [])
    if not planned or (_unchanged(manifest, live) and planned.items() <= found.items()):
        return
    given = {(key, effect) for key, _, effect in _given(live)["taints"]}
    for (key, effect), value in found.items():
        place = f"node {manifest.name} taint {key}:{effect}"
        take = f"or take it over: {wanted.setting('adopt', 'true')}"
        if (key, effect) in planned:
            if value != planned[key, effect] and (key, effect) not in given:
                yield Problem(
                    place,
                    f'must have the value "{planned[key, effect]}" or not be there',
                    f'"{value}"',
                    "pods that tolerate their value would not tolerate the plan's",
                    f"kubectl taint node {manifest.name} {key}:{effect}- where it is wrong; {take}",
                )
        elif (key, effect) not in given and not key.startswith(CONDITIONS):
            yield Problem(
                place,
                "must be the plan's",
                f'one of somebody else, with the value "{value}"',
                "taints are one list in the API: setting the plan's would drop this one",
                f"kubectl taint node {manifest.name} {key}:{effect}- once it is not needed; {take}",
            )


def _given(live: Object) -> Mapping[str, Any]:
    """What the plan set on the node before."""
    text = (live["metadata"].get("annotations") or {}).get(APPLIED)
    try:
        data = json.loads(text) if text else {}
        return {
            "labels": dict(data.get("labels", {})),
            "taints": [(k, v, e) for k, v, e in data.get("taints", [])],
        }
    except (ValueError, TypeError, AttributeError):
        return {"labels": {}, "taints": []}


def _unchanged(manifest: Manifest, live: Object) -> bool:
    """Whether the node was given just this before: then nothing is sent to it."""
    planned = (manifest.content["metadata"].get("annotations") or {}).get(APPLIED)
    return (live["metadata"].get("annotations") or {}).get(APPLIED) == planned


def _pairs(taints: Sequence[Object]) -> dict[tuple[str, str], str]:
    return {(str(t["key"]), str(t["effect"])): str(t.get("value") or "") for t in taints}


def _owner(live: Object, key: str) -> tuple[str, bool]:
    """Who set the label, and whether as a declaration (server-side apply)."""
    for entry in live["metadata"].get("managedFields") or ():
        fields = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
        if f"f:{key}" in fields:
            return str(entry.get("manager")), entry.get("operation") == "Apply"
    return "", False
