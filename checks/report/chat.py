"""The run in a few lines: for a job's summary on GitHub (Markdown), for Slack (a webhook's body)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from checks.report.findings import SYMBOLS, WORDS, Registry, Report, Verdict, examine
from checks.report.markdown import code, prose
from checks.report.text import folded, one_line, plural, shorten
from rackwright.verdict import Results

_FINDINGS = 10
_SLACK_LIMIT = 3_000
"""Characters that one text section of Slack may have."""
_ICONS = {Verdict.READY: "✅", Verdict.NOT_READY: "❌", Verdict.INCOMPLETE: "⚠️"}


def github(results: Results, registry: Registry) -> str:
    """A short summary in GitHub's Markdown, for ``$GITHUB_STEP_SUMMARY`` or a comment."""
    report = examine(results, registry)
    counts = " · ".join(f"{SYMBOLS[s]} {n:,} {WORDS[s]}" for s, n in report.counts if n)
    lines = [
        f"### {_ICONS[report.verdict]} Preflight {code(report.plan)}: {report.verdict}",
        "",
        f"{prose(report.sentence)}.",
        "",
        counts or "no verdicts",
    ]
    rows = list(_rows(report))
    if rows:
        lines += ["", "| | What | On |", "| --- | --- | --- |"]
        lines += [f"| {mark} | {code(what)} | {code(on)} |" for mark, what, on in rows[:_FINDINGS]]
    if len(rows) > _FINDINGS:
        lines += ["", f"and {len(rows) - _FINDINGS:,} more in the report"]
    return "\n".join(lines) + "\n"


def slack(results: Results, registry: Registry) -> str:
    """The body of a Slack webhook call (JSON). Nothing a host printed can mention anybody or make a link."""
    report = examine(results, registry)
    lines = [f"{_ICONS[report.verdict]} *Preflight {_plain(report.plan)}: {report.verdict}*"]
    lines.append(_plain(report.sentence))
    rows = list(_rows(report))
    lines += [f"{mark} {_plain(what)} — {_plain(on)}" for mark, what, on in rows[:_FINDINGS]]
    if len(rows) > _FINDINGS:
        lines.append(f"and {len(rows) - _FINDINGS:,} more in the report")
    text = shorten("\n".join(lines), _SLACK_LIMIT)
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
    return json.dumps({"text": lines[0], "blocks": [section]}, ensure_ascii=False, indent=1) + "\n"


def _rows(report: Report) -> Iterator[tuple[str, str, str]]:
    """Symbol, what and where of everything that keeps the run from being ready."""
    for lost in report.unreachable:
        yield SYMBOLS["unreachable"], one_line(lost.reason), folded(lost.hosts, 80)
    for finding in report.failures:
        found = shorten(finding.groups[0].found, 90)
        more = f" and {plural(len(finding.groups) - 1, 'other value')}" if len(finding.groups) > 1 else ""
        yield SYMBOLS["fail"], f"{finding.check}: found {found}{more}", folded(finding.subjects, 80)
    for cause in report.causes:
        subjects = [name for names in cause.subjects.values() for name in names]
        yield (
            SYMBOLS["error"],
            f"{cause.text} ({plural(len(cause.checks), 'check')} not measured)",
            folded(subjects, 80),
        )
    for finding in report.lone:
        yield (
            SYMBOLS["error"],
            f"{finding.check}: {shorten(finding.groups[0].found, 90)}",
            folded(finding.subjects, 80),
        )


def _plain(text: str) -> str:
    """Text that Slack shows as it is: its three control characters escaped, its marks without effect."""
    text = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "*_~`":
        text = text.replace(mark, f"{mark}\u2060")
    return text.replace("@", "@\u2060")
