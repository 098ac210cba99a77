"""The demo does what it says, leaves nothing behind, and where it cannot, says why in one message."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rackwright.plan import load_plan
from tests.engine import needs
from tests.golden import REPOSITORY
from tests.rack.judging import require_rack
from tools import demo
from tools.rack import farm

DEMO = [sys.executable, "-m", "tools.demo", "--dir"]


def status() -> str:
    return subprocess.run(
        ["git", "status", "--porcelain"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout


EMBEDDED = {**os.environ, "RACKWRIGHT_ENGINE": "embedded"}


def left(directory: Path) -> list[str]:
    """Hosts, mounts, and processes of a control plane that are still there."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    hosts = [str(proc) for proc in farm.strays(directory.resolve() / "rack")]
    lab = os.fsencode(directory.resolve() / "lab")
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            content = path.read_bytes()
            if lab in content:
                hosts.append(content.replace(b"\0", b" ").decode(errors="replace"))
    return hosts + [line for line in mounts if str(directory) in line or "rackwright-" in line]


def clean_run(directory: Path, env: dict[str, str]) -> str:
    """What the demo prints, after it ended well and left nothing: no process, no file in the checkout."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git checkout")
    before = {line[3:] for line in status().splitlines()}
    done = subprocess.run(
        [*DEMO, str(directory)], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=400,
        env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert left(directory) == []
    # A person may save a source file meanwhile; the demo never writes to these directories.
    new = {line[3:] for line in status().splitlines()} - before
    ours = ("src/", "tests/", "docs/", "tools/", "checks/", "stacks/", "benchmarks/")
    assert not [path for path in new if not path.startswith(ours)]
    return done.stdout


@pytest.mark.rack
def test_the_demo_finds_what_it_planted_and_leaves_nothing(tmp_path: Path) -> None:
    require_rack()
    out = clean_run(tmp_path, EMBEDDED)
    assert "planted faults not found: none; findings not planted: none" in out
    asked = "RACKWRIGHT_ENGINE=embedded: the embedded engine was asked for"
    assert f"engine: embedded ({asked})\n" in out
    assert (tmp_path / "preflight" / "report.html").exists()
    assert not (tmp_path / "lab").exists()


@pytest.mark.rack
@pytest.mark.engine
@needs.lab()
def test_the_demo_applies_the_plan_where_the_real_engine_is(tmp_path: Path) -> None:
    require_rack()
    out = clean_run(tmp_path, dict(os.environ))
    groups = load_plan(REPOSITORY / "inventory/roce-100k/plan.yaml").deployments[0].layout.replicas
    pods = groups * 2
    assert f"kimi-k2-instruct: {pods} of {pods} pods ready, on {pods} nodes of pool h200" in out
    assert f"kimi-k2-instruct: {groups} of {groups} groups in one block each" in out
    assert "engine: real (pulumi v3." in out
    assert not (tmp_path / "lab").exists()


@pytest.mark.rack
@pytest.mark.engine
@needs.lab()
def test_interrupted_while_pulumi_runs_no_control_plane_is_left(tmp_path: Path) -> None:
    assert interrupted(tmp_path, "engine: pulumi", dict(os.environ)).splitlines()[-1] == (
        "demo: interrupted; nothing is left running"
    )
    assert left(tmp_path) == []
    assert not (tmp_path / "lab").exists()


def test_without_root_it_sizes_and_renders_and_says_that_nothing_was_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RACKWRIGHT_ENGINE", "embedded")
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


@pytest.mark.parametrize("first", [KeyboardInterrupt, demo.StepFailed])
def test_what_cannot_be_taken_down_is_told_with_the_command(first: type[BaseException]) -> None:
    down = [sys.executable, "-m", "tools.lab", "down", "--dir", "/nowhere/lab"]
    with pytest.raises(demo.StillRunning) as caught, demo.taken_down("Take it down", down):
        raise first
    assert str(caught.value) == (
        "Take it down: exit status 2, expected 0: something may still run\n"
        "next: python -m tools.lab down --dir /nowhere/lab"
    )


@pytest.mark.rack
def test_a_rack_that_does_not_come_up_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    require_rack()
    monkeypatch.setenv("RACKWRIGHT_ENGINE", "embedded")
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


def interrupted(directory: Path, at: str, env: dict[str, str]) -> str:
    """What the demo said, interrupted with all it started when a line begins with ``at``."""
    told = []
    with subprocess.Popen(
        [*DEMO, str(directory)], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, env=env,
    ) as process:  # fmt: skip
        assert process.stdout
        for line in process.stdout:
            told.append(line)
            if line.startswith(at):
                os.killpg(process.pid, signal.SIGINT)
                break
        told.append(process.stdout.read())
    assert process.returncode == 130, "".join(told)[-4000:]
    return "".join(told)


@pytest.mark.rack
def test_interrupted_it_ends_with_one_line_and_no_host(tmp_path: Path) -> None:
    require_rack()
    told = interrupted(tmp_path, "── Prove", EMBEDDED)
    assert told.splitlines()[-1] == "demo: interrupted; nothing is left running"
    assert "tools/demo.py" not in told
    assert left(tmp_path) == []
