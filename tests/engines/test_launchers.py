"""Every engine that plans start, from a workload of its own to the objects of a cluster.

One workload a case in ``workloads/``; what becomes of it in ``tests/golden/engines/<case>/``.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from rackwright.catalog import load_catalog
from rackwright.engines import matrix, monitoring, registry
from rackwright.engines.launcher import GpuMemory
from rackwright.engines.registry import LAUNCHERS
from rackwright.hosts import decide
from rackwright.plan import Plan, load_plan
from rackwright.sizing.check import check
from rackwright.sizing.search import plan_of
from rackwright.workload import load_workload
from rackwright.yamlio import dump_yaml
from stacks.rendering import render
from tests.golden import REPOSITORY, assert_golden

WORKLOADS = Path(__file__).parent / "workloads"
GOLDEN = REPOSITORY / "tests" / "golden" / "engines"
CASES = sorted(path.stem for path in WORKLOADS.glob("*.yaml"))
CATALOG = load_catalog()
PARTS = ("engine", "probes", "resources", "rollout")
PHASES = ("serving", "autoscaling", "observability")


@functools.cache
def planned(case: str) -> Plan:
    return plan_of(load_workload(WORKLOADS / f"{case}.yaml"), CATALOG)


def test_what_can_be_launched_is_what_has_a_module_and_a_case() -> None:
    assert sorted(LAUNCHERS) == sorted(e.id for e in CATALOG.engines.values() if e.launchable)
    started = {load_workload(WORKLOADS / f"{case}.yaml").engine for case in CASES}
    assert started == set(LAUNCHERS)


@pytest.mark.parametrize("engine", sorted(LAUNCHERS))
def test_the_pinned_version_is_one_whose_flags_were_extracted(engine: str) -> None:
    assert CATALOG.engines[engine].version in matrix.versions(registry.matrix_of(engine))


@pytest.mark.parametrize("case", CASES)
def test_a_plan_proves_itself_and_survives_the_file(case: str, tmp_path: Path) -> None:
    plan = planned(case)
    assert [str(problem) for problem in check(plan, CATALOG)] == []
    (tmp_path / "plan.yaml").write_text(plan.to_yaml(), encoding="utf-8")
    assert load_plan(tmp_path / "plan.yaml") == plan


@pytest.mark.parametrize("case", CASES)
def test_the_pinned_version_takes_every_word(case: str) -> None:
    for deployment in planned(case).deployments:
        engine = deployment.engine
        assert list(registry.flag_problems(engine.name, engine.version, engine.roles, "x")) == []
        for role in engine.roles:
            words = [word.replace("$(LWS_WORKER_INDEX)", "1") for word in role.args]
            assert matrix.check_args(registry.matrix_of(engine.name), engine.version, words) == []


@pytest.mark.parametrize("case", CASES)
def test_rendered_objects_keep_every_rule(case: str, tmp_path: Path) -> None:
    plan = planned(case)
    said = plan.as_dict()
    parts = [{name: d[name] for name in PARTS} for d in said["deployments"]]
    assert_golden(GOLDEN / case / "plan-part.yaml", dump_yaml({"deployments": parts}))
    if plan.sites[0].target == "hosts":
        (host,) = decide(plan)
        (start,) = (f for f in host.files if f.path.startswith("run/") and "-blue." in f.path)
        assert_golden(GOLDEN / case / "start.sh", start.content)
        return
    rendered = render(plan, tmp_path / "out")
    assert [str(f) for f in rendered.findings if f.severity == "error"] == []
    kept = [path for path in sorted((tmp_path / "out").rglob("*.yaml")) if phase(path) in PHASES]
    kept = [path for path in kept if not path.name.endswith("-nodes.yaml")]
    assert len(kept) >= 5
    for path in kept:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        assert_golden(GOLDEN / case / path.name, "".join(x for x in lines if "plan-hash" not in x))


def phase(path: Path) -> str:
    return path.parent.name.partition("-")[2] or path.parent.name


@pytest.mark.parametrize("engine", sorted(LAUNCHERS))
def test_every_query_is_answered_by_the_pinned_version(engine: str) -> None:
    names, version = LAUNCHERS[engine].NAMES, CATALOG.engines[engine].version
    rules = monitoring.rules(names, "ns", "m", ttft_p95_ms=500, tpot_p50_ms=30, max_num_seqs=72)
    own = {rule.record for rule in rules if rule.record}
    queries = [r.expr for r in rules] + [t.query for t in monitoring.triggers(names, "ns", "m", 72)]
    labels = registry.scrape_labels(engine)
    for query in queries:
        found = matrix.check_promql(
            registry.matrix_of(engine), version, query, recorded=own, extra_labels=labels
        )
        assert [str(problem) for problem in found] == [], query


def test_shares_of_memory_leave_room_for_the_driver() -> None:
    """78.3 GiB of weights and 38.8 of KV cache of 140.4 GiB, 2.0 of them taken at the start."""
    held = GpuMemory(total=140.4, weights=78.3, kv=38.8, activations=1.5, context=2.0)
    assert held.static_share == 0.846
    assert held.kv_share == 0.645


def test_the_page_of_engines_names_what_plans_start() -> None:
    text = (REPOSITORY / "docs" / "engines.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `")]
    told = {name.strip(" `"): version.strip() for name, version in rows}
    assert told == {engine: CATALOG.engines[engine].version for engine in LAUNCHERS}


@pytest.mark.parametrize("case", CASES)
def test_numbers_of_a_command_line_are_explained(case: str) -> None:
    """What is derived for one engine alone, and how a pod that stops adds up."""
    plan = planned(case)
    said = {entry.path: entry for entry in plan.explanations}
    (deployment,) = plan.deployments
    traits = LAUNCHERS[deployment.engine.name].TRAITS
    words = " ".join(deployment.engine.roles[0].args)
    for flag, formula in traits.derived:
        assert f"--{flag}" in words
        assert f"--{flag}: {formula}" in said["deployments[0].engine.roles[0].args"].formula
    rollout = deployment.rollout
    parts = {"drain": rollout.drain_s, **({"shutdown": 60} if traits.drains else {})}
    grace = said["deployments[0].rollout.termination_grace_s"]
    assert grace.inputs == {name: str(value) for name, value in parts.items()}
    assert rollout.termination_grace_s == sum(parts.values()) + 30
