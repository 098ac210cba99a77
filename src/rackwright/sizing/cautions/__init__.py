"""What to beware of in a plan: one function a caution, each says when it applies and on what ground.

A theme is a module with ``RULES``; a caution's id is its function's name with dashes. ``refuse`` marks a red
line that an override crossed; ``rackwright check`` reports it as a finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.plan.cost import Caution
from rackwright.sizing.cautions import (
    adapters,
    devices,
    estimates,
    guide,
    hardware,
    money,
    serving,
    sharing,
    supply,
)
from rackwright.sizing.cautions.base import GUIDE, Finding, Rule, Severity, Sized
from rackwright.workload import Workload

__all__ = ["CAUTIONS", "GUIDE", "Finding", "Severity", "Sized", "cautions", "suppress_problems"]

CAUTIONS: dict[str, Rule] = {
    rule.__name__.replace("_", "-"): rule
    for theme in (guide, estimates, hardware, supply, serving, adapters, sharing, devices, money)
    for rule in theme.RULES
}
"""Caution id to its function; ids are what ``overrides.suppress`` names."""

MINIMUM_REASON = 8


def suppress_problems(workload: Workload) -> Iterator[Problem]:
    """Suppressions that name no caution, or give no reason."""
    for name, reason in workload.overrides.suppress.items():
        if name not in CAUTIONS:
            yield Problem(
                f"overrides.suppress.{name}",
                f"must name a caution{nearest(name, CAUTIONS)}",
                f'"{name}"',
                f"there are {listing(sorted(CAUTIONS))}",
                "correct the name, or drop it",
            )
        elif len(reason.strip()) < MINIMUM_REASON:
            yield Problem(
                f"overrides.suppress.{name}",
                "must give a reason",
                f'"{reason}"',
                "whoever reviews the plan must see why the caution was accepted",
                "write the reason as its value",
            )


def cautions(sized: Sized) -> tuple[Caution, ...]:
    """All that apply, refusals first; a suppressed one stays, with the reason.

    Raises:
        InputErrors: an override suppresses what must not be: a refusal.
    """
    found = []
    for name, function in CAUTIONS.items():
        finding = function(sized)
        if finding is None:
            continue
        severity, text, evidence, source = finding
        reason = sized.workload.overrides.suppress.get(name)
        if reason is not None and severity == "refuse":
            raise InputErrors(
                Problem(
                    f"overrides.suppress.{name}",
                    "must not suppress a red line",
                    f'"{reason}"',
                    text,
                    "drop it, and change what crosses the line",
                )
            )
        found.append(
            Caution(
                id=name, severity=severity, text=text, evidence=evidence, source=source, suppressed=reason
            )
        )
    rank = {"refuse": 0, "warn": 1, "info": 2}
    return tuple(sorted(found, key=lambda c: rank[c.severity]))
