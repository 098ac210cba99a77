"""Finding explanations of a plan by path."""

from __future__ import annotations

import re
from typing import Any

from rackwright.errors import InputErrors, Problem, nearest
from rackwright.plan import Plan
from rackwright.plan.cost import Explanation


def normal(path: str) -> str:
    """``path`` with indices in brackets: ``deployments.0.layout`` is ``deployments[0].layout``."""
    return re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", path.strip())


def find(plan: Plan, path: str) -> tuple[Explanation, ...]:
    """The explanations of ``path``: its own, those below it, else that of the nearest section above.

    Raises:
        InputErrors: the plan has nothing at ``path``.
    """
    wanted = normal(path)
    value_at(plan, wanted)
    exact = [e for e in plan.explanations if e.path == wanted]
    below = [e for e in plan.explanations if e.path.startswith((f"{wanted}.", f"{wanted}["))]
    if exact or below:
        return (*exact, *below)
    above = wanted
    while above:
        above = re.sub(r"(\.[^.\[]+|\[\d+\])$", "", above) if re.search(r"[.\[]", above) else ""
        found = [e for e in plan.explanations if e.path == above]
        if found:
            return tuple(found)
    return ()


def value_at(plan: Plan, path: str) -> Any:
    """The plain value at ``path``.

    Raises:
        InputErrors: there is none; the nearest field is suggested.
    """
    node: Any = plan.as_dict()
    done = ""
    for part in re.findall(r"[^.\[\]]+|\[\d+\]", path):
        if part.startswith("[") and isinstance(node, list) and int(part[1:-1]) < len(node):
            node, done = node[int(part[1:-1])], done + part
        elif isinstance(node, dict) and part in node:
            node, done = node[part], f"{done}.{part}" if done else part
        else:
            known = (
                list(node)
                if isinstance(node, dict)
                else [f"[{i}]" for i in range(len(node))]
                if isinstance(node, list)
                else []
            )
            raise InputErrors(
                Problem(
                    f"PLAN {path}",
                    f"must be a path of the plan{nearest(part, known)}",
                    f'"{part}"' + (f" under {done}" if done else ""),
                    "there is nothing to explain",
                    f"under {done or 'the plan'} there are: {', '.join(known) or 'no fields'}",
                )
            )
    return node
