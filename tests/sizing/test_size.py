"""Plans: the committed examples, what they say, and what holds for any workload."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import example as case
from hypothesis import strategies as st

from rackwright.catalog import load_catalog
from rackwright.errors import Infeasible, InputErrors
from rackwright.plan import NotApplicable, Plan, load_plan
from rackwright.sizing.joint import plan_of
from rackwright.sizing.size import size
from rackwright.workload import Workload, load_workload
from tests.golden import REPOSITORY, assert_golden

from .build import workload

CATALOG = load_catalog()
EXAMPLES = ("adapters", "campus", "dev-1k", "h200-10k", "nvl72", "roce-100k", "tenants")


def example(name: str) -> Plan:
    return plan_of(load_workload(REPOSITORY / "inventory" / name / "workload.yaml"), CATALOG)


@pytest.mark.parametrize("name", EXAMPLES)
def test_committed_plans_are_what_sizing_gives(name: str) -> None:
    assert_golden(REPOSITORY / "inventory" / name / "plan.yaml", example(name).to_yaml())


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_plan_reads_back_as_it_was(name: str, tmp_path: Path) -> None:
    plan = example(name)
    (tmp_path / "plan.yaml").write_text(plan.to_yaml(), encoding="utf-8")
    assert load_plan(tmp_path / "plan.yaml") == plan


def test_dev_fits_one_host_with_two_cards() -> None:
    plan = example("dev-1k")
    assert [n.name for n in plan.pools[0].nodes] == ["pro6000-01"]
    assert plan.load is not None
    assert plan.load.peak_output_tok_s == 400
    assert plan.fabric is None


def test_ten_thousand_users_on_deepseek_need_more_than_the_guides_one_node() -> None:
    plan = example("h200-10k")
    assert len(plan.pools[0].nodes) == 11
    assert plan.pools[0].spares == 1
    assert plan.deployments[0].layout.replicas == 10
    said = next(c for c in plan.cautions if c.id == "guide-node-count")
    assert "7,500 tok/s of each" in said.text


def test_a_trillion_parameters_span_two_nodes() -> None:
    plan = example("roce-100k")
    layout = plan.deployments[0].layout
    assert (layout.tensor_parallel, layout.pipeline_parallel, layout.nodes_per_replica) == (8, 2, 2)
    assert len(plan.pools[0].nodes) == 2 * layout.replicas + 2
    assert {r.role for r in plan.deployments[0].engine.roles} == {"leader", "worker"}
    leader = plan.deployments[0].engine.role("leader")
    worker = plan.deployments[0].engine.role("worker")
    assert "--node-rank=0" in leader.args
    assert "--headless" not in leader.args
    assert "--headless" in worker.args
    assert "--node-rank=$(LWS_WORKER_INDEX)" in worker.args
    assert worker.env["NCCL_IB_TC"] == "104"
    assert plan.fabric is not None
    assert plan.platform is not None
    assert plan.platform.operator("leaderworkerset") is not None


@pytest.mark.parametrize("name", EXAMPLES)
def test_racks_stay_below_their_rating(name: str) -> None:
    plan = example(name)
    standing = [n for rack in plan.racks() for n in rack.nodes]
    assert standing == [n.name for pool in plan.pools for n in pool.nodes]
    for rack in plan.racks():
        assert rack.planned_full_load_w * 1.2 < rack.rating_w


def test_four_nodes_of_10_2_kw_in_a_rack_of_52_kw() -> None:
    plan = example("roce-100k")
    assert [len(r.nodes) for r in plan.racks()][:2] == [4, 4]
    assert next(iter(plan.racks())).planned_full_load_w == 40_800


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_expectation_is_filled(name: str) -> None:
    for pool, expected in example(name).expectations.items():
        for section in ("gpu", "nvlink", "rdma", "os", "storage", "power"):
            part = getattr(expected, section)
            for leaf in type(part).model_fields:
                value = getattr(part, leaf)
                assert value is not None, f"{pool} {section}.{leaf}"
                if isinstance(value, NotApplicable):
                    assert len(value.not_applicable) > 10


def test_pod_resources() -> None:
    pod = example("roce-100k").deployments[0].resources
    assert pod.cpus >= 2 * pod.gpus
    assert pod.memory_gib >= 1.2 * 8 * 60.87
    assert pod.memory_gib <= 2048


def test_startup_probe_covers_the_load_twice() -> None:
    probes = example("roce-100k").deployments[0].probes
    assert probes.startup_failures * probes.startup_period_s >= 2 * (514.4 / 2 + 120)


def test_no_surge_where_no_slot_is_free() -> None:
    assert example("dev-1k").deployments[0].rollout.max_surge == 0
    assert example("h200-10k").deployments[0].rollout.max_surge == 1


def test_unreachable_objective_says_what_binds_and_the_best() -> None:
    with pytest.raises(Infeasible) as caught:
        size(workload(slo__tpot_p50="2 ms"), CATALOG)
    assert caught.value.constraint == "slo.tpot_p50"
    assert "ms" in caught.value.best
    assert caught.value.exit_code == 1


def test_too_few_machines_say_how_many_users_they_carry() -> None:
    with pytest.raises(Infeasible) as caught:
        size(workload(users__dau=200_000, hardware__nodes=3), CATALOG)
    assert caught.value.constraint == "hardware.nodes"
    assert "daily users" in caught.value.best


def test_a_model_that_needs_two_nodes_without_a_fabric_is_refused() -> None:
    with pytest.raises(Infeasible) as caught:
        size(workload(model__id="kimi-k2-instruct"), CATALOG)
    assert caught.value.constraint == "hardware.machine"
    assert "% of memory" in caught.value.best


def test_pcie_tensor_parallel_beyond_two_is_never_chosen() -> None:
    plan = size(workload(model__id="qwen3-32b", hardware__machine="pro6000-2", slo__ttft_p95="2 s"), CATALOG)
    assert plan.deployments[0].layout.tensor_parallel <= 2


def test_suppressed_caution_stays_with_its_reason() -> None:
    plan = size(workload(overrides__suppress={"no-spare": "spares are in the next budget"}), CATALOG)
    assert next(c for c in plan.cautions if c.id == "no-spare").suppressed == "spares are in the next budget"


def test_engine_flags_are_merged_and_checked() -> None:
    plan = size(workload(overrides__engine_flags={"max-num-batched-tokens": 16384}), CATALOG)
    assert "--max-num-batched-tokens=16384" in plan.deployments[0].engine.roles[0].args
    with pytest.raises(InputErrors, match="swap-space"):
        size(workload(overrides__engine_flags={"swap-space": 4}), CATALOG)
    with pytest.raises(InputErrors, match=r"overrides\.max_num_seqs"):
        size(workload(overrides__engine_flags={"max-num-seqs": 4096}), CATALOG)


def test_overrides_reach_the_command_line() -> None:
    plan = size(
        workload(
            overrides__max_num_seqs=64, overrides__gpu_memory_utilization=0.8, overrides__tensor_parallel=8
        ),
        CATALOG,
    )
    args = plan.deployments[0].engine.roles[0].args
    assert {"--max-num-seqs=64", "--gpu-memory-utilization=0.8", "--tensor-parallel-size=8"} <= set(args)
    assert plan.deployments[0].estimate.concurrency <= 64


def test_more_replicas_than_needed_are_honoured() -> None:
    assert size(workload(overrides__replicas=12), CATALOG).deployments[0].layout.replicas == 12


def test_a_pinned_image_loses_the_caution() -> None:
    plan = size(workload(overrides__image_digest="sha256:" + "a" * 64), CATALOG)
    assert plan.deployments[0].engine.image == "docker.io/vllm/vllm-openai@sha256:" + "a" * 64
    assert "engine-image-unpinned" not in {c.id for c in plan.cautions}
    assert "engine-image-unpinned" in {c.id for c in size(workload(), CATALOG).cautions}


users = st.integers(min_value=1, max_value=300_000)
machines = st.sampled_from(["hgx-h200-8", "hgx-h200-8-roce", "hgx-h100-8", "pro6000-2", "pro6000-1"])
models = st.sampled_from(sorted(m.id for m in CATALOG.models.values() if not m.encoder_decoder))


def sized(dau: int, machine: str, model: str, tpot: str) -> Plan | None:
    asked: Workload = workload(
        users__dau=dau, hardware__machine=machine, model__id=model, slo__tpot_p50=tpot, slo__ttft_p95="3 s",
        model__context="4 ki tokens",
    )  # fmt: skip
    try:
        return size(asked, CATALOG)
    except Infeasible:
        return None


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(few=users, more=users, machine=machines, model=models, tpot=st.sampled_from(["40 ms", "100 ms"]))
def test_more_users_never_need_fewer_nodes(few: int, more: int, machine: str, model: str, tpot: str) -> None:
    small, large = sized(min(few, more), machine, model, tpot), sized(max(few, more), machine, model, tpot)
    assert (small is None) == (large is None)
    if small is not None and large is not None:
        assert len(small.pools[0].nodes) <= len(large.pools[0].nodes)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(dau=users, machine=machines, model=models)
@case(dau=262129, machine="pro6000-2", model="gemma-3-27b")  # 491 replicas of 400.4 tok/s, written as 400
def test_a_plan_never_crosses_a_red_line(dau: int, machine: str, model: str) -> None:
    plan = sized(dau, machine, model, "100 ms")
    if plan is None:
        return
    for deployment in plan.deployments:
        held = deployment.memory
        assert held.weights_gib + held.kv_gib + held.activations_gib <= 0.85 * held.total_gib + 0.02
        assert deployment.estimate.bandwidth_share <= 0.70
        assert plan.load is not None
        rounding = 0.5  # a plan's estimate is in whole tokens a second
        carried = deployment.layout.replicas * (deployment.estimate.output_tok_s_low + rounding)
        assert carried >= plan.load.peak_output_tok_s


@settings(max_examples=8, deadline=None)
@given(dau=users, model=models)
def test_the_same_workload_gives_the_same_bytes(dau: int, model: str) -> None:
    one, two = sized(dau, "hgx-h200-8-roce", model, "60 ms"), sized(dau, "hgx-h200-8-roce", model, "60 ms")
    assert (one and one.to_yaml()) == (two and two.to_yaml())


def test_a_block_is_two_nodes_of_one_rack_and_every_replica_can_have_one() -> None:
    """40 replicas of two nodes and one more while a rollout surges: 41 blocks on 82 nodes."""
    plan = example("roce-100k")
    blocks: dict[str | None, set[str]] = {}
    for node in plan.pools[0].nodes:
        blocks.setdefault(node.block, set()).add(node.rack)
    assert len(blocks) == 41
    assert all(len(racks) == 1 for racks in blocks.values())
    assert plan.pools[0].nodes[0].block == plan.pools[0].nodes[1].block == "h200-b01"


def test_autoscaling_leaves_the_slot_that_a_rollout_needs() -> None:
    plan = example("roce-100k")
    scaling, rollout = plan.scaling[0], plan.deployments[0].rollout
    assert (scaling.max_replicas, rollout.max_surge) == (40, 1)
    assert (scaling.max_replicas + rollout.max_surge) * 2 <= len(plan.pools[0].nodes)
