"""CTRF (Common Test Report Format, JSON) for dashboards that read it: https://ctrf.io."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from checks.explain import headline
from checks.report.findings import NOT_CHECKED, Registry, waiver_text
from checks.report.text import clean
from rackwright import __version__
from rackwright.verdict import Result, Results, Status

SPECIFICATION = "0.0.0"


def document(results: Results, _registry: Registry) -> str:
    """The run as one CTRF document; times are milliseconds since the epoch."""
    tests = [_test(result) for result in results.results]
    seen = {r.subject for r in results.results if r.scope == "host"}
    if seen or not tests:
        lost = [host for host in results.hosts if host not in seen]
        tests += [
            {
                "name": f"{clean(host)} {NOT_CHECKED}",
                "status": "failed",
                "duration": 0,
                "rawStatus": NOT_CHECKED,
                "message": clean(results.unreachable.get(host, "no verdict in the results")),
                "suite": [clean(host)],
            }
            for host in lost
        ]
    start = _milliseconds(results.started)
    count = {status: sum(t["status"] == status for t in tests) for status in ("passed", "failed", "skipped")}
    body = {
        "reportFormat": "CTRF",
        "specVersion": SPECIFICATION,
        "results": {
            "tool": {"name": "rackwright preflight", "version": __version__},
            "summary": {
                "tests": len(tests),
                **count,
                "pending": 0,
                "other": 0,
                "start": start,
                "stop": start + round(results.seconds * 1000),
            },
            "tests": tests,
            "environment": {"extra": {"plan": clean(results.plan), "digest": results.plan_digest}},
        },
    }
    return json.dumps(body, ensure_ascii=False, indent=1) + "\n"


def _test(result: Result) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": clean(f"{result.subject} {result.check}"),
        "status": _status(result),
        "duration": 0,
        "rawStatus": str(result.status),
        "suite": [clean(result.pool), clean(result.subject)] if result.pool else [clean(result.subject)],
        "tags": [result.check.partition("-")[0], str(result.severity)],
    }
    if result.waived is not None:
        entry["message"] = clean(f"waived by {waiver_text(result)}. {headline(result)}")
    elif result.status is not Status.PASS:
        entry["message"] = clean(
            result.message if result.status is Status.NOT_APPLICABLE else headline(result)
        )
    if result.blocking:
        entry["trace"] = clean("\n".join(f"$ {e.command}\n{e.excerpt}" for e in result.evidence if e.excerpt))
        entry["extra"] = {"remedy": clean(result.remedy), "plan": clean(result.plan_path)}
    return entry


def _status(result: Result) -> str:
    if result.blocking:
        return "failed"
    if result.waived is not None or result.status is Status.NOT_APPLICABLE:
        return "skipped"
    return "passed"


def _milliseconds(started: str) -> int:
    try:
        return round(datetime.fromisoformat(started).timestamp() * 1000)
    except ValueError:
        return 0
