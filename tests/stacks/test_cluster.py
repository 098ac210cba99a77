"""Platform, nodes, fabric, storage, gateway, scaling and observability."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from rackwright.engines import matrix
from rackwright.errors import InputErrors
from rackwright.plan import Plan, load_plan
from rackwright.render_rules import check
from stacks.embedded import run
from stacks.model import OWNERSHIP, PLAN, PLAN_HASH, Environment
from stacks.program import PHASES, build
from tests.golden import REPOSITORY
from tests.stacks.objects import EXAMPLES, manifests, objects, one, registrations
from tests.stacks.plans import changed, multi, single

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.dev", "annotations": {}},
    "spec": {
        "group": "example.dev",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                        },
                    }
                },
            }
        ],
    },
}


def test_one_owner_of_the_driver() -> None:
    ours = one(single(), "ClusterPolicy", "cluster-policy")["spec"]["driver"]
    assert (ours["enabled"], ours["version"], ours["kernelModuleType"]) == (True, "595.91.07", "open")
    hosts = changed(single(), platform__driver_owner="host")
    assert one(hosts, "ClusterPolicy", "cluster-policy")["spec"]["driver"] == {"enabled": False}


def test_what_lives_longer_than_the_stack_is_protected() -> None:
    found = registrations(multi(), Environment(crds=(DEFINITION,)))
    protected = {r.type.rpartition(":")[2] for r in found if r.protect}
    assert protected == {"Namespace", "PersistentVolumeClaim", "CustomResourceDefinition"}
    assert not any(r.protect for r in registrations(multi(), Environment(protect=False)))


def test_definitions_come_first_and_as_they_are() -> None:
    found = [r for r in registrations(single(), Environment(crds=(DEFINITION,))) if r.custom]
    definition = next(r for r in found if r.type.endswith(":CustomResourceDefinition"))
    assert definition.inputs["spec"] == DEFINITION["spec"]
    metadata = dict(definition.inputs["metadata"])
    assert metadata.pop("labels").keys() == {PLAN, PLAN_HASH}
    assert metadata == {"name": "things.example.dev", "annotations": OWNERSHIP}


def test_every_object_has_one_lasting_owner() -> None:
    """The provider draws a new owner for each creation otherwise; a killed one would keep its fields."""
    found = [r for r in registrations(multi()) if r.custom and "metadata" in r.inputs]
    assert len(found) > 20
    for registration in found:
        annotations = registration.inputs["metadata"]["annotations"]
        assert annotations.items() >= OWNERSHIP.items(), registration.urn


def test_policies_of_operators_wait_for_their_definitions() -> None:
    found = [r for r in registrations(single(), Environment(crds=(DEFINITION,))) if r.custom]
    definition = next(r for r in found if r.type.endswith(":CustomResourceDefinition"))
    policy = next(r for r in found if r.type.endswith(":ClusterPolicy"))
    assert definition.urn in policy.dependencies


def test_a_cluster_without_operators_gets_the_namespaces_that_objects_are_put_into() -> None:
    bare = registrations(multi(), Environment(crds=(DEFINITION,)))
    spaces = {r.name for r in bare if r.type.endswith("v1:Namespace")}
    assert spaces == {"llm", "gpu-operator", "nvidia-network-operator"}
    policy = next(r for r in bare if r.type.endswith(":ClusterPolicy"))
    assert any(urn.endswith("Namespace::gpu-operator") for urn in policy.dependencies)
    used = {r.inputs["metadata"].get("namespace") for r in bare if r.custom and "metadata" in r.inputs}
    assert used - {None} == spaces


def test_an_operator_is_external_or_a_chart_pinned_by_digest() -> None:
    assert not any("helm" in r.type for r in registrations(single()))
    operator = {
        "name": "gpu-operator",
        "mode": "helm",
        "version": "v26.7.0",
        "namespace": "gpu-operator",
        "chart": "oci://registry.example/gpu-operator",
        "digest": "sha256:" + "c" * 64,
    }
    plan = changed(single(), platform__operators__0=operator)
    release = next(r for r in registrations(plan) if r.type == "kubernetes:helm.sh/v3:Release")
    assert release.inputs["chart"] == operator["chart"] + "@" + operator["digest"]
    policy = next(r for r in registrations(plan) if r.type.endswith(":ClusterPolicy"))
    assert release.urn in policy.dependencies
    rendered = next(m for m in manifests(plan) if m.purpose == "release")
    assert rendered.file == "helm/gpu-operator.yaml"


def test_only_nodes_that_joined_are_patched_the_others_are_staged() -> None:
    found = registrations(single(), Environment(joined=frozenset({"gpu-002"})))
    patches = [r for r in found if r.type.endswith(":NodePatch")]
    assert [r.name for r in patches] == ["gpu-002"]
    patch = patches[0].inputs
    assert patch["metadata"]["labels"] == {
        "rackwright.dev/pool": "h100",
        "topology.kubernetes.io/rack": "r1",
        "topology.kubernetes.io/zone": "dc1",
    }
    assert patch["spec"] == {
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    }
    assert patch["metadata"]["annotations"] == {
        "pulumi.com/patchFieldManager": "rackwright",
        "pulumi.com/patchForce": "true",
        "rackwright.dev/applied": '{"labels":{"rackwright.dev/pool":"h100",'
        '"topology.kubernetes.io/rack":"r1","topology.kubernetes.io/zone":"dc1"},"taints":[["nvidia.com/gpu","present","NoSchedule"]]}',
    }


def test_every_node_gets_its_planned_address_on_every_rail() -> None:
    plan = multi()
    for position in range(2):
        spec = one(plan, "CIDRPool", f"rail-{position}")["spec"]
        assert spec["cidr"] == f"10.240.{64 * position}.0/18"
        assert spec["staticAllocations"][1] == {
            "nodeName": "gpu-002",
            "prefix": f"10.240.{64 * position}.2/31",
            "gateway": f"10.240.{64 * position}.2",
        }
        network = one(plan, "HostDeviceNetwork", f"rail-{position}")["spec"]
        assert (network["networkNamespace"], network["resourceName"]) == ("llm", f"rail_{position}")
        assert json.loads(network["ipam"]) == {
            "type": "nv-ipam",
            "poolName": f"rail-{position}",
            "poolType": "cidrpool",
        }


def test_rails_are_whole_nics_by_address() -> None:
    """Pods must see the device names that NCCL_IB_HCA selects; virtual functions have names of their own."""
    policy = one(multi(), "NicClusterPolicy", "nic-cluster-policy")["spec"]
    resources = json.loads(policy["sriovDevicePlugin"]["config"])["resourceList"]
    assert [(r["resourceName"], r["selectors"]["pciAddresses"]) for r in resources] == [
        ("rail_0", ["0000:18:00.0"]),
        ("rail_1", ["0000:28:00.0"]),
    ]
    assert "ofedDriver" not in policy


def test_nics_get_the_one_qos_profile() -> None:
    template = one(multi(), "NicConfigurationTemplate", "h100-nics")["spec"]["template"]
    assert template["roceOptimized"]["qos"] == {
        "trust": "dscp",
        "pfc": "0,0,0,1,0,0,0,0",
        "tos": 96,
        "ecn": {"enabled": True, "priority": 3},
        "pauseFrames": {"enabled": False},
    }
    assert template["rawNvConfig"] == [
        {"name": "CNP_DSCP_P1", "value": "48"},
        {"name": "CNP_802P_PRIO_P1", "value": "6"},
    ]
    assert template["linkType"] == "Ethernet"


def test_infiniband_has_no_ethernet_qos() -> None:
    data = multi().as_dict()
    data["fabric"]["kind"] = "infiniband"
    del data["fabric"]["qos"]
    template = one(Plan.model_validate(data), "NicConfigurationTemplate", "h100-nics")["spec"]["template"]
    assert template["linkType"] == "Infiniband"
    assert not {"roceOptimized", "rawNvConfig"} & template.keys()


def test_no_fabric_no_network_objects() -> None:
    kinds = {name.split()[0] for name in objects(single())}
    assert not kinds & {"NicClusterPolicy", "CIDRPool", "HostDeviceNetwork", "NicConfigurationTemplate"}


def test_weights_have_a_claim_of_the_planned_size() -> None:
    spec = one(single(), "PersistentVolumeClaim", "chat-weights")["spec"]
    assert spec == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "weights",
        "resources": {"requests": {"storage": "200Gi"}},
    }


def test_requests_reach_the_pods_that_answer() -> None:
    plan = multi()
    pool = one(plan, "InferencePool")["spec"]
    assert pool["selector"]["matchLabels"]["rackwright.dev/role"] == "leader"
    assert pool["endpointPickerRef"]["name"] == "chat-picker"
    assert pool["endpointPickerRef"]["failureMode"] == "FailOpen"
    route = one(plan, "HTTPRoute")["spec"]
    assert route["parentRefs"] == [{"name": "llm"}]
    assert route["rules"][0]["backendRefs"][0]["name"] == "chat"
    listener = one(plan, "Gateway", "llm")["spec"]["listeners"][0]
    assert listener["hostname"] == route["hostnames"][0] == "llm.example.com"
    assert listener["tls"]["certificateRefs"] == [{"name": "gateway-tls"}]
    service = one(plan, "Service", "chat-picker")["spec"]
    picker = one(plan, "Deployment", "chat-picker")["spec"]["template"]
    assert service["selector"] == picker["metadata"]["labels"]
    assert "--pool-name=chat" in picker["spec"]["containers"][0]["args"]


def test_the_picker_may_only_read() -> None:
    rules = one(multi(), "Role", "chat-picker")["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    config = yaml.safe_load(one(multi(), "ConfigMap", "chat-picker-config")["data"]["config.yaml"])
    declared = {plugin["type"] for plugin in config["plugins"]}
    used = {p["pluginRef"] for profile in config["schedulingProfiles"] for p in profile["plugins"]}
    assert used <= declared


def test_a_missing_metric_never_reads_as_zero() -> None:
    spec = one(multi(), "ScaledObject")["spec"]
    assert [t["metadata"]["ignoreNullValues"] for t in spec["triggers"]] == ["false"]
    assert spec["scaleTargetRef"] == {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "name": "chat",
    }
    assert (spec["minReplicaCount"], spec["maxReplicaCount"], spec["fallback"]["replicas"]) == (1, 2, 2)


def test_only_exported_metrics_are_queried() -> None:
    groups = one(multi(), "PrometheusRule")["spec"]["groups"]
    for rule in groups[0]["rules"]:
        assert matrix.check_promql("vllm", "0.33.0", rule["expr"], recorded={"llm:ttft_seconds:p95"}) == []
    alert = groups[0]["rules"][1]
    assert (alert["for"], alert["labels"]) == ("10m", {"severity": "warning"})


@pytest.mark.parametrize("name", EXAMPLES)
def test_alerts_on_gpus_read_metrics_that_the_exporter_reports(name: str) -> None:
    plan = load_plan(REPOSITORY / "inventory" / name / "plan.yaml")
    lines = one(plan, "ConfigMap", "dcgm-metrics")["data"]["dcgm-metrics.csv"].splitlines()
    exported = {line.split(",")[0] for line in lines}
    rules = one(plan, "PrometheusRule", f"{name}-nodes")["spec"]["groups"][0]["rules"]
    read = {word for rule in rules for word in re.findall(r"DCGM_FI_\w+", rule["expr"])}
    assert read
    assert read <= exported
    policy = one(plan, "ClusterPolicy", "cluster-policy")["spec"]
    assert policy["dcgmExporter"]["config"] == {"name": "dcgm-metrics"}


def test_only_pods_with_a_server_are_scraped() -> None:
    spec = one(multi(), "PodMonitor")["spec"]
    assert spec["selector"]["matchLabels"]["rackwright.dev/role"] == "leader"
    assert spec["podMetricsEndpoints"][0]["interval"] == "15s"


def test_several_deployments_stand_beside_each_other() -> None:
    data = multi().as_dict()
    code = json.loads(json.dumps(data["deployments"][0]).replace('"chat"', '"code"'))
    data["deployments"].append(code)
    for section in ("volumes", "routes", "scaling"):
        data[section] += json.loads(json.dumps(data[section]).replace("chat", "code"))
    plan = Plan.model_validate(data)
    found = objects(plan)
    for kind in ("LeaderWorkerSet", "PodDisruptionBudget", "NetworkPolicy", "InferencePool", "ScaledObject"):
        assert {f"{kind} chat", f"{kind} code"} <= found.keys()
    assert [name for name in found if name.startswith("Gateway ")] == ["Gateway llm"]
    assert len(found["Gateway llm"]["spec"]["listeners"]) == 1  # one hostname
    assert check(plan, found.values()) == []


def test_every_resource_belongs_to_a_component_of_a_phase() -> None:
    found = registrations(multi())
    components = {r.urn: r for r in found if r.component}
    for resource in (r for r in found if r.custom):
        assert components[resource.parent].type.startswith("rackwright:stacks:"), resource.urn
    assert len({m.phase for m in manifests(multi())} - set(PHASES)) == 0


def test_a_later_phase_waits_for_what_it_stands_on() -> None:
    """A component waits for its dependencies, and its children wait for it."""
    found = {r.urn: r for r in registrations(multi())}
    group = next(r for r in found.values() if r.type.endswith(":LeaderWorkerSet"))
    needed = " ".join(found[group.parent].dependencies)
    for name in ("Namespace::llm", "HostDeviceNetwork::rail-0", "PersistentVolumeClaim::chat-weights"):
        assert name in needed
    order = list(found)
    assert order.index(group.urn) > max(order.index(urn) for urn in found[group.parent].dependencies)


def test_nothing_that_is_empty_is_declared() -> None:
    """The server drops empty mappings, and the engine would see a change at every run."""

    def empty(value: object, path: str) -> list[str]:
        if isinstance(value, dict):
            return [path] if not value else [p for k, v in value.items() for p in empty(v, f"{path}.{k}")]
        if isinstance(value, list):
            return [path] if not value else [p for v in value for p in empty(v, f"{path}[]")]
        return []

    for resource in registrations(multi()):
        if resource.custom:
            assert empty(resource.inputs, resource.name) == []


def test_a_plan_for_hosts_is_refused() -> None:
    plan = changed(single(), sites__0__target="hosts")
    with pytest.raises(InputErrors, match='must be "kubernetes" for this program'):
        run(lambda: build(plan))


def test_a_plan_without_a_platform_is_refused() -> None:
    data = single().as_dict()
    del data["platform"]
    with pytest.raises(InputErrors, match="platform · must be given"):
        run(lambda: build(Plan.model_validate(data)))
