"""What a pinned engine version accepts and exports, as extracted from its released package.

Source of the data: `catalog/engines/matrix/<engine>-<version>.json`, made by `tools/engine_matrix`. Source
of the successors: `catalog/engines/successors.json`, where each entry says where it was read.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, Literal

from rackwright.errors import InputErrors, Problem, listing

Severity = Literal["error", "warn"]


@dataclass(frozen=True)
class Flag:
    """One option of the engine's command line.

    Attributes:
        name: long form that switches it on or takes the value.
        aliases: other spellings of the same, for example ``-tp``.
        negatives: spellings that switch it off, for example ``--no-enable-prefix-caching``.
        takes_value: ``valued``, ``boolean`` (never a value) or ``optional`` (with or without).
        nargs: None for one value, ``+`` for one or more, a number, or ``?``.
        kind: how a value is read: ``str``, ``int``, ``float``, ``json``, ``json_or_str``,
            ``json_config`` (a JSON object whose numbers may read ``8k``), ``human_readable_int`` (``8k``),
            ``human_readable_int_or_auto``, ``si_int`` (``8k`` or ``8Ki``), ``str_lower_underscore`` (case and
            dash are folded),
            ``other`` (not known: never judged).
        nullable: the engine also takes ``None`` and the empty string.
        repeatable: giving it twice adds up instead of replacing.
        choices: accepted values, None for any.
        keys: accepted top-level keys of a JSON value, None for any.
        deprecated: the engine's own message, None when it is not deprecated.
        default: default when it is a plain value; None when there is none or it is computed.
    """

    name: str
    aliases: tuple[str, ...]
    negatives: tuple[str, ...]
    takes_value: str
    nargs: str | int | None
    kind: str
    nullable: bool
    repeatable: bool
    choices: tuple[str, ...] | None
    keys: tuple[str, ...] | None
    deprecated: str | None
    default: Any

    @property
    def is_json(self) -> bool:
        """Whether dotted keys (``--flag.key value``) make sense."""
        return self.kind in ("json", "json_config", "json_or_str")


@dataclass(frozen=True)
class Metric:
    """One exported metric. ``labels`` None: the engine makes up the label set when it runs."""

    name: str
    type: str
    labels: frozenset[str] | None
    when: tuple[str, ...]

    @property
    def samples(self) -> tuple[str, ...]:
        """Series names as scraped. Source: the Prometheus text format written by prometheus_client."""
        match self.type:
            case "counter":
                return (self.name.removesuffix("_total") + "_total",)
            case "histogram":
                return (f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count")
            case "summary":
                return (self.name, f"{self.name}_sum", f"{self.name}_count")
            case "info":
                return (f"{self.name}_info",)
        return (self.name,)


@dataclass(frozen=True)
class Dialect:
    """How a command line is read.

    Attributes:
        prefixes: the beginning of one flag stands for that flag.
        underscores: an underscore in a long flag is a dash.
        dotted: ``--flag.key value`` sets one key of a flag with a JSON value.
        joined: ``--flag=value`` is read; otherwise a value is a word of its own.
        greedy: the word after a flag that takes a value is its value, also where it begins with a dash.
    """

    prefixes: bool = False
    underscores: bool = False
    dotted: bool = False
    joined: bool = True
    greedy: bool = False


DIALECTS: Mapping[str, Dialect] = {
    "argparse": Dialect(prefixes=True),
    "flexible": Dialect(prefixes=True, underscores=True, dotted=True),
    "click": Dialect(greedy=True),
    "clap": Dialect(),
    "llama.cpp": Dialect(underscores=True, joined=False, greedy=True),
}
"""Python's argparse, vLLM's FlexibleArgumentParser, click, Rust's clap, llama.cpp's own."""


@dataclass(frozen=True)
class Matrix:
    """Everything known about one engine version.

    ``removed``: options that the parser still knows only to refuse them, with what it says.
    """

    engine: str
    version: str
    dialect: Dialect
    command: tuple[str, ...]
    header: Mapping[str, Any]
    flags: tuple[Flag, ...]
    positionals: int
    rewrites: Mapping[str, str]
    env: Mapping[str, Mapping[str, Any]]
    env_prefix: str
    metrics: tuple[Metric, ...]
    metric_prefix: str
    entrypoints: tuple[str, ...]
    removed: Mapping[str, str]

    @cached_property
    def options(self) -> Mapping[str, Flag]:
        """Every accepted option string, negative forms included, with the flag that it belongs to."""
        table: dict[str, Flag] = {}
        for flag in self.flags:
            for option in (flag.name, *flag.aliases, *flag.negatives):
                table[option] = flag
        return table

    @cached_property
    def samples(self) -> Mapping[str, Metric]:
        """Every scraped series name with its metric."""
        return {sample: metric for metric in self.metrics for sample in metric.samples}

    def flag(self, option: str) -> Flag | None:
        """The flag behind an option string as written in full, None when there is none."""
        return self.options.get(option)


@dataclass(frozen=True)
class ArgProblem:
    """One thing wrong with a command line.

    Attributes:
        flag: the token as written.
        rule: what must hold, as a statement.
        found: what was there.
        successor_or_hint: what to write instead, or how to repair it; may be empty.
        severity: ``error`` when the engine refuses to start or the intent is lost, else ``warn``.
        kind: stable name of the rule, for example ``unknown-flag``.
    """

    flag: str
    rule: str
    found: str
    successor_or_hint: str
    severity: Severity = "error"
    kind: str = ""

    def __str__(self) -> str:
        tail = f"; {self.successor_or_hint}" if self.successor_or_hint else ""
        return f"{self.flag}: {self.rule}, found {self.found}{tail}"


@dataclass(frozen=True)
class EnvProblem:
    """An environment variable that the engine version does not read. Fields as in `ArgProblem`."""

    name: str
    rule: str
    found: str
    successor_or_hint: str
    severity: Severity = "error"
    kind: str = "unknown-variable"


@dataclass(frozen=True)
class PromqlProblem:
    """A metric or label in a PromQL expression that the engine version does not export.

    ``subject`` is the metric or label as written; the other fields are as in `ArgProblem`.
    """

    subject: str
    rule: str
    found: str
    successor_or_hint: str
    severity: Severity = "error"
    kind: str = ""


@dataclass(frozen=True)
class Successor:
    """What took the place of a name that is gone: ``use`` (empty: nothing) and a note with its source."""

    use: str
    note: str

    def __str__(self) -> str:
        return f"use {self.use} ({self.note})" if self.use else f"leave it out ({self.note})"


def _catalog() -> Any:
    return resources.files("rackwright").joinpath("catalog", "engines")


@lru_cache(maxsize=1)
def _known() -> tuple[tuple[str, str], ...]:
    """(engine, version) of every matrix in the catalog."""
    found: list[tuple[str, str]] = []
    for entry in _catalog().joinpath("matrix").iterdir():
        stem, dot, suffix = entry.name.rpartition(".")
        engine, dash, version = stem.rpartition("-")
        if dot and dash and suffix == "json":
            found.append((engine, version))
    return tuple(sorted(found))


def engines() -> tuple[str, ...]:
    """Engines, or programs of engines, that have a matrix."""
    return tuple(sorted({name for name, _ in _known()}))


def versions(engine: str) -> tuple[str, ...]:
    """Versions of an engine that have a matrix, oldest first."""

    def key(version: str) -> tuple[tuple[int, str], ...]:
        return tuple((int(part) if part.isdigit() else -1, part) for part in version.split("."))

    return tuple(sorted((version for name, version in _known() if name == engine), key=key))


@lru_cache(maxsize=16)
def load_matrix(engine: str, version: str) -> Matrix:
    """The matrix of an engine version; `InputErrors` when the catalog has none."""
    if (engine, version) not in _known():
        names = [f"{engine} {number}" for number in reversed(versions(engine))]
        names = names or [f"{name} {versions(name)[-1]}" for name in engines()]
        raise InputErrors(
            Problem(
                where="engine",
                rule="the engine version must be one whose flags and metrics are known",
                found=f"{engine} {version}",
                why="flags and metric names change between releases; unknown ones cannot be checked",
                next=f"choose one of: {listing(names)}; or extract it with tools/engine_matrix",
            )
        )
    text = _catalog().joinpath("matrix", f"{engine}-{version}.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return Matrix(
        engine=engine,
        version=version,
        dialect=DIALECTS[data["dialect"]],
        command=tuple(data["command"]),
        header=data["header"],
        flags=tuple(_flag(entry) for entry in data["flags"]),
        positionals=len(data["positionals"]),
        rewrites=data["rewrites"],
        env={entry["name"]: entry for entry in data["env"]},
        env_prefix=data["env_prefix"],
        metrics=tuple(
            Metric(
                name=entry["name"],
                type=entry["type"],
                labels=None if entry["labels"] is None else frozenset(entry["labels"]),
                when=tuple(entry["when"]),
            )
            for entry in data["metrics"]
        ),
        metric_prefix=data["metric_prefix"],
        entrypoints=tuple(data["entrypoints"]),
        removed=data.get("removed", {}),
    )


def _flag(entry: Mapping[str, Any]) -> Flag:
    return Flag(
        name=entry["name"],
        aliases=tuple(entry["aliases"]),
        negatives=tuple(entry["negatives"]),
        takes_value=entry["takes_value"],
        nargs=entry["nargs"],
        kind=entry["type"],
        nullable=entry["nullable"],
        repeatable=entry["repeatable"],
        choices=None if entry["choices"] is None else tuple(entry["choices"]),
        keys=None if entry["keys"] is None else tuple(entry["keys"]),
        deprecated=entry["deprecated"],
        default=entry.get("default"),
    )


@lru_cache(maxsize=1)
def _successor_tables() -> Mapping[str, Mapping[str, Mapping[str, Successor]]]:
    data = json.loads(_catalog().joinpath("successors.json").read_text(encoding="utf-8"))
    return {
        engine: {
            table: {name: Successor(entry["use"], entry["note"]) for name, entry in entries.items()}
            for table, entries in tables.items()
        }
        for engine, tables in data["engines"].items()
    }


def known_by_successors() -> tuple[str, ...]:
    """Programs without a matrix of whose flags only some that are gone are known."""
    return tuple(sorted(set(_successor_tables()) - set(engines())))


def successors(engine: str, table: str) -> Mapping[str, Successor]:
    """Known dead names of an engine; ``table`` is flags, env, metrics, labels, modules or programs."""
    return _successor_tables().get(engine, {}).get(table, {})


def closest(name: str, known: Iterable[str]) -> str:
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {match[0]}?" if match else ""
