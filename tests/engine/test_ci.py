"""CI: the engine is tried within a bound, the tests decide, whether it could be had or not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.golden import REPOSITORY

MAKE = """\
#!/bin/sh
echo "make $*" >> "$LOG"
case $1 in engine) exit "$ENGINE";; test) exit "$TEST";; esac
"""


def run(tmp_path: Path, engine: int, test: int, **more: str) -> tuple[int, list[str], str]:
    """Exit status, what was made, and what was said, with a `make` whose targets end as given."""
    (tmp_path / ".ci").mkdir()
    shutil.copy2(REPOSITORY / ".ci" / "run", tmp_path / ".ci" / "run")
    make = tmp_path / "bin" / "make"
    make.parent.mkdir()
    make.write_text(MAKE)
    make.chmod(0o755)
    base = {k: v for k, v in os.environ.items() if not k.startswith(("RACKWRIGHT_", "ENGINE"))}
    log = tmp_path / "log"
    own = {
        "PATH": f"{make.parent}:{base['PATH']}", "LOG": str(log), "GIT_CONFIG_GLOBAL": str(tmp_path / "git"),
        "ENGINE": str(engine), "TEST": str(test),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", ".ci/run"], cwd=tmp_path, env={**base, **own, **more}, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, log.read_text().splitlines(), done.stderr


@pytest.mark.parametrize("test", [0, 1])
@pytest.mark.parametrize("engine", [0, 2])
def test_the_tests_decide(engine: int, test: int, tmp_path: Path) -> None:
    code, made, said = run(tmp_path, engine, test)
    assert made == ["make engine ARGS=--within 2400", "make test"]
    assert (code == 0) == (test == 0)
    assert ("tests of what is missing are skipped" in said) == (engine != 0)


def test_the_embedded_engine_alone_can_be_asked_for(tmp_path: Path) -> None:
    code, made, _ = run(tmp_path, 2, 0, RACKWRIGHT_ENGINE="embedded")
    assert (code, made) == (0, ["make test"])


def test_a_build_may_have_more_time_or_none(tmp_path: Path) -> None:
    _, made, _ = run(tmp_path, 0, 0, ENGINE_WITHIN_S="0")
    assert made == ["make engine ARGS=--within 0", "make test"]


def test_the_time_of_a_build_leaves_a_third_of_ninety_minutes() -> None:
    """40 min for the engine, 5 more until it is ended, and at most 15 for the tests."""
    text = (REPOSITORY / ".ci" / "run").read_text()
    assert '"${ENGINE_WITHIN_S:=2400}"' in text
    assert "ENGINE_WITHIN_S + 300" in text
    assert 2400 + 300 + 15 * 60 <= 90 * 60 * 2 / 3
