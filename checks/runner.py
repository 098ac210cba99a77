"""One run: collect the hosts, judge each as it comes in, then pools and racks.

Both views, ``rackwright preflight`` and ``pytest checks``, judge with the functions of this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from checks.bench import Bench
from checks.capture import Capture
from checks.collect import Script, build, commands_of, variables_for
from checks.fleet import collect_all
from checks.journal import NAME, Journal, Recovered, kept, unwritten
from checks.pairs import exchange
from checks.registry import Check, Scope, wanted
from rackwright.errors import CannotRun, Problem, listing, nearest
from rackwright.inventory import Host, Inventory
from rackwright.plan import HostExpectation, NotApplicable, Plan
from rackwright.verdict import (
    Load,
    Result,
    Results,
    Severity,
)
from rackwright.waivers import Waivers
from remote.transport import Network, Settings

REACHABLE = "net-reachable"
DEADLINES = {0: 60.0, 1: 300.0, 2: 1200.0, 3: 3600.0, 4: 3600.0}
"""Seconds a host may take, a tier."""


@dataclass(frozen=True)
class Options:
    """How a run is made.

    Attributes:
        results_dir: where results.jsonl grows during the run, with captures/ beside it.
        captures: a directory of captures to judge instead of collecting.
        load: the load that readings of power and temperature must have been taken at.
        deadline_s: seconds a host may take; None gives each tier its own.
        left_out: checks of tier 0 that the selection does not include.
        plan_file: the plan where it is another than the inventory's, for whoever goes on with the run.
        resume: an unfinished run to go on with; its captures stand in ``results_dir``.
        plan_digest: the digest of the plan as it is on disk, where its nodes were given other names.
        waivers: findings that somebody accepts; ``waivers_file`` and ``reason`` (why checks or hosts are
            left out) are kept for whoever goes on with the run.
    """

    network: Settings = field(default_factory=Settings)
    forks: int = 32
    results_dir: Path | None = None
    captures: Path | None = None
    load: Load | None = None
    deadline_s: float | None = None
    left_out: tuple[str, ...] = ()
    plan_file: str = ""
    resume: Recovered | None = None
    waivers: Waivers = field(default_factory=Waivers)
    waivers_file: str = ""
    reason: str = ""
    plan_digest: str = ""


OnResult = Callable[[Result], None]
OnHost = Callable[[Capture, Sequence[Result]], None]
OnTier = Callable[[int, Sequence[str]], None]
"""A tier begins: its number, and the hosts that are contacted in it."""


# --- selection -----------------------------------------------------------------------------------------


def select(
    registry: Mapping[str, Check],
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    tier: int = 0,
) -> tuple[Check, ...]:
    """The checks up to ``tier`` whose id or area matches ``only`` and not ``skip``.

    Raises:
        CannotRun: a pattern matches nothing, or nothing is left.
    """
    for option, patterns in (("--only", only), ("--skip", skip)):
        for pattern in patterns:
            if not any(_matches(item, pattern) for item in registry.values()):
                raise CannotRun(
                    Problem(
                        option, "must match a check or an area" + nearest(pattern, registry), f'"{pattern}"',
                        "a check that does not exist cannot be selected", "list them: rackwright checklist",
                    )
                )  # fmt: skip
    chosen = tuple(
        item
        for item in registry.values()
        if item.tier <= tier
        and (not only or any(_matches(item, p) for p in only))
        and not any(_matches(item, p) for p in skip)
    )
    if not chosen:
        raise CannotRun(
            Problem(
                "the selection", "must leave at least one check",
                f"none of {len(registry)} up to tier {tier}" if registry else "no checks are registered",
                "a run that checks nothing proves nothing", "loosen --only, --skip or raise --tier",
            )
        )  # fmt: skip
    return chosen


def left_out(registry: Mapping[str, Check], selected: Iterable[Check]) -> tuple[str, ...]:
    """The checks of tier 0, which a run makes unless told otherwise, that ``selected`` does not include."""
    chosen = {item.id for item in selected}
    return tuple(item.id for item in registry.values() if item.tier == 0 and item.id not in chosen)


def left_out_hosts(plan: Plan, inventory: Inventory) -> tuple[str, ...]:
    """The nodes of the plan that the inventory does not include."""
    names = {host.name for host in inventory.hosts}
    return tuple(n.name for pool in plan.pools for n in pool.nodes if n.name not in names)


def oldest(captures: Iterable[Capture]) -> str:
    """When the first of the captures was taken, where they say it."""
    return min((c.started for c in captures if c.started), default="")


def _matches(item: Check, pattern: str) -> bool:
    return fnmatchcase(item.id, pattern) or item.area == pattern


def require_hosts(inventory: Inventory) -> None:
    """Nothing, if there is a host.

    Raises:
        CannotRun: there is none.
    """
    if not inventory.hosts:
        raise CannotRun(
            Problem(
                inventory.source or "the inventory", "must name at least one host", "none",
                "a run that checks nothing proves nothing", "rackwright inventory plan.yaml -o hosts.ini",
            )
        )  # fmt: skip


# --- scripts -------------------------------------------------------------------------------------------


def scripts(plan: Plan, inventory: Inventory, checks: Sequence[Check]) -> list[tuple[Host, Script]]:
    """The collector of every host; hosts of one pool share its text. What the plan says does not apply there
    is not asked."""
    made: dict[str, Script] = {}
    jobs = []
    for host in inventory.hosts:
        if host.pool not in made:
            expected = plan.expectations.get(host.pool)
            asked = (item for item in checks if _asked(item, expected))
            vendor = expected.gpu.vendor if expected else ""
            commands = [c for c in commands_of(asked, vendor) if not c.paired]
            made[host.pool] = build(commands, variables_for(commands, expected))
        jobs.append((host, made[host.pool]))
    return jobs


def _asked(item: Check, expected: HostExpectation | None) -> bool:
    return not (item.expects and isinstance(wanted(item, expected), NotApplicable))


# --- the run -------------------------------------------------------------------------------------------


def run(
    plan: Plan,
    inventory: Inventory,
    selected: Sequence[Check],
    options: Options,
    *,
    on_result: OnResult | None = None,
    on_host: OnHost | None = None,
    on_tier: OnTier | None = None,
    notes: Sequence[str] = (),
) -> Results:
    """Collect, judge and report as results come; ``inventory`` is bound to ``plan``.

    Raises:
        CannotRun: no host or no check, or the journal cannot be begun.
        InterruptedRunError: the run was stopped, by its user or by a full disk; it carries what had come in.
    """
    going = _Run(plan, inventory, selected, options, on_result=on_result, on_host=on_host, notes=notes)
    going.on_tier = on_tier
    return going.go()


class _Run:
    def __init__(
        self,
        plan: Plan,
        inventory: Inventory,
        selected: Sequence[Check],
        options: Options,
        *,
        on_result: OnResult | None,
        on_host: OnHost | None,
        notes: Sequence[str],
    ) -> None:
        require_hosts(inventory)
        if not selected:
            select({})
        self.plan, self.inventory, self.options = plan, inventory, options
        self.selected = tuple(selected)
        self.on_result, self.on_host = on_result, on_host
        self.bench = Bench.for_checks(plan, inventory, selected, options.load, waivers=options.waivers)
        self.captures: dict[str, Capture] = {}
        self.shared = {pool.name: self._shared(plan.expectations.get(pool.name)) for pool in plan.pools}
        self.pruned: dict[str, int] = {}
        self.unreachable: dict[str, str] = {}
        self.found: list[Result] = []
        self.notes = list(notes)
        self.on_tier: OnTier | None = None
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.begin = time.monotonic()
        self.done = False
        self.unwritten: Problem | None = None
        self.settled: dict[int, set[str]] = {}
        if options.resume is not None:
            self._restore(options.resume)
        path = options.results_dir / NAME if options.results_dir else None
        self.journal = Journal(path, self._results(), self._asked())
        self.journal.add(self.found)
        for tier, hosts in self.settled.items():
            for name in sorted(hosts):
                self.journal.host(name, tier)

    def _shared(self, expected: HostExpectation | None) -> set[str]:
        """Commands that pools and racks are judged by once their hosts are: the rest is let go of."""
        groups = (item for item in self.selected if item.scope is not Scope.HOST and _asked(item, expected))
        return {command.key for item in groups for command in item.commands}

    def _asked(self) -> dict[str, Any]:
        return {
            "checks": [item.id for item in self.selected],
            "load": self.options.load.value if self.options.load else None,
            "plan_file": self.options.plan_file,
            "waivers_file": self.options.waivers_file,
        }

    def _restore(self, prior: Recovered) -> None:
        """Hosts whose results and capture are both there are not contacted again."""
        assert self.options.results_dir is not None
        directory = self.options.results_dir / "captures"
        self.settled = kept(prior, sorted({item.tier for item in self.selected}))
        members = {h.name for h in self.inventory.hosts}
        for name in sorted(set().union(*self.settled.values())):
            capture = read_capture(directory, name) if name in members else None
            if capture is None or capture.problem:
                for hosts in self.settled.values():
                    hosts.discard(name)
                continue
            view = self.bench.view(capture)
            view.keep_only(self.shared[view.pool])
            self.captures[name] = view.capture
        tiers = {item.id: item.tier for item in self.selected}
        self.found = [
            r
            for r in prior.results.results
            if r.scope == "host" and r.subject in self.settled.get(tiers.get(r.check, -1), ())
        ]
        again = self.options.waivers
        self.found = [again.applied(r.model_copy(update={"waived": None})) for r in self.found]
        self.started = prior.results.started
        count, total = len(self.captures), len(self.inventory.hosts)
        self.notes.append(
            f"resumed: {count:,} of {total:,} hosts were kept as the run of {self.started} had found them"
        )

    def go(self) -> Results:
        try:
            for tier in sorted({item.tier for item in self.selected}):
                self._tier([item for item in self.selected if item.tier == tier], tier)
            self.done = True
            self.notes += self.options.waivers.notes(self.found)
            results = self._results()
            self._save(lambda: self.journal.end(results))
        except KeyboardInterrupt:
            self.notes.append("interrupted: what had come in by then")
            raise InterruptedRunError(self._results()) from None
        finally:
            self.journal.close()
        if self.unwritten:
            raise InterruptedRunError(self._results(), self.unwritten)
        return results

    def _tier(self, checks: Sequence[Check], tier: int) -> None:
        away = {*self.unreachable, *self.pruned, *self.settled.get(tier, ())}
        hosts = [h for h in self.inventory.hosts if h.name not in away]
        if self.on_tier:
            self.on_tier(tier, [h.name for h in hosts])
        per_host = [item for item in checks if item.scope is Scope.HOST]
        together = [item for item in per_host if needs_pair(item)]
        alone = [item for item in per_host if not needs_pair(item)]
        for capture in self._collect(hosts, checks, tier):
            self._host(capture, alone, tier, settled=not together)
            self._stop_unwritten()
        if together:
            reached = [h for h in hosts if h.name not in self.unreachable]
            for capture in self._exchange(reached, together, tier):
                self._host(capture, together, tier)
                self._stop_unwritten()
        for item in checks:
            if item.scope is not Scope.HOST:
                subjects = self.bench.subjects(item.scope)
                self._add([self.bench.judge_group(item, subject, self.captures) for subject in subjects])
        self._stop_unwritten()
        later = sum(item.tier > tier and item.scope is Scope.HOST for item in self.selected)
        if later:
            self._prune(tier, later)

    def _save(self, write: Callable[[], object]) -> None:
        """Keep something on disk. Once that failed, what was measured is summarised and the run ends."""
        if self.unwritten:
            return
        try:
            write()
        except CannotRun as error:
            first = error.problems[0]
            self.unwritten = unwritten(self.journal.path or Path(first.where), first.found)
            if self.options.captures is not None:
                self.unwritten = replace(self.unwritten, next="make room, then judge the captures again")

    def _stop_unwritten(self) -> None:
        if self.unwritten:
            self.notes.append("stopped: the results could not be written any more")
            raise InterruptedRunError(self._results(), self.unwritten)

    def _collect(self, hosts: Sequence[Host], checks: Sequence[Check], tier: int) -> Iterator[Capture]:
        if self.options.captures is not None:
            yield from (read_capture(self.options.captures, host.name) for host in hosts)
            return
        deadline = self.options.deadline_s or DEADLINES.get(tier, 60.0)
        settings = self.options.network
        if deadline != settings.deadline_s:
            settings = Settings(**{**settings.__dict__, "deadline_s": deadline})
        wanted = {h.name for h in hosts}
        jobs = [job for job in scripts(self.plan, self.inventory, checks) if job[0].name in wanted]
        yield from collect_all(Network(settings), jobs, forks=self.options.forks)

    def _exchange(self, hosts: Sequence[Host], checks: Sequence[Check], tier: int) -> Iterator[Capture]:
        """What hosts found of each other; a host that does not answer any more is none that has an answer."""
        if self.options.captures is not None:
            yield from (read_capture(self.options.captures, host.name) for host in hosts)
            return
        deadline = self.options.deadline_s or DEADLINES.get(tier, 60.0)
        network = Network(replace(self.options.network, deadline_s=deadline))
        commands = [c for c in commands_of(checks) if c.paired]
        yield from exchange(
            network, self.plan, hosts, commands, forks=self.options.forks, deadline_s=deadline
        )

    def _host(self, capture: Capture, checks: Sequence[Check], tier: int, *, settled: bool = True) -> None:
        if capture.host in self.captures and not capture.problem:
            before = self.captures[capture.host]
            if self.options.results_dir:
                before = read_capture(self.options.results_dir / "captures", capture.host)
            capture = capture.model_copy(update={"outputs": {**before.outputs, **capture.outputs}})
        if self.options.results_dir and self.options.captures is None:
            directory = self.options.results_dir / "captures"
            self._save(lambda: capture.write(directory))
        if capture.problem:
            self.unreachable[capture.host] = capture.problem
            mine = [self.bench.judge_host(_reachable(), self.bench.view(capture))]
        else:
            if capture.cut:
                self.notes.append(f"{capture.host}: {capture.cut}")
            view = self.bench.view(capture)
            mine = [self.bench.judge_host(item, view) for item in checks]
        view = self.bench.view(capture)
        view.keep_only(self.shared[view.pool])
        self.captures[capture.host] = view.capture
        self._add(mine)
        if settled or capture.problem:
            self._save(lambda: self.journal.host(capture.host, tier, capture.problem))
        if self.on_host and (settled or capture.problem):
            self.on_host(capture, mine)

    def _prune(self, tier: int, later: int) -> None:
        """A host with a critical finding is not put under load."""
        bad = critical(self.found)
        for host in self.inventory.hosts:
            if host.name in bad and host.name not in self.unreachable and host.name not in self.pruned:
                self.pruned[host.name] = later
                self.notes.append(f"{host.name}: {not_loaded(bad[host.name], tier)}")

    def _add(self, results: Sequence[Result]) -> None:
        self.found += results
        self._save(lambda: self.journal.add(results))
        if self.on_result:
            for result in results:
                self.on_result(result)

    def _results(self) -> Results:
        per_host = sum(item.scope is Scope.HOST and item.id != REACHABLE for item in self.selected)
        kept = str(self.options.captures or "")
        judged: dict[str, int] = {}
        for result in self.found:
            if result.scope == "host" and result.check != REACHABLE:
                judged[result.subject] = judged.get(result.subject, 0) + 1
        return Results(
            plan=self.plan.header.name,
            plan_digest=self.options.plan_digest or self.plan.digest,
            inventory=self.inventory.source,
            started=(kept and oldest(self.captures.values())) or self.started,
            seconds=round(time.monotonic() - self.begin, 3),
            hosts=tuple(h.name for h in self.inventory.hosts),
            unreachable=dict(self.unreachable),
            complete=self.done,
            not_measured={name: per_host - judged.get(name, 0) for name in (*self.unreachable, *self.pruned)},
            notes=tuple(self.notes),
            captures=kept,
            left_out_checks=self.options.left_out,
            left_out_hosts=left_out_hosts(self.plan, self.inventory),
            reason=self.options.reason,
            results=tuple(self.found),
        )


def needs_pair(item: Check) -> bool:
    """Whether a check is made by two hosts at once."""
    return any(command.paired for command in item.commands)


def critical(results: Iterable[Result]) -> dict[str, list[str]]:
    """Host to the critical checks for which it must not be put under load."""
    bad: dict[str, list[str]] = {}
    for r in results:
        if r.scope == "host" and r.blocking and r.severity is Severity.CRITICAL:
            bad.setdefault(r.subject, []).append(r.check)
    return bad


def not_loaded(found: Sequence[str], tier: int) -> str:
    """Why later tiers were not run on a host."""
    return f"a critical finding in tier {tier} ({listing(sorted(found), 4)}); later tiers were not run"


class InterruptedRunError(Exception):
    """The run was stopped: ``results`` holds what had come in, ``problem`` what stopped it, if not a user."""

    def __init__(self, results: Results, problem: Problem | None = None) -> None:
        super().__init__(str(problem or "interrupted"))
        self.results = results
        self.problem = problem


def read_capture(directory: Path, host: str) -> Capture:
    """A kept capture; one that is missing or unreadable is a host that was not reached."""
    path = directory / f"{host}.json"
    try:
        capture = Capture.read(path)
        if capture.host == host:
            return capture
        problem = f"{path} is a capture of {capture.host!r}"
    except OSError:
        problem = f"no capture of this host in {directory}"
    except ValueError as error:
        problem = f"{path} is no capture: {str(error).splitlines()[0]}"
    return Capture(
        host=host, problem=problem, problem_next="collect it: rackwright preflight --hosts hosts.ini"
    )


def _reachable() -> Check:
    import checks.areas.reach  # noqa: F401 - importing is registering
    from checks.registry import CHECKS

    return CHECKS[REACHABLE]


def describe(checks: Sequence[Check]) -> str:
    return listing([item.id for item in checks])
