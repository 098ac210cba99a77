"""What changes hosts and what must not, on a simulated rack: collection, sharing, remedies, their inverse."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.reboots import domains
from checks.registry import load
from rackwright.inventory import Host
from rackwright.verdict import Result, Severity, Status
from tests.golden import REPOSITORY
from tests.rack.judging import require_rack
from tests.rack.plans import plan
from tools.rack.run import Rack

pytestmark = pytest.mark.rack
THP = "sys/kernel/mm/transparent_hugepage/enabled"


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    require_rack()
    with Rack.temporary(plan("roce-100k"), nodes=3, directory=tmp_path_factory.mktemp("rack")) as running:
        yield running


def rackwright(rack: Rack, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rackwright", *args],
        cwd=rack.directory, capture_output=True, text=True, timeout=120, check=False,
        stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}"},
    )  # fmt: skip


def tree(directory: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of everything that a host has of its own; not the real machine behind its mounts."""
    found = {}
    for top in ("sys", "proc", "etc", "dev", "home", "root", "tmp", "shm", "var_lib", "bin", "out"):
        for path in sorted((directory / top).rglob("*")):
            if path.is_symlink() or path.is_file():
                body = str(path.readlink()) if path.is_symlink() else path.read_text("utf-8", "replace")
                found[str(path)] = (path.lstat().st_mode, hashlib.sha256(body.encode()).hexdigest())
    return found


def test_collection_is_read_only(rack: Rack, tmp_path: Path) -> None:
    before = {name: tree(rack.host_directory(name)) for name in rack.hosts}
    assert all(len(files) > 500 for files in before.values())
    done = rackwright(rack, "collect", "--hosts", str(rack.inventory), "-o", str(tmp_path / "kept"), "-q")
    assert done.returncode == 0, done.stderr
    assert {name: tree(rack.host_directory(name)) for name in rack.hosts} == before


def test_redacted_captures_are_judged_alike_and_tell_no_host(rack: Rack, tmp_path: Path) -> None:
    kept, shared = tmp_path / "kept", tmp_path / "shared"
    rack.plant("h200-02", "gpu-missing")
    try:
        for directory, option in ((kept, []), (shared, ["--redact"])):
            done = rackwright(rack, "collect", "--hosts", str(rack.inventory), "-o", str(directory), *option)
            assert done.returncode == 0, done.stderr
    finally:
        rack.heal("h200-02")
    everything = "".join(path.read_text() for path in shared.iterdir())
    uuids = set(re.findall(r"GPU-[0-9a-f]{8}-[0-9a-f-]{27}", (kept / "h200-01.json").read_text()))
    serials = set(re.findall(r"<serial>(\w+)</serial>", (kept / "h200-01.json").read_text()))
    macs = set(
        re.findall(r"link/ether ((?:[0-9a-f]{2}:){5}[0-9a-f]{2})", (kept / "h200-01.json").read_text())
    )
    assert len(uuids) == 8 and len(macs) >= 8
    planted = {*uuids, *serials, *macs, *rack.hosts, *(h.address for h in rack.hosts.values())} - {"0"}
    assert [value for value in planted if value in everything] == []
    verdicts = []
    names = dict(line.split() for line in (tmp_path / "shared.names.txt").read_text().splitlines())
    for directory in (kept, shared):
        out = tmp_path / f"of-{directory.name}"
        done = rackwright(rack, "judge", str(directory), "--plan", "plan.yaml", "--results", str(out), "-q")
        assert done.returncode == 1, done.stderr
        results = json.loads((out / "results.json").read_text())["results"]
        verdicts.append({(r["check"], names.get(r["subject"], r["subject"])): r["status"] for r in results})
    assert verdicts[0] == verdicts[1] and len(verdicts[0]) > 200
    assert verdicts[0]["gpu-count", "h200-02"] == "fail"


def test_a_remedy_is_applied_checked_and_taken_back(rack: Rack, tmp_path: Path) -> None:
    files = {name: rack.host_directory(name) / THP for name in rack.hosts}
    arguments = ["remediate", "--hosts", str(rack.inventory), "--results", str(tmp_path)]
    rack.plant("h200-01", "thp-always")
    rack.plant("h200-03", "thp-always")
    try:
        shown = rackwright(rack, *arguments, "--check", "os-thp", "--plan-only")
        command = "  sudo sh -c 'echo never | tee /sys/kernel/mm/transparent_hugepage/enabled >/dev/null'"
        assert shown.stdout.splitlines() == ["os-thp on h200-[01,03]:", command], shown.stderr
        asked = rackwright(rack, *arguments, "--check", "os-thp")
        assert asked.returncode == 2 and "no terminal to ask at" in asked.stderr
        assert files["h200-01"].read_text() == "[always] madvise never\n"
        assert not (tmp_path / "remediation.jsonl").exists()

        done = rackwright(rack, *arguments, "--check", "os-thp", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "os-thp: passes on 2 hosts" in done.stdout
        assert {f.read_text() for f in files.values()} == {"always madvise [never]\n"}
        log = [json.loads(line) for line in (tmp_path / "remediation.jsonl").read_text().splitlines()]
        assert sorted((e["host"], e["state"], e["was"]) for e in log) == [
            ("h200-01", "begun", "always"), ("h200-01", "done", "always"),
            ("h200-03", "begun", "always"), ("h200-03", "done", "always"),
        ]  # fmt: skip
        assert log[0]["inverse"].startswith("echo always | tee /sys/kernel/mm")
        results = json.loads((tmp_path / "results.json").read_text())
        assert {(r["subject"], r["status"]) for r in results["results"]} == {
            ("h200-01", "pass"), ("h200-03", "pass"),
        }  # fmt: skip
        nothing = rackwright(rack, *arguments, "--check", "os-thp", "--yes")
        assert (nothing.returncode, nothing.stdout) == (0, "nothing to do: all of it passes\n")

        back = rackwright(rack, *arguments, "--undo")
        assert back.returncode == 0 and back.stdout.count("taken back") == 2, back.stdout
        assert files["h200-01"].read_text() == files["h200-03"].read_text() == "[always] madvise never\n"
        again = rackwright(rack, *arguments, "--undo")
        assert "nothing is left to take back" in again.stdout
    finally:
        rack.heal("h200-01")
        rack.heal("h200-03")


def test_the_first_host_that_fails_keeps_the_others_untouched(rack: Rack, tmp_path: Path) -> None:
    for name in rack.hosts:
        rack.plant(name, "thp-always")
    first = rack.host_directory("h200-01") / "bin" / "tee"
    first.write_text("#!/bin/sh\necho 'tee: no room' >&2\nexit 1\n")
    try:
        done = rackwright(
            rack, "remediate", "--hosts", str(rack.inventory), "--results", str(tmp_path), "--check",
            "os-thp", "--yes",
        )  # fmt: skip
        assert done.returncode == 1
        assert "h200-01 os-thp: failed with status 1: tee: no room" in done.stdout
        assert "stopped: 2 more hosts were not touched" in done.stdout
        for name in ("h200-02", "h200-03"):
            assert (rack.host_directory(name) / THP).read_text() == "[always] madvise never\n"
    finally:
        for name in rack.hosts:
            rack.heal(name)


def test_what_needs_a_reboot_is_a_procedure(rack: Rack, tmp_path: Path) -> None:
    rack.plant("h200-02", "ecc-pending")
    try:
        arguments = ["remediate", "--hosts", str(rack.inventory), "--results", str(tmp_path)]
        refused = rackwright(rack, *arguments, "--check", "gpu-ecc", "--reboot", "--yes")
        assert refused.returncode == 2 and "is left to a person" in refused.stderr
        done = rackwright(rack, *arguments, "--check", "gpu-ecc", "--yes", "--context", "prod")
        steps = [line.strip() for line in done.stdout.splitlines()]
    finally:
        rack.heal("h200-02")
    order = [
        "kubectl --context prod cordon h200-02", "kubectl --context prod drain h200-02",
        "ssh h200-02 'sudo nvidia-smi -e 1'", "ssh h200-02 sudo reboot",
        "# once they answer: rackwright preflight",
        "rackwright preflight", "kubectl --context prod uncordon h200-02",
    ]  # fmt: skip
    places = [next(i for i, line in enumerate(steps) if line.startswith(wanted)) for wanted in order]
    assert places == sorted(places), done.stdout
    assert done.returncode == 1 and list(tmp_path.iterdir()) == []


def test_one_failure_domain_after_another() -> None:
    made = plan("roce-100k")
    nodes = made.pools[0].nodes
    hosts = [Host(n.name, n.name, pool=made.pools[0].name, rack=n.rack) for n in nodes[:9]]
    bad = [
        Result(check="gpu-ecc", subject=h.name, severity=Severity.CRITICAL, status=Status.FAIL) for h in hosts
    ]
    found = domains(made, hosts, load().values(), bad, inventory="hosts.ini")
    assert sorted(h for d in found for h in d.hosts) == sorted(h.name for h in hosts)
    where = {n.name: f"block {n.block}" if n.block else f"rack {n.rack}" for n in nodes}
    for domain in found:
        assert {where[name] for name in domain.hosts} == {domain.name}
    assert len(found) == len({where[h.name] for h in hosts}) > 1
    assert [len(d.hosts) for d in found] == sorted(len(d.hosts) for d in found)
