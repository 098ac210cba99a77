"""Faults that only show under use: each is found by its checks, on its host, and by no other."""

from __future__ import annotations

import pytest

from checks.registry import load
from tests.rack.judging import Bench, difference, require_rack
from tests.rack.plans import plan
from tools.rack.faults import FAULTS
from tools.rack.run import Rack

ACTIVE = sorted(name for name, fault in FAULTS.items() if fault.area == "active")


def test_every_active_check_has_a_fault_that_it_must_find() -> None:
    found = {find.check for name in ACTIVE for find in FAULTS[name].finds}
    assert found == {check.id for check in load().values() if check.tier > 0}


@pytest.mark.rack
def test_each_is_found_and_nothing_else() -> None:
    require_rack()
    with Rack.temporary(plan("roce-100k"), nodes=4) as rack:
        bench = Bench(rack, tier=2)
        healthy = {r.check: r.status.value for r in bench.healthy.results if r.check in load()}
        assert {healthy[check.id] for check in load().values() if check.tier > 0} == {"pass"}
        assert rack.unknown_commands() == {}
        planted = []
        for specs in bench.rounds(ACTIVE):
            found, wanted = bench.found(specs), bench.expected(specs)
            assert found == wanted, difference(found, wanted, specs)
            planted += [spec.fault for spec in specs]
        assert sorted(planted) == ACTIVE
