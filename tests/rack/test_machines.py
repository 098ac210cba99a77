"""Machines of other vendors: a healthy one passes, each of its faults is found, and no tool of another vendor
is asked on it."""

from __future__ import annotations

import pytest

from rackwright.verdict import Status
from tests.rack.judging import Bench, difference, require_rack
from tests.rack.plans import MACHINES, plan
from tools.rack.faults import FAULTS
from tools.rack.rack import FaultSpec
from tools.rack.run import Rack

pytestmark = pytest.mark.rack

OPEN = {
    "amd-temperature",
    "npu-temperature",
    "mlu-temperature",
    "mtt-temperature",
    "power-rack-budget",
    "thermal-delta",
}
"""What only a reading at full load proves."""


@pytest.mark.parametrize("load", ["idle", "full"])
@pytest.mark.parametrize("name", MACHINES)
def test_a_healthy_machine_has_no_finding(name: str, load: str) -> None:
    require_rack()
    with Rack.temporary(plan(name), load=load) as rack:
        results = Bench(rack).healthy
        bad = [r for r in results.results if r.status in (Status.FAIL, Status.ERROR)]
        assert [(r.check, r.subject, r.message) for r in bad] == []
        assert rack.unknown_commands() == {}, "no tool of another vendor is asked"
        open_lines = {r.check for r in results.results if r.status is Status.WARN}
        assert open_lines <= (OPEN if load == "idle" else set())


@pytest.mark.parametrize("name", MACHINES)
def test_every_fault_of_the_vendor_is_found_exactly(name: str) -> None:
    require_rack()
    with Rack.temporary(plan(name), load="idle") as rack:
        bench = Bench(rack)
        host = next(iter(bench.states.values()))
        names = [f.name for f in FAULTS.values() if f.area in AREAS[name] and f.applies(host)]
        assert len(names) >= 3
        for specs in bench.rounds(names):
            found, wanted = bench.found(specs), bench.expected(specs)
            assert found == wanted, difference(found, wanted, specs)
        assert rack.unknown_commands() == {}


AREAS = {
    "mi300x-8": ("amd", "accelerator"),
    "atlas-800i-a2": ("ascend",),
    "mac-studio-m3-ultra-512": ("apple",),
    "mlu370-x8-8": ("cambricon",),
    "mtt-s5000-8": ("moore-threads",),
}


def test_a_card_of_another_vendor_in_a_host_of_nvidia_is_found() -> None:
    require_rack()
    with Rack.temporary(plan("roce-100k"), nodes=1) as rack:
        bench = Bench(rack)
        specs = [FaultSpec(host=next(iter(rack.hosts)), fault="foreign-accelerator")]
        found, wanted = bench.found(specs), bench.expected(specs)
        assert found == wanted == {("host-accelerators", next(iter(rack.hosts)))}
