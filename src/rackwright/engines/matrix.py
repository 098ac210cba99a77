"""What a pinned engine version accepts and exports, and a checker on top of it.

Source of the data: `catalog/engines/matrix/<engine>-<version>.json`, extracted from the released
package by `tools/engine_matrix`. Source of the successors: `catalog/engines/successors.json`, where
each entry says where it was read. The rules of the command line are those of Python's `argparse` and of
vLLM's `FlexibleArgumentParser`, which takes underscores for dashes and dotted keys for JSON values.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, Literal

from rackwright.errors import InputErrors, Problem, listing

Severity = Literal["error", "warn"]

# Labels that Prometheus and the Kubernetes service discovery put on every scraped series.
TARGET_LABELS = frozenset(
    {"cluster", "container", "endpoint", "instance", "job", "namespace", "node", "pod", "service"}
)
_NULL_VALUES = frozenset({"", "None"})  # vLLM's optional_type() reads both as None
_BOOLEAN_WORDS = frozenset({"true", "false", "1", "0", "yes", "no", "on", "off"})
_NEGATIVE_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")  # as in argparse
_HUMAN_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_HUMAN_IN_JSON = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
_JSON_STRING = re.compile(r'("(?:[^"\\]|\\.)*")')
_OBJECT_FORM = re.compile(r"(?s)^\s*{.*}\s*$")


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
            ``human_readable_int_or_auto``, ``str_lower_underscore`` (case and dash are folded),
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
class Matrix:
    """Everything known about one engine version."""

    engine: str
    version: str
    header: Mapping[str, Any]
    flags: tuple[Flag, ...]
    positionals: int
    rewrites: Mapping[str, str]
    env: Mapping[str, Mapping[str, Any]]
    env_prefix: str
    metrics: tuple[Metric, ...]
    metric_prefix: str
    entrypoints: tuple[str, ...]

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
        engine, dash, version = stem.partition("-")
        if dot and dash and suffix == "json":
            found.append((engine, version))
    return tuple(sorted(found))


def versions(engine: str) -> tuple[str, ...]:
    """Versions of an engine that have a matrix, oldest first."""

    def key(version: str) -> tuple[tuple[int, str], ...]:
        return tuple((int(part) if part.isdigit() else -1, part) for part in version.split("."))

    return tuple(sorted((version for name, version in _known() if name == engine), key=key))


@lru_cache(maxsize=16)
def load_matrix(engine: str, version: str) -> Matrix:
    """The matrix of an engine version; `InputErrors` when the catalog has none."""
    if (engine, version) not in _known():
        names = [f"{name} {number}" for name, number in _known()]
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


def successors(engine: str, table: str) -> Mapping[str, Successor]:
    """Known dead names of an engine; ``table`` is flags, env, metrics, labels or modules."""
    return _successor_tables().get(engine, {}).get(table, {})


def _close(name: str, known: Iterable[str]) -> str:
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {match[0]}?" if match else ""


# --- command line -----------------------------------------------------------------------------------


@dataclass
class _Seen:
    """One resolved option: the token, the flag it means, and what was joined to it."""

    token: str
    option: str
    flag: Flag
    inline: str | None


class _ArgChecker:
    """Walks an argument list the way the engine's parser does and collects every problem."""

    def __init__(self, matrix: Matrix, argv: Sequence[str]) -> None:
        self.matrix = matrix
        self.argv = list(argv)
        self.problems: list[ArgProblem] = []
        self.given: dict[str, str] = {}
        self.positionals: list[str] = []
        self.dead = successors(matrix.engine, "flags")

    def run(self) -> list[ArgProblem]:
        position = 0
        while position < len(self.argv):
            token = self.argv[position]
            position += 1
            if token == "--":  # noqa: S105 - the end of options, no secret
                for rest in self.argv[position:]:
                    self._positional(rest, after="--")
                break
            rewritten = self._rewrite(token, position)
            if rewritten is not None:
                position = self._option(rewritten, position)
            elif not self._looks_like_option(token):
                self._positional(token, after=self.argv[position - 2] if position > 1 else "")
            elif "." in self._key(token):
                position = self._dotted(token, position)
            else:
                seen = self._resolve(token)
                position = self._skip_unknown(position) if seen is None else self._option(seen, position)
        return self.problems

    def _report(
        self, flag: str, kind: str, rule: str, found: str, hint: str = "", *, severity: Severity = "error"
    ) -> None:
        self.problems.append(ArgProblem(flag, rule, found, hint, severity, kind))

    def _rewrite(self, token: str, position: int) -> _Seen | None:
        """Short forms that the engine itself turns into another flag, such as ``-O3``."""
        for short, name in self.matrix.rewrites.items():
            flag = self.matrix.options.get(name)
            if flag is None:
                continue
            if token == short and position < len(self.argv) and self.argv[position] in {"0", "1", "2", "3"}:
                return _Seen(token, name, flag, None)
            if token.startswith(short) and token != short and token not in self.matrix.options:
                return _Seen(token, name, flag, token[len(short) :].removeprefix("="))
        return None

    @staticmethod
    def _key(token: str) -> str:
        return token.split("=", 1)[0]

    def _normal(self, token: str) -> tuple[str, str | None]:
        """(option string with dashes, joined value or None)."""
        key, equals, value = token.partition("=")
        if key.startswith("--"):
            head, dot, tail = key.partition(".")
            key = head.replace("_", "-") + dot + tail
        return key, value if equals else None

    def _looks_like_option(self, token: str) -> bool:
        """Mirror of argparse: what is taken for an option instead of a value."""
        if not token.startswith("-") or token == "-":  # noqa: S105 - standard input, no secret
            return False
        key, _ = self._normal(token)
        if key in self.matrix.options or self._candidates(key):
            return True
        if _NEGATIVE_NUMBER.match(token):
            return False
        return " " not in token

    def _candidates(self, key: str) -> dict[str, str | None]:
        """Option strings that argparse would take this spelling for, with a joined value if any."""
        found: dict[str, str | None] = {}
        if key.startswith("--"):
            for option in self.matrix.options:
                if option.startswith(key):
                    found[option] = None
        else:
            for option in self.matrix.options:
                if len(option) == 2 and key.startswith(option) and len(key) > 2:
                    found[option] = key[2:]
                elif option.startswith(key):
                    found[option] = None
        return found

    def _resolve(self, token: str, shown: str | None = None) -> _Seen | None:
        """The flag behind a token; reports unknown, ambiguous and shortened spellings."""
        shown = shown or self._key(token)
        key, inline = self._normal(token)
        exact = self.matrix.options.get(key)
        if exact is not None:
            return _Seen(shown, key, exact, inline)
        candidates = self._candidates(key) if key not in ("-", "--") else {}
        if len({self.matrix.options[option].name for option in candidates}) > 1:
            self._report(
                shown,
                "ambiguous-prefix",
                "a shortened flag must fit one flag only",
                f"{shown}, which fits {listing(sorted(candidates), 4)}",
                "write the flag in full",
            )
            return None
        if candidates:
            option, joined = min(candidates.items())
            if joined is not None:
                return _Seen(option, option, self.matrix.options[option], joined)
            dead = self.dead.get(key)
            # Some releases of argparse do not split `-t=8` when `-t` is a shortened `-tp`.
            refused = inline is not None and not key.startswith("--")
            self._report(
                shown,
                "prefix",
                "a flag must be written in full: a later release may add another with this beginning",
                f"{shown}, read as {option}",
                str(dead) if dead else f"write {option}",
                severity="error" if refused else "warn",
            )
            return _Seen(shown, option, self.matrix.options[option], inline)
        dead = self.dead.get(key)
        known = [option for option in self.matrix.options if option.startswith("--") == key.startswith("--")]
        self._report(
            shown,
            "unknown-flag",
            f"{self.matrix.engine} {self.matrix.version} must know the flag",
            shown,
            str(dead) if dead else _close(key, known),
        )
        return None

    def _skip_unknown(self, position: int) -> int:
        """Pass over what is likely the value of a flag that nobody knows."""
        token = self.argv[position - 1]
        if (
            "=" not in token
            and position < len(self.argv)
            and not self._looks_like_option(self.argv[position])
            and self.argv[position] != "--"
        ):
            return position + 1
        return position

    def _positional(self, token: str, after: str) -> None:
        self.positionals.append(token)
        if len(self.positionals) > self.matrix.positionals:
            hint = f"quote it or remove it; it follows {after}" if after else "remove it"
            self._report(
                token, "unexpected-value", "every value must belong to a flag", f"{token!r} on its own", hint
            )

    def _note_use(self, seen: _Seen) -> None:
        flag = seen.flag
        earlier = self.given.get(flag.name)
        if earlier is not None and not flag.repeatable:
            self._report(
                seen.token,
                "duplicate",
                "a flag must be given once: the last one silently wins",
                f"{seen.token} after {earlier}",
                "keep one of them",
            )
        self.given[flag.name] = seen.token
        dead = self.dead.get(seen.option)
        if flag.deprecated:
            hint = str(dead) if dead else flag.deprecated
            self._report(
                seen.token,
                "deprecated",
                "a flag should not be deprecated",
                flag.deprecated,
                hint,
                severity="warn",
            )
        elif dead is not None:
            self._report(
                seen.token,
                "unstable",
                "a flag should be one that neighbouring releases accept too",
                f"{seen.token}, accepted by {self.matrix.version} only as another form of {flag.name}"
                if seen.option != flag.name
                else seen.token,
                str(dead),
                severity="warn",
            )

    def _option(self, seen: _Seen, position: int) -> int:
        """Check one flag with its values; returns the position after them."""
        flag = seen.flag
        self._note_use(seen)
        if flag.takes_value == "boolean":
            return self._boolean(seen, position)
        if seen.inline is not None:
            values = [seen.inline]
        else:
            limit = self._limit(flag)
            values = []
            while position < len(self.argv) and len(values) < limit:
                token = self.argv[position]
                if token == "--" or self._looks_like_option(token):  # noqa: S105 - the end of options
                    break
                values.append(token)
                position += 1
        wanted = flag.nargs if isinstance(flag.nargs, int) else (0 if flag.takes_value == "optional" else 1)
        if len(values) < wanted:
            self._report(
                seen.token,
                "value-missing",
                f"the flag must be given {_amount(flag)}",
                f"{len(values)} value{'s' if len(values) != 1 else ''}",
                _expected(flag),
            )
        for value in values:
            self._value(seen.token, flag, value)
        return position

    @staticmethod
    def _limit(flag: Flag) -> float:
        if isinstance(flag.nargs, int):
            return flag.nargs
        return float("inf") if flag.nargs in ("+", "*") else 1

    def _boolean(self, seen: _Seen, position: int) -> int:
        stray = seen.inline
        if stray is None and position < len(self.argv):
            following = self.argv[position]
            if following.lower() in _BOOLEAN_WORDS:
                stray = following
                position += 1
        if stray is not None:
            off = stray.lower() in {"false", "0", "no", "off"}
            hint = f"write {seen.option} alone"
            if off and seen.option == seen.flag.name:
                negative = next(iter(seen.flag.negatives), None)
                hint = f"leave {seen.option} out" + (f", or write {negative}" if negative else "")
            self._report(
                seen.token,
                "value-to-boolean",
                "the flag must stand alone: it takes no value",
                repr(stray),
                hint,
            )
        return position

    def _dotted(self, token: str, position: int) -> int:
        """``--flag.key value``: the engine merges these into one JSON value of the flag."""
        key, inline = self._normal(token)
        base, _, path = key.partition(".")
        seen = self._resolve(base, shown=self._key(token))
        if inline is None:
            if position >= len(self.argv):
                if seen is not None:
                    self._report(
                        self._key(token), "value-missing", "a dotted key must be given one value", "none"
                    )
                return position
            position += 1
        if seen is None:
            return position
        flag = seen.flag
        if not flag.is_json:
            self._report(
                self._key(token),
                "not-json",
                "only a flag with a JSON value takes dotted keys",
                f"{flag.name} takes {flag.kind}",
            )
            return position
        first = path.split(".", 1)[0].removesuffix("+")
        if flag.keys is not None and first not in flag.keys:
            self._report(
                self._key(token),
                "unknown-key",
                f"{flag.name} must know the key",
                first,
                _close(first, flag.keys) or f"one of {listing(flag.keys)}",
            )
        whole = f"{flag.name}.{path}"
        if whole in self.given and not path.endswith("+"):
            self._report(
                self._key(token),
                "duplicate",
                "a key must be given once: the last one silently wins",
                f"{self._key(token)} after {self.given[whole]}",
                "keep one of them",
            )
        self.given[whole] = self._key(token)
        return position

    def _value(self, token: str, flag: Flag, value: str) -> None:
        if flag.nullable and value in _NULL_VALUES:
            return
        complaint = _wrong_type(flag, value)
        if complaint:
            self._report(token, "wrong-type", f"the value must be {_expected(flag)}", repr(value), complaint)
            return
        unknown = _unknown_keys(flag, value)
        if unknown and flag.keys is not None:
            self._report(
                token,
                "unknown-key",
                f"{flag.name} must know every key of the JSON object",
                listing(unknown),
                _close(unknown[0], flag.keys) or f"one of {listing(flag.keys)}",
            )
        if flag.choices is not None and _folded(flag, value) not in flag.choices:
            self._report(
                token,
                "not-a-choice",
                f"the value must be one of {listing(flag.choices)}",
                repr(value),
                _close(_folded(flag, value), flag.choices),
            )


def _amount(flag: Flag) -> str:
    if isinstance(flag.nargs, int):
        return f"{flag.nargs} values"
    return "one or more values" if flag.nargs == "+" else "a value"


def _expected(flag: Flag) -> str:
    names = {
        "int": "an integer",
        "float": "a number",
        "json": "JSON",
        "json_config": "a JSON object",
        "json_or_str": "JSON or plain text",
        "human_readable_int": "an integer, also as 8k or 8K",
        "human_readable_int_or_auto": "an integer, also as 8k or 8K, or auto",
    }
    if flag.choices is not None:
        return f"one of {listing(flag.choices)}"
    return names.get(flag.kind, "text")


def _folded(flag: Flag, value: str) -> str:
    """A value as the engine compares it with its choices."""
    if flag.kind == "str_lower_underscore":
        return value.lower().replace("-", "_")
    if flag.kind == "int":
        return str(int(value))
    return value


def _wrong_type(flag: Flag, value: str) -> str:
    """Why a value cannot be read, or an empty string."""
    match flag.kind:
        case "int":
            return "" if _reads(int, value) else "write digits only"
        case "float":
            return "" if _reads(float, value) else "write a number"
        case "human_readable_int":
            return "" if _human(value) else "write an integer, or one with k, m, g, t or K, M, G, T"
        case "human_readable_int_or_auto":
            if value.strip().lower() in ("-1", "auto") or _human(value):
                return ""
            return "write an integer, one with k, m, g, t or K, M, G, T, or auto"
        case "json" | "json_config":
            return _json_complaint(flag, value)
        case "json_or_str":
            return _json_complaint(flag, value) if _OBJECT_FORM.match(value) else ""
    return ""


def _reads(convert: type[int] | type[float], value: str) -> bool:
    try:
        convert(value)
    except ValueError:
        return False
    return True


def _human(value: str) -> bool:
    """vLLM's human_readable_int: lower-case suffixes are decimal, upper-case are binary and whole."""
    text = value.strip()
    match = _HUMAN_NUMBER.fullmatch(text)
    if match is None:
        return _reads(int, text)
    return match.group(2).islower() or "." not in match.group(1)


def _parse_json(flag: Flag, value: str) -> Any:
    """JSON as vLLM reads it; in a config object, numbers outside strings may carry a suffix such as 8k."""
    if flag.kind == "json_config":
        parts = _JSON_STRING.split(value)
        parts[::2] = [_HUMAN_IN_JSON.sub("0", part) for part in parts[::2]]
        value = "".join(parts)
    return json.loads(value)


def _json_complaint(flag: Flag, value: str) -> str:
    try:
        parsed = _parse_json(flag, value)
    except ValueError as exc:
        return f"it is no JSON: {exc}"
    return "write a JSON object" if flag.kind == "json_config" and not isinstance(parsed, dict) else ""


def _unknown_keys(flag: Flag, value: str) -> list[str]:
    """Top-level keys of a valid JSON object that the flag does not know."""
    if flag.kind != "json_config" or flag.keys is None:
        return []
    return sorted(set(_parse_json(flag, value)) - set(flag.keys))


def check_args(engine: str, version: str, argv: Sequence[str]) -> list[ArgProblem]:
    """Problems of the arguments after ``vllm serve``, in the order written.

    A leading ``vllm serve`` is passed over. For a whole command with variables or ``python -m`` use
    `check_command`.
    """
    matrix = load_matrix(engine, version)
    words = list(argv)
    if words[:2] == [engine, "serve"]:
        words = words[2:]
    elif words[:1] == ["serve"]:
        words = words[1:]
    return _ArgChecker(matrix, words).run()


def check_command(engine: str, version: str, words: Sequence[str]) -> list[ArgProblem]:
    """Problems of a whole command: leading ``NAME=value``, the program or module, and the arguments."""
    matrix = load_matrix(engine, version)
    problems: list[ArgProblem] = []
    rest = list(words)
    names: list[str] = []
    while rest and re.match(r"[A-Za-z_][A-Za-z0-9_]*=", rest[0]):
        names.append(rest.pop(0).partition("=")[0])
    problems += [
        ArgProblem(item.name, item.rule, item.found, item.successor_or_hint, item.severity, item.kind)
        for item in check_env(engine, version, names)
    ]
    if len(rest) >= 3 and re.fullmatch(r"(.*/)?python[0-9.]*", rest[0]) and rest[1] == "-m":
        module = rest[2]
        rest = rest[3:]
        dead = successors(engine, "modules").get(module)
        if module not in matrix.entrypoints:
            problems.append(
                ArgProblem(
                    module,
                    f"{engine} {version} must have the module",
                    module,
                    str(dead) if dead else _close(module, matrix.entrypoints),
                    kind="unknown-module",
                )
            )
        elif dead is not None:
            problems.append(
                ArgProblem(
                    module,
                    "the engine should be started by its current command",
                    module,
                    str(dead),
                    "warn",
                    "legacy-module",
                )
            )
    return problems + check_args(engine, version, rest)


def check_env(engine: str, version: str, env_names: Iterable[str]) -> list[EnvProblem]:
    """Variables with the engine's prefix that this version does not read; others are not judged."""
    matrix = load_matrix(engine, version)
    dead = successors(engine, "env")
    problems: list[EnvProblem] = []
    for name in env_names:
        if not name.startswith(matrix.env_prefix) or name in matrix.env:
            continue
        successor = dead.get(name)
        hint = str(successor) if successor else _close(name, matrix.env)
        problems.append(
            EnvProblem(name, f"{engine} {version} must read the variable", f"{name}, which it ignores", hint)
        )
    return problems


# --- metrics ----------------------------------------------------------------------------------------


def metric_names(engine: str, version: str) -> frozenset[str]:
    """Every series name that the version can expose: with _total, _bucket, _sum and _count."""
    return frozenset(load_matrix(engine, version).samples)


_TOKEN = re.compile(
    r"""
    (?P<space>\s+|\#[^\n]*)
  | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
  | (?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?:[a-zA-Z]\w*)?)
  | (?P<variable>\$\{[^}]*\}|\$\w+|\[\[[^\]]*\]\])
  | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
  | (?P<operator>=~|!~|==|!=|>=|<=|[-+*/%^(){}\[\],=<>:@])
    """,
    re.VERBOSE | re.DOTALL,
)
_GROUPING = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = _GROUPING | {"and", "or", "unless", "bool", "offset", "inf", "nan", "start", "end", "atan2"}
_OPEN = {"(": ")", "{": "}", "[": "]"}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


@dataclass(frozen=True)
class _Selector:
    """One selector: metric names it can mean (None: any), labels of its matchers, place in the tokens."""

    metrics: tuple[str, ...] | None
    labels: tuple[str, ...]
    place: int


def _unquote(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def _tokens(expr: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    while position < len(expr):
        match = _TOKEN.match(expr, position)
        if match is None:
            raise ValueError(f"unexpected {expr[position]!r} at character {position + 1}")
        position = match.end()
        if match.lastgroup and match.lastgroup != "space":
            found.append(_Token(match.lastgroup, match.group()))
    return found


def _pairs(tokens: Sequence[_Token]) -> dict[int, int]:
    """Place of each opening bracket -> place of the one that closes it, and the reverse."""
    pairs: dict[int, int] = {}
    stack: list[int] = []
    for place, token in enumerate(tokens):
        if token.kind != "operator":
            continue
        if token.text in _OPEN:
            stack.append(place)
        elif token.text in _OPEN.values():
            if not stack or _OPEN[tokens[stack[-1]].text] != token.text:
                raise ValueError(f"{token.text!r} closes nothing")
            start = stack.pop()
            pairs[start], pairs[place] = place, start
    if stack:
        raise ValueError(f"{tokens[stack[-1]].text!r} is not closed")
    return pairs


class _Promql:
    """Selectors and label lists of an expression."""

    def __init__(self, expr: str, samples: Collection[str], prefix: str) -> None:
        self.tokens = _tokens(expr)
        self.pairs = _pairs(self.tokens)
        self.samples = samples
        self.prefix = prefix
        self.selectors: list[_Selector] = []
        self.groupings: list[tuple[str, tuple[str, ...], int]] = []
        self.made: set[str] = set()
        self._walk()

    def _is(self, place: int, text: str) -> bool:
        return 0 <= place < len(self.tokens) and self.tokens[place] == _Token("operator", text)

    def _walk(self) -> None:
        place = 0
        while place < len(self.tokens):
            token = self.tokens[place]
            if token.kind == "name" and token.text.lower() in _GROUPING and not self._is(place + 1, "{"):
                place = self._grouping(place)
            elif token.kind == "name" and self._is(place + 1, "("):
                if token.text in ("label_replace", "label_join"):
                    self._made_label(place + 1)
                place += 1
            elif token.kind == "name" and token.text.lower() not in _WORDS:
                place = self._selector(place, token.text)
            elif self._is(place, "{"):
                place = self._selector(place, None)
            elif self._is(place, "["):
                place = self.pairs[place] + 1
            else:
                place += 1

    def _grouping(self, place: int) -> int:
        word = self.tokens[place].text.lower()
        if not self._is(place + 1, "("):
            return place + 1
        end = self.pairs[place + 1]
        names = tuple(
            _unquote(token.text) if token.kind == "string" else token.text
            for token in self.tokens[place + 2 : end]
            if token.kind in ("name", "string")
        )
        self.groupings.append((word, names, place))
        return end + 1

    def _made_label(self, opening: int) -> None:
        """label_replace and label_join make the label that their second argument names."""
        depth_end = self.pairs[opening]
        place, argument = opening + 1, 0
        while place < depth_end:
            if self.tokens[place].text in _OPEN and self.tokens[place].kind == "operator":
                place = self.pairs[place]
            elif self._is(place, ","):
                argument += 1
            elif argument == 1 and self.tokens[place].kind == "string":
                self.made.add(_unquote(self.tokens[place].text))
                return
            place += 1

    def _selector(self, place: int, metric: str | None) -> int:
        start = place
        metrics: tuple[str, ...] | None = (metric,) if metric is not None else None
        labels: list[str] = []
        if metric is not None:
            place += 1
        if self._is(place, "{"):
            end = self.pairs[place]
            inside = self.tokens[place + 1 : end]
            for index, token in enumerate(inside):
                following = inside[index + 1] if index + 1 < len(inside) else _Token("operator", ",")
                previous = inside[index - 1] if index else _Token("operator", ",")
                if previous != _Token("operator", ",") or token.kind not in ("name", "string"):
                    continue
                name = _unquote(token.text) if token.kind == "string" else token.text
                if following.kind == "operator" and following.text in ("=", "!=", "=~", "!~"):
                    value = inside[index + 2] if index + 2 < len(inside) else None
                    if name != "__name__":
                        labels.append(name)
                    elif value is not None and value.kind == "string":
                        metrics = self._by_name(following.text, _unquote(value.text), metrics)
                elif token.kind == "string":  # {"metric.name", label="value"}
                    metrics = (name,)
            place = end + 1
        self.selectors.append(_Selector(metrics, tuple(labels), start))
        return place

    def _by_name(self, operator: str, value: str, metrics: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Metrics that a matcher on ``__name__`` stands for; the pattern itself when it fits none."""
        if operator == "=":
            return (value,)
        if operator != "=~":
            return metrics
        try:
            pattern = re.compile(value)
        except re.error:
            return metrics
        hits = tuple(sorted(sample for sample in self.samples if pattern.fullmatch(sample)))
        if hits or not value.lstrip("^(").startswith(self.prefix):
            return hits or metrics
        return (value,)

    def argument(self, place: int) -> range:
        """Places of the expression that a ``by`` or ``without`` at this place groups."""
        after = self.pairs[place + 1] + 1
        if self._is(after, "("):
            return range(after, self.pairs[after])
        if self._is(place - 1, ")"):
            return range(self.pairs[place - 1], place - 1)
        return range(0)


def _exported(matrix: Matrix, name: str) -> Metric | None:
    """The metric behind a series name; `_created` series are written along with counters and the like."""
    found = matrix.samples.get(name)
    if found is None and name.endswith("_created"):
        base = name.removesuffix("_created")
        found = next(
            (
                metric
                for metric in matrix.metrics
                if metric.type in ("counter", "histogram", "summary")
                and metric.name.removesuffix("_total") == base
            ),
            None,
        )
    return found


def _metric_hint(matrix: Matrix, name: str) -> str:
    """What to query instead: a known successor, the right series of the metric, or a near name."""
    table = successors(matrix.engine, "metrics")
    declared = {metric.name: metric for metric in matrix.metrics}
    if name in declared:
        return f"use {listing(declared[name].samples)}: a {declared[name].type} is scraped under these names"
    for suffix in ("", "_total", "_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if suffix and base == name:
            continue
        successor = table.get(base)
        if successor is not None:
            renamed = successor.use + suffix
            use = renamed if suffix and renamed in matrix.samples else successor.use
            return str(Successor(use, successor.note))
        if suffix and base in declared:
            return f"use {listing(declared[base].samples)}: it is a {declared[base].type}"
    return _close(name, matrix.samples)


def check_promql(
    engine: str,
    version: str,
    expr: str,
    *,
    recorded: Collection[str] = (),
    extra_labels: Collection[str] = (),
) -> list[PromqlProblem]:
    """Engine metrics and labels in a PromQL expression that this version does not export.

    Only names with the engine's prefix are judged. ``recorded`` holds names of recording rules that
    share the prefix; ``extra_labels`` holds labels that relabelling adds in this deployment.
    """
    matrix = load_matrix(engine, version)
    try:
        query = _Promql(expr, matrix.samples, matrix.metric_prefix)
    except ValueError as exc:
        return [PromqlProblem(expr, "the expression must be PromQL", str(exc), "", kind="syntax")]
    problems: list[PromqlProblem] = []
    allowed = TARGET_LABELS | frozenset(extra_labels) | query.made
    known: dict[int, frozenset[str] | None] = {}
    for selector in query.selectors:
        known[selector.place] = _selector_labels(matrix, selector, allowed, recorded, problems)
    for word, names, place in query.groupings:
        places = query.argument(place) if word in ("by", "without") else range(len(query.tokens))
        inside = [known[selector.place] for selector in query.selectors if selector.place in places]
        sets = [labels for labels in inside if labels is not None]
        if not sets or len(sets) != len(inside):
            continue
        union = frozenset().union(*sets)
        problems += [
            _label_problem(matrix, name, union - allowed, f"{word} ({name})")
            for name in names
            if name not in union
        ]
    unique: dict[PromqlProblem, None] = dict.fromkeys(problems)
    return list(unique)


def _selector_labels(
    matrix: Matrix,
    selector: _Selector,
    allowed: frozenset[str],
    recorded: Collection[str],
    problems: list[PromqlProblem],
) -> frozenset[str] | None:
    """Labels that the series of a selector can carry; None when that is not known."""
    if selector.metrics is None:
        return None
    labels: set[str] = set(allowed)
    for name in selector.metrics:
        if name in recorded or not name.startswith(matrix.metric_prefix):
            return None
        metric = _exported(matrix, name)
        if metric is None:
            problems.append(
                PromqlProblem(
                    name,
                    f"{matrix.engine} {matrix.version} must export the series",
                    f"{name}, which gives no data",
                    _metric_hint(matrix, name),
                    kind="unknown-metric",
                )
            )
            return None
        if metric.labels is None:
            return None
        labels |= metric.labels
        if name == f"{metric.name}_bucket":
            labels.add("le")
    for label in selector.labels:
        if label not in labels:
            shown = f"{label} on {listing(selector.metrics, 3)}"
            problems.append(_label_problem(matrix, label, frozenset(labels) - allowed, shown))
    return frozenset(labels)


def _label_problem(matrix: Matrix, label: str, own: frozenset[str], found: str) -> PromqlProblem:
    successor = successors(matrix.engine, "labels").get(label)
    hint = str(successor) if successor and successor.use in own else _close(label, own)
    return PromqlProblem(
        label,
        f"the label must be one that {matrix.engine} {matrix.version} or the scrape sets",
        found,
        hint or f"labels of the metric: {listing(sorted(own)) or 'none'}",
        kind="unknown-label",
    )


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
