"""What one pytest session shares: the inventory, the lazily made collection, the verdicts."""

from __future__ import annotations

import fcntl
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from checks.bench import Bench
from checks.capture import Capture
from checks.collect import commands_of
from checks.fleet import collect_all
from checks.pairs import exchange
from checks.registry import Check, Scope
from checks.runner import (
    DEADLINES,
    REACHABLE,
    critical,
    left_out,
    left_out_hosts,
    needs_pair,
    not_loaded,
    oldest,
    read_capture,
    scripts,
)
from rackwright.files import write_whole
from rackwright.inventory import Inventory
from rackwright.plan import Plan
from rackwright.verdict import Load, Result, Results, Severity
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
    pruned: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Hosts that are not put under load: after which tier, and why."""
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
        return self._by_tiers(hosts)

    def _by_tiers(self, hosts: Inventory) -> dict[str, Capture]:
        """Tier after tier; a host with a critical finding is not put under the load of later ones. Where only
        later tiers were selected, what would keep a host from them is still collected and judged."""
        checks = list({s.check.id: s.check for s in self.selected}.values())
        tiers = sorted({c.tier for c in checks} | {0})
        gate = [c for c in self.registry.values() if c.tier == 0 and c.severity is Severity.CRITICAL]
        found: dict[str, Capture] = {}
        for tier in tiers:
            mine = {c.id: c for c in checks if c.tier == tier}
            if tier == 0 and tiers != [0]:
                mine |= {c.id: c for c in gate if c.scope is Scope.HOST}
            left = replace(hosts, hosts=tuple(h for h in hosts.hosts if self._goes_on(h.name, found)))
            for capture in self._collected(left, list(mine.values()), tier):
                found[capture.host] = merged(found.get(capture.host), capture)
            if tier != tiers[-1]:
                self._prune(left, found, mine, tier)
        return found

    def _goes_on(self, host: str, found: dict[str, Capture]) -> bool:
        return host not in self.pruned and not (host in found and found[host].problem)

    def _collected(self, hosts: Inventory, checks: list[Check], tier: int) -> Iterator[Capture]:
        settings = replace(self.settings, deadline_s=DEADLINES.get(tier, 60.0))
        network = Network(settings)
        reached = []
        for capture in collect_all(network, scripts(self.plan, hosts, checks), forks=self.forks):
            reached += [capture.host] if not capture.problem else []
            yield capture
        together = [command for command in commands_of(filter(needs_pair, checks)) if command.paired]
        if together:
            members = [h for h in hosts.hosts if h.name in reached]
            yield from exchange(network, self.plan, members, together, forks=self.forks)

    def _prune(
        self, hosts: Inventory, found: dict[str, Capture], checks: dict[str, Check], tier: int
    ) -> None:
        bench = Bench.for_checks(self.plan, hosts, checks.values(), self.load, waivers=self.waivers)
        results = [
            bench.judge_host(check, bench.view(found[host.name]))
            for host in hosts.hosts
            if not found[host.name].problem
            for check in checks.values()
            if check.scope is Scope.HOST and check.severity is Severity.CRITICAL
        ]
        for name, ids in critical(results).items():
            self.pruned[name] = (tier, not_loaded(ids, tier))

    def not_tested(self, subject: Subject) -> str:
        """Why a check of a later tier was not made on its host; empty where it was."""
        if subject.check.scope is not Scope.HOST or not subject.check.tier:
            return ""
        self.captures()
        tier, reason = self.pruned.get(subject.name, (subject.check.tier, ""))
        return reason if subject.check.tier > tier else ""

    def _shared(self) -> dict[str, Capture]:
        """Workers of one run collect once: the first takes the lock, the others read what it wrote."""
        assert self.shared is not None
        directory = self.shared / "captures"
        with (self.shared / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (self.shared / "done").exists():
                for capture in self._collect().values():
                    capture.write(directory)
                write_whole(self.shared / "pruned.json", json.dumps(self.pruned))
                (self.shared / "done").touch()
        kept = json.loads((self.shared / "pruned.json").read_text(encoding="utf-8"))
        self.pruned = {name: (tier, reason) for name, (tier, reason) in kept.items()}
        return {h.name: read_capture(directory, h.name) for h in self._hosts().hosts}

    def _pruned_notes(self) -> list[str]:
        return [f"{name}: {reason}" for name, (_, reason) in sorted(self.pruned.items())]

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
        spared = [s for s in self.selected if self._captures is not None and self.not_tested(s)]
        loaded = {id(s) for s in spared}
        asked = {(s.check.id, s.name) for s in self.selected if s.name not in dead and id(s) not in loaded}
        missed = {name: per_host.get(name, 0) for name in dead}
        missed |= Counter(s.name for s in spared)
        return Results(
            plan=self.plan.header.name,
            plan_digest=self.plan.digest,
            inventory=self.inventory.source,
            started=oldest(self._captures.values()) if self.kept and self._captures else self.started,
            seconds=round(time.monotonic() - self.begin, 3),
            hosts=tuple(dict.fromkeys([*hosts, *dead])),
            complete=bool(dead) or asked <= reported,
            unreachable=dead,
            not_measured=missed,
            notes=(*self.notes, *self._pruned_notes(), *self.waivers.notes(self.results)),
            captures=str(self.kept or ""),
            left_out_checks=left_out(self.registry, [s.check for s in self.selected]),
            left_out_hosts=left_out_hosts(self.plan, self._hosts()),
            results=tuple(self.results),
        )


def merged(before: Capture | None, later: Capture) -> Capture:
    """What two collections of one host brought back; one that failed changes nothing of what came before."""
    if before is None or later.problem:
        return before if before is not None else later
    return before.model_copy(update={"outputs": {**before.outputs, **later.outputs}})


def first_items(selected: Iterable[tuple[Subject, str]]) -> dict[str, str]:
    """For each host, the node id of its first item: the one that reports a dead host."""
    first: dict[str, str] = {}
    for subject, nodeid in selected:
        if subject.check.scope is Scope.HOST:
            first.setdefault(subject.name, nodeid)
    return first
