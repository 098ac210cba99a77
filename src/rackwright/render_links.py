"""What objects say of each other: names that may stand, selectors that select, references that hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackwright.errors import Problem, nearest

Object = Mapping[str, Any]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_SHORT_NAMED = frozenset({"Service", "Namespace", "Deployment", "LeaderWorkerSet"})
"""Kinds whose name becomes a DNS label, of its own or of its pods."""
NAME_LIMIT = 253
LABEL_LIMIT = 63


@dataclass(frozen=True)
class Selection:
    """One selector and where it stands."""

    place: str
    labels: Mapping[str, str]


def name_problems(content: Object) -> Iterator[Problem]:
    """Names and label values that the API server would refuse."""
    metadata = content.get("metadata") or {}
    name, kind = str(metadata.get("name", "")), str(content.get("kind"))
    limit = LABEL_LIMIT if kind in _SHORT_NAMED else NAME_LIMIT
    parts = name.split(".") if kind not in _SHORT_NAMED else [name]
    if len(name) > limit or not all(_LABEL.fullmatch(part) for part in parts):
        yield Problem(
            f"{kind} metadata.name",
            f"must be a DNS name of at most {limit} characters",
            f'"{name}"',
            "the API server refuses it",
            "shorten the workload's name, or use small letters, digits and dashes",
        )
    for key, value in (metadata.get("labels") or {}).items():
        if len(str(value)) > LABEL_LIMIT or not _LABEL_VALUE.fullmatch(str(value)):
            yield Problem(
                f"{kind} {name} metadata.labels[{key}]",
                f"must be a label value of at most {LABEL_LIMIT} characters",
                f'"{value}"',
                "the API server refuses it",
                "shorten the name that it comes from",
            )


def selection(content: Object) -> Selection | None:
    """How ``content`` chooses pods, if it does."""
    spec = content.get("spec")
    if not isinstance(spec, Mapping):
        return None
    match content.get("kind"):
        case "Service":
            return Selection("spec.selector", spec.get("selector") or {})
        case "PodDisruptionBudget" | "InferencePool" | "PodMonitor" | "Deployment":
            return Selection(
                "spec.selector.matchLabels", (spec.get("selector") or {}).get("matchLabels") or {}
            )
        case "NetworkPolicy":
            found = (spec.get("podSelector") or {}).get("matchLabels") or {}
            return Selection("spec.podSelector.matchLabels", found)
    return None


def selector_problem(
    where: str, content: Object, pods: Sequence[tuple[str | None, Mapping[str, str]]]
) -> Problem | None:
    """A selector that matches no pod of the render (``pods``: namespace and labels)."""
    chosen = selection(content)
    if chosen is None:
        return None
    namespace = (content.get("metadata") or {}).get("namespace")
    if chosen.labels and any(n == namespace and chosen.labels.items() <= ls.items() for n, ls in pods):
        return None
    shown = ", ".join(f"{key}={value}" for key, value in chosen.labels.items())
    return Problem(
        f"{where} {chosen.place}",
        "must select a pod of this render",
        shown or "nothing",
        "what it is there for would silently not happen",
        "compare it with the labels of the pod templates",
    )


def references(content: Object) -> Iterator[tuple[str, str, str]]:
    """(place, kind, name) of every object of the same render that ``content`` relies on."""
    yield from _walk(content, "")
    spec = content.get("spec") or {}
    match content.get("kind"):
        case "HTTPRoute":
            for parent in spec.get("parentRefs") or ():
                yield "spec.parentRefs", "Gateway", parent["name"]
            for rule in spec.get("rules") or ():
                for backend in rule.get("backendRefs") or ():
                    yield "spec.rules.backendRefs", str(backend.get("kind", "Service")), backend["name"]
        case "InferencePool":
            yield "spec.endpointPickerRef", "Service", spec["endpointPickerRef"]["name"]
        case "ScaledObject":
            target = spec["scaleTargetRef"]
            yield "spec.scaleTargetRef", str(target.get("kind", "Deployment")), target["name"]
        case "RoleBinding":
            yield "roleRef", content["roleRef"]["kind"], content["roleRef"]["name"]
            for subject in content.get("subjects") or ():
                yield "subjects", subject["kind"], subject["name"]
        case "HostDeviceNetwork":
            pool = re.search(r'"poolName": *"([^"]+)"', str(spec.get("ipam", "")))
            if pool:
                yield "spec.ipam", "CIDRPool", pool.group(1)


_POD_FIELDS = {"priorityClassName": "PriorityClass", "serviceAccountName": "ServiceAccount"}
_GIVEN = {"default", "system-node-critical", "system-cluster-critical"}
_NETWORKS = "k8s.v1.cni.cncf.io/networks"


def _walk(value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{index}]")
    if not isinstance(value, Mapping):
        return
    for key, item in value.items():
        place = f"{path}.{key}".lstrip(".")
        if key == "persistentVolumeClaim" and isinstance(item, Mapping):
            yield place, "PersistentVolumeClaim", item["claimName"]
        elif key == "configMap" and isinstance(item, Mapping):
            yield place, "ConfigMap", item["name"]
        elif key == "resourceClaimTemplateName":
            yield place, "ResourceClaimTemplate", str(item)
        elif key in _POD_FIELDS and item not in _GIVEN:
            yield place, _POD_FIELDS[key], str(item)
        elif key == _NETWORKS:
            yield from ((place, "HostDeviceNetwork", name) for name in str(item).split(","))
        else:
            yield from _walk(item, place)


def reference_problems(where: str, content: Object, names: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """References that lead nowhere (``names``: by kind, what the render has)."""
    for place, kind, name in references(content):
        if name not in names.get(kind, ()):
            yield Problem(
                f"{where} {place}",
                f"must name a {kind} of this render{nearest(name, names.get(kind, ()))}",
                f'"{name}"',
                "it would wait for an object that nobody makes",
                f"declare the {kind}, or correct the name",
            )
