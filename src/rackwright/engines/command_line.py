"""Whole command lines: variables before the program, the program or module, and the arguments.

A line is recognised by its program, so that one of an old guide is judged by the engine that it starts, also
where the program itself is gone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from rackwright.engines.arguments import check_args, check_env
from rackwright.engines.matrix_data import (
    ArgProblem,
    closest,
    engines,
    known_by_successors,
    load_matrix,
    successors,
    versions,
)
from rackwright.errors import InputErrors, Problem, listing

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PYTHON = re.compile(r"python[0-9.]*")
_BEFORE = frozenset({"env", "exec", "nohup", "sudo"})
"""Programs that start the one named after them."""


@dataclass(frozen=True)
class Line:
    """A command line taken apart.

    Attributes:
        engine: whose matrix judges it.
        variables: names set before the program.
        program: the program or module as written; empty where only arguments were given.
        arguments: the words after it.
        module: whether ``program`` was started by ``python -m``.
    """

    engine: str
    variables: tuple[str, ...]
    program: str
    arguments: tuple[str, ...]
    module: bool = False


def words_of(text: str) -> list[str]:
    """``text`` as a shell splits it; lines that end in a backslash go on.

    Raises:
        InputErrors: a quote that is not closed.
    """
    try:
        return shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as exc:
        raise InputErrors(
            Problem(
                "command line",
                "must be words as a shell reads them",
                f"{text[:80]!r}: {exc}",
                "a line that the shell does not read starts nothing",
                "close the quote",
            )
        ) from exc


def recognise(words: Sequence[str]) -> Line | None:
    """The engine that a command line starts, and its parts; None for a program that no matrix knows."""
    variables, rest = _without_variables(words)
    if not rest:
        return None
    name = rest[0].rpartition("/")[2]
    if _PYTHON.fullmatch(name) and rest[1:2] == ["-m"] and len(rest) > 2:
        engine = _engine_of_module(rest[2])
        return Line(engine, variables, rest[2], tuple(rest[3:]), module=True) if engine else None
    for engine in engines():
        command = load_matrix(engine, versions(engine)[-1]).command
        if command and [name, *rest[1 : len(command)]] == list(command):
            return Line(engine, variables, " ".join(command), tuple(rest[len(command) :]))
    for engine in engines():
        if name in successors(engine, "programs"):
            return Line(engine, variables, name, tuple(rest[1:]))
    if name in known_by_successors():
        return Line(name, variables, name, tuple(rest[1:]))
    return None


def _without_variables(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    rest = list(words)
    names: list[str] = []
    while rest and (_VARIABLE.match(rest[0]) or rest[0] in _BEFORE):
        word = rest.pop(0)
        if word not in _BEFORE:
            names.append(word.partition("=")[0])
    return tuple(names), rest


def _engine_of_module(module: str) -> str | None:
    top = module.partition(".")[0]
    for engine in engines():
        known = load_matrix(engine, versions(engine)[-1]).entrypoints
        if module in known or module in successors(engine, "modules"):
            return engine
        if any(name.partition(".")[0] == top for name in known):
            return engine
    return None


def as_engine(words: Sequence[str], engine: str) -> Line:
    """A command line judged as ``engine``; arguments alone are taken as those after its command."""
    line = recognise(words)
    if line is not None and line.engine == engine:
        return line
    variables, rest = _without_variables(words)
    return Line(engine, variables, "", tuple(rest))


def must_recognise(words: Sequence[str]) -> Line:
    """`recognise`, or `InputErrors` that names what is known."""
    line = recognise(words)
    if line is not None:
        return line
    known = [" ".join(load_matrix(engine, versions(engine)[-1]).command) for engine in engines()]
    raise InputErrors(
        Problem(
            "command line",
            "must start an engine whose flags are known",
            shlex.join(words[:4]) or "nothing",
            "flags of an unknown program cannot be checked",
            f"begin with one of: {listing([name for name in known if name])}; or name it: --engine",
        )
    )


def check_line(line: Line, version: str) -> list[ArgProblem]:
    """Problems of a command line: its variables, its program and its arguments, in that order.

    Of a program without a matrix only flags that are known to be gone are judged, which is said.
    """
    if line.engine in known_by_successors():
        return _known_gone(line)
    problems = [
        ArgProblem(item.name, item.rule, item.found, item.successor_or_hint, item.severity, item.kind)
        for item in check_env(line.engine, version, line.variables)
    ]
    problems += _program_problems(line, version)
    return problems + check_args(line.engine, version, line.arguments)


def _known_gone(line: Line) -> list[ArgProblem]:
    dead = successors(line.engine, "flags")
    flags = [word.partition("=")[0] for word in line.arguments if word.startswith("-")]
    found = [
        ArgProblem(flag, f"{line.engine} must know the flag", flag, str(dead[flag]), kind="unknown-flag")
        for flag in dict.fromkeys(flags)
        if flag in dead
    ]
    rest = [flag for flag in flags if flag not in dead]
    if rest:
        rule = f"a flag should be checked: of {line.engine} only some that are gone are known"
        hint = f"ask the program itself: {line.engine} --help"
        found.append(ArgProblem(line.engine, rule, listing(rest), hint, "warn", "not-checked"))
    return found


def _program_problems(line: Line, version: str) -> list[ArgProblem]:
    matrix = load_matrix(line.engine, version)
    if not line.module:
        gone = successors(line.engine, "programs").get(line.program)
        if gone is None:
            return []
        return [
            ArgProblem(
                line.program,
                f"{line.engine} {version} must have the program",
                line.program,
                str(gone),
                kind="unknown-program",
            )
        ]
    dead = successors(line.engine, "modules").get(line.program)
    if line.program not in matrix.entrypoints:
        hint = str(dead) if dead else closest(line.program, matrix.entrypoints)
        rule = f"{line.engine} {version} must have the module"
        return [ArgProblem(line.program, rule, line.program, hint, kind="unknown-module")]
    if dead is not None:
        rule = "the engine should be started by its current command"
        return [ArgProblem(line.program, rule, line.program, str(dead), "warn", "legacy-module")]
    return []


def check_command(engine: str, version: str, words: Sequence[str]) -> list[ArgProblem]:
    """Problems of a whole command as ``engine``; arguments alone are taken as those after its command."""
    return check_line(as_engine(words, engine), version)
