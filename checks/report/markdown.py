"""Markdown for a ticket or a pull request. What a host printed stays text: no markup, no mention, no row."""

from __future__ import annotations

import re
from typing import Any

from checks.report.causes import Cause
from checks.report.findings import SYMBOLS, WORDS, Finding, Registry, examine
from checks.report.text import clean, duration, folded, one_line, plural
from rackwright.render import render
from rackwright.verdict import Results

TEMPLATE = "report/summary.md.j2"
_GROUPS = 6


def summary(results: Results, registry: Registry) -> str:
    """The run in a page of Markdown."""
    return render(TEMPLATE, view(results, registry))


def code(text: str) -> str:
    """``text`` as a code span that also survives in a table."""
    text = one_line(text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else "–"


def fenced(text: str) -> str:
    """``text`` as a block that nothing inside can end."""
    text = clean(text).strip("\n")
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}sh\n{text}\n{fence}"


def prose(text: str) -> str:
    """Our own words: code spans stay, the rest of Markdown does not act."""
    parts = one_line(text).split("`")
    return "`".join(
        part if i % 2 and i < len(parts) - 1 else re.sub(r"([\\<>*_\[\]|#~])", r"\\\1", part)
        for i, part in enumerate(parts)
    )


def view(results: Results, registry: Registry) -> dict[str, Any]:
    """Everything the template prints, decided and escaped."""
    report = examine(results, registry)
    facts = [f"plan {code(report.plan)}" + (f" ({report.digest})" if report.digest else "")]
    facts += [code(report.started)] if report.started else []
    facts += [plural(len(report.hosts), "host"), plural(report.checks, "check"), duration(report.seconds)]
    return {
        "verdict": str(report.verdict),
        "sentence": prose(report.sentence),
        "facts": " · ".join(facts),
        "counts": [
            {"word": f"{SYMBOLS[state]} {WORDS[state]}", "count": f"{n:,}"} for state, n in report.counts
        ],
        "findings": [_finding(f) for f in report.failures],
        "causes": [_cause(c) for c in report.causes],
        "lone": [_finding(f) for f in report.lone],
        "waived": [_finding(f) for f in report.waived],
        "warnings": [_finding(f) for f in report.warned],
        "alike": [
            {"checks": code(", ".join(a.checks)), "subjects": code(folded(a.subjects)), "text": prose(a.text)}
            for a in report.alike
        ],
        "open": [_finding(f) for f in report.open],
        "unreachable": [
            {"hosts": code(folded(u.hosts)), "reason": code(u.reason), "next": code(u.next)}
            for u in report.unreachable
        ],
        "not_checked": code(folded(report.not_checked)) if report.not_checked else "",
        "notes": [prose(n) for n in report.notes],
        "next": [{"text": prose(s.text), "command": fenced(s.command)} for s in report.next],
    }


def _cause(cause: Cause) -> dict[str, Any]:
    reach = ", ".join(plural(len(names), scope) for scope, names in cause.subjects.items())
    return {
        "text": prose(cause.text),
        "severity": str(cause.severity),
        "reach": f"{plural(len(cause.checks), 'check')}, {reach}",
        "on": ", ".join(code(folded(names)) for names in cause.subjects.values()),
        "checks": code(", ".join(cause.checks)),
        "see": code(cause.see) if cause.see else "",
        "look": fenced(cause.command) if cause.command else "",
        "remedy": fenced(cause.remedy) if cause.remedy else "",
        "note": prose(cause.note),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    left = [s for g in finding.groups[_GROUPS:] for s in g.subjects]
    own = [g for g in finding.groups[:_GROUPS] if g.remedy]
    return {
        "mark": f"{SYMBOLS[finding.status]} {WORDS[finding.status]}",
        "id": code(finding.check),
        "title": prose(finding.title),
        "severity": str(finding.severity),
        "reach": plural(len(finding.subjects), finding.scope),
        "loads": " and ".join(sorted({g.load for g in finding.groups if g.load})),
        "expected": code(finding.expected),
        "groups": [
            {
                "subjects": code(folded(g.subjects)),
                "found": code(g.found),
                "expected": code(g.expected),
                "detail": code(g.detail) if g.detail else "",
                "waiver": prose(g.waiver),
            }
            for g in finding.groups[:_GROUPS]
        ],
        "more": f"{plural(len(left), finding.scope)} more: {code(folded(left))}" if left else "",
        "why": prose(finding.why),
        "remedy": fenced(finding.remedy or "\n".join(f"# {folded(g.subjects)}\n{g.remedy}" for g in own))
        if finding.remedy or own
        else "",
        "note": prose(finding.note),
        "look": fenced(finding.command) if finding.status == "error" and finding.command else "",
        "once": finding.reversible is False and bool(finding.remedy),
    }
