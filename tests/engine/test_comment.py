"""The comment from a preview of the real engine, and the rules that stand before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.errors import CannotRun, InputErrors
from rackwright.plan import load_plan, save_plan
from tests.engine import needs
from tests.engine.test_contract import PROGRAM, project
from tests.golden import REPOSITORY
from tests.stacks.plans import changed, single
from tools.engine import comment, policy
from tools.engine.stack import Stack


@pytest.mark.engine
@needs.engine()
def test_a_preview_of_the_real_engine_becomes_a_comment(tmp_path: Path) -> None:
    """Created, then changed by one CPU: one object is told, with what serves meanwhile."""
    path = tmp_path / "plan.yaml"
    save_plan(single(), path)
    stack = project(tmp_path, PROGRAM, PLAN=str(path), RENDERED=str(tmp_path / "rendered"))
    file = tmp_path / "comment.md"
    arguments = ["preview", "--diff"]
    assert comment.write(stack, single(), arguments, file) == 0
    assert " to create" in file.read_text().splitlines()[1]
    assert "Deployment |" in file.read_text()
    made = stack.pulumi("up", "--yes", "--skip-preview", timeout_s=240)
    assert made.returncode == 0, made.stdout + made.stderr
    assert comment.write(stack, single(), [*arguments, "--expect-no-changes"], file) == 0
    assert file.read_text().splitlines()[1] == "### Preview of `contract`: nothing changes"

    save_plan(changed(single(), deployments__0__resources__cpus=4), path)
    assert comment.write(stack, load_plan(path), [*arguments, "--expect-no-changes"], file) != 0
    text = file.read_text()
    layout, rollout = single().deployments[0].layout, single().deployments[0].rollout
    kept = layout.replicas - rollout.max_unavailable
    assert f"| Deployment `chat` | {layout.replicas} nodes of pool" in text
    assert f"at least **{kept}** of {layout.replicas}" in text
    assert "- update `Deployment llm/chat`" in text


def test_a_preview_that_says_nothing_leaves_the_file(tmp_path: Path) -> None:
    program = tmp_path / "pulumi"
    program.write_text("#!/bin/sh\necho 'error: no stack selected' >&2\nexit 255\n")
    program.chmod(0o755)
    file = tmp_path / "comment.md"
    file.write_text("before")
    with pytest.raises(CannotRun, match="error: no stack selected"):
        comment.write(
            Stack("one", tmp_path, {"PATH": f"{tmp_path}:/bin:/usr/bin"}), single(), ["preview"], file
        )
    assert file.read_text() == "before"


@pytest.mark.parametrize("plan", sorted(p.parent.name for p in REPOSITORY.glob("inventory/*/plan.yaml")))
def test_the_rules_accept_every_example(plan: str) -> None:
    assert policy.require(load_plan(REPOSITORY / "inventory" / plan / "plan.yaml")) >= 14


def test_what_breaks_a_rule_is_refused_with_all_its_problems() -> None:
    args = single().deployments[0].engine.roles[0].args
    broken = changed(
        single(),
        deployments__0__engine__roles__0__args=[*args, "--api-key=swordfish"],
        deployments__0__engine__image="docker.io/vllm/vllm-openai:v0.33.0",
    )
    with pytest.raises(InputErrors) as caught:
        policy.require(broken)
    rules = {problem.rule for problem in caught.value.problems}
    assert {"must not hold a secret", "must be pinned by digest"} <= rules
    assert "swordfish" not in str(caught.value)
