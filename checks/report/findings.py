"""What a run found, in the order a person needs it: the headline, findings, what is open, what to do next."""

from __future__ import annotations

import re
import shlex
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

from checks.explain import to_try
from checks.registry import Check
from checks.remedy import marked
from checks.report.causes import Cause, causes
from checks.report.text import first_sentence, folded, natural, one_line, plural, remedy_parts
from rackwright.verdict import Load, Result, Results, Severity, Status

Registry = Mapping[str, Check]

OPEN = "open"
UNREACHABLE = "unreachable"
NOT_CHECKED = "not-checked"
WAIVED = "waived"
"""Display states beside the statuses: a reading below full load, a host without a verdict, an accepted
finding."""

SYMBOLS: dict[str, str] = {
    Status.PASS: "✓",
    Status.FAIL: "✗",
    Status.WARN: "!",
    Status.ERROR: "?",
    Status.NOT_APPLICABLE: "–",
    OPEN: "○",
    WAIVED: "~",
    UNREACHABLE: "⊘",
    NOT_CHECKED: "·",
}
WORDS: dict[str, str] = {
    Status.PASS: "pass",
    Status.FAIL: "fail",
    Status.WARN: "warn",
    Status.ERROR: "not measured",
    Status.NOT_APPLICABLE: "not applicable",
    OPEN: "open until full load",
    WAIVED: "waived",
    UNREACHABLE: "unreachable",
    NOT_CHECKED: "not checked",
}
LOADS = {Load.IDLE: "at idle", Load.PARTIAL: "at partial load", Load.FULL: "at full load"}
_WEIGHT = {Severity.CRITICAL: 0, Severity.MAJOR: 1, Severity.WARN: 2, Severity.INFO: 3}


class Verdict(StrEnum):
    """The headline. ``INCOMPLETE``: nothing failed, but not everything was proven."""

    READY = "READY"
    NOT_READY = "NOT READY"
    INCOMPLETE = "INCOMPLETE"


@dataclass(frozen=True)
class Group:
    """Subjects on which the same was found. ``remedy`` is set where it differs between groups."""

    subjects: tuple[str, ...]
    expected: str
    actual: str
    message: str
    where: str
    load: str
    remedy: str = ""
    waiver: str = ""

    @property
    def found(self) -> str:
        """What was there, where in the subject, and at which load; the message where there is no value."""
        value = self.actual or self.message or "no value"
        return value + (f" · {self.where}" if self.where else "") + (f" ({self.load})" if self.load else "")

    @property
    def detail(self) -> str:
        """The message, where :attr:`found` does not already say it."""
        return self.message if self.actual and self.message != self.actual else ""


@dataclass(frozen=True)
class Finding:
    """All verdicts of one check with one status.

    ``remedy`` is the command where it is the same for all groups, ``note`` what to know beside it;
    ``command`` is what to run to look closer; ``path`` is where the plan says what is expected.
    """

    check: str
    title: str
    status: str
    severity: Severity
    scope: str
    why: str
    remedy: str
    note: str
    command: str
    reversible: bool | None
    source: str
    groups: tuple[Group, ...]
    path: str = ""

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(s for g in self.groups for s in g.subjects)

    @property
    def expected(self) -> str:
        """What was expected, where it is the same for all."""
        values = {g.expected for g in self.groups}
        return values.pop() if len(values) == 1 else ""


@dataclass(frozen=True)
class Alike:
    """Warnings of several checks that say the same of the same subjects."""

    checks: tuple[str, ...]
    subjects: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Unreachable:
    """Hosts that could not be collected for the same reason, and how to look closer."""

    hosts: tuple[str, ...]
    reason: str
    next: str


@dataclass(frozen=True)
class Step:
    text: str
    command: str


@dataclass(frozen=True)
class Report:
    """One run, ready to be shown.

    ``errors`` is all that was not measured; ``causes`` and ``lone`` are the same once more, what has one
    cause put together. So are ``alike`` and ``warned`` for ``warnings``.
    """

    verdict: Verdict
    sentence: str
    plan: str
    digest: str
    inventory: str
    started: str
    seconds: float
    hosts: tuple[str, ...]
    failures: tuple[Finding, ...]
    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    open: tuple[Finding, ...]
    waived: tuple[Finding, ...]
    causes: tuple[Cause, ...]
    lone: tuple[Finding, ...]
    alike: tuple[Alike, ...]
    warned: tuple[Finding, ...]
    unreachable: tuple[Unreachable, ...]
    not_checked: tuple[str, ...]
    notes: tuple[str, ...]
    left_out: bool
    counts: tuple[tuple[str, int], ...]
    total: int
    checks: int
    next: tuple[Step, ...]

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """What is shown one by one: failures, and what was not measured for a cause of its own."""
        return self.failures + self.lone


_LAST: list[tuple[weakref.ref[Results], Registry, Report]] = []
"""What was examined last: a run shows the same results on a page, in the terminal and in a ticket."""


def examine(results: Results, registry: Registry, *, file: str = "") -> Report:
    """Everything that the summary, the page and the ticket show of ``results``."""
    if not (_LAST and _LAST[0][0]() is results and _LAST[0][1] is registry):
        _LAST[:] = [(weakref.ref(results), registry, _examined(results, registry))]
    report = _LAST[0][2]
    return replace(report, next=_next(report, file))


def _examined(results: Results, registry: Registry) -> Report:
    judged = [r for r in results.results if r.subject not in results.unreachable]
    state = open_readings(judged)

    def of(keep: Callable[[Result], bool]) -> tuple[Finding, ...]:
        return _findings([r for r in judged if keep(r)], registry)

    failures = of(lambda r: r.status is Status.FAIL and r.blocking)
    unread = [r for r in judged if r.status is Status.ERROR and not _follows(r) and r.waived is None]
    errors = _findings(unread, registry)
    together, explained = causes([*unread, *(r for r in judged if r.status is Status.FAIL)], registry)
    lone = _findings([r for r in unread if id(r) not in explained], registry)
    waived = of(lambda r: r.waived is not None)
    warnings = of(
        lambda r: (
            r.status in (Status.WARN, Status.FAIL)
            and not r.blocking
            and r.waived is None
            and (r.check, r.subject) not in state
        )
    )
    alike, warned = _alike(warnings)
    waiting = of(lambda r: (r.check, r.subject) in state and r.waived is None)
    unreachable = _unreachable(results)
    seen = {r.subject for r in judged}
    only_groups = bool(judged) and all(r.scope != "host" for r in judged)
    unseen = (h for h in results.hosts if h not in seen and h not in results.unreachable and not only_groups)
    not_checked = tuple(sorted(unseen, key=natural))
    partial = bool(results.left_out_checks or results.left_out_hosts)
    doubts = bool(
        not results.complete
        or partial
        or errors
        or any(map(_follows, judged))
        or unreachable
        or not_checked
        or waiting
        or not judged
    )
    verdict = Verdict.NOT_READY if failures else Verdict.INCOMPLETE if doubts else Verdict.READY
    return Report(
        verdict=verdict,
        sentence=_sentence(results, failures, errors, waiting, not_checked) + _waived_too(results),
        plan=one_line(results.plan),
        digest=results.plan_digest[:12],
        inventory=one_line(results.inventory),
        started=one_line(results.started),
        seconds=results.seconds,
        hosts=results.hosts,
        failures=failures,
        errors=errors,
        warnings=warnings,
        open=waiting,
        waived=waived,
        causes=together,
        lone=lone,
        alike=alike,
        warned=warned,
        unreachable=unreachable,
        not_checked=not_checked,
        notes=(*_consequences(judged), *(one_line(n) for n in results.notes)),
        left_out=partial,
        counts=_counts(judged, state),
        total=len(judged),
        checks=len({r.check for r in judged}),
        next=(),
    )


def _follows(result: Result) -> bool:
    """Whether it only says that no host of a pool or rack was reached: the hosts themselves say why."""
    return (
        result.status is Status.ERROR
        and result.scope != "host"
        and result.message == f"no host of {result.scope} {result.subject} was reached"
    )


def _consequences(judged: list[Result]) -> tuple[str, ...]:
    lost = [r for r in judged if _follows(r)]
    if not lost:
        return ()
    groups = folded(sorted({f"{r.scope} {one_line(r.subject)}" for r in lost}), 80)
    checks = plural(len({r.check for r in lost}), "check")
    return (f"{checks} of {groups} not measured: no host of them was reached",)


def open_readings(results: Iterable[Result]) -> set[tuple[str, str]]:
    """Check and subject of good readings that were taken below full load and never at it."""
    loaded = [r for r in results if r.load is not None]
    at_full = {(r.check, r.subject) for r in loaded if r.load is Load.FULL}
    return {
        (r.check, r.subject)
        for r in loaded
        if r.load is not Load.FULL and r.status in (Status.PASS, Status.WARN)
    } - at_full


def display_state(result: Result, waiting: set[tuple[str, str]]) -> str:
    """The status as shown: a reading that waits for full load is neither a pass nor a warning."""
    if result.waived is not None:
        return WAIVED
    good = result.status in (Status.PASS, Status.WARN)
    return OPEN if good and (result.check, result.subject) in waiting else str(result.status)


def _counts(results: list[Result], waiting: set[tuple[str, str]]) -> tuple[tuple[str, int], ...]:
    tally = dict.fromkeys(
        (Status.FAIL, Status.ERROR, WAIVED, Status.WARN, OPEN, Status.PASS, Status.NOT_APPLICABLE), 0
    )
    for result in results:
        tally[display_state(result, waiting)] += 1
    return tuple((str(state), count) for state, count in tally.items() if count or state != WAIVED)


def _findings(results: list[Result], registry: Registry) -> tuple[Finding, ...]:
    ordered = sorted(results, key=lambda r: (r.check, r.severity))
    found = [
        _finding(list(same), registry) for _, same in groupby(ordered, key=lambda r: (r.check, r.severity))
    ]
    return tuple(sorted(found, key=lambda f: (_WEIGHT[f.severity], -len(f.subjects), f.check)))


def _finding(results: list[Result], registry: Registry) -> Finding:
    first = results[0]
    check = registry.get(first.check)
    mended = first.status is not Status.ERROR  # what was not read has no remedy
    remedies = {r.remedy for r in results if r.remedy} if mended else set()
    own = len(remedies) > 1
    whole = "" if own or not mended else next(iter(remedies), "") or (marked(check) if check else "")
    remedy, note = remedy_parts(whole)
    return Finding(
        check=first.check,
        title=one_line(check.title if check else first.title) or first.check,
        status=str(first.status),
        severity=first.severity,
        scope=first.scope,
        why=first_sentence(check.why) if check else "",
        remedy=remedy,
        note=note if not own else remedy_parts(next(r.remedy for r in results if r.remedy))[1],
        command=to_try(first, check),
        reversible=check.reversible if check else None,
        source=check.source if check else "",
        groups=_groups(results, own),
        path=one_line(first.plan_path),
    )


def _groups(results: list[Result], own_remedies: bool) -> tuple[Group, ...]:
    same: dict[tuple[str, ...], list[str]] = {}
    for r in results:
        load = LOADS[r.load] if r.load else ""
        told = any(w in r.message or w in r.actual for w in r.where)
        where = "" if told else folded(map(one_line, r.where), 80)
        remedy = remedy_parts(r.remedy)[0] if own_remedies else ""
        key = (
            one_line(r.expected),
            one_line(r.actual),
            one_line(r.message),
            where,
            load,
            remedy,
            waiver_text(r),
        )
        same.setdefault(key, []).append(one_line(r.subject))
    groups = [Group(tuple(sorted(s, key=natural)), *key) for key, s in same.items()]
    return tuple(
        sorted(groups, key=lambda g: (-len(g.subjects), natural(g.subjects[0]), g.actual, g.message))
    )


def waiver_text(result: Result) -> str:
    """Who accepted it, until when and why; empty where nobody did."""
    if result.waived is None:
        return ""
    w = result.waived
    ticket = f", {one_line(w.ticket)}" if w.ticket else ""
    return f"{one_line(w.owner)} until {one_line(w.expires)}: {one_line(w.reason)}{ticket}"


def _alike(warnings: tuple[Finding, ...]) -> tuple[tuple[Alike, ...], tuple[Finding, ...]]:
    """Warnings of three or more checks with one message put together, and the others."""
    same: dict[tuple[tuple[str, ...], str], list[Finding]] = {}
    for finding in warnings:
        first = finding.groups[0]
        if len(finding.groups) == 1 and first.detail:
            same.setdefault((first.subjects, first.detail), []).append(finding)
    many = {key: found for key, found in same.items() if len(found) > 2}
    inside = {id(f) for found in many.values() for f in found}
    together = (
        Alike(tuple(sorted(f.check for f in found)), subjects, text)
        for (subjects, text), found in many.items()
    )
    return tuple(together), tuple(f for f in warnings if id(f) not in inside)


_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b")


def _unreachable(results: Results) -> tuple[Unreachable, ...]:
    said = {r.subject: r.message for r in results.results if r.subject in results.unreachable and r.message}
    same: dict[str, list[str]] = {}
    for host in sorted(results.unreachable, key=natural):
        same.setdefault(_in_general(results.unreachable[host], host), []).append(host)
    groups = []
    for general, hosts in same.items():
        first = hosts[0]
        reason = one_line(results.unreachable[first])
        names = tuple(one_line(h) for h in hosts)
        shown = reason.removeprefix(f"{first}: ") if len(hosts) == 1 else general
        groups.append(Unreachable(names, shown, _look(first, reason, one_line(said.get(first, "")))))
    return tuple(sorted(groups, key=lambda u: (-len(u.hosts), natural(u.hosts[0]))))


def _in_general(reason: str, host: str) -> str:
    """The reason without the host's own name and address, so that equal reasons are equal."""
    named = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])")
    return _ADDRESS.sub("its address", one_line(named.sub("the host", reason)).removeprefix("the host: "))


def _look(host: str, reason: str, said: str) -> str:
    """The next command: what the collector said after the reason, else a login by hand."""
    told = said.removeprefix(reason).removeprefix("; ").removeprefix("try it by hand: ")
    if said.startswith(reason) and told:
        return told
    return f"ssh -o BatchMode=yes -o ConnectTimeout=10 {shlex.quote(one_line(host))} true"


def _sentence(
    results: Results,
    failures: tuple[Finding, ...],
    errors: tuple[Finding, ...],
    waiting: tuple[Finding, ...],
    not_checked: tuple[str, ...],
) -> str:
    parts = []
    if failures:
        parts.append(f"{plural(len(failures), 'check')} failed on {_reach(failures, results)}")
    if errors:
        parts.append(f"{plural(len(errors), 'check')} could not be measured on {_reach(errors, results)}")
    if results.unreachable:
        parts.append(f"{plural(len(results.unreachable), 'host')} unreachable")
    if not_checked:
        parts.append(f"{plural(len(not_checked), 'host')} not checked")
    if waiting:
        parts.append(f"{plural(len(waiting), 'check')} open until full load")
    if not results.complete:
        parts.append("the run ended before every verdict was in")
    if not results.results:
        parts.append("nothing was measured")
    if results.left_out_checks:
        why = f" ({one_line(results.reason)})" if results.reason else ""
        parts.append(f"{plural(len(results.left_out_checks), 'check')} left out of this run{why}")
    if results.left_out_hosts:
        nodes = plural(len(results.left_out_hosts), "node")
        parts.append(f"{nodes} of the plan left out: {folded(map(one_line, results.left_out_hosts), 60)}")
    if parts and not failures and results.results:
        parts.insert(0, "nothing failed")
    said = "; ".join(parts) or f"every check passed on {plural(len(results.hosts), 'host')}"
    if results.captures:
        taken = f"taken at {one_line(results.started)} " if results.started else ""
        said += f"; judged from captures {taken}in {one_line(results.captures)}"
    return said


def _waived_too(results: Results) -> str:
    days = sorted(r.waived.expires for r in results.results if r.waived)
    return f"; {plural(len(days), 'finding')} waived, the first until {one_line(days[0])}" if days else ""


def _reach(findings: tuple[Finding, ...], results: Results) -> str:
    subjects = {(f.scope, s) for f in findings for s in f.subjects}
    parts = []
    for scope in ("host", "rack", "pool"):
        count = sum(1 for kind, _ in subjects if kind == scope)
        if scope == "host" and count:
            parts.append(f"{count:,} of {plural(len(results.hosts), 'host')}")
        elif count:
            parts.append(plural(count, scope))
    return ", ".join(parts)


def _next(report: Report, file: str) -> tuple[Step, ...]:
    run = f"rackwright preflight --hosts {shlex.quote(report.inventory or 'hosts.ini')}"
    away = sorted((*(h for u in report.unreachable for h in u.hosts), *report.not_checked), key=natural)
    steps = []
    if report.failures:
        again = run + _only(report.failures)
        steps.append(Step("apply the remedies above, then judge these checks again", again))
    if report.errors:
        again = run + _only(report.errors)
        steps.append(Step("make what could not be measured measurable, then run it again", again))
    if away:
        steps.append(Step(f"reach {folded(away, 60)}, then run everything again", run))
    if report.open:
        again = run + _only(report.open) + " --load full"
        steps.append(Step("put the hosts under full load, then take the open readings again", again))
    if report.left_out:
        steps.append(Step("run what was left out: every check on every node of the plan", run))
    if steps and not report.inventory:
        write = "rackwright inventory plan.yaml -o hosts.ini"
        steps.insert(0, Step("write the inventory of these hosts, and put in their addresses", write))
    if report.verdict is Verdict.READY:
        steps.append(
            Step("stand the plan up, then prove it under load", "pulumi preview --diff && pulumi up")
        )
    if file.endswith(".html"):
        steps.append(Step("see every verdict with its evidence", f"open {shlex.quote(file)}"))
    elif file:
        page = re.sub(r"\.json$", "", file) + ".html"
        show = f"rackwright report {shlex.quote(file)} -o {shlex.quote(page)}"
        steps.append(Step("see every verdict with its evidence", show))
    return tuple(steps)


def _only(findings: tuple[Finding, ...]) -> str:
    """The selection of these checks, where it is short and their names are harmless in a shell."""
    ids = sorted({f.check for f in findings})
    safe = all(re.fullmatch(r"[a-z0-9-]+", name) for name in ids)
    return f" --only {','.join(ids)}" if safe and len(ids) <= 12 else ""
