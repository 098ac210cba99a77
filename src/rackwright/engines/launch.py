"""Command lines of roles against the engine version that they are for."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.errors import Problem
from rackwright.plan.deployments import EngineRole


def flag_problems(engine: str, version: str, parts: tuple[EngineRole, ...], where: str) -> Iterator[Problem]:
    """What a pinned version of an engine would not accept of the command lines and variables of ``parts``.

    What several roles share is said once, under the first of them.
    """
    from rackwright.engines import matrix

    said: set[tuple[str, str, str]] = set()
    for part in parts:
        words = [_filled(word) for word in part.args]
        found: list[matrix.ArgProblem | matrix.EnvProblem | matrix.PromqlProblem] = [
            *matrix.check_args(engine, version, words),
            *matrix.check_env(engine, version, part.env),
        ]
        for problem in matrix.problems_of(found, f"{where} ({part.role})"):
            subject = (problem.where.removeprefix(f"{where} ({part.role})"), problem.rule, problem.found)
            if subject not in said:
                said.add(subject)
                yield problem


def _filled(word: str) -> str:
    """What the kubelet puts in place of a variable, so that types can be checked."""
    return word.replace("$(LWS_WORKER_INDEX)", "1").replace("$(LWS_LEADER_ADDRESS)", "leader.example")
