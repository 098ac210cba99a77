"""Faults planted on running hosts are reported: exactly those, each by the checks that it names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rackwright.verdict import Status
from tests.golden import REPOSITORY
from tests.rack.judging import Bench, difference, require_rack
from tests.rack.plans import plan
from tools.rack.faults import FAULTS, draw
from tools.rack.rack import FaultSpec, load_rack
from tools.rack.run import Rack

pytestmark = pytest.mark.rack


def bench(name: str, nodes: int, load: str) -> Iterator[Bench]:
    require_rack()
    with Rack.temporary(plan(name), nodes=nodes, load=load) as rack:
        yield Bench(rack)


@pytest.fixture(scope="module")
def idle() -> Iterator[Bench]:
    yield from bench("roce-100k", 20, "idle")


@pytest.fixture(scope="module")
def full() -> Iterator[Bench]:
    yield from bench("roce-100k", 20, "full")


def check(rack: Bench, specs: list[FaultSpec]) -> None:
    found, wanted = rack.found(specs), rack.expected(specs)
    assert found == wanted, difference(found, wanted, specs)
    assert rack.rack.unknown_commands() == {}


@pytest.mark.parametrize("load", ["idle", "full"])
@pytest.mark.parametrize(
    ("name", "nodes"), [("roce-100k", 4), ("h200-10k", 3), ("dev-1k", 1), ("infiniband", 4)]
)
def test_a_healthy_rack_has_no_finding(name: str, nodes: int, load: str) -> None:
    require_rack()
    with Rack.temporary(plan(name), nodes=nodes, load=load) as rack:
        results = Bench(rack).healthy
        bad = [r for r in results.results if r.status in (Status.FAIL, Status.ERROR)]
        assert [(r.check, r.subject, r.message) for r in bad] == []
        assert rack.unknown_commands() == {}
        open_lines = {r.check for r in results.results if r.status is Status.WARN}
        power = {"gpu-temperature", "gpu-memory-temperature", "thermal-delta", "power-rack-budget"}
        assert open_lines <= (power if load == "idle" else set())


def test_every_fault_alone_on_its_host(idle: Bench) -> None:
    host = next(iter(idle.states.values()))
    names = [f.name for f in FAULTS.values() if f.applies(host)]
    # Those that make a tool hang share one round: each waits for its deadline.
    names.sort(key=lambda name: not FAULTS[name].alone)
    for specs in idle.rounds(names):
        check(idle, specs)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_drawn_faults_are_reported_exactly(full: Bench, seed: int) -> None:
    check(full, draw(seed, full.states, 8))


def test_faults_that_only_a_loaded_rack_shows(full: Bench) -> None:
    names = ["rack-overload", "gpu-missing", "gpu-hot", "memory-hot", "outlet-hot"]
    for specs in full.rounds(names):
        check(full, specs)


def test_faults_of_an_infiniband_fabric() -> None:
    require_rack()
    with Rack.temporary(plan("infiniband"), nodes=6) as rack:
        ib = Bench(rack)
        for specs in ib.rounds(["sm-missing", "port-down", "port-slow", "port-missing", "acs-on"]):
            check(ib, specs)


def test_a_rack_of_trays_with_faults() -> None:
    """All 18 trays: the domain is judged over the whole rack."""
    require_rack()
    with Rack.temporary(plan("nvl72"), nodes=18) as rack:
        trays = Bench(rack)
        for specs in trays.rounds(["tray-outside-domain", "imex-failed"]):
            check(trays, specs)


def test_divided_cards_with_faults() -> None:
    require_rack()
    with Rack.temporary(plan("tenants"), nodes=2) as rack:
        tenants = Bench(rack)
        for specs in tenants.rounds(["mig-instance-gone", "ecc-pending"]):
            check(tenants, specs)


def test_a_workstation_with_faults() -> None:
    require_rack()
    with Rack.temporary(plan("dev-1k")) as rack:
        one = Bench(rack)
        for name in ("gpu-missing", "pcie-slow", "wrong-model", "nvme-missing"):
            check(one, [FaultSpec(host="pro6000-01", fault=name)])


def test_the_lab_example_shows_its_three_faults_and_where_they_are() -> None:
    require_rack()
    spec = load_rack(REPOSITORY / "inventory" / "lab" / "rack.yaml")
    with Rack.temporary(plan("roce-100k"), nodes=spec.nodes, load=spec.load, faults=spec.faults) as rack:
        results = Bench(rack).healthy
    found = {(r.check, r.subject, r.where) for r in results.results if r.status is Status.FAIL}
    assert found == {
        ("gpu-ecc", "h200-02", ("gpu 5",)),
        ("roce-qos", "h200-03", (rail(rack, "mlx5_3"),)),
        ("time-sync", "h200-05", ()),
    }
    rest = (Status.ERROR, Status.WARN)
    left = [(r.check, r.subject, r.status) for r in results.results if r.status in rest]
    assert left == [("uniform-clock", "h200", Status.WARN)]  # h200-05's is not compared with the others


def rail(rack: Rack, device: str) -> str:
    assert rack.plan.fabric
    return next(r.netdev for r in rack.plan.fabric.rails if r.hca == device)


def test_a_tool_that_floods_is_judged_in_time() -> None:
    require_rack()
    specs = [FaultSpec(host="pro6000-01", fault="smi-floods")]
    with Rack.temporary(plan("dev-1k"), faults=specs) as rack:
        done = subprocess.run(
            [sys.executable, "-m", "rackwright", "preflight", "--hosts", str(rack.inventory)],
            cwd=rack.directory, capture_output=True, text=True, timeout=40, check=False,
            env={**os.environ, "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}"},
        )  # fmt: skip
        assert done.returncode == 1
        assert "more than" in done.stdout
