"""Checks that what was measured on the hosts of a pool lies close together: clocks, and bandwidths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from checks.areas._read import Context, Finding, fault, notice, unread, verdict
from checks.areas.host import clock_offset
from checks.commands import CHRONY, TIMEDATE, TIMESYNC
from checks.registry import Scope, check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.verdict import Outcome, Severity, not_applicable


def alone(values: Mapping[str, float], found: Sequence[Finding], context: Context) -> list[Finding]:
    """What keeps hosts from being compared: those not reached, and that there is only one."""
    more: list[Finding] = []
    if context.unreachable:
        more.append(notice("", f"not compared, not reached: {listing(context.unreachable)}"))
    if len(values) < 2 and not found and not more:
        known = (
            f"only {listing(sorted(values)) or 'none'} of {len(context.pool.nodes)} planned hosts was read"
        )
        more.append(notice("", f"open: {known}: nothing to compare with"))
    return more


def nothing_to_compare(context: Context) -> Outcome | None:
    """Of a pool that the plan gives one host, there is never anything to compare."""
    if len(context.pool.nodes) < 2:
        return not_applicable("the plan gives this pool one host: there is nothing to compare with")
    return None


@check(
    id="uniform-clock",
    title="Clocks of a pool's hosts close together",
    severity=Severity.MAJOR,
    commands=[CHRONY, TIMEDATE, TIMESYNC],
    expects="os.clock_skew_max_ms",
    scope=Scope.POOL,
    remedy="chronyc -n tracking; sudo chronyc makestep  # on the hosts that are named",
    reversible=True,
    source="preflight practice: two hosts may each be in tolerance, one early and one late",
)
def skew(views: Sequence[HostView], want: float, context: Context) -> Outcome:
    """The two ends of a request write their times; where they differ by more than the step they describe,
    a trace shows answers before questions."""
    if (single := nothing_to_compare(context)) is not None:
        return single
    found: list[Finding] = []
    offsets: dict[str, float] = {}
    for view in views:
        try:
            offset, who = clock_offset(view)
        except NotMeasured as problem:
            found.append(unread(view.name, str(problem)))
            continue
        if offset is None:
            found.append(notice(view.name, f"not compared: not synchronised ({who}), see time-sync"))
        else:
            offsets[view.name] = offset
    spread = max(offsets.values()) - min(offsets.values()) if offsets else 0.0
    if spread > want:
        centre = median(offsets.values())
        low, high = min(offsets.values()), max(offsets.values())
        found += [
            fault(name, f"{value:+.3g} ms, the others around {centre:+.3g} ms")
            for name, value in offsets.items()
            if max(value - low, high - value) > want and abs(value - centre) >= want / 2
        ]
    found += alone(offsets, found, context)
    return verdict(found, actual=f"{spread:.3g} ms apart", expected=f"≤ {want:g} ms between any two")
