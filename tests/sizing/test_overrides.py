"""Overrides and flags: what stands, what is refused, and that the right field is blamed."""

from __future__ import annotations

import pytest

from rackwright.catalog import load_catalog
from rackwright.engines import owned
from rackwright.engines.matrix_data import load_matrix
from rackwright.engines.registry import LAUNCHERS, matrix_of
from rackwright.errors import Infeasible, InputErrors
from rackwright.sizing.size import size

from .build import workload

CATALOG = load_catalog()


@pytest.mark.parametrize("tp", range(1, 65))
def test_tensor_parallel_divides_the_heads_and_stays_in_a_node(tp: int) -> None:
    try:
        plan = size(workload(overrides__tensor_parallel=tp), CATALOG)
    except InputErrors as error:
        assert error.problems[0].where == "overrides.tensor_parallel"
        assert tp not in (4, 8)
    else:
        layout = plan.deployments[0].layout
        assert tp in (1, 2, 4, 8)
        assert layout.gpus_per_pod <= 8
        assert (
            tp > 1 or layout.data_parallel == 8
        )  # a GPU alone does not hold the model; ranks share its experts


@pytest.mark.parametrize("tp", [3, 4, 8])
def test_tensor_parallel_over_pcie_is_refused(tp: int) -> None:
    with pytest.raises(InputErrors, match="at most 2"):
        size(
            workload(model__id="qwen3-32b", hardware__machine="pro6000-2", overrides__tensor_parallel=tp),
            CATALOG,
        )


OWNED_FLAGS = [
    (engine, flag) for engine in sorted(LAUNCHERS) for flag in sorted(LAUNCHERS[engine].OWNED.owners)
]


@pytest.mark.parametrize(("engine", "flag"), OWNED_FLAGS)
def test_an_owned_flag_is_refused_in_every_spelling(engine: str, flag: str) -> None:
    version = CATALOG.engines[engine].version
    options = load_matrix(matrix_of(engine), version).options
    spellings = {flag, flag.replace("-", "_"), f"--{flag}", *options[f"--{flag}"].aliases}
    spellings |= {n.lstrip("-") for n in options[f"--{flag}"].negatives}
    for spelling in spellings:
        found = list(owned.problems(engine, version, {spelling: 1}))
        assert len(found) == 1, spelling
        # TGI has two flags that answer to -p: neither is a person's.
        assert "must be decided by" in found[0].rule or spelling == "-p"


def test_every_beginning_of_an_owned_flag_is_refused() -> None:
    for engine, flag in OWNED_FLAGS:
        version = CATALOG.engines[engine].version
        options = load_matrix(matrix_of(engine), version).options
        for length in range(1, len(flag)):
            short = f"-{flag[:length]}" in options  # another flag's own short name
            assert short or list(owned.problems(engine, version, {flag[:length]: 1})), flag[:length]


@pytest.mark.parametrize("value", [-1, 0, 131072.0, True, "many", "1.5K", "-1k", "", "9" * 5000])
def test_tokens_of_a_step_are_a_positive_integer(value: object) -> None:
    with pytest.raises(InputErrors, match="integer of at least 1"):
        size(workload(overrides__engine_flags={"max-num-batched-tokens": value}), CATALOG)


@pytest.mark.parametrize(("written", "read"), [("16k", 16_000), ("16K", 16_384), (16_384, 16_384)])
@pytest.mark.parametrize("key", ["max-num-batched-tokens", "max_num_batched_tokens"])
def test_tokens_of_a_step_count_in_the_memory(written: object, read: int, key: str) -> None:
    plan = size(workload(overrides__engine_flags={key: written}), CATALOG)
    plain = size(workload(), CATALOG)
    assert f"--max-num-batched-tokens={read}" in plan.deployments[0].engine.roles[0].args
    assert plan.deployments[0].memory.activations_gib > plain.deployments[0].memory.activations_gib


def test_a_negative_form_replaces_the_flag() -> None:
    plan = size(workload(overrides__engine_flags={"no_enable_prefix_caching": True}), CATALOG)
    args = plan.deployments[0].engine.roles[0].args
    assert "--no-enable-prefix-caching" in args
    assert "--enable-prefix-caching" not in args


def test_a_problem_of_both_roles_is_said_once() -> None:
    with pytest.raises(InputErrors) as caught:
        size(
            workload(
                model__id="kimi-k2-instruct",
                hardware={"machine": "hgx-h200-8-roce", "fabric": "roce"},
                slo={"ttft_p95": "1 s", "tpot_p50": "60 ms"},
                overrides__engine_flags={"swap-space": 4},
            ),
            CATALOG,
        )
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("seconds", [60, 300, 1800, 86400])
def test_a_stopping_pod_outlives_the_longest_request(seconds: int) -> None:
    plan = size(workload(slo__e2e_p95=f"{seconds} s"), CATALOG)
    deployment = plan.deployments[0]
    assert f"--shutdown-timeout={seconds}" in deployment.engine.roles[0].args
    assert deployment.rollout.termination_grace_s >= deployment.rollout.drain_s + seconds
    assert deployment.rollout.progress_deadline_s > deployment.rollout.termination_grace_s
    assert plan.routes[0].request_timeout == f"{seconds}s"


@pytest.mark.parametrize("dau", [50_000_000, 1_000_000_000])
@pytest.mark.parametrize("machine", ["hgx-h200-8", "pro6000-2"])
def test_too_many_users_say_how_many_fit(dau: int, machine: str) -> None:
    model = "qwen3-235b-a22b" if machine == "hgx-h200-8" else "qwen3-32b"
    with pytest.raises(Infeasible) as caught:
        size(
            workload(
                users__dau=dau, users__sessions_per_day=100_000, hardware__machine=machine, model__id=model,
                slo__ttft_p95="3 s", slo__tpot_p50="90 ms",
            ),
            CATALOG,
        )  # fmt: skip
    assert "daily users" in caught.value.best


def test_an_override_is_blamed_only_where_dropping_it_helps() -> None:
    with pytest.raises(Infeasible) as caught:
        size(workload(slo__tpot_p50="1 ms", overrides__max_num_seqs=64), CATALOG)
    assert caught.value.constraint == "slo.tpot_p50"


def test_memory_for_less_than_one_context_is_called_that() -> None:
    with pytest.raises(InputErrors, match="must keep one context") as caught:
        size(workload(model__id="deepseek-v3", overrides__gpu_memory_utilization=0.6), CATALOG)
    assert caught.value.problems[0].where == "overrides.gpu_memory_utilization"


@pytest.mark.parametrize("name", ["kube-public", "keda", "monitoring", "nvidia-network-operator"])
def test_namespaces_of_others_are_refused(name: str) -> None:
    with pytest.raises(InputErrors, match="must not be a namespace"):
        size(workload(name=name), CATALOG)


@pytest.mark.parametrize("dau", [10_000, 100_000, 1_000_000])
def test_answers_of_one_token_need_no_more_nodes_than_longer_ones(dau: int) -> None:
    nodes = [
        len(size(workload(users__dau=dau, users__output_per_session=f"{n} tokens"), CATALOG).pools[0].nodes)
        for n in (1, 50)
    ]
    assert nodes[0] <= nodes[1]


def test_explanations_follow_the_overrides() -> None:
    plan = size(
        workload(
            overrides={"thp": "madvise", "replicas": 20, "tensor_parallel": 8},
            site={"inlet_outlet_delta": "40 C"},
        ),
        CATALOG,
    )
    said = {e.path: e.formula for e in plan.explanations}
    pool = plan.pools[0].name
    assert "THP madvise" in said[f"expectations.{pool}.os"]
    assert "below 40 °C" in said[f"expectations.{pool}.power"]
    for path in ("deployments[0].layout.replicas", "deployments[0].layout.tensor_parallel",
                 "scaling[0].min_replicas"):  # fmt: skip
        assert said[path].startswith("the override")


def test_dotted_keys_stay_and_those_of_refused_flags_do_not() -> None:
    plan = size(workload(overrides__engine_flags={"compilation_config.mode": 3}), CATALOG)
    assert "--compilation-config.mode=3" in plan.deployments[0].engine.roles[0].args
    with pytest.raises(InputErrors, match="not supported"):
        size(workload(overrides__engine_flags={"kv_transfer_config.kv_role": "kv_both"}), CATALOG)


def test_flags_of_sglang_are_judged_by_sglang() -> None:
    """8,192 tokens a step unless said otherwise; the alias is brought to its full name."""
    plan = size(workload(engine="sglang", overrides__engine_flags={"chunked_prefill_size": 4096}), CATALOG)
    args = plan.deployments[0].engine.roles[0].args
    assert "--chunked-prefill-size=4096" in args
    assert "--chunked-prefill-size=8192" not in args
    plain = size(workload(engine="sglang"), CATALOG)
    assert plan.deployments[0].memory.activations_gib < plain.deployments[0].memory.activations_gib
    with pytest.raises(InputErrors) as caught:
        size(
            workload(
                engine="sglang",
                overrides__engine_flags={
                    "tp": 4,
                    "enable-ep-moe": True,
                    "max-num-batched-tokens": 4096,
                    "chunked-prefill-size": "8k",
                    "disable-radix-cache": "false",
                },
            ),
            CATALOG,
        )
    rules = {p.where.rpartition(".")[2]: f"{p.rule} / {p.next}" for p in caught.value.problems}
    assert rules["tp"].endswith("write tp-size, which must be decided by overrides.tensor_parallel")
    assert "--ep-size" in rules["enable-ep-moe"]
    assert rules["max-num-batched-tokens"].startswith("must be a flag of sglang 0.5.23")
    assert rules["chunked-prefill-size"] == "must be an integer of at least 1 / write an integer"
    assert "disable-radix-cache" in rules
