"""What one pytest session shares: the inventory, the lazily made collection, the verdicts."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from checks.bench import Bench
from checks.capture import Capture
from checks.fleet import collect_all
from checks.registry import Check, Scope
from checks.runner import (
    DEADLINES,
    REACHABLE,
    left_out,
    left_out_hosts,
    oldest,
    read_capture,
    scripts,
)
from rackwright.inventory import Inventory
from rackwright.plan import Plan
from rackwright.verdict import Load, Result, Results
from rackwright.waivers import Waivers
from remote.transport import Network, Settings


@dataclass(frozen=True)
class Subject:
    """What one test item is about."""

    check: Check
    name: str

    @property
    def id(self) -> str:
        prefix = "" if self.check.scope is Scope.HOST else f"{self.check.scope.value}-"
        return f"{prefix}{self.name}-{self.check.id}"


@dataclass
class Session:
    """One run. Nothing is collected before the first item asks for a capture."""

    inventory: Inventory
    plan: Plan
    registry: dict[str, Check]
    settings: Settings
    tier: int = 0
    forks: int = 32
    load: Load | None = None
    kept: Path | None = None
    shared: Path | None = None
    notes: tuple[str, ...] = ()
    waivers: Waivers = field(default_factory=Waivers)
    selected: list[Subject] = field(default_factory=list)
    first_of: dict[str, str] = field(default_factory=dict)
    reported_by: dict[str, str] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    begin: float = field(default_factory=time.monotonic)
    _captures: dict[str, Capture] | None = None
    _bench: Bench | None = None

    def subjects(self) -> list[Subject]:
        """Every item of a session, hosts first, each host's reachability before its other checks."""
        checks = sorted(
            (c for c in self.registry.values() if c.tier <= self.tier),
            key=lambda c: (c.id != REACHABLE, c.id),
        )
        bench = Bench.for_checks(self.plan, self.inventory, checks)
        items = [Subject(c, h.name) for h in self.inventory.hosts for c in checks if c.scope is Scope.HOST]
        for scope in (Scope.POOL, Scope.RACK):
            items += [Subject(c, name) for name in bench.subjects(scope) for c in checks if c.scope is scope]
        return items

    @property
    def bench(self) -> Bench:
        if self._bench is None:
            checks = {s.check.id: s.check for s in self.selected}
            self._bench = Bench.for_checks(
                self.plan, self._hosts(), checks.values(), self.load, waivers=self.waivers
            )
        return self._bench

    def captures(self) -> dict[str, Capture]:
        """One capture for every host that a selected item is about; collected once, failures too."""
        if self._captures is None:
            self._captures = self._shared() if self.shared else self._collect()
        return self._captures

    def judge(self, subject: Subject) -> Result:
        if subject.check.scope is Scope.HOST:
            return self.bench.judge_host(subject.check, self.bench.view(self.captures()[subject.name]))
        return self.bench.judge_group(subject.check, subject.name, self.captures())

    def lost_members(self, subject: Subject) -> list[str]:
        """Hosts of a pool or rack that were not reached and have no item of their own in this run."""
        members = (h for h in self._hosts().hosts if subject.name in (h.pool, h.rack))
        return [h.name for h in members if self.captures()[h.name].problem and h.name not in self.first_of]

    def unreached(self, host: str) -> Result:
        check = self.registry[REACHABLE]
        return self.bench.judge_host(check, self.bench.view(self.captures()[host]))

    def _hosts(self) -> Inventory:
        """The part of the inventory that the selection needs."""
        wanted = {s.name for s in self.selected if s.check.scope is Scope.HOST}
        pools = {s.name for s in self.selected if s.check.scope is Scope.POOL}
        racks = {s.name for s in self.selected if s.check.scope is Scope.RACK}
        hosts = (h for h in self.inventory.hosts if h.name in wanted or h.pool in pools or h.rack in racks)
        return replace(self.inventory, hosts=tuple(hosts))

    def _collect(self) -> dict[str, Capture]:
        hosts = self._hosts()
        if self.kept is not None:
            return {h.name: read_capture(self.kept, h.name) for h in hosts.hosts}
        checks = list({s.check.id: s.check for s in self.selected}.values())
        tiers = {c.tier for c in checks}
        settings = replace(self.settings, deadline_s=sum(DEADLINES.get(tier, 60.0) for tier in tiers))
        jobs = scripts(self.plan, hosts, checks)
        return {c.host: c for c in collect_all(Network(settings), jobs, forks=self.forks)}

    def _shared(self) -> dict[str, Capture]:
        """Workers of one run collect once: the first takes the lock, the others read what it wrote."""
        assert self.shared is not None
        directory = self.shared / "captures"
        with (self.shared / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (self.shared / "done").exists():
                for capture in self._collect().values():
                    capture.write(directory)
                (self.shared / "done").touch()
        return {h.name: read_capture(directory, h.name) for h in self._hosts().hosts}

    def report(self) -> Results:
        """The verdicts that items reported, as the results of one run."""
        dead = {
            r.subject: r.message for r in self.results if r.check == REACHABLE and r.actual == "not reached"
        }
        per_host: dict[str, int] = {}
        for subject in self.selected:
            if subject.check.scope is Scope.HOST and subject.check.id != REACHABLE:
                per_host[subject.name] = per_host.get(subject.name, 0) + 1
        hosts = [s.name for s in self.selected if s.check.scope is Scope.HOST]
        hosts = hosts or [h.name for h in self._hosts().hosts]
        hosts += [r.subject for r in self.results if r.scope == "host"]
        reported = {(r.check, r.subject) for r in self.results}
        asked = {(s.check.id, s.name) for s in self.selected if s.name not in dead}
        return Results(
            plan=self.plan.header.name,
            plan_digest=self.plan.digest,
            inventory=self.inventory.source,
            started=oldest(self._captures.values()) if self.kept and self._captures else self.started,
            seconds=round(time.monotonic() - self.begin, 3),
            hosts=tuple(dict.fromkeys([*hosts, *dead])),
            complete=bool(dead) or asked <= reported,
            unreachable=dead,
            not_measured={name: per_host.get(name, 0) for name in dead},
            notes=(*self.notes, *self.waivers.notes(self.results)),
            captures=str(self.kept or ""),
            left_out_checks=left_out(self.registry, [s.check for s in self.selected]),
            left_out_hosts=left_out_hosts(self.plan, self._hosts()),
            results=tuple(self.results),
        )


def first_items(selected: Iterable[tuple[Subject, str]]) -> dict[str, str]:
    """For each host, the node id of its first item: the one that reports a dead host."""
    first: dict[str, str] = {}
    for subject, nodeid in selected:
        if subject.check.scope is Scope.HOST:
            first.setdefault(subject.name, nodeid)
    return first
