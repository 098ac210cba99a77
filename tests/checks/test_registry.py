"""What must hold of every check, whatever it is about."""

from __future__ import annotations

import typing
from collections import Counter
from typing import Any

import pytest

from checks.areas import _load
from checks.parsers import KINDS
from checks.registry import Check, Scope, load
from rackwright.plan import HostExpectation
from rackwright.plan.expectations import NA
from rackwright.verdict import Status
from tests.checks import build
from tests.checks.cases import Case, cases, checks, judge

ALL = list(checks().values())
CHECKLIST = {
    "H1": ("full-load node power × 1.2 < rack rating", {"power-rack-budget"}),
    "H2": ("inlet/outlet difference < 15 °C", {"thermal-delta"}),
    "H3": ("hottest GPU < 85 °C", {"gpu-temperature"}),
    "H4": ("NVLink and IB link state", {"nvlink-links", "nvlink-topology", "ib-link"}),
    "H5": ("ECC on", {"gpu-ecc"}),
    "H6": ("NVMe free > 2 × all model weights", {"nvme-headroom"}),
    "S1": ("CUDA ≥ 12.6", {"gpu-cuda"}),
    "S2": ("current cuDNN", {"gpu-cudnn"}),
    "S3": ("driver ≥ 560", {"gpu-driver"}),
    "S4": ("CPU C-states off", {"os-cstates"}),
    "S5": ("transparent huge pages off", {"os-thp"}),
    "S6": ("nvidia-persistenced running", {"gpu-persistence"}),
    "S7": ("persistence mode on", {"gpu-persistence"}),
    "S8": ("MIG/MPS as the tenancy plan says", {"gpu-mig", "gpu-mps"}),
}
"""Every hardware and system line of the deployment checklist, and the checks that cover it."""


def _by_check() -> dict[str, list[Case]]:
    grouped: dict[str, list[Case]] = {check.id: [] for check in ALL}
    for case in cases():
        grouped[case.check.id].append(case)
    return grouped


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.id)
def test_a_check_is_fully_declared(check: Check) -> None:
    assert (check.tier > 0) is bool(check.active), "what loads a host says so, and is not made unasked"
    assert len(check.why) > 40 and check.why.endswith(".")
    assert check.remedy.split()[0] and " " in check.remedy, "a remedy is a command to paste"
    assert check.source and check.title
    assert check.commands, "a judge reads what the host printed"
    assert all(not c.parser or c.parser in KINDS for c in check.commands)


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.id)
def test_the_expectation_is_a_leaf_of_the_plan(check: Check) -> None:
    model: Any = HostExpectation
    for part in check.expects.split("."):
        assert part in model.model_fields, f"{check.expects} is not in the plan"
        model = model.model_fields[part].annotation


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.id)
def test_a_missing_expectation_is_an_error_and_not_applicable_is_told(check: Check) -> None:
    for value, status in ((None, Status.ERROR), ({"not_applicable": "by design"}, Status.NOT_APPLICABLE)):
        try:
            expectation = build.expectations({check.expects: value})
        except ValueError:
            assert check.expects in {"gpu.count", "gpu.product", "gpu.vendor"}, (
                "only these must always be there"
            )
            continue
        views = [build.view(check, {}), build.view(check, {}, name="node-2")]
        outcome = judge(check, views, build.Context(expectation))
        assert outcome.status is status, outcome
        assert "by design" in outcome.message or value is None


def test_ids_are_unique_and_area_is_their_first_word() -> None:
    assert [i for i, n in Counter(c.id for c in ALL).items() if n > 1] == []
    assert all(c.id.startswith(f"{c.area}-") for c in ALL)
    assert set(checks()) <= set(load())


def test_modules_of_helpers_register_nothing() -> None:
    assert not any(c.judge.__module__ == _load.__name__ for c in ALL)


@pytest.mark.parametrize("line", CHECKLIST, ids=lambda line: f"{line} {CHECKLIST[line][0]}")
def test_every_line_of_the_checklist_is_covered(line: str) -> None:
    assert CHECKLIST[line][1] <= {c.id for c in ALL if line in c.ids}


def test_no_check_covers_a_line_that_does_not_exist() -> None:
    assert {i for c in ALL for i in c.ids} == set(CHECKLIST)


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.id)
def test_every_check_can_pass_fail_and_be_unable_to_measure(check: Check) -> None:
    seen = {case.expect for case in _by_check()[check.id]}
    assert {"pass", "fail", "error"} <= seen


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.id)
def test_the_healthy_host_is_not_blocked(check: Check) -> None:
    """At idle the lines that need full load stay open; nothing else may be reported."""
    views = [build.view(check, {}), build.view(check, {}, name="node-2")]
    outcome = judge(check, views, build.Context(build.expectations()))
    assert outcome.status in (Status.PASS, Status.WARN, Status.NOT_APPLICABLE), outcome
    if outcome.status is Status.WARN:
        assert outcome.message.startswith("open: measured at idle")


FALLBACKS = (
    {
        (check, key)
        for check in ("time-sync", "uniform-clock")
        for key in ("timedatectl-show", "timesync-status", "chronyc-tracking")
    }
    | {("time-source", key) for key in ("chronyc-sources", "timesync-server")}
    | {("nvlink-fabric-manager", "processes")}
    | {(check, "kernel-journal") for check in ("log-xid", "log-sxid", "log-hardware", "ib-flaps")}
)
"""Outputs that a check needs only where another is absent."""
UNREAD = [
    {"state": "missing"}, {"state": "timeout", "seconds": 30.0}, {"state": "denied"}, {"state": "incomplete"},
    {"state": "capped"}, {"rc": 1, "stdout": "", "stderr": "it failed"}, {"rc": 0, "stdout": ""},
    {"rc": 0, "stdout": "something that no parser knows\n"},
]  # fmt: skip
ANY_WORDS = {("os-numa", "cmdline"), ("uniform-cmdline", "cmdline")}
"""Any line of words is a kernel command line."""


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.id)
@pytest.mark.parametrize(
    "unread", UNREAD, ids=lambda u: f"{u.get('state', u.get('stdout') or u.get('stderr', 'empty'))}"
)
def test_what_could_not_be_read_is_never_a_pass(check: Check, unread: dict[str, Any]) -> None:
    for command in check.commands:
        if (check.id, command.key) in FALLBACKS or (
            (check.id, command.key) in ANY_WORDS and unread.get("stdout")
        ):
            continue
        views = [build.view(check, {command.key: unread}, name=name) for name in ("node-1", "node-2")]
        outcome = judge(check, views, build.Context(build.expectations(_needed(check))))
        assert outcome.status in (Status.ERROR, Status.FAIL), f"{command.key}: {outcome}"


def _needed(check: Check) -> dict[str, Any]:
    """What the plan must say for a check that does not apply to the usual host."""
    return NEEDS.get(check.id, {})


NEEDS: dict[str, dict[str, Any]] = {
    "ib-sm": {
        "rdma.subnet_manager": True,
        "rdma.ports": [{**p, "link_layer": "InfiniBand"} for p in build.EXPECTATION["rdma"]["ports"]],
    },
    "gpu-retired": {"gpu.retired_pages_max": 60},
    "nvlink-domain": {"nvlink.domain_gpus": 16},
    "nvlink-imex": {"nvlink.imex": "always"},
}


EVENTS = {
    "host-accelerators",
    "log-xid", "log-sxid", "log-hardware", "ib-flaps", "bmc-sel", "gpu-idle", "gpu-mps", "os-swap",
    "nvme-count", "os-processes", "nvlink-errors", "ib-errors", "thermal-fans", "nvme-link",
    "os-holds", "container-config",
}  # fmt: skip
"""Checks of lists where each line is a finding of its own: with the line the finding is gone."""


def _shortened(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    chosen = range(len(text) % max(len(lines) // 10, 1), len(lines), max(len(lines) // 10, 1))
    last = len(lines) - 1
    without = ["".join(lines[:n] + lines[n + 1 :]) for n in (*chosen, last)]
    return without + ["".join(lines[:n]) for n in (*chosen[::2], last)]


BAD = [c for c in cases() if c.expect in ("fail", "error", "warn") and c.check.id not in EVENTS]


@pytest.mark.parametrize("case", BAD, ids=lambda c: c.id)
def test_losing_a_line_never_makes_a_pass(case: Case) -> None:
    """A line that got lost on the way may turn a fault into "could not be measured", never into a pass."""
    for number, view in enumerate(case.views()):
        for key, out in view.capture.outputs.items():
            for text in _shortened(out.stdout):
                views = case.views()
                changed = views[number].capture.outputs[key].model_copy(update={"stdout": text})
                views[number].capture.outputs[key] = changed
                status = case.judge(views).status
                assert status is not Status.PASS, f"{key}: {text[-300:]!r}"


def test_a_leaf_without_a_check_is_known() -> None:
    """Every expectation is read by some judge; what is not is named here, with who reads it."""
    elsewhere = {
        "rdma.active_mtu": "roce-mtu", "rdma.trust": "roce-qos",
        "rdma.dscp": "roce-qos", "rdma.dscp_priority": "roce-qos", "gpu.pci_ids": "gpu-model",
        "gpu.driver_pinned": "gpu-driver", "gpu.clock_max_mhz": "gpu-clocks",
        "os.resolve_max_s": "net-names", "os.topology_managers": "container-kubelet",
        "gpu.processes_allowed": "gpu-idle", "device.memory_partition": "amd-partition",
        "device.corrected_max": "amd-ecc, npu-ecc",
        "nvlink.link_gb_s": "nvlink-links", "os.numa_balancing": "os-numa", 
        "os.memory_tolerance": "os-memory",
        "storage.model_dir": "nvme-headroom",
        "power.full_load_w": "power-rack-budget", "power.full_load_gpu_utilisation": "the load of a reading",
    }  # fmt: skip
    leaves = set()
    for name, field in HostExpectation.model_fields.items():
        kinds = [k for k in typing.get_args(field.annotation) or (field.annotation,) if k is not type(None)]
        sections = getattr(kinds[0], "model_fields", None) if len(kinds) == 1 else None
        leaves |= {f"{name}.{leaf}" for leaf in sections} if sections and kinds[0] is not NA else {name}
    assert leaves - {c.expects for c in load().values()} == set(elsewhere)


def test_scopes() -> None:
    assert {c.id for c in ALL if c.scope is Scope.RACK} == {"power-rack-budget", "nvlink-domain"}
    assert all(c.id.startswith("uniform-") for c in ALL if c.scope is Scope.POOL)
