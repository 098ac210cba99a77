"""The demo does what it says, leaves nothing behind, and where it cannot, says why in one message."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import REPOSITORY
from tests.rack.judging import require_rack
from tools import demo
from tools.rack import farm

DEMO = [sys.executable, "-m", "tools.demo", "--dir"]


def status() -> str:
    return subprocess.run(
        ["git", "status", "--porcelain"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout


def left(directory: Path) -> list[str]:
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    hosts = [str(proc) for proc in farm.strays(directory.resolve() / "rack")]
    return hosts + [line for line in mounts if str(directory) in line or "rackwright-" in line]


@pytest.mark.rack
def test_the_demo_finds_what_it_planted_and_leaves_nothing(tmp_path: Path) -> None:
    require_rack()
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git checkout")
    before = {line[3:] for line in status().splitlines()}
    done = subprocess.run(
        [*DEMO, str(tmp_path)], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "planted faults not found: none; findings not planted: none" in done.stdout
    assert (tmp_path / "preflight" / "report.html").exists()
    assert left(tmp_path) == []
    # A person may save a source file meanwhile; the demo never writes to these directories.
    new = {line[3:] for line in status().splitlines()} - before
    assert not [path for path in new if not path.startswith(("src/", "tests/", "docs/", "tools/", "checks/"))]


def test_without_root_it_sizes_and_renders_and_says_that_nothing_was_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert demo.main(["--dir", str(tmp_path)]) == 1
    out, err = capfd.readouterr()
    assert (tmp_path / "plan.yaml").exists()
    assert any((tmp_path / "manifests").iterdir())
    assert "tools.rack" not in out
    assert "── Done" not in out
    assert "demo: sized and rendered, but nothing was proved: no rack can be simulated here" in err
    assert err.count("must be started by root") == 1
    assert "sudo make demo" in err
    assert "exit status" not in err


@pytest.mark.rack
def test_a_rack_that_does_not_come_up_is_told_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    require_rack()
    with socket.create_server(("127.66.0.1", 0)) as other:
        config = tmp_path / "rack.yaml"
        config.write_text(
            f"plan: {REPOSITORY}/inventory/roce-100k/plan.yaml\nnodes: 1\nport: {other.getsockname()[1]}\n",
            encoding="utf-8",
        )
        assert demo.main(["--dir", str(tmp_path), "--rack", str(config)]) == 1
    out, err = capfd.readouterr()
    assert "Take the rack down" not in out
    assert "must be free" in err
    assert [line for line in err.splitlines() if line.startswith("demo: ")] == [
        "demo: Raise a simulated rack: exit status 2, expected 0"
    ]
    assert left(tmp_path) == []


@pytest.mark.rack
def test_interrupted_it_ends_with_one_line_and_no_host(tmp_path: Path) -> None:
    require_rack()
    errors = tmp_path / "errors"
    with errors.open("w", encoding="utf-8") as sink, subprocess.Popen(
        [*DEMO, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=sink, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout
        for line in process.stdout:
            if line.startswith("── Prove"):
                os.killpg(process.pid, signal.SIGINT)
                break
        process.stdout.read()
    told = errors.read_text(encoding="utf-8")
    assert process.returncode == 130, told
    assert told.splitlines()[-1] == "demo: interrupted; no host is left running"
    assert "tools/demo.py" not in told
    assert left(tmp_path) == []
