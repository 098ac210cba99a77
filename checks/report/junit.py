"""JUnit XML: a suite a subject, a case a verdict, as CI systems read it.

What could not be measured is an *error*, a finding a *failure*; a waived finding and what the plan calls not
applicable are *skipped* with the reason.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from checks.explain import headline
from checks.report.findings import NOT_CHECKED, Registry, waiver_text
from checks.report.text import clean
from rackwright.verdict import Result, Results, Status

_XML_FORBIDS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(results: Results, _registry: Registry) -> str:
    """The run as one JUnit document."""
    root = ET.Element("testsuites", name=_text(f"preflight {results.plan}"))
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    by_subject: dict[tuple[str, str], list[Result]] = {}
    for result in results.results:
        by_subject.setdefault((result.scope, result.subject), []).append(result)
    for (scope, subject), found in by_subject.items():
        _add(totals, _suite(root, scope, subject, found, results))
    reported = {subject for scope, subject in by_subject if scope == "host"}
    if any(scope == "host" for scope, _ in by_subject) or not by_subject:
        for host in results.hosts:
            if host not in reported:
                _add(totals, _lost(root, host, results))
    for name, count in totals.items():
        root.set(name, str(count))
    root.set("time", f"{results.seconds:.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add(totals: dict[str, int], counts: dict[str, int]) -> None:
    for name, count in counts.items():
        totals[name] += count


def _suite(
    root: ET.Element, scope: str, subject: str, found: list[Result], results: Results
) -> dict[str, int]:
    name = subject if scope == "host" else f"{scope} {subject}"
    suite = ET.SubElement(root, "testsuite", name=_text(name))
    if results.started:
        suite.set("timestamp", _text(results.started))
    counts = {"tests": len(found), "failures": 0, "errors": 0, "skipped": 0}
    for result in found:
        case = ET.SubElement(suite, "testcase", classname=_text(name), name=_text(result.check), time="0")
        _outcome(case, result, counts)
    for key, count in counts.items():
        suite.set(key, str(count))
    return counts


def _outcome(case: ET.Element, result: Result, counts: dict[str, int]) -> None:
    if result.waived is not None:
        counts["skipped"] += 1
        said = f"waived by {waiver_text(result)}. {headline(result)}"
        ET.SubElement(case, "skipped", message=_text(said))
    elif result.status is Status.NOT_APPLICABLE:
        counts["skipped"] += 1
        ET.SubElement(case, "skipped", message=_text(f"not applicable: {result.message}"))
    elif result.status is Status.ERROR:
        counts["errors"] += 1
        node = ET.SubElement(case, "error", type="not-measured", message=_text(headline(result)))
        node.text = _text(_body(result))
    elif result.blocking:
        counts["failures"] += 1
        node = ET.SubElement(case, "failure", type=str(result.severity), message=_text(headline(result)))
        node.text = _text(_body(result))
    elif result.status is not Status.PASS:
        out = ET.SubElement(case, "system-out")
        out.text = _text(f"warning: {headline(result)}\n{result.message}")


def _body(result: Result) -> str:
    lines = [result.message] if result.message else []
    lines += [f"remedy: {result.remedy}"] if result.remedy else []
    lines += [f"plan: {result.plan_path}"] if result.plan_path else []
    for item in result.evidence:
        lines += [f"$ {item.command}", item.excerpt] if item.excerpt else []
    return "\n".join(lines)


def _lost(root: ET.Element, host: str, results: Results) -> dict[str, int]:
    """A host without a verdict is an error: nobody may take its absence for good."""
    reason = results.unreachable.get(host, "no verdict in the results")
    suite = ET.SubElement(
        root, "testsuite", name=_text(host), tests="1", failures="0", errors="1", skipped="0"
    )
    case = ET.SubElement(suite, "testcase", classname=_text(host), name=NOT_CHECKED, time="0")
    ET.SubElement(case, "error", type=NOT_CHECKED, message=_text(reason))
    return {"tests": 1, "errors": 1}


def _text(value: str) -> str:
    return _XML_FORBIDS.sub("?", clean(value))
