"""Which engine a run of the tests used: the real one and its versions, or the embedded one alone and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tools.engine import build, env
from tools.engine.families import FAMILIES, LAB, PULUMI_KUBERNETES

MARK = ("tier", "real")
"""A property of each test that needs the real engine; reports carry it, from other processes too."""


def line(stats: Mapping[str, Sequence[Any]]) -> str:
    """One line for the end of a run, from pytest's reports by outcome."""
    ran = (
        _marked(stats.get("passed", ())) + _marked(stats.get("failed", ())) + _marked(stats.get("error", ()))
    )
    skipped = _marked(stats.get("skipped", ()))
    if not ran:
        return f"engine tier: embedded only: {_why_not(skipped)}"
    versions = ", ".join(_versions())
    rest = f", {skipped} skipped: {_absent()}" if skipped else ""
    return f"engine tier: real ({versions}); its tests: {ran} ran{rest}"


def _marked(reports: Iterable[Any]) -> int:
    """Tests of the real engine: one report each, of the call, or of a setup that failed or skipped."""
    return len({r.nodeid for r in reports if MARK in getattr(r, "user_properties", ())})


def _why_not(skipped: int) -> str:
    reason = env.usable()
    if reason:
        return reason
    return _absent() if skipped else "no test of the real engine was selected"


def _absent() -> str:
    _, absent = build.have(LAB)
    return f"{', '.join(absent)}: not there. next: make engine" if absent else "see the reasons above"


def _versions() -> Iterable[str]:
    """What each program says of itself; the provider cannot say."""
    for family in FAMILIES:
        binary = family.binaries[0]
        found = build.locate(family, binary)
        if found is None:
            continue
        if binary.name == "pulumi-resource-kubernetes":
            yield f"kubernetes provider {PULUMI_KUBERNETES}"
        elif binary.accepts:
            words = build.printed(found.path, binary).split()
            yield f"{binary.name} {next(w for w in words if w.lstrip('v')[:1].isdigit()).lstrip('v')}"
