"""Ranks of a replica that attend to requests of their own and share the experts."""

from __future__ import annotations

import pytest

from rackwright.catalog import load_catalog
from rackwright.engines import monitoring, vllm
from rackwright.engines.registry import LAUNCHERS
from rackwright.plan import Plan
from rackwright.sizing.layout import Candidate, consider, divisions, shape_of
from rackwright.sizing.load import demand
from rackwright.sizing.memory import memory, weights_gib
from rackwright.sizing.size import size, stand_of
from rackwright.sizing.work import expert_gb
from rackwright.workload import Workload

from .build import workload

CATALOG = load_catalog()


def deepseek(**more: object) -> Workload:
    return workload(model__id="deepseek-v3", **more)


def relaxed(**more: object) -> Workload:
    return deepseek(slo__tpot_p50="60 ms", slo__ttft_p95="2 s", **more)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return size(relaxed(), CATALOG)


def test_weights_a_gpu_by_hand() -> None:
    """DeepSeek V3: 58 layers × 256 experts × 3 × 7168 × 2048 one-byte parameters are 653.9 GB of 672.5; each
    rank on one GPU holds an eighth of them and all of the rest."""
    stand = stand_of(deepseek(), CATALOG)
    experts = 58 * 256 * 3 * 7168 * 2048 / 1e9
    assert experts == pytest.approx(653.9, abs=0.1)
    shape = shape_of(stand, 1, 1, 8)
    assert expert_gb(shape) == pytest.approx(experts, rel=0.001)
    loaded = shape.weights.loaded.value
    by_hand = (loaded - experts + experts / 8) * 1e9 / 2**30
    assert weights_gib(shape) == pytest.approx(by_hand, rel=0.002)
    assert weights_gib(shape_of(stand, 8, 1)) == pytest.approx(loaded / 8 * 1e9 / 2**30)


def test_every_rank_keeps_its_own_requests() -> None:
    """With tensor parallelism the latent lies on every GPU: ranks keep eight times the tokens a GiB."""
    stand = stand_of(deepseek(), CATALOG)
    together = memory(shape_of(stand, 8, 1), batched_tokens=8192, max_num_seqs=256)
    apart = memory(shape_of(stand, 1, 1, 8), batched_tokens=8192, max_num_seqs=256)
    assert apart.kv_tokens % 8 == 0
    assert apart.kv_tokens / apart.kv == pytest.approx(8 * together.kv_tokens / together.kv, rel=1e-4)


def test_the_layout_that_needs_the_fewest_nodes_is_taken(plan: Plan) -> None:
    layout = plan.deployments[0].layout
    assert layout.words == "TP 2 × PP 1 × DP 4"
    assert (layout.gpus_per_pod, layout.gpus_per_replica, layout.nodes_per_replica) == (8, 8, 1)
    assert plan.deployments[0].resources.gpus == 8
    without = size(relaxed(overrides__data_parallel=1), CATALOG)
    assert without.deployments[0].layout.words == "TP 8 × PP 1"
    assert len(plan.pools[0].nodes) < len(without.pools[0].nodes)


def test_limits_are_the_replicas_and_flags_a_ranks(plan: Plan) -> None:
    deployment = plan.deployments[0]
    words = deployment.engine.roles[0].args
    assert deployment.limits.max_num_seqs % 4 == 0
    assert f"--max-num-seqs={deployment.limits.max_num_seqs // 4}" in words
    assert {"--tensor-parallel-size=2", "--data-parallel-size=4", "--enable-expert-parallel"} <= set(words)


def test_sglang_counts_all_gpus_and_divides_by_itself() -> None:
    """0.5.23 divides chunks and running requests by the ranks, and keeps a queue in each."""
    words = size(relaxed(engine="sglang", overrides__tensor_parallel=1, overrides__data_parallel=8), CATALOG)
    args = dict(w.removeprefix("--").partition("=")[::2] for w in words.deployments[0].engine.roles[0].args)
    assert (args["tp-size"], args["attn-dp-size"], args["ep-size"]) == ("8", "8", "8")
    alone = size(relaxed(engine="sglang", overrides__data_parallel=1), CATALOG)
    step = next(w for w in alone.deployments[0].engine.roles[0].args if w.startswith("--chunked-prefill"))
    assert int(args["chunked-prefill-size"]) == 8 * int(step.partition("=")[2])
    assert int(args["max-running-requests"]) == words.deployments[0].limits.max_num_seqs
    assert int(args["max-queued-requests"]) == -(-words.deployments[0].limits.max_queued_requests // 8)


def test_requests_of_a_pod_are_the_sum_of_its_ranks(plan: Plan) -> None:
    assert plan.observability is not None
    (rules,) = plan.observability.deployment_rules.values()
    (near,) = [rule for rule in rules if rule.alert == "RunningNearLimit"]
    assert near.expr.startswith("sum by (namespace, model_name, pod)")
    alone = monitoring.rules(vllm.NAMES, "n", "m", ttft_p95_ms=1, tpot_p50_ms=1, max_num_seqs=8)
    (near,) = [rule for rule in alone if rule.alert == "RunningNearLimit"]
    assert near.expr.startswith("max by (namespace, model_name, pod)")


def test_said_and_explained(plan: Plan) -> None:
    assert "ranks-share-experts" in {caution.id for caution in plan.cautions}
    said = {entry.path: entry for entry in plan.explanations}
    assert said["deployments[0].layout.data_parallel"].value == "4"
    assert said["deployments[0].memory.weights_gib"].formula == (
        "(loaded bytes − experts) / TP + experts / (TP × DP)"
    )
    alone = size(deepseek(), CATALOG)
    assert "data_parallel" not in alone.to_yaml()


def test_one_context_fits_one_rank() -> None:
    stand = stand_of(relaxed(model__context="160 ki tokens"), CATALOG)
    for division in divisions(stand):
        found = consider(stand, demand(stand.workload), *division)
        if isinstance(found, Candidate):
            assert found.memory.kv_tokens // found.shape.dp >= 160 * 1024


@pytest.mark.parametrize("engine", sorted(LAUNCHERS))
def test_an_engine_without_ranks_gets_none(engine: str) -> None:
    if engine in ("llama.cpp", "tgi", "vllm-ascend"):
        return  # they do not run this model on this machine at all
    machine = "mi300x-8" if engine == "vllm-rocm" else "hgx-h200-8"
    digest = "sha256:" + "2" * 64
    stand = stand_of(
        relaxed(engine=engine, hardware__machine=machine, overrides__image_digest=digest), CATALOG
    )
    ranks = {dp for _, _, dp in divisions(stand)}
    assert ranks == ({1, 2, 4, 8} if LAUNCHERS[engine].TRAITS.ranks else {1})
