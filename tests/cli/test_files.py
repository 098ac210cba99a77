"""Files that cannot be read or written: one error, nothing half-written, nothing of others replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rackwright.errors import CannotRun
from rackwright.files import write_whole
from tests.golden import REPOSITORY

from .test_size_errors import Run, rackwright

__all__ = ["rackwright"]

WORKLOAD = "inventory/dev-1k/workload.yaml"
PLAN = "inventory/dev-1k/plan.yaml"


def commands(target: Path) -> list[list[str]]:
    return [
        ["size", WORKLOAD, "-o", str(target)],
        ["inventory", PLAN, "-o", str(target), "--force"],
        ["schema", "--write", str(target)],
    ]


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("kind", ["below-a-file", "too-long", "full"])
def test_a_place_that_cannot_be_written(index: int, kind: str, tmp_path: Path, rackwright: Run) -> None:
    (tmp_path / "file").write_text("x")
    target = {
        "below-a-file": tmp_path / "file" / "out",
        "too-long": tmp_path / ("n" * 300),
        "full": Path("/dev/full"),
    }[kind]
    out = rackwright(*commands(target)[index])
    assert out.returncode == 2
    assert "Traceback" not in out.stderr
    assert out.stdout == ""
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "plan.yaml"
    target.write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(CannotRun, match="no space left"):
        write_whole(target, "after")
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_written_file_has_the_usual_mode_and_keeps_its_own(tmp_path: Path) -> None:
    target = tmp_path / "a"
    write_whole(target, "x")
    target.chmod(0o640)
    write_whole(target, "y")
    assert target.read_text() == "y"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "y")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "y"


@pytest.mark.parametrize("name", ["a/b", "n" * 300])
@pytest.mark.parametrize("command", ["size", "check", "explain", "inventory"])
def test_a_file_that_cannot_be_read(name: str, command: str, tmp_path: Path, rackwright: Run) -> None:
    (tmp_path / "a").write_text("x")
    out = rackwright(command, str(tmp_path / name))
    assert out.returncode == 2
    assert "must be a readable text file" in out.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    "args", [["size", WORKLOAD], ["explain", PLAN], ["check", PLAN], ["inventory", PLAN], ["schema", "plan"]]
)
def test_standard_output_without_room(args: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        out = subprocess.run(
            [sys.executable, "-m", "rackwright", *args], stdout=full, stderr=subprocess.PIPE, text=True,
            check=False, cwd=REPOSITORY,
        )  # fmt: skip
    assert out.returncode == 2
    assert out.stderr.startswith("standard output · must be a place that can be written")
    assert "Exception ignored" not in out.stderr


def test_standard_output_without_the_characters() -> None:
    out = subprocess.run(
        [sys.executable, "-m", "rackwright", "size", WORKLOAD], capture_output=True, encoding="latin-1",
        check=False, cwd=REPOSITORY, env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip
    assert out.returncode == 2
    assert "must take UTF-8" in out.stderr


def test_size_replaces_a_plan_and_nothing_else(tmp_path: Path, rackwright: Run) -> None:
    workload = tmp_path / "w.yaml"
    text = (REPOSITORY / WORKLOAD).read_text(encoding="utf-8")
    workload.write_text(text, encoding="utf-8")
    out = rackwright("size", str(workload), "-o", str(workload))
    assert out.returncode == 2
    assert "must be a plan, or not exist yet" in out.stderr
    assert workload.read_text(encoding="utf-8") == text
    for _ in range(2):
        assert rackwright("size", str(workload), "-o", str(tmp_path / "p.yaml")).returncode == 0


def test_the_next_commands_run_as_printed(tmp_path: Path, rackwright: Run) -> None:
    target = tmp_path / "a plan.yaml"
    out = rackwright("size", WORKLOAD, "-o", str(target)).stdout
    assert f"rackwright render '{target}' -o rendered" in out
    assert f"rackwright check '{target}'" in out


def test_hosts_without_a_cluster_are_rendered_too(tmp_path: Path, rackwright: Run) -> None:
    workload = tmp_path / "w.yaml"
    text = (REPOSITORY / WORKLOAD).read_text(encoding="utf-8")
    workload.write_text(text.replace("  country: CN", "  country: CN\n  target: hosts"), encoding="utf-8")
    out = rackwright("size", str(workload), "-o", str(tmp_path / "p.yaml"))
    assert out.returncode == 0
    assert f"rackwright render {tmp_path / 'p.yaml'} -o rendered" in out.stdout
    assert rackwright("render", str(tmp_path / "p.yaml"), "-o", str(tmp_path / "out")).returncode == 0
    assert "driver_owner: host\n" in (tmp_path / "p.yaml").read_text(encoding="utf-8")


def test_a_red_line_is_said_by_size_and_found_by_check(tmp_path: Path, rackwright: Run) -> None:
    workload = tmp_path / "w.yaml"
    workload.write_text(
        "name: t\nusers: {dau: 100}\nmodel: {id: qwen3-32b, quantisation: int4, context: 4 ki tokens}\n"
        "slo: {ttft_p95: 5 s, tpot_p50: 80 ms}\nhardware: {machine: rtx5090-1}\n"
    )
    out = rackwright("size", str(workload), "-o", str(tmp_path / "p.yaml"))
    assert out.returncode == 0, out.stderr
    assert "refused    consumer-card" in out.stdout
    found = rackwright("check", str(tmp_path / "p.yaml"))
    assert found.returncode == 1
    assert "cautions consumer-card · must not be crossed" in found.stdout
