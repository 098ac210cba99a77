"""Operators that a plan may need: how each is recognised in a cluster, and which version runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:([-+.]).*)?")
_LABEL = "app.kubernetes.io/version"


@dataclass(frozen=True)
class Known:
    """``images``: last part of the controller's image; ``names``: of its Deployment or its application label.
    ``groups``: API groups whose definitions it brings."""

    images: frozenset[str]
    names: frozenset[str]
    groups: tuple[str, ...]


def _known(images: str, names: str, *groups: str) -> Known:
    return Known(frozenset(images.split()), frozenset(names.split()), groups)


KNOWN: Mapping[str, Known] = {
    "gpu-operator": _known("gpu-operator", "gpu-operator", "nvidia.com"),
    "network-operator": _known(
        "network-operator", "network-operator",
        "mellanox.com", "nv-ipam.nvidia.com", "configuration.net.nvidia.com",
    ),
    "leaderworkerset": _known("lws", "lws lws-controller-manager", "leaderworkerset.x-k8s.io"),
    "keda": _known("keda", "keda-operator", "keda.sh"),
    "prometheus-operator": _known(
        "prometheus-operator", "prometheus-operator kube-prometheus-stack-operator", "monitoring.coreos.com"
    ),
    "nvidia-dra-driver": _known(
        "dra-driver-nvidia-gpu k8s-dra-driver-gpu",
        "dra-driver-nvidia-gpu-controller nvidia-dra-driver-gpu-controller",
        "resource.nvidia.com",
    ),
    "kueue": _known("kueue", "kueue-controller-manager kueue", "kueue.x-k8s.io"),
    "gateway": _known(
        "gateway", "envoy-gateway", "gateway.networking.k8s.io", "inference.networking.k8s.io",
        "llm-d.ai",
    ),
}  # fmt: skip


def bringing(group: str) -> str | None:
    """The operator that brings the definitions of ``group``."""
    return next((name for name, known in KNOWN.items() if group in known.groups), None)


def controllers(name: str, deployments: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of ``deployments`` that are the operator's controller."""
    known = KNOWN[name]
    return [
        d for d in deployments if _names(d) & known.names or set(map(_image_name, _images(d))) & known.images
    ]


def version_of(name: str, deployment: Mapping[str, Any]) -> str | None:
    """The version by the image's tag, else by the label; None where neither says it."""
    tags = [_tag(image) for image in _images(deployment) if _image_name(image) in KNOWN[name].images]
    labels = deployment["metadata"].get("labels") or {}
    candidates = [*tags, labels.get(_LABEL)]
    return next((c for c in candidates if c and parsed(c)), None)


def parsed(version: str) -> tuple[int, int, int, int] | None:
    """``v0.10.0`` as numbers that compare; a pre-release is before its release."""
    found = _VERSION.fullmatch(version.strip())
    if found is None:
        return None
    major, minor, patch, mark = found.groups()
    return int(major), int(minor), int(patch or 0), -1 if mark == "-" else 0


def _images(deployment: Mapping[str, Any]) -> list[str]:
    pod = deployment["spec"]["template"]["spec"]
    return [str(container.get("image", "")) for container in pod.get("containers") or []]


def _image_name(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _tag(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _names(deployment: Mapping[str, Any]) -> set[str]:
    metadata = deployment["metadata"]
    return {str(metadata["name"]), str((metadata.get("labels") or {}).get("app.kubernetes.io/name"))}
