"""What can go wrong with the run itself, on hosts of a simulated rack: stated verdicts, nothing lost."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checks import fleet, registry, runner
from checks.collect import Script
from rackwright.inventory import Host, Inventory
from rackwright.verdict import Results
from remote.transport import Network, UnreachableError
from tests.golden import REPOSITORY
from tests.preflight.plans import small_plan
from tests.rack.judging import require_rack
from tests.rack.plans import plan
from tools.rack import farm
from tools.rack.hosts import INSIDE
from tools.rack.rack import FaultSpec
from tools.rack.run import Rack

FAULTS = {
    "h200-01": "host-down", "h200-02": "key-refused", "h200-03": "host-key-changed",
    "h200-04": "connection-cut", "h200-05": "smi-hangs", "h200-06": "smi-floods", "h200-07": "clock-off",
    "h200-08": "host-frozen",
}  # fmt: skip
FULL, HEALTHY = "h200-09", "h200-10"
SECRET = "hunter2-planted-in-the-log"


@dataclass(frozen=True)
class Run:
    rack: Rack
    directory: Path
    results: Results
    said: str

    def of(self, host: str) -> dict[str, str]:
        return {r.check: str(r.status) for r in self.results.results if r.subject == host}

    def messages(self, host: str) -> str:
        return "\n".join(r.message for r in self.results.results if r.subject == host)


def command(rack: Rack, *args: str) -> dict[str, Any]:
    return {
        "args": [sys.executable, "-m", "rackwright", *args],
        "cwd": rack.directory,
        "env": {**os.environ, "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}", "RACK_TOKEN": SECRET},
        "stdin": subprocess.DEVNULL,
        "text": True,
    }


def in_host(rack: Rack, host: str, *argv: str) -> None:
    (pid,) = farm.inner_pids(rack.hosts[host].proc)
    tool = f"{INSIDE}/base/bin/{argv[0]}"
    subprocess.run(["nsenter", "-t", str(pid), "-m", tool, *argv[1:]], check=True, capture_output=True)


def fill(rack: Rack, host: str) -> None:
    """Both places where the collector may keep outputs have room for a few pages."""
    for place in ("/dev/shm", "/tmp"):
        in_host(rack, host, "mount", "-t", "tmpfs", "-o", "size=48k,mode=1777", "full", place)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    require_rack()
    specs = [FaultSpec(host=host, fault=fault) for host, fault in FAULTS.items()]
    with Rack.temporary(plan("roce-100k"), nodes=10, faults=specs) as rack:
        fill(rack, FULL)
        line = f"[Mon Nov 30 00:00:00 2026] NVRM: Xid (PCI:0000:18:00): 79, pid=1, password={SECRET}"
        tool = rack.host_directory(HEALTHY) / "bin" / "dmesg"
        tool.write_text(f"#!/bin/sh\ncat {INSIDE}/out/dmesg.0\necho '{line}'\n")
        out = tmp_path_factory.mktemp("run")
        forms = [
            f"--{form}={out / form}"
            for form in ("markdown", "junit", "ctrf", "prometheus", "github", "slack")
        ]
        done = subprocess.run(
            **command(rack, "preflight", "--hosts", str(rack.inventory), "--results", str(out), *forms),
            capture_output=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 1, done.stderr
        results = Results.from_json((out / "results.json").read_text())
        yield Run(rack, out, results, done.stdout + done.stderr)


pytestmark = pytest.mark.rack


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("h200-01", "refused"),
        ("h200-02", "login refused"),
        ("h200-03", "has CHANGED"),
        ("h200-08", "does not answer"),
    ],
    ids=["host down", "auth refused", "host key changed", "host frozen"],
)
def test_a_host_that_is_not_reached_has_one_error_with_its_reason(run: Run, host: str, reason: str) -> None:
    assert run.of(host) == {"net-reachable": "error"}
    assert reason in run.results.unreachable[host]
    assert run.results.not_measured[host] > 50


def test_connection_cut_mid_collection(run: Run) -> None:
    """What came before the cut is judged; what did not come is an error, and no pass is without data."""
    found = run.of("h200-04")
    assert found["net-reachable"] == "error" and found["os-thp"] == "pass" and found["gpu-count"] == "error"
    assert "h200-04" not in run.results.unreachable
    assert any(note.startswith("h200-04: collection ended early") for note in run.results.notes)


def test_a_tool_that_hangs_costs_only_its_checks(run: Run) -> None:
    found = run.of("h200-05")
    assert (
        found["gpu-count"] == found["gpu-ecc"] == "error" and found["os-thp"] == found["nvme-count"] == "pass"
    )
    assert "did not finish within" in run.messages("h200-05")


def test_100_mb_of_output_are_cut_and_told(run: Run) -> None:
    found = run.of("h200-06")
    assert found["gpu-count"] == "error" and found["os-thp"] == "pass"
    assert "printed more than 2000000 bytes" in run.messages("h200-06")
    assert (run.directory / "captures" / "h200-06.json").stat().st_size < 20e6


def test_a_wrong_clock_is_a_finding_and_spoils_nothing_else(run: Run) -> None:
    found = run.of("h200-07")
    assert [check for check, status in found.items() if status in ("fail", "error")] == ["time-sync"]


def test_a_full_disk_on_the_host_is_no_measurement(run: Run) -> None:
    """Not one verdict rests on half an output: passes are those of a healthy host, all else is an error."""
    found, healthy = run.of(FULL), run.of("h200-07")
    assert set(found.values()) <= {"pass", "warn", "error", "not-applicable"}
    passes = {check for check, status in found.items() if status == "pass"} - {"time-sync"}
    assert {healthy[check] for check in passes} <= {"pass"}
    assert found["gpu-count"] == "error"
    assert "no space is left" in run.messages(FULL)


def test_no_planted_secret_is_in_any_output(run: Run) -> None:
    assert run.of(HEALTHY)["log-xid"] == "fail"  # the line that holds it was read and judged
    files = [path for path in run.directory.rglob("*") if path.is_file()]
    assert len(files) >= 18
    assert [path.name for path in files if SECRET.encode() in path.read_bytes()] == []
    key = run.rack.key.read_text().splitlines()[1]
    assert SECRET not in run.said and key not in run.said
    assert not [path.name for path in files if key.encode() in path.read_bytes()]


def test_a_run_that_is_killed_is_gone_on_with(run: Run, tmp_path: Path) -> None:
    hosts = ["h200-07", HEALTHY, "h200-08"]  # the last one is frozen: the run waits for it
    where = ["--hosts", str(run.rack.inventory), "--limit", ",".join(hosts)]
    first = command(run.rack, "preflight", *where, "--results", str(tmp_path))
    with subprocess.Popen(**first, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        finished = 0
        while finished < 2:
            finished += process.stderr.readline().startswith("[")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    from checks import journal

    before = journal.read(tmp_path / "results.jsonl").results
    assert {r.subject for r in before.results} == set(hosts[:2])
    stamps = {name: (tmp_path / "captures" / f"{name}.json").stat().st_mtime_ns for name in hosts[:2]}
    done = subprocess.run(
        **command(run.rack, "preflight", "--resume", str(tmp_path)),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    after = Results.from_json((tmp_path / "results.json").read_text())
    assert after.complete and set(after.hosts) == set(hosts) and set(after.unreachable) == {"h200-08"}
    assert all(r in after.results for r in before.results if r.scope == "host")
    assert stamps == {n: (tmp_path / "captures" / f"{n}.json").stat().st_mtime_ns for n in hosts[:2]}


# --- a fleet, with a transport that is none ----------------------------------------------------------------


def test_5_percent_of_500_hosts_unreachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = tuple(f"gpu-{n:03d}" for n in range(500))
    away = set(names[::20])
    made = small_plan(names)
    inventory = Inventory(
        tuple(Host(n, n, pool="h200", rack="r01") for n in names), Path("plan.yaml"), "hosts.ini"
    )

    @contextlib.contextmanager
    def connect(_self: Network, host: Host, _deadline: float) -> Iterator[str]:
        if host.name in away:
            time.sleep(0.01)
            raise UnreachableError("connection refused", f"ssh {host.name}")
        yield host.name

    def stream(_client: str, _command: str, text: bytes, **_: Any) -> Iterator[bytes]:
        found = re.search(rb"rw_n=(\w+)", text)
        assert found
        mark = b"\n@rw " + found[1]
        body = b"always madvise [never]\n"
        yield mark + b" frame 1 1\n0 done 0 1\n" + b"%d 0.o\n" % len(body) + body[:5]
        yield body[5:] + mark + b" ok\n" + mark + b" end 1\n"

    def scripts(_plan: Any, where: Inventory, checks: Any) -> list[tuple[Host, Script]]:
        (thp,) = {c.key: c for item in checks for c in item.commands}.values()
        return [(host, Script((thp,), "")) for host in where.hosts]

    monkeypatch.setattr(Network, "connect", connect)
    monkeypatch.setattr(fleet, "stream", stream)
    monkeypatch.setattr(runner, "scripts", scripts)
    selected = runner.select(registry.load(), only=("os-thp", "net-reachable", "uniform-thp"))
    options = runner.Options(results_dir=tmp_path, forks=64)
    results = runner.run(made, inventory, selected, options)
    assert set(results.unreachable) == away and len(away) == 25
    by_check = {(r.check, str(r.status)): 0 for r in results.results}
    for r in results.results:
        by_check[r.check, str(r.status)] += 1
    assert by_check["os-thp", "pass"] == by_check["net-reachable", "pass"] == 475
    assert by_check["net-reachable", "error"] == 25 and ("os-thp", "error") not in by_check
    assert results.not_measured == dict.fromkeys(away, 1) and results.exit_code == 1 and results.complete
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert sum(line.startswith('{"host"') for line in lines) == 500
    assert len(list((tmp_path / "captures").iterdir())) == 500
