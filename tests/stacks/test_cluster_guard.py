"""What a cluster must be before anything is applied: every problem at once, nothing changed by asking."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.errors import CannotRun, InputErrors, RackwrightError
from rackwright.plan import Plan
from stacks import cluster_guard
from stacks.cluster_guard import Expected
from stacks.cluster_rules import disputes
from stacks.kubeconfig import Connection
from stacks.model import PLAN, Environment
from stacks.operators import parsed
from tests.stacks.fake_cluster import UID, FakeApi, FakeCluster, path_of, ready_for
from tests.stacks.objects import manifests
from tests.stacks.plans import changed, multi, single

JOINED = frozenset({"gpu-001", "gpu-002", "gpu-003", "gpu-004"})


def judge(
    cluster: FakeCluster, plan: Plan, monkeypatch: pytest.MonkeyPatch, joined: Any = (), **settings: Any
) -> list[str]:
    """What the guard says of the cluster, one text a problem; that asking changed nothing is asserted."""
    monkeypatch.setattr(cluster_guard, "connection", lambda *_: Connection("http://fake", None))
    monkeypatch.setattr(cluster_guard, "Api", lambda _: FakeApi(cluster))
    expected = Expected(**{"stack": "prod", "context": "prod", "identity": UID, **settings})
    try:
        cluster_guard.refuse(plan, Environment(joined=frozenset(joined)), expected)
    except RackwrightError as error:
        return [str(problem) for problem in error.problems]
    finally:
        changing = [
            a for a in cluster.asked if a[0] != "GET" and "reviews" not in a[1] and "dryRun" not in a[1]
        ]
        assert changing == []
    return []


@pytest.mark.parametrize("plan", [single(), multi()], ids=["single", "multi"])
def test_a_cluster_with_all_that_the_plan_stands_on_is_accepted(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ready_for(plan)
    nodes = [node.name for pool in plan.pools for node in pool.nodes]
    assert judge(cluster, plan, monkeypatch, joined=nodes) == []
    assert len([path for _, path in cluster.asked if "reviews" in path]) > 50


def test_another_cluster_is_asked_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ready_for(single())
    (said,) = judge(cluster, single(), monkeypatch, identity="00000000-0000-0000-0000-000000000000")
    assert "must be the kube-system UID of the cluster behind context prod" in said
    assert cluster.asked == [("GET", "/api/v1/namespaces/kube-system")]


def test_a_cluster_that_lets_nobody_in_is_not_taken_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(FakeCluster):
        def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
            return 403, {"message": "namespaces is forbidden"}

    (said,) = judge(Closed(), single(), monkeypatch)
    assert "context prod · must let you read the namespace kube-system" in said
    assert "namespaces is forbidden" in said


def test_an_operator_that_is_not_there_is_named_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ready_for(multi())
    for path in [p for p in cluster.objects if "/namespaces/keda/" in p or "/lws-system/" in p]:
        del cluster.objects[path]
    said = judge(cluster, multi(), monkeypatch)
    assert len(said) == 2
    assert "operator leaderworkerset · must run in the namespace lws-system · found no Deployment" in said[0]
    assert "install keda v2.18.0 or newer" in said[1]


def test_an_operator_in_another_namespace_is_found_there(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ready_for(single())
    (path,) = [p for p in cluster.objects if "/namespaces/keda/" in p]
    moved = cluster.objects.pop(path)
    cluster.put({**moved, "metadata": {**moved["metadata"], "namespace": "scaling"}})
    (said,) = judge(cluster, single(), monkeypatch)
    assert "operator keda · must run in the namespace keda · found it in scaling" in said


@pytest.mark.parametrize(
    ("image", "label", "accepted", "rule"),
    [
        ("ghcr.io/kedacore/keda:2.17.4", None, {}, "must be v2.18.0 or newer · found 2.17.4"),
        ("ghcr.io/kedacore/keda:2.18.0-rc.1", None, {}, "must be v2.18.0 or newer · found 2.18.0-rc.1"),
        ("ghcr.io/kedacore/keda:2.18.0", None, {}, None),
        ("mirror.internal:5000/keda@sha256:00", "2.19.1", {}, None),
        ("mirror.internal:5000/keda@sha256:00", "2.2.0", {}, "must be v2.18.0 or newer · found 2.2.0"),
        (
            "mirror.internal:5000/keda@sha256:00",
            None,
            {},
            "must show its version; v2.18.0 or newer is needed",
        ),
        ("mirror.internal:5000/keda:latest", None, {}, "must show its version"),
        ("mirror.internal:5000/keda:latest", None, {"keda": "any"}, None),
        ("ghcr.io/kedacore/keda:2.17.4", None, {"keda": "2.17.0"}, None),
    ],
)
def test_an_operator_must_show_a_version_that_is_new_enough(
    image: str, label: str | None, accepted: dict[str, str], rule: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ready_for(single())
    (controller,) = [o for p, o in cluster.objects.items() if "/namespaces/keda/" in p]
    controller["spec"]["template"]["spec"]["containers"][0]["image"] = image
    if label:
        controller["metadata"]["labels"]["app.kubernetes.io/version"] = label
    said = judge(cluster, single(), monkeypatch, operators=accepted)
    assert [rule is not None and f"operator keda · {rule}" in text for text in said] == [True] * (
        rule is not None
    )


def test_an_operator_without_a_ready_pod_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ready_for(single())
    (controller,) = [o for p, o in cluster.objects.items() if "/namespaces/keda/" in p]
    controller["status"] = {"availableReplicas": 0}
    (said,) = judge(cluster, single(), monkeypatch)
    assert "operator keda · must be available · found keda-operator with no pod that is ready" in said


def test_versions_compare_as_numbers() -> None:
    order = ["v0.9.0", "0.10.0-rc.1", "v0.10.0", "0.10.1", "v2.2", "2.18.0", "26.7.0"]
    assert sorted(order, key=lambda v: parsed(v) or ()) == order
    assert parsed("latest") is parsed("") is parsed("sha-1234") is None


def test_a_kind_that_is_not_served_is_named_with_who_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ready_for(multi())
    cluster.kinds["leaderworkerset.x-k8s.io/v1beta1"] = cluster.kinds.pop("leaderworkerset.x-k8s.io/v1")
    del cluster.kinds["keda.sh/v1alpha1"]
    said = judge(cluster, multi(), monkeypatch)
    assert len(said) == 2
    texts = {text.split(" · ")[0]: text for text in said}
    group = texts["kind LeaderWorkerSet.leaderworkerset.x-k8s.io/v1"]
    assert "found leaderworkerset.x-k8s.io in v1beta1 only" in group
    scaled = texts["kind ScaledObject.keda.sh/v1alpha1"]
    assert "found no definition of it" in scaled
    assert "install keda with its definitions" in scaled


def test_a_definition_that_the_environment_brings_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ready_for(multi())
    del cluster.kinds["keda.sh/v1alpha1"]
    cluster.kinds["apiextensions.k8s.io/v1"] = {"CustomResourceDefinition"}
    brought = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "scaledobjects.keda.sh"},
        "spec": {"group": "keda.sh", "names": {"kind": "ScaledObject", "plural": "scaledobjects"}},
    }
    monkeypatch.setattr(cluster_guard, "connection", lambda *_: Connection("http://fake", None))
    monkeypatch.setattr(cluster_guard, "Api", lambda _: FakeApi(cluster))
    cluster_guard.refuse(multi(), Environment(crds=(brought,)), Expected("prod", "prod", UID))


def test_every_permission_that_is_refused_is_said_with_its_verbs(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ready_for(multi())
    cluster.denied = {
        ("create", "deployments", "llm"), ("delete", "deployments", "llm"), ("patch", "nodes", ""),
        ("watch", "pods", "llm"), ("create", "leaderworkersets", "llm"),
    }  # fmt: skip
    said = judge(cluster, multi(), monkeypatch, joined=["gpu-001"])
    assert {text.splitlines()[0] for text in said} == {
        "permission on deployments.apps in llm · must be given: create,delete · found it refused",
        "permission on nodes · must be given: patch · found it refused",
        "permission on pods in llm · must be given: watch · found it refused",
        "permission on leaderworkersets.leaderworkerset.x-k8s.io in llm · must be given: create"
        " · found it refused",
    }
    next_lines = "\n".join(said)
    assert "kubectl create role rackwright-deployments -n llm --verb=create,delete" in next_lines
    assert "kubectl create clusterrole rackwright-nodes --verb=patch --resource=nodes" in next_lines


def test_rights_that_the_plan_gives_on_must_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server refuses a role that gives more than its maker holds, unless he may escalate and bind."""
    cluster = ready_for(multi())
    cluster.denied = {("list", "inferenceobjectives", "llm")}
    assert judge(cluster, multi(), monkeypatch) == []
    cluster.denied |= {("escalate", "roles", "llm")}
    said = judge(cluster, multi(), monkeypatch)
    assert {text.splitlines()[0] for text in said} == {
        f"permission on inferenceobjectives.{group} in llm · must be given: list · found it refused"
        for group in ("llm-d.ai", "inference.networking.x-k8s.io")
    }


def test_what_a_deployment_is_awaited_by_must_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the provider waits in silence."""
    cluster = ready_for(single())
    cluster.denied = {
        (verb, resource, "llm")
        for verb in ("list", "watch")
        for resource in ("replicasets", "persistentvolumeclaims", "endpointslices")
    }
    said = judge(cluster, single(), monkeypatch)
    assert len(said) == 3
    assert all("must be given: list,watch · found it refused" in text for text in said)


def theirs(content: Any, **more: Any) -> dict[str, Any]:
    """The plan's object as somebody else would have made it."""
    made: dict[str, Any] = {
        **content,
        "metadata": {**content["metadata"], "labels": {"app": "theirs"}, **more},
    }
    made["metadata"]["managedFields"] = [{"manager": "helm", "operation": "Update"}]
    made["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z"
    return made


def test_objects_of_others_are_refused_by_name_unless_they_are_to_be_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, cluster = multi(), ready_for(multi())
    kinds = {"ConfigMap chat-picker-config", "Service chat-api", "Deployment chat-picker"}
    for manifest in manifests(plan):
        if f"{manifest.kind} {manifest.name}" in kinds:
            cluster.put(theirs(manifest.content))
    said = judge(cluster, plan, monkeypatch)
    assert {text.partition(" · ")[0] for text in said} == {
        "v1 ConfigMap llm/chat-picker-config",
        "v1 Service llm/chat-api",
        "apps/v1 Deployment llm/chat-picker",
    }
    assert all("found one that helm made on 2026-01-02T03:04:05Z" in text for text in said)
    assert all("pulumi config set --stack prod adopt true" in text for text in said)
    assert judge(cluster, plan, monkeypatch, adopt=True) == []


def test_what_cannot_be_taken_over_is_said_before_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, cluster = multi(), ready_for(multi())
    content = next(m.content for m in manifests(plan) if m.kind == "Deployment")
    cluster.put(theirs(content))
    cluster.rejects[path_of(content)] = "spec.selector: field is immutable"
    (said,) = judge(cluster, plan, monkeypatch, adopt=True)
    assert "must be one that can be taken over · found spec.selector: field is immutable" in said
    assert "kubectl delete deployment chat-picker -n llm" in said


def test_what_would_keep_entries_of_theirs_is_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Server-side apply merges lists: their port would stay beside ours, and every preview would show it."""
    plan, cluster = multi(), ready_for(multi())
    content = next(m.content for m in manifests(plan) if m.kind == "Service" and m.name == "chat-api")
    cluster.put(theirs(content))
    spec = {**content["spec"], "ports": [*content["spec"]["ports"], {"name": "other", "port": 9}]}
    cluster.merged[path_of(content)] = {**content, "spec": spec}
    (said,) = judge(cluster, plan, monkeypatch, adopt=True)
    assert "can be taken over · found spec.ports with 2 entries, 1 of them the plan's" in said


def test_an_object_of_another_plan_is_somebody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, cluster = multi(), ready_for(multi())
    policy = next(m.content for m in manifests(plan) if m.kind == "ClusterPolicy")
    made = cluster.put(theirs(policy))
    made["metadata"]["labels"] = {PLAN: "other"}
    (said,) = judge(cluster, plan, monkeypatch)
    assert "nvidia.com/v1 ClusterPolicy cluster-policy · must not be there yet" in said
    assert 'found one of the plan "other"' in said
    made["metadata"]["labels"] = {PLAN: plan.header.name}
    assert judge(cluster, plan, monkeypatch) == []


def test_an_object_that_is_being_deleted_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, cluster = multi(), ready_for(multi())
    space = next(m.content for m in manifests(plan) if m.kind == "Namespace")
    made = cluster.put(space)
    made["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    (said,) = judge(cluster, plan, monkeypatch)
    assert "v1 Namespace llm · must not be on its way out" in said


def test_a_second_declaration_of_our_object_is_a_conflict_and_an_edit_is_not() -> None:
    declared = {
        "metadata": {"labels": {"a": "1"}},
        "spec": {"replicas": 2, "containers": [{"name": "x", "image": "i:1", "args": ["p"]}], "same": 5},
    }
    live = {
        "metadata": {"labels": {"a": "1"}, "managedFields": []},
        "spec": {"replicas": 3, "containers": [{"name": "x", "image": "i:2", "args": ["q"]}], "same": 5},
    }
    fields = {
        "f:spec": {
            "f:replicas": {}, "f:same": {}, "f:other": {},
            "f:containers": {'k:{"name":"x"}': {".": {}, "f:image": {}, "f:args": {}}},
        }
    }  # fmt: skip
    entry = {"manager": "argocd-controller", "operation": "Apply", "fieldsV1": fields}
    live["metadata"]["managedFields"] = [entry]  # type: ignore[index]
    assert list(disputes(declared, live)) == [
        ("argocd-controller", "spec.replicas"),
        ("argocd-controller", 'spec.containers[{"name":"x"}].image'),
        ("argocd-controller", 'spec.containers[{"name":"x"}].args'),
    ]
    for harmless in ({"operation": "Update"}, {"manager": "rackwright"}, {"subresource": "status"}):
        live["metadata"]["managedFields"] = [{**entry, **harmless}]  # type: ignore[index]
        assert list(disputes(declared, live)) == []


RACK = "topology.kubernetes.io/rack"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def managed(key: str, manager: str, operation: str) -> dict[str, Any]:
    fields = {"f:metadata": {"f:labels": {f"f:{key}": {}}}}
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def given(plan: Plan, name: str) -> dict[str, str]:
    """The annotation that a node has once the plan was applied to it."""
    patch = next(m.content for m in manifests(plan) if m.purpose == "node" and m.name == name)
    return dict(patch["metadata"]["annotations"])


def node(cluster: FakeCluster, name: str = "gpu-001") -> dict[str, Any]:
    return cluster.objects[f"/api/v1/nodes/{name}"]


@pytest.mark.parametrize(
    ("value", "entry", "annotated", "refused"),
    [
        ("r1", managed(RACK, "cloud", "Update"), False, False),
        ("r9", managed(RACK, "cloud", "Update"), False, True),
        ("r9", managed(RACK, "cloud", "Apply"), False, True),
        ("r9", managed(RACK, "kubectl-edit", "Update"), True, False),
        ("r9", managed(RACK, "cloud", "Apply"), True, True),
        ("r9", managed(RACK, "rackwright", "Apply"), False, False),
    ],
    ids=["same value", "set before", "applied before", "edited", "applied since", "ours"],
)
def test_a_label_that_somebody_else_chose_is_refused_and_an_edit_of_ours_is_drift(
    value: str, entry: dict[str, Any], annotated: bool, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, cluster = single(), ready_for(single())
    metadata = node(cluster)["metadata"]
    metadata["labels"], metadata["managedFields"] = {RACK: value}, [entry]
    metadata["annotations"] = given(plan, "gpu-001") if annotated else {}
    said = judge(cluster, plan, monkeypatch, joined=["gpu-001"])
    assert len(said) == refused
    if refused:
        assert f'node gpu-001 label {RACK} · must be "r1" or free for the plan to set' in said[0]
        assert f'found "r9", set by {entry["manager"]}' in said[0]
    assert judge(cluster, plan, monkeypatch, joined=["gpu-001"], adopt=True) == []


@pytest.mark.parametrize(
    ("taints", "annotated", "refused"),
    [
        ([], False, None),
        (
            [{"key": "team", "value": "a", "effect": "NoSchedule"}],
            False,
            "taint team:NoSchedule · must be the",
        ),
        ([GPU_TAINT, {"key": "team", "value": "a", "effect": "NoSchedule"}], True, None),
        (
            [{"key": "team", "value": "a", "effect": "NoSchedule"}],
            True,
            "taint team:NoSchedule · must be the",
        ),
        ([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}], False, None),
        (
            [{**GPU_TAINT, "value": "yes"}],
            False,
            'taint nvidia.com/gpu:NoSchedule · must have the value "present"',
        ),
        ([{**GPU_TAINT, "value": "yes"}], True, None),
    ],
    ids=["none", "theirs", "theirs, nothing to send", "theirs, ours lost", "condition", "value", "edited"],
)
def test_a_taint_that_setting_ours_would_drop_is_refused(
    taints: list[Any], annotated: bool, refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, cluster = single(), ready_for(single())
    node(cluster)["spec"]["taints"] = taints
    node(cluster)["metadata"]["annotations"] = given(plan, "gpu-001") if annotated else {}
    said = judge(cluster, plan, monkeypatch, joined=["gpu-001"])
    assert [f"node gpu-001 {refused}" in text for text in said] == [True] * (refused is not None)


def test_a_node_that_has_not_joined_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ready_for(single())
    del cluster.objects["/api/v1/nodes/gpu-002"]
    (said,) = judge(cluster, single(), monkeypatch, joined=["gpu-001", "gpu-002"])
    assert (
        'rackwright:joined · must name nodes of the cluster · found "gpu-002", which has not joined' in said
    )


def test_everything_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, cluster = multi(), ready_for(multi())
    cluster.denied = {("patch", "nodes", "")}
    del cluster.kinds["keda.sh/v1alpha1"]
    (path,) = [p for p in cluster.objects if "/namespaces/monitoring/" in p]
    del cluster.objects[path]
    cluster.put(theirs(next(m.content for m in manifests(plan) if m.kind == "Service")))
    del cluster.objects["/api/v1/nodes/gpu-001"]
    said = judge(cluster, plan, monkeypatch, joined=["gpu-001"])
    assert [text.split(" ")[0] for text in said] == [
        "operator", "kind", "permission", "v1", "Pulumi.prod.yaml",
    ]  # fmt: skip


def test_an_installed_chart_needs_every_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = {
        "name": "keda", "mode": "helm", "version": "v2.18.0", "namespace": "keda", "chart": "oci://x/keda",
        "digest": "sha256:" + "c" * 64,
    }  # fmt: skip
    plan = changed(multi(), platform__operators__3=operator)
    cluster = ready_for(plan)
    del cluster.kinds["keda.sh/v1alpha1"]
    (path,) = [p for p in cluster.objects if "/namespaces/keda/" in p]
    del cluster.objects[path]
    assert judge(cluster, plan, monkeypatch) == []
    cluster.denied = {("*", "*", "")}
    (said,) = judge(cluster, plan, monkeypatch)
    assert "permission on *.* · must be given: *" in said


def test_an_unset_or_unknown_context_is_no_cluster() -> None:
    with pytest.raises(InputErrors, match="rackwright:identity"):
        cluster_guard.prove(Expected("prod", "prod", "unset"))
    with pytest.raises(CannotRun, match="must have the context prod"):
        cluster_guard.prove(Expected("prod", "prod", UID), ())
