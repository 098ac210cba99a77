"""Finding explanations of a plan by path."""

from __future__ import annotations

import re
from typing import Any

from rackwright.errors import InputErrors, Problem, nearest
from rackwright.plan import Plan
from rackwright.plan.cost import Explanation
from rackwright.yamlio import dotted_path, printable, quoted

_NAME = r"[^.\[\]\s][^.\[\]]*"
_PATH = re.compile(rf"{_NAME}(\[\d{{1,6}}\])*(\.{_NAME}(\[\d{{1,6}}\])*)*")
_PART = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

Part = str | int


def parts(path: str) -> tuple[Part, ...]:
    """The names and indices of a dotted path; ``deployments.0.layout`` is ``deployments[0].layout``.

    Raises:
        InputErrors: it is no path.
    """
    text = re.sub(r"\.(\d{1,6})(?=[.\[]|$)", r"[\1]", path.strip())
    if not _PATH.fullmatch(text):
        raise InputErrors(
            Problem(
                "PATH",
                "must be names joined by dots, with indices in brackets",
                quoted(path),
                "there is nothing to explain",
                "write it such as deployments[0].layout.replicas",
            )
        )
    return tuple(int(index) if index else name for index, name in _PART.findall(text))


def find(plan: Plan, path: str) -> tuple[Explanation, ...]:
    """The explanations of ``path``: its own, those below it, else that of the nearest section above.

    Raises:
        InputErrors: it is no path, or the plan has nothing there.
    """
    asked = parts(path)
    wanted = dotted_path(asked)
    value_at(plan, wanted)
    found = [e for e in plan.explanations if e.path == wanted]
    found += [e for e in plan.explanations if e.path.startswith((f"{wanted}.", f"{wanted}["))]
    for length in range(len(asked) - 1, 0, -1):
        if found:
            break
        above = dotted_path(asked[:length])
        found = [e for e in plan.explanations if e.path == above]
    return tuple(found)


def value_at(plan: Plan, path: str) -> Any:
    """The plain value at ``path``.

    Raises:
        InputErrors: it is no path, or there is none; the nearest field is suggested.
    """
    node: Any = plan.as_dict()
    done: tuple[Part, ...] = ()
    for part in parts(path):
        known = range(len(node)) if isinstance(node, list) else node if isinstance(node, dict) else ()
        if part not in known:
            raise InputErrors(_absent(path, part, node, done))
        node = node[part]
        done = (*done, part)
    return node


def _absent(path: str, part: Part, node: Any, done: tuple[Part, ...]) -> Problem:
    above = dotted_path(done)
    shown = f"[{part}]" if isinstance(part, int) else part
    known = list(node) if isinstance(node, dict) else []
    if isinstance(node, list):
        there = f"[0] to [{len(node) - 1}]" if node else "no entries"
    else:
        there = ", ".join(known) or "no fields"
    return Problem(
        f"PLAN {printable(path)}",
        f"must be a path of the plan{nearest(shown, known)}",
        quoted(shown) + (f" under {above}" if above else ""),
        "there is nothing to explain",
        f"under {above or 'the plan'} there are: {there}",
    )
