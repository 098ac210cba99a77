"""Workloads for tests, from a few words."""

from __future__ import annotations

from typing import Any

from rackwright.workload import Workload


def workload(**changes: Any) -> Workload:
    """Chat on H200 nodes with a 235B mixture; ``a__b=value`` sets ``a.b``."""
    data: dict[str, Any] = {
        "name": "t",
        "users": {"dau": 10_000},
        "model": {"id": "qwen3-235b-a22b"},
        "hardware": {"machine": "hgx-h200-8"},
    }
    for path, value in changes.items():
        node = data
        *parents, last = path.split("__")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return Workload.model_validate(data)
