"""A program that declares given objects one by one and nothing else. It imports nothing of the product."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

Body = tuple[str, str, dict[str, Any]]
"""Type, name and inputs of one resource."""


def one_key_each(count: int) -> list[Body]:
    """The least that an object can hold."""
    names = [f"bare-{number}" for number in range(count)]
    return [
        ("kubernetes:core/v1:ConfigMap", name, {"metadata": {"name": name}, "data": {"key": "value"}})
        for name in names
    ]


def read(path: Path) -> list[Body]:
    return [(kind, name, inputs) for kind, name, inputs in json.loads(path.read_text(encoding="utf-8"))]


def declare(bodies: Sequence[Body], provider: pulumi.ProviderResource | None = None) -> None:
    """Declare ``bodies`` through typed constructors where the SDK has one, without components."""
    options = pulumi.ResourceOptions(provider=provider)
    for kind, name, inputs in bodies:
        typed = _constructor(kind)
        if typed is not None:
            given = {_snake(k): v for k, v in inputs.items() if k not in ("apiVersion", "kind")}
            typed(name, **given, opts=options)
        else:
            given = {k: v for k, v in inputs.items() if k not in ("apiVersion", "kind", "metadata")}
            k8s.apiextensions.CustomResource(
                name, inputs["apiVersion"], inputs["kind"], metadata=inputs["metadata"], opts=options, **given
            )


def _constructor(kind: str) -> Any:
    """``kubernetes:apps/v1:Deployment`` → the SDK's class; None for kinds that definitions bring."""
    _, place, name = kind.split(":")
    group, _, version = place.partition("/")
    try:
        return getattr(import_module(f"pulumi_kubernetes.{group.partition('.')[0]}.{version}"), name, None)
    except ModuleNotFoundError:
        return None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda match: f"_{match[1].lower()}", name)
