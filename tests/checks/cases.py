"""Recordings: what a host printed, what the plan wanted, and the verdict that must come out."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from checks.registry import Check, Scope, load, wanted
from checks.view import HostView, NotMeasured
from rackwright.plan import NotApplicable
from rackwright.verdict import Outcome, could_not_measure, not_applicable
from tests.checks import build

RECORDINGS = Path(__file__).parent / "recordings"
_FIELDS = {"why", "expect", "says", "load", "where", "plan", "outputs", "hosts", "unreachable", "rating_w"}


@dataclass(frozen=True)
class Case:
    """One recording. ``hosts`` is set for checks of a pool or a rack, else ``outputs``."""

    check: Check
    name: str
    expect: str
    says: tuple[str, ...] = ()
    load: str | None = None
    where: tuple[str, ...] | None = None
    plan: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    unreachable: tuple[str, ...] = ()
    rating_w: float = 17_000.0

    @property
    def id(self) -> str:
        return f"{self.check.id}/{self.name}"

    def views(self) -> list[HostView]:
        if self.check.scope is Scope.HOST:
            return [build.view(self.check, self.outputs)]
        hosts = self.hosts or {"node-1": {}, "node-2": {}}
        return [build.view(self.check, outputs or {}, name=name) for name, outputs in hosts.items()]

    def judge(self, views: list[HostView] | None = None) -> Outcome:
        views = self.views() if views is None else views
        nodes = tuple(v.name for v in views) + self.unreachable
        context = build.Context(
            build.expectations(self.plan), nodes=nodes, rating_w=self.rating_w, unreachable=self.unreachable
        )
        return judge(self.check, views, context)


def judge(check: Check, views: list[HostView], context: build.Context) -> Outcome:
    """As a run does it: absent expectation is an error, not applicable is the plan's word, else the judge."""
    want = wanted(check, context.expectations)
    if want is None:
        return could_not_measure(f"the plan has no value at {check.expects}")
    if isinstance(want, NotApplicable):
        return not_applicable(want.not_applicable)
    subject: Any = views[0] if check.scope is Scope.HOST else views
    arguments = [subject, want, context][: len(inspect.signature(check.judge).parameters)]
    try:
        return check.judge(*arguments)
    except NotMeasured as problem:
        return could_not_measure(str(problem))


def _case(check: Check, path: Path) -> Case:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    unknown = set(data) - _FIELDS
    assert not unknown, f"{path}: unknown fields {unknown}"
    says = data.get("says", [])
    return Case(
        check=check,
        name=path.stem,
        expect=data["expect"],
        says=(says,) if isinstance(says, str) else tuple(says),
        load=data.get("load"),
        where=tuple(data["where"]) if "where" in data else None,
        plan=data.get("plan", {}),
        outputs=data.get("outputs", {}),
        hosts=data.get("hosts", {}),
        unreachable=tuple(data.get("unreachable", ())),
        rating_w=data.get("rating_w", 17_000.0),
    )


@lru_cache(maxsize=1)
def checks() -> dict[str, Check]:
    """The checks whose recordings stand here, as a host with NVIDIA's accelerators is asked them."""
    return {
        c.id: replace(c, commands=tuple(k for k in c.commands if k.vendor in ("", "nvidia")))
        for c in load().values()
        if c.judge.__module__ != "checks.areas.reach" and (not c.vendors or "nvidia" in c.vendors)
    }


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    return tuple(
        _case(check, path)
        for check in checks().values()
        for path in sorted((RECORDINGS / check.id).glob("*.yaml"))
    )
