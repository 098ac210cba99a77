"""Which engine for what: the guides' rows one by one, and the search over engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rackwright.catalog import load_catalog
from rackwright.cli.cmd_search import command as search_command
from rackwright.cli.cmd_size import command as size_command
from rackwright.errors import InputErrors
from rackwright.sizing.check import check
from rackwright.sizing.engine_choice import RULES, Case, allowed, barring, case_of, rank, reason, verdict
from rackwright.sizing.search import plan_of, search
from rackwright.sizing.size import size
from rackwright.workload import Workload

from .build import workload

CATALOG = load_catalog()
ENGINES = CATALOG.engines.values()

ROWS = [
    (Case(), "vllm", "default"),
    (Case(mixture=True), "sglang", "mixture"),
    (Case(encoder_decoder=True), "tgi", "encoder-decoder"),
    (Case(reproducible=True), "trtllm", "reproducible"),
    (Case(edge=True), "llama.cpp", "edge"),
    (Case(gguf=True), "llama.cpp", "gguf"),
    (Case(vendor="apple"), "mlx", "apple"),
    (Case(vendor="huawei"), "mindie", "ascend"),
    (Case(vendor="huawei", mixture=True), "mindie", "ascend"),
    (Case(vendor="amd"), "vllm-rocm", "rocm"),
    (Case(research=True), "transformers", "research"),
    (Case(research=True, encoder_decoder=True), "tgi", "encoder-decoder"),
]
"""Guide §8 and infrastructure guide §2.2, §4: a case, the engine that they name first, and by which rule."""


@pytest.mark.parametrize(("case", "engine", "rule"), ROWS)
def test_a_row_of_the_guides(case: Case, engine: str, rule: str) -> None:
    assert allowed(case, ENGINES)[0].id == engine
    spoken = reason(engine, case)
    assert spoken is not None
    assert (spoken.id, bool(spoken.why), bool(spoken.source)) == (rule, True, True)


BARRED = [
    (Case(), "transformers", "research-only"),
    (Case(encoder_decoder=True), "vllm", "encoder-decoder"),
    (Case(encoder_decoder=True), "sglang", "encoder-decoder"),
    (Case(reproducible=True), "vllm", "reproducible"),
    (Case(gguf=True), "vllm", "gguf"),
    (Case(vendor="huawei"), "vllm", "ascend"),
    (Case(vendor="apple"), "sglang", "apple"),
    (Case(vendor="amd"), "trtllm", "rocm"),
    (Case(vendor="amd"), "vllm", "rocm"),
]


@pytest.mark.parametrize(("case", "engine", "rule"), BARRED)
def test_what_a_rule_bars(case: Case, engine: str, rule: str) -> None:
    assert [r.id for r in barring(engine, case)] == [rule]


def test_every_rule_is_tested_and_names_engines_of_the_catalog() -> None:
    assert {r.id for r in RULES} == {row[2] for row in ROWS} | {row[2] for row in BARRED}
    assert {name for rule in RULES for name in rule.engines} <= set(CATALOG.engines)


def test_research_only_engines_are_open_to_research() -> None:
    assert not list(barring("transformers", Case(research=True)))


def test_the_case_is_read_off_the_entries() -> None:
    orin = CATALOG.accelerators["jetson-agx-orin-64"]
    assert case_of(CATALOG.models["flan-t5-xxl"], None, None).encoder_decoder
    assert case_of(CATALOG.models["deepseek-v3"], orin, None) == Case(mixture=True, edge=True)
    qwen = CATALOG.models["qwen3-30b-a3b"]
    assert case_of(qwen, None, None, "q4_k_m").gguf
    assert not case_of(qwen, None, None, "mxfp4").gguf
    assert rank("sglang", Case(mixture=True)) < rank("vllm", Case(mixture=True))
    assert rank("vllm", Case()) < rank("sglang", Case())


def test_the_verdict_says_whom_the_guides_would_take() -> None:
    said = verdict("vllm", Case(mixture=True), ENGINES)
    assert said.startswith("the guides would take sglang for a mixture of experts")
    assert verdict("vllm", Case(), ENGINES).startswith("the guides would take it too for a decoder-only")


def test_engines_are_searched_and_the_objective_decides() -> None:
    asked = workload(engine="auto", slo={"ttft_p95": "1 s", "tpot_p50": "50 ms"})
    found = search(asked, CATALOG)
    assert {o.workload.engine for o in found.options} >= {"sglang", "vllm"}
    values = [o.tco for o in found.options]
    assert values == sorted(values)
    plan = plan_of(asked, CATALOG)
    assert plan.workload.engine == plan.deployments[0].engine.name == found.best.workload.engine
    assert plan.alternatives is not None
    assert {o.engine for o in plan.alternatives.runners_up} >= {"sglang"}
    assert plan.alternatives.engine_why is not None
    assert check(plan, CATALOG) == []


def test_only_the_engines_that_are_asked_for() -> None:
    asked = workload(
        engine="auto", search={"engines": ["sglang"]}, slo__ttft_p95="1 s", slo__tpot_p50="50 ms"
    )
    assert {o.workload.engine for o in search(asked, CATALOG).options} == {"sglang"}


def problems(**values: object) -> dict[str, str]:
    with pytest.raises(InputErrors) as caught:
        plan_of(workload(**values), CATALOG)
    return {p.where: f"{p.rule} | {p.next}" for p in caught.value.problems}


def test_what_contradicts_a_search_over_engines_is_said_at_once() -> None:
    found = problems(
        engine="auto",
        search={"engines": ["ollama", "sgleng"]},
        overrides__engine_flags={"enable-prefix-caching": True},
    )
    assert set(found) == {"search.engines", "overrides.engine_flags"}
    assert 'did you mean "sglang"' in found["search.engines"]
    found = problems(engine="vllm", search={"engines": ["sglang"]}, hardware={"spares": 1})
    assert found["search.engines"].startswith("must be left out unless engine is auto")


def test_a_research_engine_is_refused_in_production() -> None:
    found = problems(engine="transformers")
    assert "must not be transformers for anything that serves users" in found["engine"]


def test_a_precision_that_the_engine_does_not_load_is_refused() -> None:
    found = problems(
        model={"id": "qwen3-30b-a3b", "quantisation": "q4_k_m"}, hardware={"machine": "pro6000-1"}
    )
    assert found["model.quantisation"].startswith("must be a precision that vllm loads: bf16, fp8, int4")


def test_bits_that_must_repeat_ask_for_an_engine_that_repeats_them() -> None:
    found = problems(requirements={"reproducible": True})
    assert found["engine"].startswith("must be trtllm for answers that must be the same bit for bit")


def test_a_workload_without_the_younger_fields_keeps_its_digest() -> None:
    plain = workload()
    assert "requirements" not in plain.as_dict()
    assert "engines" not in plain.as_dict()["search"]
    asked = workload(requirements={"reproducible": True})
    assert asked.digest != plain.digest
    assert Workload.model_validate(asked.as_dict()) == asked


def test_size_needs_a_named_engine() -> None:
    with pytest.raises(InputErrors, match="engine"):
        size(workload(engine="auto"), CATALOG)


AUTO = """\
schema: rackwright/workload/v1
name: any
users: {dau: 5000}
model: {id: deepseek-v3}
engine: auto
slo: {ttft_p95: 1 s, tpot_p50: 50 ms}
search: {machines: [hgx-h200-8]}
"""


def test_commands_print_the_engines_that_were_compared(tmp_path: Path) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text(AUTO, encoding="utf-8")
    done = CliRunner().invoke(search_command, [str(file)])
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines() if line.startswith("hgx-h200-8 ")]
    assert {row[2] for row in rows} == {"sglang", "vllm"}
    assert "precision engine" in done.output
    done = CliRunner().invoke(search_command, [str(file), "--engine", "sglang"])
    assert "precision nodes" in " ".join(done.output.split())
    done = CliRunner().invoke(size_command, [str(file)])
    assert "is best by tco; the guides would take" in done.output
    assert "then hgx-h200-8 fp8 with" in done.output
