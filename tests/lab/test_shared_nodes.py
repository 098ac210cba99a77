"""Slices and claims on a real API server and scheduler: what is planned is what the scheduler can place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rackwright.plan import Plan, load_plan
from tests.engine import needs
from tests.golden import REPOSITORY
from tools.lab.apply import apply
from tools.lab.lab import Lab

pytestmark = [pytest.mark.engine, needs.lab()]


def plan_file(name: str) -> Path:
    return REPOSITORY / "inventory" / name / "plan.yaml"


def raised(name: str, directory: Path) -> tuple[Lab, Plan, list[str]]:
    """A lab with the example applied, and what was told of what stands where."""
    lab, plan, told = Lab(directory, lambda _: None), load_plan(plan_file(name)), list[str]()
    lab.raise_up(plan)
    assert apply(lab, plan_file(name), lambda _: None, told.append) == 0, told
    return lab, plan, told


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Plan, list[str]]]:
    found = raised("tenants", tmp_path_factory.mktemp("tenants"))
    yield found
    assert found[0].down() == []


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Plan, list[str]]]:
    found = raised("nvl72", tmp_path_factory.mktemp("rack"))
    yield found
    assert found[0].down() == []


def engines(lab: Lab, plan: Plan) -> list[dict[str, Any]]:
    assert plan.platform is not None
    pods = lab.api().items(f"/api/v1/namespaces/{plan.platform.namespace}/pods")
    return [p for p in pods if p["metadata"]["labels"].get("app.kubernetes.io/component") == "engine"]


def test_every_tenant_gets_its_slices(tenants: tuple[Lab, Plan, list[str]]) -> None:
    """20, 18 and 3 replicas; no node holds more of a service than its places, nor two more than another."""
    lab, plan, told = tenants
    assert plan.tenancy is not None
    for deployment in plan.deployments:
        count = deployment.layout.replicas
        assert any(f"{deployment.name}: {count} of {count} pods ready" in line for line in told)
        label = deployment.name
        held = Counter(
            p["spec"]["nodeName"]
            for p in engines(lab, plan)
            if p["metadata"]["labels"]["app.kubernetes.io/instance"] == label
        )
        place = plan.tenancy.place(deployment.name)
        assert place is not None
        assert max(held.values()) <= place.per_node
        assert max(held.values()) - min(held.get(n.name, 0) for n in plan.pools[0].nodes) <= 1


def test_a_second_apply_of_tenants_changes_nothing(tenants: tuple[Lab, Plan, list[str]]) -> None:
    said: list[str] = []
    assert apply(tenants[0], plan_file("tenants"), said.append, lambda _: None) == 0
    assert any("nothing changed" in line for line in said)


def test_trays_are_claimed_whole_and_groups_share_a_clique(rack: tuple[Lab, Plan, list[str]]) -> None:
    """Six replicas of two trays: twelve claims of four cards and twelve of a channel, all allocated."""
    lab, plan, told = rack
    assert any("12 of 12 pods ready" in line for line in told)
    assert any("6 of 6 groups in one block each" in line for line in told)
    found = lab.api().items("/apis/resource.k8s.io/v1/namespaces/nvl72/resourceclaims")
    sizes = Counter(len(c["status"]["allocation"]["devices"]["results"]) for c in found)
    assert sizes == {4: 12, 1: 12}
    nodes = [p["spec"]["nodeName"] for p in engines(lab, plan)]
    assert len(nodes) == len(set(nodes)) == 12
