"""One tree of errors, one shape of message.

    RackwrightError            anything we can explain; the cli prints it and exits 2
    ├── InputErrors            what a person wrote is wrong: every problem at once
    │   └── HandEditedPlan     a derived value was changed by hand
    ├── Infeasible             the workload cannot be met: binding constraint, best achievable
    └── CannotRun              a tool, a file or a host that the command needs is not there

A message is: place · rule · found, then why it matters and the next command.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        where: dotted path, or file:line, or both (``w.yaml:7 users.dau``).
        rule: what must hold, as a statement.
        found: what was there, quoted as written.
        why: what would go wrong otherwise.
        next: the command or edit that resolves it.
    """

    where: str
    rule: str
    found: str
    why: str
    next: str

    def __str__(self) -> str:
        lines = [f"{self.where} · {self.rule} · found {self.found}"]
        if self.why:
            lines.append(f"    why   {self.why}")
        if self.next:
            lines.append(f"    next  {self.next}")
        return "\n".join(lines)


class RackwrightError(Exception):
    """Base of every error that is reported without a traceback."""

    exit_code = 2

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        if not self.problems:
            raise ValueError("an error without a problem explains nothing")
        super().__init__("\n".join(str(p) for p in self.problems))


class InputErrors(RackwrightError):
    """What a person wrote cannot be accepted; all problems of the file at once."""


class HandEditedPlan(InputErrors):
    """A derived value in a plan differs from what the workload gives."""


class Infeasible(RackwrightError):
    """No arrangement meets the workload. ``exit_code`` 1: a finding, not bad input.

    Attributes:
        constraint: the binding constraint (a dotted path of the workload or a red line).
        best: the best achievable value of it, with unit.
    """

    exit_code = 1

    def __init__(self, problem: Problem, *, constraint: str, best: str) -> None:
        super().__init__(problem)
        self.constraint = constraint
        self.best = best


class CannotRun(RackwrightError):
    """Something the command needs is not there or does not answer."""


def nearest(name: str, known: Iterable[str]) -> str:
    """``' (did you mean "x"?)'`` for the closest known name, else an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f' (did you mean "{close[0]}"?)' if close else ""


def listing(names: Sequence[str], limit: int = 12) -> str:
    """Names joined for a message; the count of those left out is stated."""
    shown = ", ".join(names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")
