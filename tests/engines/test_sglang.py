"""What SGLang is started with: exact words, and what its parts stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.engines import monitoring, registry, sglang, vllm
from rackwright.engines.launcher import GpuMemory, Serve
from rackwright.engines.matrix import check_args, check_promql, load_matrix, versions
from rackwright.engines.promql import PREFIXES
from stacks.rendering import render

from .test_launchers import planned

VERSION = "0.5.23"
SERVE = Serve(
    path="/models/deepseek-v3",
    served_name="deepseek-v3",
    port=30000,
    tp=8,
    pp=1,
    context=32768,
    max_num_seqs=72,
    max_queued=13,
    batched_tokens=8192,
    utilization=0.87,
    memory=GpuMemory(total=140.4, weights=78.3, kv=38.8, activations=1.5, context=2.0),
    kv_fp8=True,
    quantisation="fp8",
    trust_remote_code=True,
    shutdown_s=60,
)


def spanning(**values: object) -> Serve:
    return Serve(**{**vars(SERVE), "pp": 2, "nodes": 2, **values})  # type: ignore[arg-type]


def test_one_node() -> None:
    (role,) = sglang.roles(SERVE, {})
    assert role.command == ("sglang", "serve")
    assert role.args == (
        "--model-path=/models/deepseek-v3",
        "--served-model-name=deepseek-v3",
        "--tp-size=8",
        "--context-length=32768",
        "--chunked-prefill-size=8192",
        "--max-running-requests=72",
        "--max-queued-requests=13",
        "--mem-fraction-static=0.846",
        "--kv-cache-dtype=fp8_e4m3",
        "--quantization=fp8",
        "--trust-remote-code",
        "--host=0.0.0.0",
        "--port=30000",
        "--api-key=$(ENGINE_API_KEY)",
        "--enable-metrics",
        "--log-level=warning",
    )
    assert role.env == {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false"}


def test_a_replica_over_nodes_meets_at_its_leader() -> None:
    leader, worker = sglang.roles(spanning(), {"NCCL_IB_HCA": "mlx5"})
    for role in (leader, worker):
        assert {"--pp-size=2", "--nnodes=2", "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000"} <= set(role.args)
        assert role.env["NCCL_IB_HCA"] == "mlx5"
    assert "--node-rank=0" in leader.args
    assert "--node-rank=$(LWS_WORKER_INDEX)" in worker.args
    assert not any(word.startswith(("--host", "--port", "--api-key")) for word in worker.args)


@pytest.mark.parametrize("version", versions("sglang"))
@pytest.mark.parametrize("serve", [SERVE, spanning(), spanning(kv_fp8=False, quantisation=None)])
def test_every_argument_is_taken(version: str, serve: Serve) -> None:
    assert list(registry.flag_problems("sglang", version, sglang.roles(serve, {}), "x")) == []
    for role in sglang.roles(serve, {}):
        words = [word.replace("$(LWS_WORKER_INDEX)", "1") for word in role.args]
        assert check_args("sglang", version, words) == []


def test_a_flag_that_a_person_adds_is_held_against_the_version() -> None:
    serve = spanning(extra={"enable-ep-moe": True})
    parts = sglang.roles(serve, {})
    (problem,) = registry.flag_problems("sglang", VERSION, parts, "overrides.engine_flags")
    assert problem.where == "overrides.engine_flags (leader) --enable-ep-moe"
    assert "--ep-size" in problem.next


@pytest.mark.parametrize("version", versions("sglang"))
def test_every_query_is_answered(version: str) -> None:
    rules = monitoring.rules(sglang.NAMES, "ns", "m", ttft_p95_ms=500, tpot_p50_ms=30, max_num_seqs=72)
    queries = [rule.expr for rule in rules]
    queries += [t.query for t in monitoring.triggers(sglang.NAMES, "ns", "m", 72)]
    assert sum("sglang:" in query for query in queries) == 16
    assert [problem for query in queries for problem in check_promql("sglang", version, query)] == []


def test_the_same_rules_as_of_vllm_under_other_names() -> None:
    given = {"ttft_p95_ms": 500.0, "tpot_p50_ms": 30.0, "max_num_seqs": 72}
    names = [
        [r.record or r.alert for r in monitoring.rules(each.NAMES, "ns", "m", **given)]  # type: ignore[arg-type]
        for each in (sglang, vllm)
    ]
    assert names[0] == names[1]


def test_readiness_generates_and_a_restart_is_slow_to_come() -> None:
    (deployment,) = planned("sglang").deployments
    assert (deployment.probes.path, deployment.probes.readiness_path) == ("/health", "/health_generate")
    assert deployment.probes.liveness_period_s * deployment.probes.liveness_failures == 60
    assert "health-is-shallow" not in {caution.id for caution in planned("sglang").cautions}


def test_a_pod_outlives_the_longest_request_since_sglang_waits_for_all() -> None:
    """60 s of a request, 30 s until routers have dropped it, 30 s of margin."""
    assert planned("sglang").deployments[0].rollout.termination_grace_s == 120


def test_the_picker_is_told_whose_metrics_to_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    render(planned("sglang"), out)
    (pods,) = out.rglob("deployment-*deepseek-v3.yaml")
    assert "llm-d.ai/engine-type: sglang" in pods.read_text(encoding="utf-8")


def test_a_plan_with_names_of_another_engine_is_told(tmp_path: Path) -> None:
    given = planned("sglang")
    triggers = monitoring.triggers(vllm.NAMES, "sglang-one-node", "deepseek-v3", 72)
    wrong = given.scaling[0].model_copy(update={"triggers": triggers})
    found = render(given.model_copy(update={"scaling": (wrong,)}), tmp_path / "out").findings
    said = [f.problem.next for f in found if "vllm:num_requests_waiting" in f.problem.found]
    assert said == [
        "use sglang:num_queue_reqs (vLLM's word; exported by 0.5.23, observability/metrics_collector.py)"
    ]


def test_prefixes_are_those_of_the_matrices() -> None:
    for engine, prefix in PREFIXES.items():
        assert load_matrix(engine, versions(engine)[-1]).metric_prefix == prefix
