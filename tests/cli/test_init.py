"""``rackwright init``: a file that sizes, from answers or options; nothing is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rackwright.catalog import load_catalog
from rackwright.cli import group
from rackwright.errors import CannotRun, InputErrors
from rackwright.sizing.search import plan_of
from rackwright.workload import load_workload


def run(*args: str, answers: str = "") -> str:
    done = CliRunner().invoke(group, ["init", *args], input=answers, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_defaults_size(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    run("--yes", "-o", str(file))
    asked = load_workload(file)
    assert (asked.users.dau, asked.users.scenario, asked.model.id) == (1000, "chat", "qwen3-32b")
    plan = plan_of(asked, load_catalog())
    assert plan.pools[0].spares == 1
    assert plan.cost is not None
    assert plan.cost.currency == "CNY"


def test_answers_are_taken_and_an_empty_one_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    run("-o", str(file), answers="20000\n\ndeepseek-v3\nhgx-h200-8-roce\nNO\n")
    asked = load_workload(file)
    assert (asked.users.dau, asked.users.scenario, asked.model.id) == (20_000, "chat", "deepseek-v3")
    assert (asked.hardware.machine, asked.hardware.fabric, asked.site.country) == (
        "hgx-h200-8-roce",
        "roce",
        "NO",
    )
    assert plan_of(asked, load_catalog()).pools[0].machine == "hgx-h200-8-roce"


def test_what_is_given_is_not_asked(tmp_path: Path) -> None:
    out = run("-o", str(tmp_path / "w.yaml"), "--users", "50", "--model", "qwen3-8b", answers="\n\n\n")
    assert "Daily users" not in out
    assert "Scenario" in out


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(CannotRun, match="must not exist yet"):
        run("--yes", "-o", str(file))
    assert file.read_text(encoding="utf-8") == "mine"


def test_wrong_answers_are_told_at_once_and_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    with pytest.raises(InputErrors) as error:
        run("--yes", "-o", str(file), "--scenario", "chatt", "--model", "qwen3-32")
    assert [p.where for p in error.value.problems] == ["--scenario", "--model"]
    assert 'did you mean "chat"' in error.value.problems[0].rule
    with pytest.raises(InputErrors) as error:
        run("--yes", "-o", str(file), "--users", "0", "--country", "Norway")
    assert [p.where for p in error.value.problems] == ["--users", "--country"]
    assert not file.exists()


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="init --yes"):
        run("-o", str(tmp_path / "w.yaml"))


@pytest.mark.parametrize("scenario", sorted(load_catalog().scenarios))
def test_every_scenario_sizes(scenario: str, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    run("--yes", "-o", str(file), "--scenario", scenario, "--machine", "hgx-h200-8", "--country", "US")
    plan = plan_of(load_workload(file), load_catalog())
    assert plan.cost is not None
    assert plan.cost.currency == "USD"
