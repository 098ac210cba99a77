"""The page: one file that needs nothing else, and in which nothing from a host can run."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.report.causes import Cause
from checks.report.findings import SYMBOLS, WORDS, Finding, Registry, examine
from checks.report.matrix import as_script_data, matrix
from checks.report.racks import Budget, RackView, Reading, rack_views
from checks.report.text import clean, duration, folded, is_prose, kilowatts, plural
from rackwright.files import write_whole
from rackwright.plan import Plan
from rackwright.render import render
from rackwright.verdict import Results

TEMPLATE = "report/report.html.j2"
_GROUPS = 12


@dataclass(frozen=True)
class Mark:
    """A state as it is shown everywhere: symbol, word, and the class that colours it."""

    state: str
    symbol: str
    word: str


def write(results: Results, registry: Registry, plan: Plan | None, path: Path) -> None:
    """Write the page whole or not at all; the same input gives the same bytes.

    Raises:
        CannotRun: it cannot be written.
    """
    write_whole(path, page(results, registry, plan))


def page(results: Results, registry: Registry, plan: Plan | None = None) -> str:
    """The page as text."""
    return _seal(render(TEMPLATE, view(results, registry, plan)))


def _seal(text: str) -> str:
    """Allow exactly the page's own script, by its hash: were anything else to get in, it would not run."""
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return text.replace("sha256-OWN", f"sha256-{digest}", 1)


def view(results: Results, registry: Registry, plan: Plan | None) -> dict[str, Any]:
    """Everything the template prints, decided."""
    report = examine(results, registry)
    racks = rack_views(results, registry, plan)
    data = matrix(results, registry, plan)
    judged = {r.check for r in results.results}
    areas = sorted({c["area"] for c in data["checks"]})
    facts = [
        ("plan", report.plan + (f" ({report.digest})" if report.digest else "")),
        ("inventory", report.inventory),
        ("started", report.started),
        ("took", duration(report.seconds)),
        ("hosts", f"{len(report.hosts):,}"),
        ("checks", f"{report.checks:,}"),
    ]
    return {
        "verdict": str(report.verdict),
        "tone": str(report.verdict).lower().replace(" ", "-"),
        "sentence": clean(report.sentence),
        "facts": [(name, clean(value)) for name, value in facts if value],
        "counts": [{"mark": _mark(state), "count": f"{count:,}"} for state, count in report.counts],
        "areas": areas,
        "findings": [_finding(f) for f in report.failures],
        "causes": [_cause(c) for c in report.causes],
        "lone": [_finding(f) for f in report.lone],
        "waived": [_finding(f) for f in report.waived],
        "warnings": [_finding(f) for f in report.warned],
        "alike": [
            {"checks": clean(", ".join(a.checks)), "subjects": folded(a.subjects), "text": spans(a.text)}
            for a in report.alike
        ],
        "differs": _differs(report.failures + report.waived + report.warned),
        "open": [_finding(f) for f in report.open],
        "unreachable": [
            {
                "hosts": folded(u.hosts),
                "count": plural(len(u.hosts), "host"),
                "reason": spans(u.reason),
                "next": u.next,
                "by_hand": is_prose(u.next),
            }
            for u in report.unreachable
        ],
        "not_checked": clean(folded(report.not_checked)),
        "not_run": [
            {"id": c.id, "title": c.title, "tier": c.tier} for c in registry.values() if c.id not in judged
        ],
        "notes": [clean(n) for n in report.notes],
        "next": [{"text": clean(s.text), "command": clean(s.command)} for s in report.next],
        "racks": [_rack(r) for r in racks],
        "racks_summary": _racks_summary(racks),
        "plan": _plan(plan) if plan else [],
        "unreachable_mark": _mark("unreachable"),
        "data": as_script_data(data),
    }


def _mark(state: str) -> Mark:
    return Mark(state, SYMBOLS[state], WORDS[state])


def spans(text: str) -> list[tuple[bool, str]]:
    """``text`` in parts; those between backticks are code. A backtick without a partner stays."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    return [(bool(i % 2), part) for i, part in enumerate(parts) if part]


def _differs(findings: tuple[Finding, ...]) -> list[dict[str, Any]]:
    """Where the fleet is not as the plan says: one line a planned value and found one."""
    return [
        {
            "path": clean(finding.path),
            "check": finding.check,
            "mark": _mark("waived" if group.waiver else finding.status),
            "planned": spans(group.expected),
            "found": spans(group.actual or group.message),
            "detail": spans(group.detail),
            "subjects": folded(group.subjects),
            "count": plural(len(group.subjects), finding.scope),
        }
        for finding in sorted((f for f in findings if f.path), key=lambda f: f.path)
        for group in finding.groups[:_GROUPS]
    ]


def _cause(cause: Cause) -> dict[str, Any]:
    reach = ", ".join(plural(len(names), scope) for scope, names in cause.subjects.items())
    return {
        "mark": _mark("error"),
        "text": spans(cause.text),
        "severity": str(cause.severity),
        "reach": f"{plural(len(cause.checks), 'check')}, {plural(cause.verdicts, 'verdict')}, {reach}",
        "subjects": [
            ("" if scope == "host" else f"{scope} ") + folded(names)
            for scope, names in cause.subjects.items()
        ],
        "checks": list(cause.checks),
        "see": cause.see,
        "look": clean(cause.command),
        "remedy": cause.remedy,
        "note": spans(cause.note),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    shown, rest = finding.groups[:_GROUPS], finding.groups[_GROUPS:]
    left = [s for g in rest for s in g.subjects]
    return {
        "id": finding.check,
        "area": finding.check.partition("-")[0],
        "title": clean(finding.title),
        "mark": _mark(finding.status),
        "severity": str(finding.severity),
        "reach": plural(len(finding.subjects), finding.scope),
        "groups": [
            {
                "subjects": folded(g.subjects),
                "count": plural(len(g.subjects), finding.scope),
                "expected": spans(g.expected),
                "found": spans(g.found),
                "detail": spans(g.detail),
                "remedy": clean(g.remedy),
                "waiver": spans(g.waiver),
            }
            for g in shown
        ],
        "more": f"{plural(len(left), finding.scope)} more with other values: {folded(left, 120)}"
        if left
        else "",
        "loads": " and ".join(sorted({g.load for g in finding.groups if g.load})),
        "why": spans(finding.why),
        "remedy": finding.remedy,
        "note": spans(finding.note),
        "look": clean(finding.command) if finding.status == "error" else "",
        "once": finding.reversible is False and bool(finding.remedy),
        "source": clean(finding.source),
    }


def _rack(rack: RackView) -> dict[str, Any]:
    return {
        "name": clean(rack.name),
        "site": clean(rack.site),
        "hosts": clean(folded(rack.hosts)),
        "count": plural(len(rack.hosts), "host") if rack.hosts else "",
        "mark": _mark(rack.state),
        "planned": _budget(rack.planned),
        "measured": _budget(rack.measured),
        "rating": kilowatts(rack.planned.rating_w) if rack.planned else "",
        "power": [_reading(r) for r in rack.power],
        "heat": [_reading(r) for r in rack.heat],
    }


def _budget(budget: Budget | None) -> dict[str, Any] | None:
    if budget is None:
        return None
    return {
        "sum": f"{kilowatts(budget.watts)} × {budget.factor:g} = {kilowatts(budget.with_factor_w)}",
        "percent": f"{budget.percent:.0f}",
        "bar": f"{min(budget.percent, 100):.1f}",
        "fits": budget.fits,
    }


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "check": reading.check,
        "subject": clean(reading.subject),
        "mark": _mark(reading.state),
        "text": spans(reading.text),
        "expected": reading.expected,
        "load": reading.load,
    }


def _racks_summary(racks: tuple[RackView, ...]) -> str:
    over = [r.name for r in racks if r.measured and not r.measured.fits]
    planned_over = [r.name for r in racks if r.planned and not r.planned.fits]
    unmeasured = [r.name for r in racks if r.measured is None]
    parts = [plural(len(racks), "rack")]
    if over:
        parts.append(f"measured over the rating: {folded(over, 120)}")
    if planned_over:
        parts.append(f"planned over the rating: {folded(planned_over, 120)}")
    if unmeasured:
        parts.append(f"power not measured: {folded(unmeasured, 120)}")
    return "; ".join(parts)


def _plan(plan: Plan) -> list[tuple[str, str]]:
    """The plan in a few lines: what was sized, where it stands, what it serves."""
    lines = [("name", plan.header.name), ("digest", plan.digest)]
    lines += [("users", f"{plan.workload.users.dau:,} a day, {plan.workload.users.scenario}")]
    lines += [
        (
            f"pool {p.name}",
            f"{len(p.nodes)} × {p.machine} ({p.gpus_per_node} × {p.accelerator}), "
            f"{plural(p.spares, 'spare')}, {kilowatts(p.full_load_w_per_node)} a node at full load",
        )
        for p in plan.pools
    ]
    if plan.fabric:
        f = plan.fabric
        lines.append(
            ("fabric", f"{f.kind}, {plural(len(f.rails), 'rail')} of {f.rate_gbps} Gb/s, MTU {f.mtu}")
        )
    lines += [
        (
            f"deployment {d.name}",
            f"{d.model} on {d.engine.name} {d.engine.version}: {plural(d.layout.replicas, 'replica')}, "
            f"{d.layout.words}",
        )
        for d in plan.deployments
    ]
    if plan.platform:
        p = plan.platform
        lines.append(("driver", f"{p.driver_version} ({p.kernel_module}), installed by {p.driver_owner}"))
    lines += [(f"caution {c.id}", f"{c.severity}: {c.text}") for c in plan.cautions if not c.suppressed]
    return [(clean(name), clean(value)) for name, value in lines]
