"""The 100,000-user plan on a real API server: created, killed, drifted, changed and destroyed for real.

One lab for the whole module; the tests run in the order in which they stand.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stacks.comparison import compare
from stacks.rendering import manifests_of
from tests.engine import needs
from tests.lab.cluster import Cluster, raise_cluster, ready
from tools.lab.processes import kill

pytestmark = [pytest.mark.engine, needs.lab()]

GROUP = "leaderworkerset.sigs.k8s.io/group-index"
ROLLOUT_TIMEOUT_S = 400
RACK = "topology.kubernetes.io/rack"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    made = raise_cluster(directory)
    yield made
    assert made.lab.down() == []
    shutil.rmtree(directory)


def test_another_cluster_is_refused_before_anything_is_changed(cluster: Cluster) -> None:
    cluster.configure(identity="00000000-0000-0000-0000-000000000000")
    refused = cluster.up()
    assert refused.returncode != 0
    assert "must be the kube-system UID of the cluster behind context lab" in refused.stdout
    assert "set the new UID on purpose" in refused.stdout
    assert not cluster.api.exists(f"/api/v1/namespaces/{cluster.namespace}")
    assert not any(
        "rackwright.dev/pool" in n["metadata"]["labels"] for n in cluster.api.items("/api/v1/nodes")
    )


def test_a_cluster_that_is_not_named_is_refused(cluster: Cluster) -> None:
    cluster.configure(identity="unset")
    refused = cluster.up()
    assert refused.returncode != 0
    assert "kubectl --context lab get namespace kube-system" in refused.stdout
    cluster.configure()


def test_killed_at_three_moments_the_next_up_converges(cluster: Cluster) -> None:
    """Killed with SIGKILL, the engine's processes included: early, in the middle, and while it waits."""
    seed = random.randrange(1000)
    print("moments drawn from seed", seed)
    draw = random.Random(seed)
    for objects in (draw.randint(1, 15), draw.randint(16, 50), draw.randint(51, 75)):
        cluster.kill_up_when(lambda wanted=objects: created(cluster) >= wanted)  # type: ignore[misc]
        done = cluster.stack.recover()
        assert any("which is dead: removed" in line for line in done)
    result = cluster.up()
    assert result.returncode == 0, result.stdout
    cluster.consistent()


def created(cluster: Cluster) -> int:
    """Objects of the plan that the API server has, counted where that is cheap."""
    patched = cluster.api.items("/api/v1/nodes?labelSelector=rackwright.dev/pool")
    pools = cluster.api.items("/apis/nv-ipam.nvidia.com/v1alpha1/cidrpools")
    networks = cluster.api.items("/apis/mellanox.com/v1alpha1/hostdevicenetworks")
    rest = 30 * cluster.api.exists(f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments")
    services = cluster.api.items(f"/api/v1/namespaces/{cluster.namespace}/services")
    return len(patched) + len(pools) + len(networks) + (rest if services else 0)


def test_a_second_up_changes_nothing(cluster: Cluster) -> None:
    result = cluster.up("--expect-no-changes")
    assert result.returncode == 0, result.stdout
    owned = len(cluster.stack.resources()) - 1  # kube-system is only read
    assert f"    {owned} unchanged" in result.stdout


def test_every_object_of_the_plan_is_on_the_api_server(cluster: Cluster) -> None:
    wanted = manifests_of(cluster.plan)
    absent = [m.identity for m in wanted if m.purpose != "release" and cluster.read(m.content) is None]
    assert absent == []
    registered = [r for r in cluster.stack.resources() if r["type"].startswith("kubernetes:")]
    assert len(registered) == len(wanted) + 1  # and the namespace that proves the cluster


def test_pods_run_where_the_plan_says(cluster: Cluster) -> None:
    deployment = cluster.plan.deployments[0]
    layout = deployment.layout
    assert cluster.settled(
        lambda: (
            len([p for p in cluster.engine_pods() if ready(p)]) == layout.replicas * layout.nodes_per_replica
        )
    )
    pods, nodes = (
        cluster.engine_pods(),
        {n["metadata"]["name"]: n for n in cluster.api.items("/api/v1/nodes")},
    )
    assert len(pods) == layout.replicas * layout.nodes_per_replica == 80
    pool = cluster.plan.pool(deployment.pool)
    assert {p["spec"]["nodeName"] for p in pods} <= {n.name for n in pool.nodes}
    assert max(Counter(p["spec"]["nodeName"] for p in pods).values()) == 1
    for pod in pods:
        gpus = int(pod["spec"]["containers"][0]["resources"]["limits"][pool.gpu_resource])
        assert layout.tensor_parallel <= gpus
    racks = racks_of_groups(pods, nodes)
    assert len(racks) == layout.replicas
    assert {g: r for g, r in racks.items() if len(r) != 1} == {}


def racks_of_groups(pods: list[dict[str, Any]], nodes: dict[str, Any]) -> dict[str, set[str]]:
    racks: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        racks[pod["metadata"]["labels"][GROUP]].add(
            nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][RACK]
        )
    return racks


def test_a_group_is_told_its_leader_and_its_size(cluster: Cluster) -> None:
    worker = next(p for p in cluster.engine_pods() if p["metadata"]["name"].endswith("-0-1"))
    env = {e["name"]: e.get("value") for e in worker["spec"]["containers"][0]["env"]}
    assert env["LWS_GROUP_SIZE"] == "2"
    assert env["LWS_WORKER_INDEX"] == "1"
    assert env["LWS_LEADER_ADDRESS"] == "kimi-k2-instruct-0.kimi-k2-instruct.roce-100k"


def test_five_edits_by_hand_are_shown_and_repaired(cluster: Cluster) -> None:
    space, name = cluster.namespace, cluster.plan.deployments[0].name
    rules = "/apis/monitoring.coreos.com/v1"
    cluster.api.delete(f"/api/v1/namespaces/{space}/services/{name}-api")
    cluster.api.delete(f"{rules}/namespaces/{space}/podmonitors/{name}")
    edits = {
        f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets/{name}": {"spec": {"maxUnavailable": 9}},
        f"/apis/keda.sh/v1alpha1/namespaces/{space}/scaledobjects/{name}": {"spec": {"maxReplicaCount": 99}},
        "/api/v1/nodes/h200-07": {"metadata": {"labels": {RACK: "elsewhere"}}},
    }
    for path, change in edits.items():
        cluster.api.merge(path, change)
    shown = cluster.stack.pulumi("preview", "--refresh", "--diff", timeout_s=240).stdout
    for text in (f"{name}-api", "PodMonitor", "PodDisruptionBudget", "ScaledObject", "h200-07"):
        assert text in shown
    repaired = cluster.up("--refresh")
    assert repaired.returncode == 0, repaired.stdout
    assert cluster.api.exists(f"/api/v1/namespaces/{space}/services/{name}-api")
    assert cluster.api.exists(f"{rules}/namespaces/{space}/podmonitors/{name}")
    assert cluster.api.get(next(iter(edits)))["spec"]["maxUnavailable"] != 9
    assert cluster.api.get("/api/v1/nodes/h200-07")["metadata"]["labels"][RACK] == "dc1-r02"
    assert cluster.up("--expect-no-changes").returncode == 0


def test_a_changed_flag_rolls_its_deployment_alone_and_keeps_the_capacity(
    cluster: Cluster, tmp_path: Path
) -> None:
    before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in cluster.pods()}
    deployment = cluster.plan.deployments[0]
    flagged = with_flag(cluster)
    group, record = f"LeaderWorkerSet {deployment.name}", f"ConfigMap {cluster.namespace}-plan"
    (restart,) = compare(cluster.plan, flagged).restarts
    assert (restart.name, restart.kept) == (deployment.name, layout_kept(deployment))
    cluster.use(flagged, tmp_path / "plan.yaml")
    shown = {name.rpartition(":")[2]: op for name, op in cluster.changes().items()}
    assert shown == {group: "update", record: "update"}
    process, least = cluster.start_up(), 99
    deadline = time.monotonic() + ROLLOUT_TIMEOUT_S
    pods = cluster.engine_pods()
    while time.monotonic() < deadline and (process.poll() is None or not rolled(pods, before)):
        time.sleep(0.1)
        pods = cluster.engine_pods()
        ready_groups = Counter(p["metadata"]["labels"][GROUP] for p in pods if ready(p))
        whole = sum(count == deployment.layout.nodes_per_replica for count in ready_groups.values())
        least = min(least, whole)
    assert process.poll() == 0, process.stdout.read() if process.stdout else ""
    assert rolled(pods, before)
    assert least >= layout_kept(deployment) == restart.kept
    after = {p["metadata"]["name"]: p["metadata"]["uid"] for p in cluster.pods()}
    kept = {name for name, uid in after.items() if before.get(name) == uid}
    assert kept == {name for name in after if "picker" in name}


def layout_kept(deployment: Any) -> int:
    """All but one: none may be unavailable, but the surge group goes before the last group is back."""
    assert (deployment.rollout.max_surge, deployment.rollout.max_unavailable) == (1, 0)
    kept: int = deployment.layout.replicas - 1
    return kept


def with_flag(cluster: Cluster) -> Any:
    """The plan with one more argument for every role of its engine."""
    data = cluster.plan.as_dict()
    for role in data["deployments"][0]["engine"]["roles"]:
        role["args"] = [*role["args"], "--enable-log-requests"]
    return type(cluster.plan).model_validate(data)


def rolled(pods: list[dict[str, Any]], before: dict[str, str]) -> bool:
    old = [p for p in pods if before.get(p["metadata"]["name"]) == p["metadata"]["uid"]]
    return len(pods) == 80 and not old and all(ready(p) for p in pods)


def test_destroy_leaves_the_protected_objects_and_names_them(cluster: Cluster) -> None:
    result = cluster.destroy()
    assert result.returncode == 0, result.stdout
    assert cluster.stack.protected() == [
        f"Namespace {cluster.namespace}",
        f"PersistentVolumeClaim {cluster.namespace}/kimi-k2-instruct-weights",
    ]
    assert cluster.settled(lambda: cluster.pods() == [])
    left = [
        m.identity for m in manifests_of(cluster.plan) if m.purpose == "object" and cluster.read(m.content)
    ]
    assert left == [
        f"v1 Namespace {cluster.namespace}",
        f"v1 PersistentVolumeClaim {cluster.namespace}/kimi-k2-instruct-weights",
    ]
    for node in cluster.api.items("/api/v1/nodes"):
        assert RACK not in node["metadata"]["labels"]
        assert not node["spec"].get("taints")


def test_a_restarted_api_server_is_survived(cluster: Cluster) -> None:
    """Killed in the middle of an update. The update may fail; the next one converges."""
    process = cluster.start_up()
    cluster.settled(lambda: created(cluster) >= 10)
    kill(cluster.lab.process("kube-apiserver"), signal.SIGKILL)
    cluster.lab.restart("kube-apiserver")
    process.wait(240)
    assert cluster.settled(cluster.lab.answers)
    cluster.stack.recover()
    result = cluster.up()
    assert result.returncode == 0, result.stdout
    cluster.consistent()
    assert cluster.up("--expect-no-changes").returncode == 0
    assert cluster.destroy().returncode == 0
