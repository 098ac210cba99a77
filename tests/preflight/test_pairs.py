"""Tests between two hosts: what is run, what each host's capture holds, and that no server is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks import runner
from checks.areas.pairs_fabric import PINGPONG, WRITE
from checks.pairs import rails, script
from checks.registry import load
from checks.runner import scripts
from rackwright.inventory import Host, Inventory, bind, load_inventory
from rackwright.verdict import Results, Status
from tests.rack.judging import require_rack
from tests.rack.plans import plan
from tools.rack.rack import FaultSpec
from tools.rack.run import Rack

TOOL = """#!/bin/sh
echo $$ >>"{seen}"
exec sleep 300
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The server's end of a test with two rails; its tool waits for ever."""
    seen, tools = tmp_path / "pids", tmp_path / "bin"
    tools.mkdir()
    (tools / "ib_write_bw").write_text(TOOL.format(seen=seen))
    (tools / "ib_write_bw").chmod(0o755)
    text = script(WRITE, "server", ["mlx5_0,1", "mlx5_1,1"], ["10.0.0.1", "10.0.1.1"])
    process = subprocess.Popen(
        ["sh", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )  # fmt: skip
    yield process, seen
    for pid in (process.pid, *_pids(seen)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def _pids(seen: Path) -> list[int]:
    return [int(word) for word in seen.read_text().split()] if seen.exists() else []


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _wait(condition: object, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    assert callable(condition)
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(condition())


def test_a_server_ends_with_the_connection_that_started_it(
    server: tuple[subprocess.Popen[str], Path], tmp_path: Path
) -> None:
    process, seen = server
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert _wait(lambda: len(_pids(seen)) == 2), "a server on each rail"
    assert all(map(_alive, _pids(seen)))
    process.stdin.close()
    assert _wait(lambda: not any(map(_alive, _pids(seen)))), "both are gone"
    assert process.wait(timeout=10) == 0
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("tmp.")] == [], "nothing is left on disk"


def _inventory(count: int) -> Inventory:
    pool = plan("roce-100k").pools[0]
    return Inventory(
        tuple(Host(n.name, n.name, pool=pool.name, rack=n.rack) for n in pool.nodes[:count]), Path("x")
    )


def test_the_collectors_script_leaves_paired_commands_out() -> None:
    tier2 = [c for c in load().values() if c.tier == 2]
    for _, made in scripts(plan("roce-100k"), _inventory(2), tier2):
        keys = {command.key for command in made.commands}
        assert "dcgmi-diag" in keys and not keys & {WRITE.key, PINGPONG.key}


def test_rails_are_addressed_by_the_peers_rail_address() -> None:
    devices, addresses = rails(plan("roce-100k"), _inventory(1).hosts[0])
    node = plan("roce-100k").pools[0].nodes[0]
    assert devices == tuple(f"mlx5_{n},1" for n in range(8))
    assert addresses == tuple(a.partition("/")[0] for a in node.rail_addresses)


def test_values_reach_the_script_quoted() -> None:
    text = script(WRITE, "client", ["mlx5_0,1"], ["10.0.0.1'; touch /x; '"])
    assert "RW_RAILS='mlx5_0,1,10.0.0.1'\"'\"'; touch /x; '\"'\"''" in text


def _run(rack: Rack, *only: str, tier: int = 2) -> Results:
    inventory = bind(load_inventory(rack.inventory), rack.plan).inventory
    selected = runner.select(load(), only=only, tier=tier)
    return runner.run(rack.plan, inventory, selected, runner.Options(forks=4))


@pytest.mark.rack
def test_the_ill_rail_is_named_on_its_host_alone() -> None:
    """The others were slow with it too, and with nobody else: they pass."""
    require_rack()
    ill = FaultSpec(host="h200-03", fault="rail-slow", args={"port": "mlx5_5"})
    with Rack.temporary(plan("roce-100k"), nodes=3, faults=[ill]) as rack:
        results = _run(rack, "ib-write", "ib-pingpong")
    found = {(r.check, r.subject): (r.status, r.where) for r in results.results}
    assert found["ib-write", "h200-03"] == (Status.FAIL, ("mlx5_5",))
    good = {key: value for key, value in found.items() if key != ("ib-write", "h200-03")}
    assert len(good) == 5 and {status for status, _ in good.values()} == {Status.PASS}


@pytest.mark.rack
def test_a_host_with_a_critical_finding_takes_no_part() -> None:
    require_rack()
    with Rack.temporary(
        plan("roce-100k"), nodes=3, faults=[FaultSpec(host="h200-02", fault="ecc-off")]
    ) as rack:
        results = _run(rack, "gpu-ecc", "ib-write")
    by = {(r.check, r.subject): r for r in results.results}
    assert by["gpu-ecc", "h200-02"].status is Status.FAIL
    assert ("ib-write", "h200-02") not in by and results.not_measured == {"h200-02": 1}
    assert "1 hosts met" in by["ib-write", "h200-01"].actual
    assert any("h200-02: a critical finding in tier 0 (gpu-ecc)" in note for note in results.notes)
