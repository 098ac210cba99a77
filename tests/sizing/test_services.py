"""What the engine is told and how it is watched: only what the pinned version knows."""

from __future__ import annotations

import pytest

from rackwright.engines import matrix, monitoring, pod, registry, vllm
from rackwright.plan import load_plan
from tests.golden import REPOSITORY

PLANS = [load_plan(REPOSITORY / "inventory" / n / "plan.yaml") for n in ("dev-1k", "h200-10k", "roce-100k")]
NCCL_FORBIDDEN = {"NCCL_IB_GID_INDEX", "NCCL_SOCKET_TIMEOUT", "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE"}
NEVER = ("--enforce-eager", "--disable-log-requests", "--swap-space")


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.header.name)
def test_command_lines_are_accepted(plan) -> None:  # type: ignore[no-untyped-def]
    for deployment in plan.deployments:
        assert list(registry.flag_problems("vllm", "0.33.0", deployment.engine.roles, "x")) == []
        for role in deployment.engine.roles:
            assert role.command == ("vllm", "serve")
            assert not [a for a in role.args if a.startswith(NEVER)]
            assert not NCCL_FORBIDDEN & set(role.env)
            trusts = "--trust-remote-code" in role.args
            assert trusts == (deployment.model == "kimi-k2-instruct")


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.header.name)
def test_expressions_use_only_exported_metrics(plan) -> None:  # type: ignore[no-untyped-def]
    queries = [t.query for s in plan.scaling for t in s.triggers]
    rules = [r for rs in plan.observability.deployment_rules.values() for r in rs]
    own = {r.record for r in rules if r.record}
    queries += [r.expr for r in rules if not any(name in r.expr for name in own)]
    assert len(queries) >= 10
    for query in queries:
        assert [
            str(p) for p in matrix.check_promql("vllm", "0.33.0", query) if p.severity == "error"
        ] == [], query


def test_alert_on_time_to_first_token_is_half_over_the_objective_for_three_minutes() -> None:
    rules = monitoring.rules(vllm.NAMES, "ns", "m", ttft_p95_ms=500, tpot_p50_ms=33.3, max_num_seqs=100)
    alert = next(r for r in rules if r.alert == "TimeToFirstTokenHigh")
    assert alert.expr.endswith("> 0.75")
    assert alert.for_ == "3m"
    assert next(r for r in rules if r.alert == "InterTokenLatencyHigh").expr.endswith("> 0.05")
    assert next(r for r in rules if r.alert == "RunningNearLimit").expr.endswith(">= 90")
    assert next(r for r in rules if r.alert == "KvCacheNearlyFull").expr.endswith("> 0.95")


def test_arguments_spell_true_false_and_values() -> None:
    assert vllm.arguments("/m", {"a": True, "b": False, "c": 3, "d": 0.87}) == (
        "/m",
        "--a",
        "--no-b",
        "--c=3",
        "--d=0.87",
    )


def test_queue_holds_what_arrives_until_the_cut_off() -> None:
    assert pod.max_queued(125, 14, 5000) == 45
    assert pod.max_queued(0.1, 1, 5000) == 8


def test_resources_of_eight_gpus() -> None:
    eight = pod.resources(8, 8, 224, 480)
    assert (eight.cpus, eight.memory_gib, eight.shm_gib) == (190, 576 + 32, 32)
    assert pod.resources(2, 8, 8, 10).cpus == 4
