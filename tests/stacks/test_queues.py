"""Queues of Kueue: quotas by the pools, what serving needs, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rackwright.catalog import load_catalog
from rackwright.crds import load_schemas
from rackwright.errors import InputErrors
from rackwright.plan import Plan
from rackwright.sizing.joint import plan_of
from stacks.manifests import dump
from stacks.rendering import render
from tests.golden import REPOSITORY, SHARED, assert_golden
from tests.sizing.build import workload
from tests.stacks.objects import manifests, objects, one

CATALOG = load_catalog()
KINDS = ("Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue")
MULTI = {
    "hardware": {"machine": "hgx-h200-8-roce", "fabric": "roce", "spares": 2},
    "overrides": {"pipeline_parallel": 2, "tensor_parallel": 8},
}


def queued(spares: int = 1, **queue: Any) -> Plan:
    return plan_of(workload(hardware={"machine": "hgx-h200-8", "spares": spares}, queue=queue), CATALOG)


def groups() -> Plan:
    return plan_of(workload(queue={}, **MULTI), CATALOG)


def test_objects_are_as_reviewed() -> None:
    found = [m for m in manifests(queued(cohort="shared")) if m.kind in KINDS]
    assert_golden(
        REPOSITORY / "tests" / "golden" / "pools" / "kueue.yaml", "---\n".join(dump(m.content) for m in found)
    )


@pytest.mark.skipif(not (SHARED / "crds").is_dir(), reason="no real schemas beside the checkout")
def test_objects_fit_their_schemas(tmp_path: Path) -> None:
    rendered = render(queued(cohort="shared"), tmp_path / "out", schemas=load_schemas(SHARED / "crds"))
    assert [str(f) for f in rendered.findings if f.severity == "error"] == []
    assert {m.kind for m in rendered.validated} >= set(KINDS)


def quota(plan: Plan) -> dict[str, str]:
    (group,) = one(plan, "ClusterQueue", "t")["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    assert [r["name"] for r in flavor["resources"]] == group["coveredResources"]
    return {r["name"]: r["nominalQuota"] for r in flavor["resources"]}


def test_the_quota_is_all_of_the_pool() -> None:
    """Three nodes of replicas and a spare: 4 × 8 GPUs, 4 × 224 threads, 4 × 2,048 GiB."""
    assert quota(queued()) == {"cpu": "896", "memory": "8192Gi", "nvidia.com/gpu": "32"}
    assert quota(queued(spares=3, accelerators=36))["nvidia.com/gpu"] == "36"


@pytest.mark.parametrize("plan", [queued(), groups()], ids=["single", "groups"])
def test_every_resource_that_pods_request_is_covered(plan: Plan) -> None:
    """A pod that requests another is never admitted."""
    covered = set(quota(plan))
    found = [o for o in objects(plan).values() if o["kind"] in {"Deployment", "LeaderWorkerSet"}]
    labelled = [o for o in found if "kueue.x-k8s.io/queue-name" in o["metadata"]["labels"]]
    assert len(labelled) == 1
    spec = labelled[0]["spec"]
    templates = (
        [spec["template"]]
        if "template" in spec
        else [spec["leaderWorkerTemplate"][f"{role}Template"] for role in ("leader", "worker")]
    )
    for template in templates:
        for container in template["spec"]["containers"]:
            assert set(container["resources"]["requests"]) <= covered


def test_groups_are_placed_by_their_own_controller_only() -> None:
    assert "Topology t" not in objects(groups())
    assert "topologyName" not in one(groups(), "ResourceFlavor", f"t-{groups().pools[0].name}")["spec"]


def test_serving_needs_its_replicas_and_what_a_rollout_adds() -> None:
    plan = queued(spares=3)
    (deployment,) = plan.deployments
    pods = deployment.layout.replicas + deployment.rollout.max_surge
    assert plan.queue is not None
    assert plan.queue.needs["nvidia.com/gpu"] == str(pods * deployment.layout.gpus_per_pod)
    assert pods * deployment.layout.gpus_per_pod < 48


def test_a_plan_without_a_queue_has_no_label() -> None:
    plan = plan_of(workload(), CATALOG)
    assert not any("kueue" in str(o) for o in objects(plan).values())


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ({"accelerators": 8}, "must be at least"),
        ({"accelerators": 33}, "must be at most the 32 of pool h200"),
    ],
)
def test_a_quota_that_does_not_fit_is_refused(queue: dict[str, Any], said: str) -> None:
    with pytest.raises(InputErrors, match=said):
        queued(**queue)


@pytest.mark.parametrize(
    "changes",
    [
        {"devices": {"model": "dra", "kubernetes": "1.34"}},
        {"tenancy": {"mode": "gpus"}},
        {"site": {"target": "hosts"}},
    ],
)
def test_what_quotas_cannot_count_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputErrors, match="queue"):
        plan_of(workload(queue={}, **changes), CATALOG)
