"""Whether a host can be reached and collected at all: the one check that reads no command."""

from __future__ import annotations

from checks.registry import check
from checks.view import HostView
from rackwright.verdict import Outcome, Severity, could_not_measure, passed


@check(
    id="net-reachable",
    title="The host answers over SSH and can be collected",
    severity=Severity.CRITICAL,
    commands=[],
    expects="",
    remedy="ssh to the host by hand with the same user and key; enrol its host key: "
    "rackwright enrol --hosts hosts.ini",
    reversible=True,
    source="our own: a host that cannot be collected has no verdict on anything else",
)
def reachable(view: HostView, _want: None) -> Outcome:
    """Nothing else about the host can be measured: its other checks are counted as not measured, never as
    passed."""
    capture = view.capture
    if capture.problem:
        following = f"; {capture.problem_next}" if capture.problem_next else ""
        return could_not_measure(f"{capture.problem}{following}", expected="reachable", actual="not reached")
    if capture.cut:
        return could_not_measure(capture.cut, expected="a whole collection", actual="a part of it")
    return passed(f"collected in {capture.seconds:.1f} s", "reachable")
