"""Accelerators by claims: the API that a cluster serves, what is claimed, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.catalog import load_catalog
from rackwright.errors import InputErrors
from rackwright.plan import Plan, link_problems
from rackwright.render_rules import check as render_check
from rackwright.sizing import claims
from rackwright.sizing.check import check
from rackwright.sizing.joint import plan_of
from tests.stacks.objects import objects

from .build import workload

CATALOG = load_catalog()


def claimed(version: str = "1.34", **changes: Any) -> Plan:
    return plan_of(workload(devices={"model": "dra", "kubernetes": version}, **changes), CATALOG)


def template(plan: Plan) -> Any:
    return next(o for o in objects(plan).values() if o["kind"] == "ResourceClaimTemplate")


@pytest.mark.parametrize(
    ("version", "api"), [("1.32", "v1beta1"), ("1.33", "v1beta2"), ("1.34", "v1"), ("1.37", "v1")]
)
def test_the_api_is_the_one_that_the_cluster_serves(version: str, api: str) -> None:
    plan = claimed(version)
    assert plan.claims is not None
    assert plan.claims.api == api
    found = template(plan)
    assert found["apiVersion"] == f"resource.k8s.io/{api}"
    (request,) = found["spec"]["spec"]["devices"]["requests"]
    wanted = request if api == "v1beta1" else request["exactly"]
    gpus = plan.deployments[0].layout.gpus_per_pod
    assert (wanted["deviceClassName"], wanted["count"]) == ("gpu.nvidia.com", gpus)
    assert ("claims-behind-gates" in {c.id for c in plan.cautions}) is (api != "v1")


def test_pods_claim_and_ask_for_no_extended_resource() -> None:
    plan = claimed()
    assert plan.claims is not None
    name = plan.deployments[0].name
    pod = objects(plan)[f"Deployment {name}"]["spec"]["template"]["spec"]
    assert pod["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": plan.claims.claims[0].name}]
    resources = pod["containers"][0]["resources"]
    assert resources["claims"] == [{"name": "gpu"}]
    assert not [key for key in resources["limits"] if "/" in key]


def test_one_of_two_hands_out_the_cards() -> None:
    plan = claimed()
    assert plan.platform is not None
    assert plan.platform.device_model == "dra"
    assert plan.platform.operator("nvidia-dra-driver") is not None
    found = objects(plan)
    policy = found["ClusterPolicy cluster-policy"]
    assert policy["spec"]["devicePlugin"] == {"enabled": False}
    assert [str(f) for f in render_check(plan, found.values()) if f.severity == "error"] == []
    both = {**policy, "spec": {**policy["spec"], "devicePlugin": {"enabled": True}}}
    broken = render_check(plan, [*(o for o in found.values() if o is not policy), both])
    assert "one-device-model" in {f.rule for f in broken}


def test_slices_are_claimed_by_their_profile() -> None:
    model = {"id": "qwen3-8b", "quantisation": "fp8", "context": "8 ki tokens"}
    plan = claimed(model=model, tenancy__mode="mig", users__dau=2000)
    (request,) = template(plan)["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "mig.nvidia.com"
    assert request["exactly"]["selectors"] == [
        {"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '1g.18gb'"}}
    ]


def test_the_plan_is_as_its_workload_gives_it() -> None:
    plan = claimed()
    assert (check(plan, CATALOG), list(link_problems(plan))) == ([], [])
    half = plan.model_copy(update={"claims": None})
    assert [p.where for p in link_problems(half)] == ["claims"]


def test_what_is_claimed_is_part_of_the_name_of_a_template_that_cannot_change() -> None:
    plan = claimed()
    assert plan.claims is not None
    count = plan.deployments[0].resources.gpus
    assert plan.claims.claims[0].name == f"qwen3-235b-a22b-gpu-{count}"
    assert claims.minor("1.34") == 34


@pytest.mark.parametrize(
    ("version", "changes", "where"),
    [
        ("1.31", {}, "devices.kubernetes"),
        ("1.34", {"site__target": "hosts"}, "devices.model"),
        ("1.34", {"hardware__machine": "mi300x-8"}, "devices.model"),
        (
            "1.34",
            {"tenancy": {"mode": "mps", "clients": 2, "trusted": True}, "model": {"id": "qwen3-8b"}},
            "devices.model",
        ),
    ],
)
def test_claims_that_cannot_be_served(version: str, changes: dict[str, Any], where: str) -> None:
    with pytest.raises(InputErrors) as error:
        claimed(version, **changes)
    assert where in {problem.where for problem in error.value.problems}
