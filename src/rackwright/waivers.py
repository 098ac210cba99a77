"""Waivers: findings that a named person accepts until a day, in a file that is reviewed like the plan.

    waivers:
      - check: os-swap
        subjects: [gpu-01, "gpu-2*"]        # hosts, pools or racks
        owner: jane@example.org
        reason: swap stays until the kernel is updated
        expires: 2027-01-31

After that day the finding is one again, with a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.plan import Plan
from rackwright.plan.base import Section
from rackwright.verdict import Result, Status, Waived
from rackwright.yamlio import Document, load_yaml, validated

SOON_DAYS = 14
"""From so many days before its end a waiver is announced as ending."""
_NEVER = ("net-reachable",)
"""Checks that nobody can waive: nothing else is known about a host that was not reached."""

_Text = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]


class Waiver(Section):
    """One accepted finding. ``not_measured`` accepts also that it cannot be measured there."""

    check: _Text
    subjects: Annotated[tuple[_Text, ...], Field(min_length=1)]
    owner: _Text
    reason: _Text
    expires: date
    ticket: str = ""
    not_measured: bool = False


class WaiverFile(Section):
    """The whole file."""

    schema_: Literal["rackwright/waivers/v1"] = Field(default="rackwright/waivers/v1", alias="schema")
    waivers: tuple[Waiver, ...]


@dataclass(frozen=True)
class Waivers:
    """The waivers of a run: each with the subjects that it covers, as of ``today``."""

    items: tuple[tuple[Waiver, frozenset[str]], ...] = ()
    today: date = field(default_factory=lambda: datetime.now(UTC).date())

    def applied(self, result: Result) -> Result:
        """``result``, marked as waived where a waiver that holds covers it."""
        for waiver, subjects in self.items:
            if self._covers(waiver, subjects, result) and waiver.expires >= self.today:
                mark = Waived(
                    owner=waiver.owner,
                    reason=waiver.reason,
                    expires=waiver.expires.isoformat(),
                    ticket=waiver.ticket,
                )
                return result.model_copy(update={"waived": mark})
        return result

    def notes(self, results: Iterable[Result]) -> tuple[str, ...]:
        """Remarks on waivers that are over, end soon, or are not needed any more."""
        by_check: dict[str, list[Result]] = {}
        for result in results:
            by_check.setdefault(result.check, []).append(result)
        notes = []
        for waiver, subjects in self.items:
            named = f"waiver of {waiver.check} on {listing(waiver.subjects)} by {waiver.owner}"
            about = [r for r in by_check.get(waiver.check, ()) if r.subject in subjects]
            left = (waiver.expires - self.today).days
            if left < 0:
                again = any(self._covers(waiver, subjects, r) for r in about)
                what = "a finding again" if again else "remove it from the file"
                notes.append(f"warning: the {named} expired on {waiver.expires}: {what}")
            elif about and all(r.status in (Status.PASS, Status.NOT_APPLICABLE) for r in about):
                notes.append(f"the {named} is not needed any more: remove it")
            elif about and left <= SOON_DAYS:
                notes.append(f"the {named} ends on {waiver.expires}, in {left} days")
        return tuple(notes)

    @staticmethod
    def _covers(waiver: Waiver, subjects: frozenset[str], result: Result) -> bool:
        if result.check != waiver.check or result.subject not in subjects:
            return False
        return (result.status is Status.FAIL and result.heavy) or (
            result.status is Status.ERROR and waiver.not_measured
        )


def load_waivers(path: Path, checks: Collection[str], plan: Plan, *, today: date | None = None) -> Waivers:
    """The waivers in ``path``.

    Raises:
        CannotRun: it cannot be read.
        InputErrors: everything that is wrong in it: unknown checks and subjects, a missing owner or day.
    """
    document = load_yaml(path, next_command="write one: see docs/waivers.md")
    why = "a finding would be accepted by nobody, for ever, or not at all"
    file = validated(WaiverFile, document, why=why, next_command=f"mend {path}")
    problems: list[Problem] = []
    items = []
    for index, waiver in enumerate(file.waivers):
        problems += _check_problems(document, index, waiver, checks)
        covered: set[str] = set()
        for number, pattern in enumerate(waiver.subjects):
            found = _subjects(plan, pattern)
            if not found:
                problems.append(
                    Problem(
                        document.place(("waivers", index, "subjects", number)),
                        "must match a host, a pool or a rack of the plan" + nearest(pattern, _names(plan)),
                        f'"{pattern}"', "the waiver would cover nothing", f"mend {path}",
                    )
                )  # fmt: skip
            covered |= found
        items.append((waiver, frozenset(covered)))
    if problems:
        raise InputErrors(problems)
    return Waivers(tuple(items), *([today] if today else []))


def _check_problems(
    document: Document, index: int, waiver: Waiver, checks: Collection[str]
) -> Iterable[Problem]:
    place = document.place(("waivers", index, "check"))
    if waiver.check not in checks:
        yield Problem(
            place, "must be a check" + nearest(waiver.check, checks), f'"{waiver.check}"',
            "a check that does not exist cannot be waived", "list them: rackwright checklist",
        )  # fmt: skip
    elif waiver.check in _NEVER:
        yield Problem(
            place, "must be a check that can be waived", waiver.check,
            "nothing else is known about a host that was not reached",
            "leave the host out instead: --limit, or take it out of the inventory",
        )  # fmt: skip


def _names(plan: Plan) -> list[str]:
    return [name for pool in plan.pools for name in (pool.name, *(n.name for n in pool.nodes))] + [
        rack.name for rack in plan.racks()
    ]


def _subjects(plan: Plan, pattern: str) -> set[str]:
    """Hosts that match by their own name, or all of a pool or rack that does, with its name."""
    found: set[str] = set()
    for pool in plan.pools:
        whole = fnmatchcase(pool.name, pattern)
        found |= {pool.name} if whole else set()
        found |= {n.name for n in pool.nodes if whole or fnmatchcase(n.name, pattern)}
    for rack in plan.racks():
        if fnmatchcase(rack.name, pattern):
            found |= {rack.name, *rack.nodes}
    return found
