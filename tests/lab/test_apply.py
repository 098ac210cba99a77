"""What an update in the lab tells: progress, errors, and what stands where."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.errors import CannotRun
from tests.stacks.plans import multi
from tools.lab.apply import open_stack, standing, told
from tools.lab.lab import Lab


def created(kind: str, count: int) -> list[str]:
    return [f" +  kubernetes:core/v1:{kind} n{i} created (0.4s) \n" for i in range(count)]


def test_progress_is_told_every_ten_resources_and_the_sum_last() -> None:
    """The engine's own summary is no resource."""
    started, summed = " +  kubernetes:core/v1:Node n creating (0s)\n", "    + 84 created\n"
    lines = list(told([started, *created("Node", 12), *created("Service", 1), summed]))
    assert [line.split(" s  ")[1] for line in lines] == [
        "10 resources, last kubernetes:core/v1:Node",
        "13 resources: Node ×12, Service",
    ]


def test_errors_are_told_and_the_toolchains_own_warnings_are_not() -> None:
    lines = list(
        told(
            [
                "    warning: using pulumi-language-python from $PATH at /somewhere\n",
                "    warning: the field is deprecated\n",
                "    error: forbidden: nodes\n",
                " +  pulumi:pulumi:Stack one created (1s)\n",
            ]
        )
    )
    assert lines[:2] == ["warning: the field is deprecated", "error: forbidden: nodes"]
    assert lines[2].endswith("0 resources: nothing changed")


def pod(group: int, worker: int, node: str, *, ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"chat-{group}-{worker}",
            "labels": {
                "app.kubernetes.io/component": "engine",
                "app.kubernetes.io/instance": "chat",
                "leaderworkerset.sigs.k8s.io/name": "chat",
                "leaderworkerset.sigs.k8s.io/group-index": str(group),
            },
        },
        "spec": {"nodeName": node},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def node(name: str, rack: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "labels": {"topology.kubernetes.io/rack": rack, "rackwright.dev/block": rack},
        }
    }


def test_what_stands_is_counted_from_pods_and_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups of two; the second has a pod that is not ready and lies in two blocks."""
    monkeypatch.setattr("tools.lab.apply.exclusive_domain", lambda *_: "rackwright.dev/block")
    nodes = [node("a", "r1"), node("b", "r1"), node("c", "r1"), node("d", "r2")]
    pods = [pod(0, 0, "a"), pod(0, 1, "b"), pod(1, 0, "c"), pod(1, 1, "d", ready=False)]
    lines = list(standing(multi(), pods, nodes))
    assert lines[0].strip() == "chat: 3 of 4 pods ready, on 4 nodes of pool h100"
    assert lines[1].strip() == "chat: 1 of 2 groups in one block each"


def test_without_an_engine_nothing_is_applied(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_ENGINE", "embedded")
    with pytest.raises(CannotRun, match="nothing is applied by the embedded engine"):
        open_stack(Lab(tmp_path), tmp_path / "plan.yaml")
