"""Slices, adapters and claims in the rendered objects: what pods ask for and what proves their files."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rackwright.plan import load_plan
from tests.golden import REPOSITORY
from tests.stacks.objects import objects


def rendered(example: str) -> list[Mapping[str, Any]]:
    return list(objects(load_plan(REPOSITORY / "inventory" / example / "plan.yaml")).values())


def named(found: list[Mapping[str, Any]], kind: str, name: str) -> Any:
    return next(o for o in found if o["kind"] == kind and o["metadata"]["name"] == name)


def pod_of(example: str, name: str) -> Any:
    return named(rendered(example), "Deployment", name)["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("name", "resource"),
    [("qwen3-32b", "mig-3g.71gb"), ("qwen3-8b", "mig-1g.18gb"), ("qwen3-4b", "mig-1g.18gb")],
)
def test_services_on_shared_nodes_spread_and_ask_for_slices(name: str, resource: str) -> None:
    pod = pod_of("tenants", name)
    (spread,) = pod["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["maxSkew"]) == ("kubernetes.io/hostname", 1)
    assert (spread["whenUnsatisfiable"], spread["nodeTaintsPolicy"]) == ("DoNotSchedule", "Honor")
    asked = pod["containers"][0]["resources"]
    assert asked["limits"] == asked["requests"]
    assert [key for key in asked["limits"] if "/" in key] == [f"nvidia.com/{resource}"]
    assert asked["limits"][f"nvidia.com/{resource}"] == "1"
    assert pod["nodeSelector"]["nvidia.com/mig.config"] == "1g.18gb-x2_3g.71gb-x1"


def test_the_operator_is_told_of_the_division() -> None:
    found = rendered("tenants")
    policy = named(found, "ClusterPolicy", "cluster-policy")["spec"]
    assert policy["mig"] == {"strategy": "mixed"}
    assert policy["migManager"]["config"] == {"name": "rackwright-mig-configs", "default": "all-disabled"}
    assert "config.yaml" in named(found, "ConfigMap", "rackwright-mig-configs")["data"]
    plain = named(rendered("h200-10k"), "ClusterPolicy", "cluster-policy")["spec"]
    assert (plain["mig"], "migManager" in plain) == ({"strategy": "none"}, False)


def test_requests_find_adapters_by_name_alias_and_priority() -> None:
    """Nine of ten requests for legal go to its first version."""
    found = rendered("adapters")
    (rule,) = named(found, "InferenceModelRewrite", "qwen3-32b-aliases")["spec"]["rules"]
    assert rule["matches"] == [{"model": {"type": "Exact", "value": "legal"}}]
    assert [(t["modelRewrite"], t["weight"]) for t in rule["targets"]] == [("legal-v1", 9), ("legal-v2", 1)]
    assert named(found, "InferenceObjective", "qwen3-32b-medical")["spec"]["priority"] == 10


@pytest.mark.parametrize(("example", "name", "weighed"), [("adapters", "qwen3-32b", True),
                                                          ("h200-10k", "deepseek-v3", False)])  # fmt: skip
def test_replicas_that_hold_an_adapter_come_first(example: str, name: str, *, weighed: bool) -> None:
    config = named(rendered(example), "ConfigMap", f"{name}-picker-config")
    assert ("lora-affinity-scorer" in config["data"]["config.yaml"]) is weighed


def test_a_new_adapter_changes_no_pod() -> None:
    pod = pod_of("adapters", "qwen3-32b")
    assert "legal" not in str(pod)
    listed = named(rendered("adapters"), "ConfigMap", "qwen3-32b-adapters")["data"]["adapters.sha256"]
    assert len(listed.splitlines()) == 5
    assert listed.splitlines()[0].endswith("  /models/adapters/qwen3-32b/legal-v1/SHA256SUMS")


@pytest.mark.parametrize("damage", ["", "adapter_model.safetensors", "SHA256SUMS", "missing"])
def test_adapters_are_proven_before_the_engine_starts(damage: str, tmp_path: Path) -> None:
    """The init container's own script, on files: one changed byte of an adapter or its manifest stops it."""
    (script,) = [
        c for c in pod_of("adapters", "qwen3-32b")["initContainers"] if c["name"] == "verify-adapters"
    ]
    lines = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes(name.encode())
        digest = hashlib.sha256(name.encode()).hexdigest()
        (folder / "SHA256SUMS").write_text(f"{digest}  adapter_model.safetensors\n")
        manifest = hashlib.sha256((folder / "SHA256SUMS").read_bytes()).hexdigest()
        lines.append(f"{manifest}  {folder}/SHA256SUMS\n")
    (tmp_path / "list").write_text("".join(lines))
    if damage == "missing":
        (tmp_path / "two" / "adapter_model.safetensors").unlink()
    elif damage:
        with (tmp_path / "two" / damage).open("ab") as stream:
            stream.write(b"x\n")
    done = subprocess.run(
        script["command"], env={"PATH": "/usr/bin:/bin", "LIST": str(tmp_path / "list")}, text=True,
        capture_output=True, check=False, timeout=20,
    )  # fmt: skip
    assert (done.returncode == 0) is (damage == ""), done.stdout + done.stderr
    assert ("adapters verified: 2" in done.stdout) is (damage == "")
