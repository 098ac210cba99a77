"""Running the preflight against a simulated rack, and packing faults into few runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from checks import registry, runner
from checks.registry import Check
from rackwright.errors import CannotRun
from rackwright.inventory import bind, load_inventory
from rackwright.verdict import Results
from tools.rack import farm
from tools.rack.faults import FAULTS
from tools.rack.faults.expect import Key, applicable, expected, findings
from tools.rack.rack import FaultSpec
from tools.rack.run import Rack
from tools.rack.state import HostState


def require_rack() -> None:
    try:
        farm.require_machine()
    except CannotRun as problem:
        pytest.skip(str(problem).splitlines()[0])


def static_checks(tier: int = 0) -> tuple[Check, ...]:
    return runner.select(registry.load(), tier=tier)


class Bench:
    """A running rack, what a healthy run of it gives, and what faults must change in that."""

    def __init__(self, rack: Rack, *, tier: int = 0) -> None:
        self.rack = rack
        self.checks = static_checks(tier)
        self.inventory = bind(load_inventory(rack.inventory), rack.plan).inventory
        self.healthy = self.run()
        self.judged = applicable(self.healthy.results)
        self.states: dict[str, HostState] = {name: rack.state(name) for name in rack.hosts}

    def run(self, checks: Sequence[Check] = ()) -> Results:
        options = runner.Options(forks=max(len(self.rack.hosts), 1))
        return runner.run(self.rack.plan, self.inventory, checks or self.checks, options)

    def expected(self, specs: Iterable[FaultSpec]) -> set[Key]:
        return expected(specs, self.states, self.checks, self.judged)

    def found(self, specs: Sequence[FaultSpec]) -> set[Key]:
        """What a run reports with exactly these faults planted."""
        self.rack.set_faults(specs)
        return findings(self.run(), self.healthy)

    def rounds(self, names: Sequence[str]) -> list[list[FaultSpec]]:
        """Each fault once, on a host of its own. In a round only those that stop a tool share verdicts."""
        rounds: list[list[FaultSpec]] = []
        left = list(names)
        while left:
            chosen: list[FaultSpec] = []
            told: set[Key] = set()
            rest = []
            for name in left:
                free = list(self.states)[len(chosen) : len(chosen) + 1]
                keys = self.expected([FaultSpec(host=free[0], fault=name)]) if free else set()
                if not free or (keys & told and not _wide(name)):
                    rest.append(name)
                    continue
                chosen.append(FaultSpec(host=free[0], fault=name))
                told |= set() if _wide(name) else keys
            rounds.append(chosen)
            left = rest
        return rounds


def _wide(name: str) -> bool:
    return any(find.check.startswith("*") for find in FAULTS[name].finds)


def difference(found: set[Key], wanted: set[Key], specs: Iterable[FaultSpec]) -> str:
    """What a failed comparison says: each result with the fault of its host."""
    planted: dict[str, list[str]] = {}
    for spec in specs:
        planted.setdefault(spec.host, []).append(spec.fault)
    lines = [f"not reported: {c} on {s} ({planted.get(s, '')})" for c, s in sorted(wanted - found)]
    lines += [f"reported without cause: {c} on {s} ({planted.get(s, '')})" for c, s in sorted(found - wanted)]
    return "\n".join(lines)
