"""Engines on accelerators that are not NVIDIA's: resource names, images, and what nobody reads there."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.engines import vllm_ascend
from rackwright.engines.upgrade import of_plan, versions_of
from rackwright.errors import InputErrors
from rackwright.plan.base import NotApplicable
from rackwright.sizing.search import plan_of
from stacks.rendering import render

from .test_launchers import CATALOG, planned
from .test_tgi_and_llama_cpp import changed

CASES = {
    "vllm-rocm": ("amd.com/gpu", "docker.io/vllm/vllm-openai-rocm@sha256:1111"),
    "sglang-rocm": ("amd.com/gpu", "docker.io/lmsysorg/sglang@sha256:1111"),
    "vllm-ascend": ("huawei.com/Ascend910", "quay.io/ascend/vllm-ascend@sha256:2222"),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_pods_ask_for_the_vendors_resource(case: str, tmp_path: Path) -> None:
    resource, image = CASES[case]
    plan = planned(case)
    (pool,), (deployment,) = plan.pools, plan.deployments
    assert (pool.gpu_resource, pool.taints[0].key) == (resource, resource)
    assert deployment.engine.image.startswith(image)
    assert deployment.engine.image_verified is False
    render(plan, tmp_path / "out")
    (pods,) = (tmp_path / "out").rglob(f"deployment-*-{deployment.name}.yaml")
    text = pods.read_text(encoding="utf-8")
    gpus = deployment.layout.gpus_per_pod
    assert text.count(f"{resource}: '{gpus}'") == 2
    assert "nvidia.com" not in text


@pytest.mark.parametrize("case", sorted(CASES))
def test_without_a_digest_there_is_no_plan(case: str) -> None:
    with pytest.raises(InputErrors) as caught:
        plan_of(changed(case, overrides__image_digest=None), CATALOG)
    (problem,) = caught.value.problems
    assert (problem.where, problem.found) == ("overrides.image_digest", "nothing")
    assert "none is made up" in problem.why


@pytest.mark.parametrize("case", sorted(CASES))
def test_what_nobody_reads_is_said(case: str, tmp_path: Path) -> None:
    plan = planned(case)
    assert "accelerator-unread" in {caution.id for caution in plan.cautions}
    assert plan.observability is not None
    assert plan.observability.node_rules == ()
    assert plan.platform is not None
    assert "gpu-operator" not in {operator.name for operator in plan.platform.operators}
    expected = plan.expectations[plan.pools[0].name].gpu
    assert (expected.vendor, expected.count) == (CATALOG.accelerators[plan.pools[0].accelerator].vendor, 8)
    assert isinstance(expected.driver_min, NotApplicable)
    assert isinstance(expected.ecc, NotApplicable)


def test_an_image_for_cuda_is_refused_on_amd() -> None:
    with pytest.raises(InputErrors) as caught:
        plan_of(changed("vllm-rocm").model_copy(update={"engine": "vllm"}), CATALOG)
    assert caught.value.problems[0].where == "hardware.machine"


def test_tensor_parallel_reaches_as_far_as_the_vendors_links() -> None:
    """Eight MI300X are one mesh; of PCIe cards only two are joined."""
    assert planned("vllm-rocm").deployments[0].layout.tensor_parallel == 4
    with pytest.raises(InputErrors, match="at most 8"):
        plan_of(changed("vllm-rocm", overrides__tensor_parallel=16), CATALOG)


def test_nodes_of_amd_share_no_replica() -> None:
    with pytest.raises(InputErrors, match=r"overrides\.pipeline_parallel"):
        plan_of(
            changed(
                "vllm-rocm",
                overrides__pipeline_parallel=2,
                overrides__tensor_parallel=8,
                hardware__fabric="roce",
            ),
            CATALOG,
        )


def test_the_older_vllm_of_ascend_is_told_only_what_it_knows() -> None:
    args = planned("vllm-ascend").deployments[0].engine.roles[0].args
    assert not any(word.startswith(vllm_ascend.ABSENT) for word in args)
    assert "--shutdown-timeout=60" in args
    assert "max-num-queued-reqs" not in vllm_ascend.OWNED.owners
    assert planned("vllm-ascend").deployments[0].memory.kv_bytes_per_token == 2 * 80 * 8 * 128 * 2


def test_a_change_of_vllm_is_told_for_a_plan_on_rocm() -> None:
    """Of what the plan is started with, 0.27.1 lacks the limit of waiting requests."""
    plan = planned("vllm-rocm")
    assert versions_of(plan, "vllm", "0.27.1", "0.33.0") == ("0.33.0", "0.27.1")
    flags = [item.subject for item in of_plan(plan, "vllm", "0.33.0", "0.27.1") if item.kind == "flag"]
    assert flags == ["--max-num-queued-reqs"]


def test_a_mac_is_no_node_of_a_cluster() -> None:
    case = "llama.cpp-mac"
    with pytest.raises(InputErrors) as caught:
        plan_of(changed(case, site__target="kubernetes"), CATALOG)
    assert [p.where for p in caught.value.problems] == ["site.target"]
    plan = planned(case)
    assert (plan.pools[0].gpu_resource, plan.pools[0].taints) == ("", ())
    assert {c.id for c in plan.cautions if c.severity == "refuse"} == set()
    assert "engine-image-unpinned" not in {c.id for c in plan.cautions}
