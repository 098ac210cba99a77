"""``rackwright report`` and ``rackwright runbook``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rackwright.cli import cmd_report, cmd_runbook, main
from rackwright.errors import CannotRun, InputErrors, RackwrightError
from rackwright.plan import Plan, save_plan
from rackwright.render import render, template_names
from tests.report.build import plan, results
from tests.stacks.plans import single


def _report(*arguments: str) -> Result:
    return CliRunner().invoke(cmd_report.command, list(arguments))


def saved(path: Path, racks: int = 2, per_rack: int = 2) -> Plan:
    """A plan that can be read back: one that serves something."""
    serving = single().deployments[0].model_copy(update={"pool": "hot"})
    sized = plan(racks, per_rack).model_copy(update={"deployments": (serving,)})
    save_plan(sized, path)
    return sized


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "results.json"
    sized = saved(tmp_path / "plan.yaml")
    results().model_copy(update={"plan_digest": sized.digest}).write(path)
    return path


def test_page_beside_the_results(run: Path) -> None:
    answer = _report(str(run), "--plan", str(run.with_name("plan.yaml")))
    assert answer.exit_code == 0, answer.output
    page = run.with_suffix(".html").read_text(encoding="utf-8")
    assert "NOT READY" in page
    assert "13.0 kW × 1.2 = 15.6 kW" in page


def test_page_where_it_is_wanted(run: Path) -> None:
    target = run.parent / "new" / "page.html"
    assert _report(str(run), "-o", str(target)).exit_code == 0
    assert target.is_file()
    assert not run.with_suffix(".html").exists()


def test_markdown_on_standard_output(run: Path) -> None:
    answer = _report(str(run), "--markdown")
    assert answer.exit_code == 0
    assert answer.stdout.startswith("# Preflight: NOT READY\n")


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (None, CannotRun, "no such file"),
        ("", InputErrors, "must be JSON"),
        ('{"plan": "p"', InputErrors, "must be JSON"),
        ("[]", InputErrors, "a report is a view of rackwright/results/v1"),
        ('{"plan": "p", "plan_digest": "d", "colour": 1}', InputErrors, "colour"),
    ],
)
def test_bad_results(tmp_path: Path, text: str | None, kind: type[RackwrightError], said: str) -> None:
    path = tmp_path / "results.json"
    if text is not None:
        path.write_text(text)
    answer = _report(str(path))
    assert isinstance(answer.exception, kind)
    assert said in str(answer.exception)


def test_another_plan_is_refused(run: Path) -> None:
    other = run.with_name("other.yaml")
    saved(other, 3, 2)
    answer = _report(str(run), "--plan", str(other))
    assert isinstance(answer.exception, InputErrors)
    assert "must be the plan of the run" in str(answer.exception)


def test_runbook(run: Path) -> None:
    answer = CliRunner().invoke(cmd_runbook.command, [str(run.with_name("plan.yaml"))])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith("# Bring-up of chat-50k\n")
    target = run.with_name("book.md")
    answer = CliRunner().invoke(cmd_runbook.command, [str(run.with_name("plan.yaml")), "-o", str(target)])
    assert answer.exit_code == 0
    assert target.read_text(encoding="utf-8").startswith("# Bring-up")


@pytest.mark.parametrize("target", ["plan.yaml/book.md", "made", "x" * 300 + "/book.md"])
def test_a_runbook_that_cannot_be_written_is_one_clear_error(run: Path, target: str) -> None:
    (run.parent / "made" / "inside").mkdir(parents=True)
    before = sorted(run.parent.rglob("*"))
    arguments = [str(run.with_name("plan.yaml")), "-o", str(run.parent / target)]
    with pytest.raises(SystemExit) as caught:
        main(["runbook", *arguments])
    assert caught.value.code == 2
    assert sorted(run.parent.rglob("*")) == before


def test_a_template_that_is_not_there_is_named() -> None:
    with pytest.raises(CannotRun, match=r'did you mean "report/report.html.j2"'):
        render("report/reports.html.j2", {})


def test_a_view_that_lacks_a_value_is_an_error() -> None:
    with pytest.raises(CannotRun, match=r"templates/report/summary.md.j2:\d+ .*'verdict' is undefined"):
        render("report/summary.md.j2", {})


def test_templates_are_found() -> None:
    assert {"report/report.html.j2", "report/summary.md.j2", "runbook/rack-bring-up.md.j2"} <= set(
        template_names()
    )
