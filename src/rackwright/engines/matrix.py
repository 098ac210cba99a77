"""What a pinned engine version accepts and exports, and a checker on top of it.

Source of the data: `catalog/engines/matrix/<engine>-<version>.json`, extracted from the released
package by `tools/engine_matrix`. Source of the successors: `catalog/engines/successors.json`, where
each entry says where it was read. How words are read is the `Dialect` of the engine's parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rackwright.engines.arguments import check_args, check_env
from rackwright.engines.command_line import check_command
from rackwright.engines.matrix_data import (
    ArgProblem,
    EnvProblem,
    Flag,
    Matrix,
    Metric,
    PromqlProblem,
    Successor,
    engines,
    load_matrix,
    successors,
    versions,
)
from rackwright.engines.promql import check_promql, metric_names
from rackwright.errors import Problem

__all__ = [
    "ArgProblem",
    "EnvProblem",
    "Flag",
    "Matrix",
    "Metric",
    "PromqlProblem",
    "Successor",
    "check_args",
    "check_command",
    "check_env",
    "check_promql",
    "engines",
    "load_matrix",
    "metric_names",
    "problems_of",
    "successors",
    "versions",
]


def problems_of(found: Sequence[ArgProblem | EnvProblem | PromqlProblem], where: str) -> Iterator[Problem]:
    """The same findings as `rackwright.errors.Problem`, errors only, for a caller that raises them."""
    for item in found:
        if item.severity != "error":
            continue
        subject = (
            item.flag
            if isinstance(item, ArgProblem)
            else item.name
            if isinstance(item, EnvProblem)
            else item.subject
        )
        yield Problem(
            where=f"{where} {subject}",
            rule=item.rule,
            found=item.found,
            why="the engine would not start, or the query would return nothing",
            next=item.successor_or_hint,
        )
