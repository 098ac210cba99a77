"""SGLang behind the same interface: what it is started with, and what is asked of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.engines import sglang, vllm
from rackwright.engines.matrix import check_args, check_promql, load_matrix, versions
from rackwright.engines.promql import PREFIXES
from rackwright.engines.registry import LAUNCHERS
from rackwright.plan import Plan, load_plan
from stacks.rendering import render
from tests.golden import REPOSITORY, assert_golden

VERSION = "0.5.23"
GOLDEN = REPOSITORY / "tests" / "golden" / "engines" / "sglang"
SERVE = sglang.Serve(
    path="/models/deepseek-v3",
    served_name="deepseek-v3",
    port=30000,
    tp=8,
    pp=1,
    context=32768,
    max_num_seqs=72,
    max_queued=13,
    batched_tokens=8192,
    utilization=0.834,
    kv_fp8=True,
    quantisation="fp8",
    trust_remote_code=True,
    shutdown_s=60,
)


def spanning(**values: object) -> sglang.Serve:
    return sglang.Serve(**{**vars(SERVE), "pp": 2, **values})  # type: ignore[arg-type]


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
        "--mem-fraction-static=0.834",
        "--kv-cache-dtype=fp8_e4m3",
        "--quantization=fp8",
        "--trust-remote-code",
        "--host=0.0.0.0",
        "--port=30000",
        "--api-key=$(VLLM_API_KEY)",
        "--enable-metrics",
        "--log-level=warning",
    )


def test_a_replica_over_nodes_meets_at_its_leader() -> None:
    leader, worker = sglang.roles(spanning(), {"NCCL_IB_HCA": "mlx5"})
    for role in (leader, worker):
        assert {"--pp-size=2", "--nnodes=2", "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000"} <= set(role.args)
        assert role.env == {"NCCL_IB_HCA": "mlx5"}
    assert "--node-rank=0" in leader.args
    assert "--node-rank=$(LWS_WORKER_INDEX)" in worker.args
    assert not any(word.startswith(("--host", "--port", "--api-key")) for word in worker.args)


@pytest.mark.parametrize("version", versions("sglang"))
@pytest.mark.parametrize("serve", [SERVE, spanning(), spanning(kv_fp8=False, quantisation=None)])
def test_every_argument_is_taken(version: str, serve: sglang.Serve) -> None:
    assert list(sglang.flag_problems(version, sglang.roles(serve, {}), "x")) == []
    for role in sglang.roles(serve, {}):
        words = [word.replace("$(LWS_WORKER_INDEX)", "1") for word in role.args]
        assert check_args("sglang", version, words) == []


def test_a_flag_that_a_person_adds_is_held_against_the_version() -> None:
    serve = spanning(extra={"enable-ep-moe": True})
    (problem,) = sglang.flag_problems(VERSION, sglang.roles(serve, {}), "overrides.engine_flags")
    assert problem.where == "overrides.engine_flags (leader) --enable-ep-moe"
    assert "--ep-size" in problem.next


@pytest.mark.parametrize("version", versions("sglang"))
def test_every_query_is_answered(version: str) -> None:
    rules = sglang.rules("ns", "m", ttft_p95_ms=500, tpot_p50_ms=30, max_num_seqs=72)
    queries = [rule.expr for rule in rules] + [t.query for t in sglang.triggers("ns", "m", 72)]
    assert sum("sglang:" in query for query in queries) == 16
    assert [problem for query in queries for problem in check_promql("sglang", version, query)] == []


def test_the_same_rules_as_of_vllm_under_other_names() -> None:
    given = {"ttft_p95_ms": 500.0, "tpot_p50_ms": 30.0, "max_num_seqs": 72}
    names = [[r.record or r.alert for r in each.rules("ns", "m", **given)] for each in LAUNCHERS.values()]  # type: ignore[arg-type]
    assert names[0] == names[1]
    assert sorted(LAUNCHERS) == ["sglang", "vllm"]


def test_the_static_fraction_leaves_activations_out() -> None:
    """78.3 GiB of weights and 38.8 of KV cache on 140.4 GiB: 0.8340…"""
    assert sglang.static_fraction(78.3, 38.8, 140.4) == 0.834
    assert sglang.static_fraction(1, 1, 3) == 0.666


def plan() -> Plan:
    """The example plan for 8 × H200 with its engine replaced; all that the sizing decided stays."""
    base = load_plan(REPOSITORY / "inventory" / "h200-10k" / "plan.yaml")
    (deployment,) = base.deployments
    memory = deployment.memory
    fraction = sglang.static_fraction(memory.weights_gib, memory.kv_gib, memory.total_gib)
    serve = sglang.Serve(**{**vars(SERVE), "utilization": fraction, "path": deployment.weights.path})
    roles = sglang.roles(serve, {})
    update = {"name": "sglang", "version": VERSION, "port": serve.port, "roles": roles}
    image = "docker.io/lmsysorg/sglang@sha256:" + "0" * 64
    engine = deployment.engine.model_copy(update={**update, "image": image})
    rules = sglang.rules(
        base.header.name,
        deployment.served_name,
        ttft_p95_ms=deployment.slo.ttft_p95_ms,
        tpot_p50_ms=deployment.slo.tpot_p50_ms,
        max_num_seqs=serve.max_num_seqs,
    )
    assert base.observability is not None
    triggers = sglang.triggers(base.header.name, deployment.served_name, serve.max_num_seqs)
    data = base.model_copy(
        update={
            "deployments": (deployment.model_copy(update={"engine": engine}),),
            "observability": base.observability.model_copy(
                update={"deployment_rules": {deployment.name: rules}}
            ),
            "scaling": (base.scaling[0].model_copy(update={"triggers": triggers}),),
        }
    ).as_dict()
    return Plan.model_validate(data)


def test_a_plan_renders_and_no_rule_objects(tmp_path: Path) -> None:
    rendered = render(plan(), tmp_path / "out")
    assert [str(f) for f in rendered.findings if f.severity == "error"] == []
    phases = ("serving", "autoscaling", "observability")
    kept = [path for path in sorted((tmp_path / "out").rglob("*.yaml")) if phase(path) in phases]
    assert len(kept) >= 5
    for path in kept:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        assert_golden(GOLDEN / path.name, "".join(line for line in lines if "plan-hash" not in line))


def phase(path: Path) -> str:
    return path.parent.name.partition("-")[2] or path.parent.name


def test_a_plan_with_names_of_another_engine_is_told(tmp_path: Path) -> None:
    given = plan()
    wrong = given.scaling[0].model_copy(update={"triggers": vllm.triggers("h200-10k", "deepseek-v3", 72)})
    found = render(given.model_copy(update={"scaling": (wrong,)}), tmp_path / "out").findings
    said = [f.problem.next for f in found if "vllm:num_requests_waiting" in f.problem.found]
    assert said == [
        "use sglang:num_queue_reqs (vLLM's word; exported by 0.5.23, observability/metrics_collector.py)"
    ]


def test_prefixes_are_those_of_the_matrices() -> None:
    for engine, prefix in PREFIXES.items():
        assert load_matrix(engine, versions(engine)[-1]).metric_prefix == prefix
