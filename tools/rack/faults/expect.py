"""What a preflight run must report of planted faults: exactly these results, no others.

``finds`` of a fault may hold ``*TOOL`` (every check that runs the tool), ``*root`` (every check that needs
root) and ``*after:TOOL`` (every check whose output comes after the tool's first call in a collection).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from checks.collect import commands_of, run_order, tool_of
from checks.registry import Check, Command, Scope
from rackwright.verdict import Result, Results, Status
from tools.rack.faults.base import FAULTS, Find
from tools.rack.rack import FaultSpec
from tools.rack.state import HostState

Key = tuple[str, str]
"""A check's id and the subject it is about."""


def findings(results: Results, healthy: Results) -> set[Key]:
    """What a run reports that a healthy rack's run does not: failures and errors, and a host's warnings."""
    usual = {(r.check, r.subject) for r in healthy.results if r.status is Status.WARN}
    bad = (Status.FAIL, Status.ERROR)
    return {
        key
        for r in results.results
        if (r.status in bad or (r.status is Status.WARN and r.scope == "host"))
        and not ((key := (r.check, r.subject)) in usual and r.status is Status.WARN)
    }


def applicable(results: Iterable[Result]) -> set[Key]:
    """What a healthy run judged at all."""
    return {(r.check, r.subject) for r in results if r.status is not Status.NOT_APPLICABLE}


def expected(
    specs: Iterable[FaultSpec],
    states: Mapping[str, HostState],
    checks: Sequence[Check],
    judged: Collection[Key],
) -> set[Key]:
    """The results that ``specs`` must cause; ``judged`` are those of a healthy run that apply."""
    keys: set[Key] = set()
    silent: set[str] = set()
    for spec in specs:
        state = states[spec.host]
        for find in FAULTS[spec.fault].finds:
            if find.only_full and state.load != "full":
                continue
            found = (
                _wide(find, state, checks)
                if find.check.startswith("*")
                else {(find.check, subject(find.on, state))}
            )
            keys |= {key for key in found if key in judged}
        if FAULTS[spec.fault].silences:
            silent.add(spec.host)
    return keys | (_silenced(silent, states, checks) & set(judged))


def _silenced(silent: set[str], states: Mapping[str, HostState], checks: Sequence[Check]) -> set[Key]:
    """Pool and rack results where no host is left to read."""
    keys: set[Key] = set()
    for scope in (Scope.POOL, Scope.RACK):
        members: dict[str, set[str]] = {}
        for state in states.values():
            members.setdefault(subject(_SCOPES[scope], state), set()).add(state.name)
        gone = [name for name, hosts in members.items() if hosts <= silent]
        keys |= {(check.id, name) for check in checks if check.scope is scope for name in gone}
    return keys


def subject(on: str, state: HostState) -> str:
    return {"host": state.name, "pool": state.pool, "rack": state.rack}[on]


def _wide(find: Find, state: HostState, checks: Sequence[Check]) -> set[Key]:
    touched = _commands(find.check[1:], checks)
    return {
        (check.id, subject(_SCOPES[check.scope], state))
        for check in checks
        if any(command in touched for command in check.commands)
    }


_SCOPES = {Scope.HOST: "host", Scope.POOL: "pool", Scope.RACK: "rack"}


def _commands(what: str, checks: Sequence[Check]) -> list[Command]:
    every = run_order(commands_of(checks))
    if what == "root":
        return [c for c in every if c.root]
    if what.startswith("after:"):
        tool = what.removeprefix("after:")
        first = next((i for i, c in enumerate(every) if tool_of(c) == tool), len(every))
        return list(every[first:])
    return [c for c in every if re.search(rf"(?:^|[\s;|]){re.escape(what)}\s", f"{c.shell} ")]
