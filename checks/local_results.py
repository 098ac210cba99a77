"""Your own tests as verdicts: what a pytest or testinfra test says lands in the same report as our checks.

A test with the ``host`` fixture is about that host, any other in ``checks/local/`` about the row ``local``.
It passes, fails, is not applicable (skipped), or could not be measured (its set-up failed). A failure blocks,
unless the test is marked ``@pytest.mark.severity("warn")``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from checks.registry import Scope
from checks.report.text import first_sentence, one_line, shorten
from rackwright.inventory import Host
from rackwright.secrets import masked
from rackwright.verdict import Evidence, Result, Severity, Status

DIRECTORY = Path(__file__).parent / "local"
SUBJECT = "local"
"""The row of tests that are about no host."""
_EXCERPT = 600
_LINE = 300


def local_result(item: pytest.Item, report: pytest.TestReport) -> Result | None:
    """The verdict of one phase of a test; None where it says nothing, or the test is none of these."""
    callspec = getattr(item, "callspec", None)
    host = callspec.params.get("host") if callspec else None
    if not isinstance(host, Host) and DIRECTORY not in item.path.parents:
        return None
    if report.when != "call" and report.passed:
        return None
    status, message = _outcome(report)
    severity = _severity(item)
    if status is Status.FAIL and severity in (Severity.WARN, Severity.INFO):
        status = Status.WARN
    place = host if isinstance(host, Host) else None
    return Result(
        check=_id(item, place),
        subject=place.name if place else SUBJECT,
        scope=Scope.HOST.value if place else Scope.POOL.value,
        pool=place.pool if place else SUBJECT,
        title=_title(item),
        severity=severity,
        status=status,
        message=message,
        evidence=_evidence(item, report, status),
    )


def _outcome(report: pytest.TestReport) -> tuple[Status, str]:
    if hasattr(report, "wasxfail"):
        why = one_line(str(report.wasxfail)) or "no reason given"
        if report.skipped:
            return Status.WARN, f"expected to fail: {why}"
        return Status.PASS, f"passes, though it was expected to fail: {why}"
    if report.passed:
        return Status.PASS, ""
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        return Status.NOT_APPLICABLE, one_line(str(reason)).removeprefix("Skipped: ")
    return (Status.FAIL if report.when == "call" else Status.ERROR), _first_line(report)


def _first_line(report: pytest.TestReport) -> str:
    """What went wrong, in one line: the assertion, or the exception."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message) if crash is not None else report.longreprtext
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return shorten(masked(one_line(lines[0])), _LINE) if lines else "failed without a word"


def _evidence(item: pytest.Item, report: pytest.TestReport, status: Status) -> tuple[Evidence, ...]:
    shown = status in (Status.FAIL, Status.WARN, Status.ERROR)
    lines = [line for line in report.longreprtext.splitlines() if line[:2] in ("E ", "> ")] if shown else []
    text = masked("\n".join(lines) or (report.longreprtext if shown else ""))
    return (Evidence(command=f"pytest {item.nodeid}", excerpt=shorten(text, _EXCERPT)),)


def _id(item: pytest.Item, host: Host | None) -> str:
    """``test_disks.py::test_mounted[gpu-01-/data]`` is ``local-disks-mounted-data``."""
    name = getattr(item, "originalname", None) or item.name.partition("[")[0]
    callspec = getattr(item, "callspec", None)
    varied = callspec.id.replace(host.name, "", 1) if callspec and host else callspec.id if callspec else ""
    words = (item.path.stem.removeprefix("test_"), str(name).removeprefix("test_"), varied)
    return "-".join(["local", *(w for word in words if (w := _slug(word)))])


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _title(item: pytest.Item) -> str:
    text = getattr(getattr(item, "function", None), "__doc__", None) or item.name.partition("[")[0]
    return first_sentence(text.removeprefix("test_").replace("_", " "))


def _severity(item: pytest.Item) -> Severity:
    marker = item.get_closest_marker("severity")
    words = marker.args if marker else ()
    try:
        return Severity(str(words[0])) if words else Severity.MAJOR
    except ValueError:
        known = ", ".join(Severity)
        raise pytest.UsageError(
            f"{item.nodeid}: severity must be one of {known}; found {words[0]!r}"
        ) from None
