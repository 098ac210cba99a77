"""Other example environments through the whole life of a stack on a real API server.

In turn: created, nothing to change, drift shown and repaired, destroyed. A run of the suite takes the largest
and one that shares accelerators; all of them: RACKWRIGHT_ENVIRONMENTS=all.
"""

from __future__ import annotations

import os
import resource
import shutil
import time
from pathlib import Path

import pytest

from rackwright.plan import load_plan
from stacks.rendering import manifests_of
from tests.engine import needs
from tests.golden import REPOSITORY
from tests.lab.cluster import Cluster, raise_cluster, ready

pytestmark = [pytest.mark.engine, needs.lab()]

OTHERS = ("nvl72", "roce-100k")
"""Each has a file of its own."""
ALL = sorted(
    p.parent.name
    for p in REPOSITORY.glob("inventory/*/plan.yaml")
    if p.parent.name not in OTHERS and load_plan(p).sites[0].target == "kubernetes"
)
TAKEN = ALL if os.environ.get("RACKWRIGHT_ENVIRONMENTS") == "all" else ["b200-1m", "tenants"]


@pytest.mark.parametrize("name", TAKEN)
def test_the_whole_life_of_an_environment(name: str, tmp_path: Path) -> None:
    cluster = raise_cluster(tmp_path, REPOSITORY / "inventory" / name / "plan.yaml")
    try:
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = cluster.up()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stdout[-3000:]
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(
            f"{name}: {len(cluster.stack.resources())} resources, up in {time.monotonic() - began:.1f} s and "
            f"{cpu:.1f} s of CPU, at most {after.ru_maxrss / 1024:.0f} MiB in a process"
        )
        lives(cluster)
    finally:
        assert cluster.lab.down() == []
        shutil.rmtree(tmp_path)


def lives(cluster: Cluster) -> None:
    cluster.consistent()
    wanted = sum(d.layout.replicas * d.layout.nodes_per_replica for d in cluster.plan.deployments)
    assert cluster.settled(lambda: engines(cluster) == wanted), (
        f"{engines(cluster)} of {wanted} pods are ready"
    )
    again = cluster.up("--expect-no-changes")
    assert again.returncode == 0, again.stdout[-3000:]

    name, space = cluster.plan.deployments[0].name, cluster.namespace
    service = f"/api/v1/namespaces/{space}/services/{name}-api"
    budget = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets/{name}"
    planned = cluster.api.get(budget)["spec"]["maxUnavailable"]
    cluster.api.delete(service)
    cluster.api.merge(budget, {"spec": {"maxUnavailable": 9}})
    shown = cluster.stack.pulumi("preview", "--refresh", "--diff", timeout_s=240).stdout
    assert f"{name}-api" in shown and "PodDisruptionBudget" in shown
    repaired = cluster.up("--refresh")
    assert repaired.returncode == 0, repaired.stdout[-3000:]
    assert cluster.api.exists(service)
    assert cluster.api.get(budget)["spec"]["maxUnavailable"] == planned

    gone = cluster.destroy()
    assert gone.returncode == 0, gone.stdout[-3000:]
    left = [m for m in manifests_of(cluster.plan) if m.purpose == "object" and cluster.read(m.content)]
    assert {m.kind for m in left} <= {"Namespace", "PersistentVolumeClaim"}
    assert sorted(cluster.stack.protected()) == sorted(
        f"{m.kind} {f'{m.namespace}/' if m.namespace else ''}{m.name}" for m in left
    )


def engines(cluster: Cluster) -> int:
    """Ready pods of engines: those that hold accelerators."""
    prefixes = tuple(sorted({pool.gpu_resource for pool in cluster.plan.pools}))
    return sum(1 for pod in cluster.pods() if ready(pod) and holds(pod, prefixes))


def holds(pod: dict[str, object], resources: tuple[str, ...]) -> bool:
    spec = pod["spec"]
    assert isinstance(spec, dict)
    limits = [c.get("resources", {}).get("limits", {}) for c in spec["containers"]]
    vendors = {name.partition("/")[0] for name in resources}
    return any(name.partition("/")[0] in vendors for each in limits for name in each)
