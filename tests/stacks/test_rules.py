"""Rules on every rendered object, each by the fault that it finds."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from rackwright import render_rules
from rackwright.placement import exclusive_domain, groups_at_most, rollout_timeout_s
from tests.stacks.objects import objects
from tests.stacks.plans import changed, multi, single

Fault = Callable[[dict[str, Any]], object]


def found(fault: Fault | None = None, plan: Any = None) -> list[tuple[str, str]]:
    """(rule, severity) of the findings, after ``fault`` was put into the objects."""
    plan = plan or single()
    broken = copy.deepcopy(objects(plan))
    if fault is not None:
        fault(broken)
    return [(f.rule, f.severity) for f in render_rules.check(plan, broken.values())]


def _template(objects_: dict[str, Any]) -> Any:
    return objects_["Deployment chat"]["spec"]["template"]


def _container(objects_: dict[str, Any]) -> Any:
    return _template(objects_)["spec"]["containers"][0]


def _secret(objects_: dict[str, Any]) -> None:
    objects_["Secret s"] = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}


FAULTS: list[tuple[str, Fault]] = [
    ("image-by-digest", lambda o: _container(o).update(image="vllm/vllm-openai:v0.33.0")),
    ("image-by-digest", lambda o: _container(o).update(image="vllm/vllm-openai@sha256:abc")),
    ("not-privileged", lambda o: _container(o)["securityContext"].update(privileged=True)),
    ("not-privileged", lambda o: _container(o)["securityContext"].pop("allowPrivilegeEscalation")),
    ("not-privileged", lambda o: _template(o)["spec"].update(hostNetwork=True)),
    ("not-privileged", lambda o: _template(o)["spec"]["volumes"].append({"name": "h", "hostPath": {}})),
    ("security-context", lambda o: _template(o)["spec"].pop("securityContext")),
    ("security-context", lambda o: _container(o)["securityContext"].pop("capabilities")),
    ("limits-set", lambda o: _container(o)["resources"]["limits"].pop("memory")),
    ("no-secret", lambda o: _container(o)["env"].append({"name": "HF_TOKEN", "value": "hf_x"})),
    ("no-secret", lambda o: _container(o)["args"].append("--api-key=abc")),
    ("no-secret", _secret),
    ("stable-template", lambda o: _template(o)["metadata"]["labels"].update({"rackwright.dev/plan": "x"})),
    (
        "rollout-can-move",
        lambda o: o["Deployment chat"]["spec"]["strategy"]["rollingUpdate"].update(
            maxSurge=0, maxUnavailable=0
        ),
    ),
    ("disruption-budget", lambda o: o.pop("PodDisruptionBudget chat")),
    (
        "disruption-budget",
        lambda o: o["PodDisruptionBudget chat"]["spec"]["selector"].update(
            matchLabels={"app.kubernetes.io/component": "endpoint-picker"}
        ),
    ),
    ("valid-name", lambda o: o["PersistentVolumeClaim chat-weights"]["metadata"]["labels"].update(a="b c")),
    ("valid-name", lambda o: o["PodMonitor chat"]["metadata"].update(name="Chat_1")),
    ("valid-name", lambda o: o["Service chat-api"]["metadata"].update(name="a" * 64)),
    ("selector-selects", lambda o: o["Service chat-api"]["spec"]["selector"].update(x="y")),
    ("selector-selects", lambda o: o["InferencePool chat"]["spec"]["selector"]["matchLabels"].update(x="y")),
    ("selector-selects", lambda o: o["PodMonitor chat"]["spec"]["selector"]["matchLabels"].clear()),
    (
        "selector-selects",
        lambda o: o["NetworkPolicy chat"]["spec"]["podSelector"]["matchLabels"].update(x="y"),
    ),
    ("reference-exists", lambda o: o.pop("PersistentVolumeClaim chat-weights")),
    ("reference-exists", lambda o: o.pop("PriorityClass dev-serving")),
    ("reference-exists", lambda o: o.pop("ServiceAccount chat-picker")),
    ("reference-exists", lambda o: o.pop("ConfigMap chat-picker-config")),
    ("reference-exists", lambda o: o.pop("Gateway llm")),
    ("reference-exists", lambda o: o.pop("InferencePool chat")),
    ("reference-exists", lambda o: o.pop("Service chat-picker")),
    ("reference-exists", lambda o: o.pop("Role chat-picker")),
    ("engine-arguments", lambda o: _container(o)["args"].append("--swap-space=4")),
    ("engine-arguments", lambda o: _container(o)["env"].append({"name": "VLLM_USE_V1", "value": "1"})),
    (
        "exported-metrics",
        lambda o: o["PrometheusRule chat"]["spec"]["groups"][0]["rules"][0].update(
            expr="vllm:gpu_cache_usage_perc > 0.9"
        ),
    ),
]


@pytest.mark.parametrize(("rule", "fault"), FAULTS, ids=[f"{i}-{r}" for i, (r, _) in enumerate(FAULTS)])
def test_a_fault_is_found_and_nothing_else(rule: str, fault: Fault) -> None:
    assert {name for name, _ in found(fault)} == {rule}


def test_the_program_keeps_its_own_rules() -> None:
    assert found(plan=single()) == []
    assert found(plan=multi()) == []


def test_a_leaders_only_budget_leaves_workers_unprotected() -> None:
    def fault(o: dict[str, Any]) -> None:
        labels = o["PodDisruptionBudget chat"]["spec"]["selector"]["matchLabels"]
        labels["rackwright.dev/role"] = "leader"

    assert found(fault, multi()) == [("disruption-budget", "error")]


def test_a_scaler_may_only_query_what_the_engine_exports() -> None:
    def fault(o: dict[str, Any]) -> None:
        trigger = o["ScaledObject chat"]["spec"]["triggers"][0]
        trigger["metadata"]["query"] = 'sum(vllm:num_requests_waiting{model="m"})'

    assert found(fault, multi()) == [("exported-metrics", "error")]


def _gpus(count: str) -> Fault:
    return lambda o: _container(o)["resources"]["limits"].update({"nvidia.com/gpu": count})


@pytest.mark.parametrize(
    "fault",
    [
        _gpus("5"),
        _gpus("400"),
        lambda o: _template(o)["spec"]["nodeSelector"].update({"rackwright.dev/pool": "another"}),
        lambda o: _template(o)["spec"].pop("nodeSelector"),
        lambda o: _template(o)["spec"]["containers"].append({**_container(o), "name": "second"}),
        lambda o: _template(o)["spec"].update(
            initContainers=[
                {
                    **_container(o),
                    "name": "first",
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}},
                }
            ]
        ),
    ],
)
def test_a_pod_that_no_node_can_take_is_found(fault: Fault) -> None:
    assert found(fault) == [("schedulable", "error")]


@pytest.mark.parametrize("fault", [_gpus("4"), _gpus("1")])
def test_a_pod_that_fits_a_node_is_let_through(fault: Fault) -> None:
    assert found(fault) == []


def test_every_pod_of_a_group_must_fit_a_node() -> None:
    plan = changed(multi(), pools__0__gpus_per_node=4)
    assert found(plan=plan) == [("schedulable", "error")] * 2


@pytest.mark.parametrize("gone", ["HostDeviceNetwork rail-1", "CIDRPool rail-0", "LeaderWorkerSet chat"])
def test_what_a_group_relies_on_must_be_there(gone: str) -> None:
    assert "reference-exists" in {rule for rule, _ in found(lambda o: o.pop(gone), multi())}


def test_the_placeholder_digest_is_a_warning() -> None:
    plan = changed(single(), deployments__0__engine__image="vllm/vllm-openai@sha256:" + "0" * 64)
    assert set(found(plan=plan)) == {("image-placeholder", "warn")}


def test_names_that_only_sound_like_secrets_are_let_through() -> None:
    def harmless(o: dict[str, Any]) -> None:
        _container(o)["env"] += [
            {"name": "TOKENIZERS_PARALLELISM", "value": "false"},
            {"name": "NCCL_KEYS_PER_NODE", "value": "1"},
        ]

    assert found(harmless) == []


def test_replicas_at_one_moment_count_scale_and_surge() -> None:
    plan = changed(multi(), scaling__0__max_replicas=5, deployments__0__rollout__max_surge=1)
    assert groups_at_most(plan, plan.deployments[0]) == 6


def test_an_exclusive_domain_needs_one_for_each_replica() -> None:
    rack, block = "topology.kubernetes.io/rack", "rackwright.dev/block"
    one_rack = multi()
    assert exclusive_domain(one_rack, one_rack.deployments[0]) is None
    blocks = changed(one_rack, **{f"pools__0__nodes__{n}__block": f"h200-b0{n // 2 + 1}" for n in range(4)})
    assert exclusive_domain(blocks, blocks.deployments[0]) == block
    two = changed(one_rack, pools__0__nodes__2__rack="r2", pools__0__nodes__3__rack="r2")
    assert exclusive_domain(two, two.deployments[0]) == rack
    growing = changed(two, scaling__0__max_replicas=3)
    assert exclusive_domain(growing, growing.deployments[0]) is None
    assert exclusive_domain(single(), single().deployments[0]) is None


def test_a_rollout_may_take_every_replica_its_turn() -> None:
    assert rollout_timeout_s(single().deployments[0]) == 3 * 1800
    two_at_once = changed(single(), deployments__0__rollout__max_unavailable=2)
    assert rollout_timeout_s(two_at_once.deployments[0]) == 2 * 1800
