"""Judges captures: one verdict a check and subject, whoever collected them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from checks.capture import Capture
from checks.evidence import evidence
from checks.parsers import parse_once
from checks.registry import Check, Command, Judge, Scope, wanted
from checks.remedy import filled
from checks.view import HostView, NotMeasured
from rackwright.inventory import Host, Inventory
from rackwright.plan import HostExpectation, NotApplicable, Plan, Pool, Rack
from rackwright.verdict import (
    Evidence,
    Load,
    Outcome,
    Result,
    Severity,
    Status,
    could_not_measure,
    not_applicable,
)
from rackwright.waivers import Waivers


@dataclass(frozen=True)
class Context:
    """What a judge may know besides the captures.

    Attributes:
        host: set for host checks; ``rack`` for rack checks.
        unreachable: hosts of the pool or rack that gave no capture; their views are not passed.
        absent: nodes that the plan has there and this run does not include.
    """

    plan: Plan
    pool: Pool
    expectations: HostExpectation | None
    rack: Rack | None = None
    host: str = ""
    unreachable: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bench:
    """Judges captures of one plan and inventory; it knows nothing of how they were collected."""

    plan: Plan
    inventory: Inventory
    commands: Mapping[str, Command]
    load: Load | None = None
    waivers: Waivers = field(default_factory=Waivers)
    _views: dict[str, HostView] = field(default_factory=dict, compare=False)
    _hosts: dict[str, Host] = field(default_factory=dict, compare=False)

    @classmethod
    def for_checks(
        cls,
        plan: Plan,
        inventory: Inventory,
        checks: Iterable[Check],
        load: Load | None = None,
        *,
        waivers: Waivers | None = None,
    ) -> Bench:
        commands = {c.key: c for item in checks for c in item.commands}
        return cls(plan, inventory, commands, load, waivers or Waivers())

    def view(self, capture: Capture) -> HostView:
        """One view a host, so that each output is parsed once for all checks."""
        if not self._hosts:
            self._hosts.update({h.name: h for h in self.inventory.hosts})
        view = self._views.get(capture.host)
        if view is None or view.capture is not capture:
            host = self._hosts[capture.host]
            view = HostView(capture, pool=host.pool, rack=host.rack, parse=parse_once, commands=self.commands)
            self._views[capture.host] = view
        return view

    def judge_host(self, item: Check, view: HostView) -> Result:
        pool = self.plan.pool(view.pool)
        context = Context(self.plan, pool, self.plan.expectations.get(pool.name), host=view.name)
        return self._judge(item, view.name, views=(view,), seen=view, context=context)

    def judge_group(self, item: Check, subject: str, captures: Mapping[str, Capture]) -> Result:
        """A pool or a rack, by its name: ``captures`` holds those of all hosts of the run."""
        members = [
            h for h in self.inventory.hosts if subject == (h.pool if item.scope is Scope.POOL else h.rack)
        ]
        reached = [h for h in members if h.name in captures and not captures[h.name].problem]
        views = [self.view(captures[h.name]) for h in reached]
        pool = self.plan.pool((reached or members)[0].pool)
        rack = (
            next((r for r in self.plan.racks() if r.name == subject), None)
            if item.scope is Scope.RACK
            else None
        )
        planned = rack.nodes if rack else tuple(n.name for n in pool.nodes)
        names = {h.name for h in members}
        context = Context(
            self.plan,
            pool,
            self.plan.expectations.get(pool.name),
            rack=rack,
            unreachable=tuple(h.name for h in members if h not in reached),
            absent=tuple(n for n in planned if n not in names),
        )
        if not views:
            judged = self._judge(item, subject, views=views, seen=views, context=context)
            if judged.status is Status.NOT_APPLICABLE:
                return judged
            outcome = could_not_measure(f"no host of {item.scope.value} {subject} was reached")
            return self._result(item, subject, pool, outcome, ())
        return self._judge(item, subject, views=views, seen=views, context=context)

    def unreached(self, item: Check, capture: Capture) -> Result:
        """The one result of a host that gave no capture."""
        return self.judge_host(item, self.view(capture))

    def _judge(
        self, item: Check, subject: str, *, views: Sequence[HostView], seen: Any, context: Context
    ) -> Result:
        proof: tuple[Evidence, ...] = ()
        pool = context.pool
        try:
            outcome = self._outcome(item, pool, seen, context)
        except NotMeasured as error:
            outcome = could_not_measure(str(error))
        except Exception as error:  # a judge that fails must never count as a pass
            outcome = could_not_measure(
                f"the check {item.id} itself failed ({type(error).__name__}: {str(error)[:200]}): a bug "
                "in it, not a finding about the host"
            )
        if outcome.status is not Status.NOT_APPLICABLE:
            proof = evidence(item, views, outcome, context.expectations)
        return self._result(item, subject, pool, self._resolved(item, outcome), proof)

    def _outcome(self, item: Check, pool: Pool, seen: Any, context: Context) -> Outcome:
        want = None
        if item.expects:
            want = wanted(item, context.expectations)
            if want is None:
                return could_not_measure(f"missing expectation {_plan_path(item, pool)}")
            if isinstance(want, NotApplicable):
                return not_applicable(want.not_applicable)
        outcome = item.judge(seen, want, context) if _takes_context(item.judge) else item.judge(seen, want)
        if not isinstance(outcome, Outcome):
            raise TypeError(f"it returned {type(outcome).__name__}, not an outcome")
        return outcome

    def _resolved(self, item: Check, outcome: Outcome) -> Outcome:
        if self.load and outcome.load and outcome.load is not self.load and outcome.status in _OPEN:
            return outcome.model_copy(
                update={
                    "status": Status.ERROR,
                    "message": f"measured at {outcome.load.value} load; this run demands {self.load.value}. "
                    f"{outcome.message}".rstrip(". "),
                }
            )
        if outcome.status is Status.FAIL and item.severity in (Severity.WARN, Severity.INFO):
            return outcome.model_copy(update={"status": Status.WARN})
        return outcome

    def _result(
        self, item: Check, subject: str, pool: Pool, outcome: Outcome, proof: tuple[Evidence, ...]
    ) -> Result:
        remedy = ""
        opened = outcome.status is Status.WARN and outcome.message.startswith(_NOTHING_TO_MEND)
        if outcome.status in (Status.FAIL, Status.WARN) and not opened:  # nothing mends what was not read
            said = (*outcome.where, outcome.message, outcome.actual)
            remedy = filled(item, self.plan, self.plan.expectations.get(pool.name), said)
        result = Result(
            check=item.id,
            subject=subject,
            scope=item.scope.value,
            pool=pool.name,
            title=item.title,
            severity=item.severity,
            status=outcome.status,
            expected=outcome.expected,
            actual=outcome.actual,
            message=outcome.message,
            load=outcome.load,
            where=outcome.where,
            remedy=remedy,
            plan_path=_plan_path(item, pool) if item.expects else "",
            evidence=proof,
        )
        return self.waivers.applied(result)

    def subjects(self, scope: Scope) -> list[str]:
        """Pools or racks that have a host in this run."""
        names = (h.pool if scope is Scope.POOL else h.rack for h in self.inventory.hosts)
        return sorted({name for name in names if name})


_OPEN = (Status.PASS, Status.WARN)
_NOTHING_TO_MEND = ("open:", "not compared")
"""Beginnings of warnings that only say that a reading or a comparison is not complete."""


@lru_cache(maxsize=512)
def _takes_context(judge: Judge) -> bool:
    return len(inspect.signature(judge).parameters) > 2


def _plan_path(item: Check, pool: Pool) -> str:
    return f"expectations.{pool.name}.{item.expects}"
