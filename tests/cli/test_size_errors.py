"""Golden errors: the exact message for every kind of mistake, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from rackwright.cli import main
from tests.golden import REPOSITORY, assert_golden

CASES = sorted((REPOSITORY / "tests" / "errors").glob("*.yaml"))
FINDINGS = ("infeasible-",)


@dataclass(frozen=True)
class Ran:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


@pytest.fixture
def rackwright(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line in this process, from the repository's root."""
    monkeypatch.chdir(REPOSITORY)

    def run(*args: str) -> Ran:
        with pytest.raises(SystemExit) as done:
            main(list(args))
        out, err = capsys.readouterr()
        return Ran(int(done.value.code or 0), out, err)

    return run


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.stem)
def test_golden_error(case: Path, rackwright: Run) -> None:
    out = rackwright("size", str(case.relative_to(REPOSITORY)))
    assert out.returncode == (1 if case.stem.startswith(FINDINGS) else 2), out.stderr
    assert out.stdout == ""
    assert "Traceback" not in out.stderr
    assert_golden(case.with_suffix(".txt"), out.stderr)


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.stem)
def test_every_message_has_a_place_a_rule_and_what_was_found(case: Path) -> None:
    text = case.with_suffix(".txt").read_text(encoding="utf-8")
    heads = [line for line in text.splitlines() if line and not line.startswith("    ")]
    assert heads
    for line in heads:
        assert line.count(" · ") >= 2, line
        assert " · found " in line, line
    assert text.count("    next  ") == len(heads)


def test_all_problems_of_a_file_at_once() -> None:
    text = (REPOSITORY / "tests" / "errors" / "all-at-once.txt").read_text(encoding="utf-8")
    for part in ("schema", "name", "users.dau", "users.scenario", "users.peak_hour", "hardware.fabric",
                 "site.country", "site.rack.rating", "nodes"):  # fmt: skip
        assert part in text


def test_a_hand_edited_plan_is_refused_and_check_names_the_value(tmp_path: Path, rackwright: Run) -> None:
    plan = yaml.safe_load((REPOSITORY / "inventory/h200-10k/plan.yaml").read_text(encoding="utf-8"))
    plan["deployments"][0]["limits"]["max_num_seqs"] = 4096
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")
    refused = rackwright("explain", str(path))
    assert refused.returncode == 2
    assert "edited by hand" in refused.stderr
    found = rackwright("check", str(path))
    assert found.returncode == 1
    text = found.stdout.replace(str(tmp_path), "TMP")
    assert_golden(REPOSITORY / "tests" / "errors" / "hand-edit.txt", text)
    assert "deployments[0].limits.max_num_seqs · must be 40" in text


def test_size_writes_a_plan_that_checks(tmp_path: Path, rackwright: Run) -> None:
    out = rackwright("size", "inventory/dev-1k/workload.yaml", "-o", str(tmp_path / "plan.yaml"))
    assert out.returncode == 0
    assert "1,000 daily users" in out.stdout
    assert rackwright("check", str(tmp_path / "plan.yaml")).returncode == 0


def test_json_is_the_plan(rackwright: Run) -> None:
    out = rackwright("size", "inventory/dev-1k/workload.yaml", "--json")
    assert json.loads(out.stdout)["pools"][0]["nodes"][0]["name"] == "pro6000-01"


def test_explain_names_formula_and_inputs(rackwright: Run) -> None:
    out = rackwright("explain", "inventory/roce-100k/plan.yaml", "load.peak_output_tok_s")
    assert "load.peak_output_tok_s = 75000" in out.stdout
    assert "redundancy = 1.5" in out.stdout


def test_a_missing_file_is_one_clear_line(rackwright: Run) -> None:
    out = rackwright("size", "none.yaml")
    assert out.returncode == 2
    assert out.stderr.startswith("none.yaml · must be a readable text file · found no such file")


def test_an_unknown_command_suggests_the_nearest(rackwright: Run) -> None:
    out = rackwright("sise")
    assert out.returncode == 2
    assert 'did you mean "size"?' in out.stderr
    assert "Traceback" not in out.stderr


def test_help_lists_commands_without_importing_them() -> None:
    code = (
        "import sys\nfrom rackwright.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "assert not [m for m in sys.modules if m.startswith('rackwright.cli.cmd_')], sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    assert "size" in out.stdout
