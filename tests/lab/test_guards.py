"""What the real engine refuses on a real API server before anything is changed, and what it takes over.

One lab for the whole module; the tests run in the order in which they stand.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright.errors import InputErrors
from stacks.cluster_facts import collect
from stacks.cluster_guard import _declared
from stacks.comparison import compare
from stacks.kube_api import Api
from stacks.kubeconfig import connection
from stacks.model import PLAN, Environment
from tests.engine import needs
from tests.lab.cluster import Cluster, raise_cluster
from tests.stacks.plans import with_node
from tools.engine.stack import Stack
from tools.lab import project, world

pytestmark = [pytest.mark.engine, needs.lab()]

RACK = "topology.kubernetes.io/rack"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("guards")
    made = raise_cluster(directory)
    yield made
    assert made.lab.down() == []
    shutil.rmtree(directory)


def as_user(cluster: Cluster, user: dict[str, str] | None = None, server: str | None = None) -> Cluster:
    """The same stack through a kubeconfig of its own, with another server or credentials."""
    config = yaml.safe_load(cluster.lab.kubeconfig.read_text())
    config["clusters"][0]["cluster"] |= {"server": server} if server else {}
    config["users"][0]["user"] = user or config["users"][0]["user"]
    path = cluster.stack.project / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    stack = Stack(cluster.stack.name, cluster.stack.project, {**cluster.stack.env, "KUBECONFIG": str(path)})
    return Cluster(cluster.lab, stack, cluster.plan, cluster.file)


def refused(cluster: Cluster) -> str:
    """What an update says that is refused; that it changed nothing is asserted."""
    before = versions(cluster)
    result = cluster.up()
    assert result.returncode != 0
    assert versions(cluster) == before
    return result.stdout


def versions(cluster: Cluster) -> dict[str, str]:
    """Every object of the plan's kinds that exists, with its labels, fields and owners."""
    found = {}
    for path in {
        cluster.path(m.content).rpartition("/")[0] for m in _declared(cluster.plan, everywhere(cluster))
    }:
        for item in cluster.api.items(path):
            metadata = item["metadata"]
            managers = [f for f in metadata.get("managedFields", []) if f["manager"].startswith("rackwright")]
            found[f"{path}/{metadata['name']}"] = str(
                (metadata["uid"], metadata.get("labels"), item.get("spec"), managers)
            )
    return found


def everywhere(cluster: Cluster) -> Environment:
    return Environment(joined=frozenset(project.nodes(cluster.plan)))


def test_a_cluster_that_does_not_answer_is_refused(cluster: Cluster) -> None:
    gone = as_user(cluster, server="https://127.0.0.1:1")
    said = refused(gone)
    assert "context lab · must answer · found Connection refused from https://127.0.0.1:1" in said
    assert "kubectl --context lab get namespace kube-system" in said


def test_everything_that_the_cluster_lacks_is_said_at_once(cluster: Cluster) -> None:
    """An operator gone, one too old, a definition gone; a label and a taint of somebody else on nodes."""
    api = cluster.api
    keda, prometheus = deployment(cluster, "keda"), deployment(cluster, "prometheus-operator")
    nfd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nicconfigurationtemplates"
    definition = api.get(f"{nfd}.configuration.net.nvidia.com")
    api.delete(keda)
    image = {"containers": [{"name": "manager", "image": "lab.invalid/prometheus-operator:v0.80.1"}]}
    api.merge(prometheus, {"spec": {"template": {"spec": image}}})
    api.delete(f"{nfd}.configuration.net.nvidia.com")
    assert cluster.settled(lambda: not api.exists(f"{nfd}.configuration.net.nvidia.com"))
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    api.merge("/api/v1/nodes/h200-03", {"metadata": {"labels": {RACK: "elsewhere"}}})
    api.merge("/api/v1/nodes/h200-04", {"spec": {"taints": [taint]}})
    before = versions_without_kind(cluster)
    result = cluster.up()
    assert result.returncode != 0
    assert versions_without_kind(cluster) == before
    for text in (
        "operator keda · must run in the namespace keda · found no Deployment of it",
        "operator prometheus-operator · must be v0.85.0 or newer · found v0.80.1",
        "kind NicConfigurationTemplate.configuration.net.nvidia.com/v1alpha1 · must be served by the cluster",
        f"node h200-03 label {RACK} · must be",
        "node h200-04 taint team:NoSchedule · must be the plan's",
    ):
        assert text in result.stdout
    for operator in cluster.plan.platform.operators if cluster.plan.platform else ():
        if operator.name == "keda":
            api.create(keda.rpartition("/")[0], world.controller(operator, operator.version))
    image["containers"][0]["image"] = "lab.invalid/prometheus-operator:v0.85.0"
    api.merge(prometheus, {"spec": {"template": {"spec": image}}})
    fresh = {key: definition[key] for key in ("apiVersion", "kind", "spec")}
    name = {"name": definition["metadata"]["name"]}
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {**fresh, "metadata": name})
    api.merge("/api/v1/nodes/h200-03", {"metadata": {"labels": {RACK: None}}})
    api.merge("/api/v1/nodes/h200-04", {"spec": {"taints": None}})
    assert cluster.settled(lambda: all(available(cluster, path) for path in (keda, prometheus)))
    assert cluster.settled(lambda: served(cluster, "/apis/configuration.net.nvidia.com/v1alpha1"))


def versions_without_kind(cluster: Cluster) -> list[str]:
    return [
        n["metadata"]["name"] + str(n["metadata"]["labels"]) for n in cluster.api.items("/api/v1/nodes")
    ] + [n["metadata"]["name"] for n in cluster.api.items("/api/v1/namespaces")]


def deployment(cluster: Cluster, name: str) -> str:
    assert cluster.plan.platform is not None
    operator = cluster.plan.platform.operator(name)
    assert operator is not None
    made = world.controller(operator, operator.version)["metadata"]["name"]
    return f"/apis/apps/v1/namespaces/{operator.namespace}/deployments/{made}"


def available(cluster: Cluster, path: str) -> bool:
    return cluster.api.exists(path) and bool(cluster.api.get(path)["status"].get("availableReplicas"))


def served(cluster: Cluster, path: str) -> bool:
    return cluster.api.exists(path)


def account(cluster: Cluster, drop: tuple[str, str] | None = None) -> dict[str, str]:
    """Credentials of an account with the rights that the guard asks for, no more; ``drop``: all but one."""
    asked: list[dict[str, str]] = []

    class Listening(Api):
        def post(self, path: str, body: Any) -> Any:
            asked.append(body["spec"]["resourceAttributes"])
            return {"status": {"allowed": asked[-1]["verb"] not in {"escalate", "bind"}}}

    operators = cluster.plan.platform.operators if cluster.plan.platform else ()
    api = Listening(connection("lab", [cluster.lab.kubeconfig]))
    collect(api, _declared(cluster.plan, everywhere(cluster)), operators, adopt=False)
    held = {(a["group"], a["resource"], a["verb"]) for a in asked if a["verb"] not in {"escalate", "bind"}}
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for group, resource, verb in sorted(held)
        if (verb, resource) != drop
    ]
    cluster.api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "deployer"}})
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "deployer"}}
    cluster.api.apply(f"{RBAC}/clusterroles/deployer", {**about, "kind": "ClusterRole", "rules": rules})
    who = {"kind": "ServiceAccount", "name": "deployer", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "deployer"}
    binding = {**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [who]}
    cluster.api.apply(f"{RBAC}/clusterrolebindings/deployer", binding)
    path = "/api/v1/namespaces/default/serviceaccounts/deployer/token"
    answer = cluster.api.request("POST", path, {"spec": {"expirationSeconds": 3600}})
    return {"token": answer["status"]["token"]}


def test_permissions_that_are_missing_are_said_with_their_verbs(cluster: Cluster) -> None:
    user = as_user(cluster, account(cluster, drop=("create", "leaderworkersets")))
    said = refused(user)
    assert (
        "permission on leaderworkersets.leaderworkerset.x-k8s.io in roce-100k · must be given: create" in said
    )
    assert len(set(re.findall(r"permission on \S+", said))) == 1


def foreign(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """A ConfigMap, a Service and a Deployment of names that the plan takes, as somebody made them before."""
    engine, space = cluster.plan.deployments[0].name, cluster.namespace
    picker = {"app.kubernetes.io/name": "endpoint-picker", "app.kubernetes.io/component": "endpoint-picker"}
    own = {**picker, "app.kubernetes.io/instance": engine}
    pod = {"metadata": {"labels": own}, "spec": {"containers": [{"name": "picker", "image": "theirs:1"}]}}
    port = {"name": "http", "port": cluster.plan.deployments[0].engine.port, "protocol": "TCP"}
    core, apps = f"/api/v1/namespaces/{space}", f"/apis/apps/v1/namespaces/{space}"
    spec = {"replicas": 1, "selector": {"matchLabels": own}, "template": pod}
    config = {"config.yaml": "theirs"}
    return {
        f"{core}/configmaps": {"metadata": {"name": f"{engine}-picker-config"}, "data": config},
        f"{core}/services": {"metadata": {"name": f"{engine}-api"}, "spec": {"ports": [port]}},
        f"{apps}/deployments": {"metadata": {"name": f"{engine}-picker"}, "spec": spec},
    }


KINDS = {"configmaps": "ConfigMap", "services": "Service", "deployments": "Deployment"}


def test_objects_of_others_are_refused_by_name_and_stay_as_they_are(cluster: Cluster) -> None:
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": cluster.namespace}})
    for path, content in foreign(cluster).items():
        cluster.api.create(path, content)
    said = refused(cluster)
    for path, content in foreign(cluster).items():
        kind = KINDS[path.rpartition("/")[2]]
        assert f"{kind} {cluster.namespace}/{content['metadata']['name']} · must not be there yet" in said
        live = cluster.api.get(f"{path}/{content['metadata']['name']}")
        assert PLAN not in (live["metadata"].get("labels") or {})
    assert f"v1 Namespace {cluster.namespace} · must not be there yet" in said
    assert len(set(re.findall(r"\S+ \S+ · must not be there yet", said))) == 4
    assert "adopt true" in said


def test_they_are_taken_over_where_that_is_said_by_a_user_with_no_more_rights_than_asked(
    cluster: Cluster,
) -> None:
    """Also the proof that the rights asked for suffice: to create, to change nothing, and to remove."""
    cluster.configure(adopt=True)
    user = as_user(cluster, account(cluster))
    result = user.up()
    assert result.returncode == 0, result.stdout[-3000:]
    cluster.configure()
    cluster.consistent()
    for path, content in foreign(cluster).items():
        live = cluster.api.get(f"{path}/{content['metadata']['name']}")
        assert live["metadata"]["labels"][PLAN] == cluster.plan.header.name
    assert "theirs" not in str(live["spec"])
    again = user.up("--expect-no-changes")
    assert again.returncode == 0, again.stdout[-2000:]


def test_a_node_more_changes_that_pools_objects_alone_as_diff_says(cluster: Cluster, tmp_path: Path) -> None:
    old, new = cluster.plan, with_node("roce-100k")
    (added,) = set(project.nodes(new)) - set(project.nodes(old))
    pool = new.pools[0]
    node = next(n for n in pool.nodes if n.name == added)
    cluster.api.create("/api/v1/nodes", world.machine(new, pool, node))
    cluster.use(new, tmp_path / "plan.yaml")
    shown = cluster.changes()
    said = compare(old, new)
    assert {short(name): op for name, op in shown.items()} == expected(said)
    assert expected(said) == {
        f"Node {added}": "create",
        **{f"CIDRPool rail-{n}": "update" for n in range(8)},
        "ConfigMap roce-100k-plan": "update",
    }
    before = {p["metadata"]["uid"] for p in cluster.pods()}
    result = cluster.up()
    assert result.returncode == 0, result.stdout[-3000:]
    assert {p["metadata"]["uid"] for p in cluster.pods()} == before
    cluster.consistent()


def expected(said: Any) -> dict[str, str]:
    """Objects by kind and name, as `rackwright diff` finds them."""
    found = {
        **dict.fromkeys(said.created, "create"),
        **dict.fromkeys(said.deleted, "delete"),
        **dict.fromkeys(said.changed, "update"),
    }
    return {f"{i.split()[1]} {i.split()[2].rpartition('/')[2]}": op for i, op in found.items()}


def short(name: str) -> str:
    kind, _, resource = name.rpartition(":")[2].partition(" ")
    return f"{kind.removesuffix('Patch')} {resource.removesuffix('-addresses')}"


def test_a_declaration_of_another_tool_is_a_conflict(cluster: Cluster) -> None:
    name = cluster.plan.deployments[0].name
    path = f"/apis/policy/v1/namespaces/{cluster.namespace}/poddisruptionbudgets/{name}"
    theirs = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"maxUnavailable": 9},
    }  # fmt: skip
    cluster.api.apply(path, theirs)
    said = cluster.up("--refresh")
    assert said.returncode != 0
    assert (
        f"PodDisruptionBudget {cluster.namespace}/{name} spec.maxUnavailable · must be declared by one owner"
        in (said.stdout)
    )
    assert cluster.api.get(path)["spec"]["maxUnavailable"] == 9


def test_a_destroy_in_another_cluster_is_refused_and_in_this_one_needs_no_more_rights(
    cluster: Cluster,
) -> None:
    cluster.configure(identity="00000000-0000-0000-0000-000000000000")
    with pytest.raises(InputErrors, match="must be the kube-system UID of the cluster behind context lab"):
        cluster.stack.prove()
    cluster.configure()
    cluster.stack.prove()
    user = as_user(cluster, account(cluster))
    result = user.destroy()
    assert result.returncode == 0, result.stdout[-3000:]
    assert [name.split()[0] for name in user.stack.protected()] == ["Namespace", "PersistentVolumeClaim"]
