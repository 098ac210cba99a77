"""The registry of faults, and drawing from it."""

from __future__ import annotations

import pytest

from checks import registry
from rackwright.errors import InputErrors
from tests.rack.plans import MACHINES, NAMES, plan
from tools.rack.faults import FAULTS, apply_all, draw
from tools.rack.rack import FaultSpec, check_faults
from tools.rack.state import HostState, build

VENDOR_AREAS = {"accelerator", "amd", "ascend", "apple", "cambricon", "moore-threads"}


def hosts(name: str, count: int, load: str = "idle") -> dict[str, HostState]:
    names = [n.name for pool in plan(name).pools for n in pool.nodes][:count]
    return {n: build(plan(name), n, load="full" if load == "full" else "idle") for n in names}


def test_there_are_many_and_each_explains_itself() -> None:
    assert len(FAULTS) >= 45
    for fault in FAULTS.values():
        assert fault.description.endswith("."), fault.name
        assert len(fault.description) > 15, fault.name


def test_every_find_is_a_check_of_the_right_scope() -> None:
    checks = registry.load()
    for fault in FAULTS.values():
        for find in fault.finds:
            if not find.check.startswith("*"):
                assert find.check in checks, f"{fault.name}: no check {find.check}"
                assert checks[find.check].scope.value == find.on, f"{fault.name}: {find}"


def test_every_host_check_has_a_fault_that_it_must_find() -> None:
    found = {find.check for fault in FAULTS.values() for find in fault.finds}
    # No plan here asks for a cuDNN on the host: it comes with the engine's image.
    # No product of the catalog's machines retires pages.
    # No plan here runs engines without pods, whose /dev/shm is the host's.
    known = {"gpu-cudnn", "gpu-retired", "os-shm"}
    missing = {c.id for c in registry.load().values() if c.tier == 0} - found - known
    assert missing == set()


def test_each_fault_applies_somewhere_and_changes_the_machine() -> None:
    for fault in FAULTS.values():
        changed = 0
        for name in (*NAMES, *MACHINES):
            for load in ("idle", "full"):
                host, healthy = next(iter(hosts(name, 1, load).items()))
                if not fault.fits(healthy) or (name in MACHINES and fault.area not in VENDOR_AREAS):
                    continue
                ill = build(plan(name), host, load=healthy.load, now=healthy.now)
                apply_all(ill, [FaultSpec(host=host, fault=fault.name)], seed=1)
                assert ill != healthy, f"{fault.name} on {name} changes nothing"
                changed += 1
        assert changed, f"{fault.name} applies nowhere"


def test_drawing_is_deterministic_and_never_hides_one_fault_by_another() -> None:
    rack = hosts("roce-100k", 20)
    for seed in range(20):
        drawn = draw(seed, rack, 8)
        assert drawn == draw(seed, rack, 8)
        assert len({d.fault for d in drawn}) == 8
        for host in {d.host for d in drawn}:
            here = [FAULTS[d.fault] for d in drawn if d.host == host]
            assert len(here) == 1 or not any(f.alone for f in here)
            touched = [part for f in here for part in f.touches]
            assert len(touched) == len(set(touched))
    assert draw(1, rack, 8) != draw(2, rack, 8)


def test_too_many_faults_are_refused() -> None:
    with pytest.raises(ValueError, match="fit on 1 hosts"):
        draw(1, hosts("dev-1k", 1), 60)


def test_unknown_names_are_told_all_at_once_with_the_nearest() -> None:
    with pytest.raises(InputErrors) as caught:
        check_faults([FaultSpec(host="h200-1", fault="ecc-of")], ["h200-01"])
    text = str(caught.value)
    assert "h200-01" in text
    assert "ecc-off" in text
