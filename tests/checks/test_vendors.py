"""Checks of other vendors than NVIDIA: their recordings, and what must hold of every one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checks.collect import build as script
from checks.collect import commands_of
from checks.parsers import KINDS
from checks.registry import VENDOR_TOOLS, Check, load
from checks.runner import scripts
from rackwright.inventory import Host, Inventory
from rackwright.plan import HostExpectation
from rackwright.verdict import Status
from tests.checks.machines import MACHINE_OF, MachineCase, machine_cases, plan_of, vendor_checks
from tools.mutate.campaign import Text, run

ALL = list(vendor_checks().values())


@pytest.mark.parametrize("case", machine_cases(), ids=lambda c: c.id)
def test_recording(case: MachineCase) -> None:
    outcome = case.judge()
    assert outcome.status.value == case.expect, outcome
    for part in case.says:
        assert part in outcome.message, outcome.message
    if case.where is not None:
        assert outcome.where == case.where
    if outcome.status.value != "pass":
        assert outcome.message, "a person must be told what is wrong"


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.id)
def test_every_check_can_pass_fail_and_be_unable_to_measure(check: Check) -> None:
    assert {"pass", "fail", "error"} <= {c.expect for c in machine_cases() if c.check.id == check.id}


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.id)
def test_a_check_is_fully_declared(check: Check) -> None:
    assert len(check.why) > 40 and check.why.endswith(".")
    assert " " in check.remedy and check.source
    assert all(not c.parser or c.parser in KINDS for c in check.commands)
    assert check.area in MACHINE_OF
    expectation = plan_of(MACHINE_OF[check.area]).expectations
    value: Any = next(iter(expectation.values()))
    for part in check.expects.split("."):
        value = getattr(value, part)
    assert value is not None, f"{check.expects} is not in the plan of its own machine"


UNREAD = [
    {"state": "missing"}, {"state": "timeout", "seconds": 45.0}, {"state": "denied"}, {"state": "capped"},
    {"rc": 1, "stdout": "", "stderr": "it failed"}, {"rc": 0, "stdout": ""},
    {"rc": 0, "stdout": "something that no parser knows\n"}, {"rc": 0, "stdout": "[]\n"},
]  # fmt: skip
FALLBACKS = {"rocm-smi"}
"""Outputs that are needed only where another is absent."""


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.id)
@pytest.mark.parametrize("unread", UNREAD, ids=str)
def test_what_could_not_be_read_is_never_a_pass(check: Check, unread: dict[str, Any]) -> None:
    case = MachineCase(check, "x", "pass")
    for command in check.commands:
        if command.key in FALLBACKS or command.key not in case.view().capture.outputs:
            continue
        outcome = case.judge(case.view({command.key: unread}))
        assert outcome.status in (Status.ERROR, Status.FAIL), f"{command.key}: {outcome}"


BAD = [c for c in machine_cases() if c.expect in ("fail", "error", "warn")]


@pytest.mark.parametrize("case", BAD, ids=lambda c: c.id)
def test_losing_a_line_never_makes_a_pass(case: MachineCase) -> None:
    """A line that got lost on the way may turn a fault into "could not be measured", never into a pass."""
    for key, out in case.view().capture.outputs.items():
        lines = out.stdout.splitlines(keepends=True)
        step = max(len(lines) // 60, 1)
        chosen = {*range(0, len(lines), step), len(lines) - 1} if lines else set()
        texts = ["".join(lines[:n] + lines[n + 1 :]) for n in chosen] + ["".join(lines[:n]) for n in chosen]
        for text in texts:
            view = case.view()
            view.capture.outputs[key] = view.capture.outputs[key].model_copy(update={"stdout": text})
            assert case.judge(view).status is not Status.PASS, f"{key}: {text[-300:]!r}"


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.id)
def test_a_missing_expectation_is_an_error(check: Check) -> None:
    data = {check.expects: None}
    if check.expects in {"gpu.count", "gpu.product"}:
        with pytest.raises(ValueError, match="valid"):
            MachineCase(check, "x", "error", plan=data).context()
        return
    assert MachineCase(check, "x", "error", plan=data).judge().status is Status.ERROR


@pytest.mark.parametrize("machine", ["hgx-h200-8-ib", *MACHINE_OF.values()])
def test_a_host_is_asked_the_tools_of_its_own_vendor_only(machine: str) -> None:
    plan = plan_of(machine)
    pool = plan.pools[0]
    vendor = plan.expectations[pool.name].gpu.vendor
    host = Host(name=pool.nodes[0].name, address="192.0.2.1", pool=pool.name, rack="r1")
    hosts = Inventory(hosts=(host,), plan_path=Path("plan.yaml"))
    [(_, made)] = scripts(plan, hosts, list(load().values()))
    asked = {c.vendor for c in made.commands}
    assert asked <= {"", vendor} and vendor in asked
    for other, words in VENDOR_TOOLS.items():
        if other != vendor:
            assert not words.search(made.body), f"{machine} is asked tools of {other}"
    assert script(commands_of(load().values(), vendor), {}).commands
    assert isinstance(plan.expectations[pool.name], HostExpectation)


def test_no_damage_of_a_vendors_output_makes_a_traceback() -> None:
    """1,200 damaged outputs of all the vendors' tools: none raises, and what is refused says why."""
    texts = {
        (command.parser, out.stdout)
        for check in ALL
        for command in check.commands
        if command.parser and command.vendor
        for out in [MachineCase(check, "x", "pass").view().capture.outputs[command.key]]
        if out.stdout
    }
    tally = run([Text(kind, kind, text) for kind, text in sorted(texts)], count=1_200, seed=5, sweep=False)
    assert len(tally.by_kind) >= 13
    assert tally.broken == []
    assert tally.by_verdict["not understood"] > 400
