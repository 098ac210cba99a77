"""Flags that a person adds: brought to their full name, and refused where something else decides them.

Given as bare flags they would bypass the sizing, or start an engine that its probes, its metrics or its
pod's limits do not fit. Which flags these are is said by each engine's module (``OWNED``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rackwright.engines.arguments import check_args, human_int
from rackwright.engines.launcher import Launcher, Owned, Value
from rackwright.engines.matrix_data import Flag, Matrix, closest, load_matrix, successors
from rackwright.engines.registry import LAUNCHERS
from rackwright.errors import Problem, listing
from rackwright.secrets import HIDDEN, is_secret
from rackwright.yamlio import quoted

WHERE = "overrides.engine_flags"


@dataclass(frozen=True)
class _Named:
    """A key as written, and the flag it means, if any."""

    key: str
    option: str
    flag: Flag | None
    path: str
    shortened: bool = False

    @property
    def name(self) -> str:
        """The flag's full name without dashes, or the key where nobody knows it."""
        return self.flag.name.lstrip("-") if self.flag else self.option.lstrip("-")


def _named(matrix: Matrix, key: str) -> _Named:
    head, dot, path = key.strip().lstrip("-").partition(".")
    name = head.replace("_", "-")
    for option in (f"--{name}", f"-{name}"):
        if option in matrix.options:
            return _Named(key, option, matrix.options[option], dot + path)
    fits = {flag.name: flag for option, flag in matrix.options.items() if option.startswith(f"--{name}")}
    if name and len(fits) == 1:
        (flag,) = fits.values()
        return _Named(key, f"--{name}", flag, dot + path, shortened=True)
    return _Named(key, f"--{name}", None, dot + path)


def canonical(engine: str, version: str, given: Mapping[str, Value]) -> dict[str, Value]:
    """``given`` by the flags' full names; a negative form is its flag switched the other way.

    An engine that no plan starts has no flags to give.
    """
    launcher = LAUNCHERS.get(engine)
    if launcher is None:
        return dict(given)
    matrix = load_matrix(launcher.TRAITS.matrix, version)
    out: dict[str, Value] = {}
    for key, value in given.items():
        named = _named(matrix, key)
        if named.flag and named.option in named.flag.negatives and isinstance(value, bool):
            out[named.name] = not value
        elif named.name == launcher.OWNED.batched:
            out[named.name] = _tokens(launcher.OWNED, value) or value
        else:
            out[named.name + named.path] = value
    return out


def _tokens(owned: Owned, value: Value) -> int | None:
    """``value`` as a count of tokens, where it is one."""
    if owned.suffixes:
        return human_int(str(value)) if isinstance(value, (int, str)) and value is not True else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def problems(engine: str, version: str, given: Mapping[str, Value]) -> Iterator[Problem]:
    """Everything that bars ``given`` from the command line of ``engine`` at ``version``."""
    launcher = LAUNCHERS[engine]
    matrix = load_matrix(launcher.TRAITS.matrix, version)
    seen: dict[str, str] = {}
    for key, value in given.items():
        named = _named(matrix, key)
        full = named.name + named.path
        if is_secret(named.name):
            yield _secret(key)
        elif named.flag is None:
            yield _unknown(matrix, named)
        elif named.shortened:
            owner = _owner(launcher.OWNED, named.name)
            yield _problem(
                key,
                "must be a flag in full",
                f"a beginning of --{named.name}",
                "a later release may add another flag with this beginning",
                f"write {named.name}" + (f", which {owner[0]}" if owner else ""),
            )
        elif (owner := _owner(launcher.OWNED, named.name)) is not None:
            yield _problem(key, owner[0], quoted(value), owner[1], owner[2])
        elif full in seen:
            yield _problem(
                key,
                "must be given once",
                f'the same flag as "{seen[full]}"',
                "the last one silently wins",
                "keep one of them",
            )
        else:
            yield from _value_problems(launcher, matrix, named, key, value)
        seen.setdefault(full, key)


def _owner(owned: Owned, name: str) -> tuple[str, str, str] | None:
    """Rule, why and next for a flag that is not a person's to add."""
    if name in owned.owners:
        return (
            f"must be decided by {owned.owners[name]}",
            "as a bare flag it would bypass the sizing that depends on it",
            f"drop it and set {owned.owners[name]}",
        )
    for pattern, why in owned.unsupported.items():
        if re.fullmatch(pattern, name):
            return "must not be given: it is not supported", why, "drop it"
    return None


def _problem(key: str, rule: str, found: str, why: str, next_step: str) -> Problem:
    return Problem(f"{WHERE}.{key}", rule, found, why, next_step)


def _secret(key: str) -> Problem:
    return _problem(
        key,
        "must not hold a secret",
        HIDDEN,
        "plans are committed, printed and rendered: whatever stands in them is public",
        "drop it; keep secrets in the cluster's own store, and let the gateway ask for keys",
    )


def _unknown(matrix: Matrix, named: _Named) -> Problem:
    options = [option for option in matrix.options if option.startswith("--")]
    dead = successors(matrix.engine, "flags").get(named.option)
    fits = sorted(option for option in options if option.startswith(named.option))
    hint = f"write one in full: {listing(fits, 4)}" if fits else closest(named.option, options)
    return _problem(
        named.key,
        f"must be a flag of {matrix.engine} {matrix.version}",
        quoted(named.key),
        "the engine would not start",
        str(dead) if dead else hint or "drop it",
    )


def _value_problems(
    launcher: Launcher, matrix: Matrix, named: _Named, key: str, value: Value
) -> Iterator[Problem]:
    owned = launcher.OWNED
    if named.name == owned.batched:
        read = _tokens(owned, value)
        if read is None or read < 1:
            yield _problem(
                key,
                "must be an integer of at least 1" + (", also as 8k or 8K" if owned.suffixes else ""),
                quoted(value),
                "the memory for one step's activations is sized by it",
                "write an integer, or one with k, m, g, t or K, M, G, T"
                if owned.suffixes
                else "write an integer",
            )
        return
    negative = named.flag is not None and named.option in named.flag.negatives and isinstance(value, bool)
    flags: dict[str, Value] = {named.name + named.path: not value if negative else value}
    for item in check_args(matrix.engine, matrix.version, launcher.words(flags)):
        if item.severity == "error":
            yield _problem(
                key, item.rule, item.found, "the engine would not start", item.successor_or_hint or "mend it"
            )
