"""Machines of other vendors: a healthy one passes, each of its faults is found, and no tool of another vendor
is asked on it."""

from __future__ import annotations

import pytest

from rackwright.catalog import load_catalog
from rackwright.sizing.search import plan_of
from rackwright.verdict import Status
from rackwright.workload import Workload
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


SIZED = {
    "mi300x-8": ("vllm-rocm", "deepseek-v3", "fp8", 10_000, "kubernetes"),
    "atlas-800i-a2": ("vllm-ascend", "qwen3-32b", "bf16", 500, "kubernetes"),
}
"""Machine to engine, model, precision, daily users and target."""


@pytest.mark.parametrize("machine", SIZED)
def test_a_sized_plan_of_another_vendor_is_proven_on_its_hosts(machine: str) -> None:
    """From the workload to the verdicts: no finding, and every check of the vendor's tools has passed."""
    require_rack()
    engine, model, precision, users, target = SIZED[machine]
    workload = Workload.model_validate(
        {
            "schema": "rackwright/workload/v1", "name": "sized", "users": {"dau": users},
            "model": {"id": model, "quantisation": precision, "context": "16 ki tokens"}, "engine": engine,
            "slo": {"ttft_p95": "2 s", "tpot_p50": "100 ms"},
            "hardware": {"machine": machine, "fabric": "none"},
            "overrides": {"image_digest": f"sha256:{'a1' * 32}"},
            "site": {"name": "dc1", "country": "CN", "target": target, "rack": {"rating": "60 kW"}},
        }
    )  # fmt: skip
    with Rack.temporary(plan_of(workload, load_catalog()), load="full") as rack:
        results = Bench(rack).healthy
        bad = [r for r in results.results if r.status in (Status.FAIL, Status.ERROR, Status.WARN)]
        assert [(r.check, r.subject, r.message) for r in bad] == []
        area = {"mi300x-8": "amd-", "atlas-800i-a2": "npu-"}[machine]
        passed = {r.check for r in results.results if r.status is Status.PASS and r.check.startswith(area)}
        assert len(passed) == {"amd-": 14, "npu-": 10}[area]
