"""Recordings of machines with accelerators of other vendors: what a simulated one prints, and edits of it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from checks.areas._read import Context as ContextProtocol
from checks.capture import Capture, CommandOutput
from checks.parsers import parse
from checks.registry import Check, load
from checks.view import HostView
from rackwright.plan import HostExpectation, Plan, Pool
from rackwright.verdict import Outcome
from tests.checks import build
from tests.checks.cases import RECORDINGS, judge
from tools.rack import emit
from tools.rack.emit import vendors as emit_vendors
from tools.rack.machine_plans import machine_plan
from tools.rack.state import HostState
from tools.rack.state import build as simulated

MACHINE_OF = {
    "amd": "mi300x-8",
    "npu": "atlas-800i-a2",
    "mac": "mac-studio-m3-ultra-512",
    "mlu": "mlu370-x8-8",
    "mtt": "mtt-s5000-8",
}
"""The machine on which an area's recordings were made."""
_FIELDS = {"why", "expect", "says", "where", "load", "plan", "outputs"}
NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


def vendor_checks() -> dict[str, Check]:
    """The checks of other vendors than NVIDIA."""
    return {c.id: c for c in load().values() if c.vendors and "nvidia" not in c.vendors}


@functools.cache
def plan_of(machine: str) -> Plan:
    return machine_plan(machine, nodes=2)


@functools.cache
def _state(machine: str, at: str) -> HostState:
    plan = plan_of(machine)
    host = plan.pools[0].nodes[0].name
    return simulated(plan, host, load="full" if at == "full" else "idle", seed=7, now=NOW)


def healthy(check: Check, machine: str, at: str) -> dict[str, CommandOutput]:
    """What each command of ``check`` prints on the healthy machine; tools that it lacks are missing."""
    state = _state(machine, at)
    printed = {f"{r.tool} {r.argv}".strip(): r for r in emit.recordings(state)}
    composed = emit_vendors.composed(state)
    found = {}
    for command in check.commands:
        if command.vendor not in ("", state.vendor):
            continue
        shell = command.shell
        if command.key in composed:
            found[command.key] = build.output(command, composed[command.key])
        elif shell in printed:
            found[command.key] = build.output(command, printed[shell].stdout)
        else:
            found[command.key] = build.output(command, {"state": "missing"})
    return found


@dataclass(frozen=True)
class Context:
    plan: Plan
    pool: Pool
    expectations: HostExpectation
    rack: None = None
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True)
class MachineCase:
    check: Check
    name: str
    expect: str
    says: tuple[str, ...] = ()
    where: tuple[str, ...] | None = None
    load: str = "full"
    plan: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.check.id}/{self.name}"

    @property
    def machine(self) -> str:
        return MACHINE_OF[self.check.area]

    def context(self) -> ContextProtocol:
        plan = plan_of(self.machine)
        pool = plan.pools[0]
        data = plan.expectations[pool.name].model_dump(mode="json")
        for path, value in self.plan.items():
            section, _, leaf = path.partition(".")
            data[section] = {**data[section], leaf: value} if leaf else value
        return Context(plan, pool, HostExpectation.model_validate(data))

    def view(self, changed: Mapping[str, Any] | None = None) -> HostView:
        base = healthy(self.check, self.machine, self.load)
        for key, change in {**self.outputs, **(changed or {})}.items():
            command = next(c for c in self.check.commands if c.key == key)
            before = base.get(key)
            if isinstance(change, dict) and "edit" in change:
                assert before is not None
                text = before.stdout
                for old, new in change["edit"].items():
                    assert old in text, f"{self.id}: {old!r} is not in the output of {key}"
                    text = text.replace(old, new, change.get("times", 1))
                base[key] = before.model_copy(update={"stdout": text})
            else:
                base[key] = build.output(command, change)
        declared = {c.key: c for c in self.check.commands}
        capture = Capture(host=plan_of(self.machine).pools[0].nodes[0].name, outputs=base)
        return HostView(capture, pool="p", rack="r1", parse=parse, commands=declared)

    def judge(self, view: HostView | None = None) -> Outcome:
        context: Any = self.context()
        return judge(self.check, [view or self.view()], context)

    def changed(self, key: str, change: Any) -> MachineCase:
        return replace(self, outputs={**self.outputs, key: change})


def _case(check: Check, path: Path) -> MachineCase:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert not set(data) - _FIELDS, f"{path}: {set(data) - _FIELDS}"
    says = data.get("says", [])
    return MachineCase(
        check=check,
        name=path.stem,
        expect=data["expect"],
        says=(says,) if isinstance(says, str) else tuple(says),
        where=tuple(data["where"]) if "where" in data else None,
        load=data.get("load", "full"),
        plan=data.get("plan", {}),
        outputs=data.get("outputs", {}),
    )


@functools.cache
def machine_cases() -> tuple[MachineCase, ...]:
    return tuple(
        _case(check, path)
        for check in vendor_checks().values()
        for path in sorted((RECORDINGS / check.id).glob("*.yaml"))
    )
