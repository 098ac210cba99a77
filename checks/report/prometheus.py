"""A textfile for node-exporter's collector: the state of a fleet, to alert on.

One series a check and status, one a host, and one a finding; a fleet without findings of 1,000 hosts and 60
checks is about 2,300 series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from checks.report.findings import Registry, Verdict, examine
from checks.report.text import clean
from rackwright.verdict import Results, Status

_Labels = dict[str, str]
_Sample = tuple[_Labels, float]


def document(results: Results, registry: Registry) -> str:
    """The run in the text exposition format, without timestamps, as the textfile collector demands."""
    lines: list[str] = []
    for name, help_text, samples in _metrics(results, registry):
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge"]
        lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _metrics(results: Results, registry: Registry) -> Iterator[tuple[str, str, list[_Sample]]]:
    report = examine(results, registry)
    plan = {"plan": results.plan}
    yield ("rackwright_preflight_info", "The plan that the fleet was judged by.",
           [({**plan, "digest": results.plan_digest[:12]}, 1)])  # fmt: skip
    yield ("rackwright_preflight_ready", "1 where everything of the plan was proven.",
           [(plan, float(report.verdict is Verdict.READY))])  # fmt: skip
    yield ("rackwright_preflight_complete", "1 where the run ended with every verdict in.",
           [(plan, float(results.complete))])  # fmt: skip
    yield ("rackwright_preflight_exit_code", "Exit code of the run: 0 good, 1 findings, 2 could not run.",
           [(plan, float(results.exit_code))])  # fmt: skip
    yield ("rackwright_preflight_start_timestamp_seconds", "When the run began.",
           [(plan, _seconds(results.started))])  # fmt: skip
    yield ("rackwright_preflight_duration_seconds", "How long the run took.", [(plan, results.seconds)])
    yield ("rackwright_preflight_verdicts", "Verdicts of a check with this status.", _verdicts(results, plan))
    yield from _hosts(results, plan)
    yield ("rackwright_preflight_finding", "1 for every verdict that blocks go-live.", [
        ({**plan, "check": r.check, "subject": r.subject, "scope": r.scope, "severity": str(r.severity),
          "status": str(r.status)}, 1)
        for r in results.findings()
    ])  # fmt: skip
    yield ("rackwright_preflight_waived", "1 for every finding that a person accepts until a day.", [
        ({**plan, "check": r.check, "subject": r.subject, "owner": r.waived.owner,
          "expires": r.waived.expires}, 1)
        for r in results.results if r.waived
    ])  # fmt: skip


def _verdicts(results: Results, plan: _Labels) -> list[_Sample]:
    severities = {r.check: str(r.severity) for r in results.results}
    tally = Counter((r.check, str(r.status)) for r in results.results)
    return [
        ({**plan, "check": check, "severity": severity, "status": str(status)}, tally[check, str(status)])
        for check, severity in sorted(severities.items())
        for status in Status
    ]


def _hosts(results: Results, plan: _Labels) -> Iterator[tuple[str, str, list[_Sample]]]:
    hosts = {host: results.unreachable.get(host) is None for host in results.hosts}
    found = Counter(r.subject for r in results.findings() if r.scope == "host")
    yield ("rackwright_preflight_host_reached", "1 where the host was collected.",
           [({**plan, "host": host}, float(reached)) for host, reached in hosts.items()])  # fmt: skip
    yield ("rackwright_preflight_host_findings", "Verdicts of the host that block go-live.",
           [({**plan, "host": host}, found[host]) for host in hosts])  # fmt: skip


def _labels(labels: _Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return clean(value).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _seconds(started: str) -> float:
    try:
        return datetime.fromisoformat(started).timestamp()
    except ValueError:
        return 0.0
