"""Checks command lines and environments against a pinned version.

How words are read is said by the `Dialect` of the matrix: Python's `argparse`, vLLM's
`FlexibleArgumentParser`, click, clap or llama.cpp's own parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rackwright.engines.matrix_data import (
    ArgProblem,
    EnvProblem,
    Flag,
    Matrix,
    Severity,
    closest,
    load_matrix,
    successors,
)
from rackwright.errors import listing

_LONGEST = 32
_NULL_VALUES = frozenset({"", "None"})  # vLLM's optional_type() reads both as None
_BOOLEAN_WORDS = frozenset({"true", "false", "1", "0", "yes", "no", "on", "off"})
_NEGATIVE_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")  # as in argparse
_HUMAN_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_HUMAN_IN_JSON = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
_SI_NUMBER = re.compile(r"\d+(\.\d+)?[kMGT]|\d+[KMGT]i")
_JSON_STRING = re.compile(r'("(?:[^"\\]|\\.)*")')
_OBJECT_FORM = re.compile(r"(?s)^\s*{.*}\s*$")


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
        self.dialect = matrix.dialect

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
            elif self.dialect.dotted and "." in self._key(token):
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
        if equals and not self.dialect.joined:
            return token, None
        if key.startswith("--") and self.dialect.underscores:
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
        if not self.dialect.joined:
            return found
        if key.startswith("--"):
            for option in self.matrix.options if self.dialect.prefixes else ():
                if option.startswith(key):
                    found[option] = None
        else:
            for option in self.matrix.options:
                if len(option) == 2 and key.startswith(option) and len(key) > 2:
                    found[option] = key[2:]
                elif self.dialect.prefixes and option.startswith(key):
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
        head, equals, value = key.partition("=")
        if equals and not self.dialect.joined and head.replace("_", "-") in self.matrix.options:
            self._report(
                head,
                "joined-value",
                f"{self.matrix.engine} must be given a value as a word of its own",
                token,
                f"write {head} {value}",
            )
            return None
        self._report(
            shown,
            "unknown-flag",
            f"{self.matrix.engine} {self.matrix.version} must know the flag",
            shown,
            str(dead) if dead else self.matrix.removed.get(key) or closest(key, known),
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
                taken = self.dialect.greedy and len(values) < self._least(flag)
                if not taken and (token == "--" or self._looks_like_option(token)):  # noqa: S105 - as above
                    break
                values.append(token)
                position += 1
        if len(values) < self._least(flag):
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
    def _least(flag: Flag) -> int:
        if isinstance(flag.nargs, int):
            return flag.nargs
        return 0 if flag.takes_value == "optional" or flag.nargs == "*" else 1

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
                # The form with --no- is the older one, which neighbouring releases take too.
                negative = min(
                    seen.flag.negatives, key=lambda name: not name.startswith("--no-"), default=None
                )
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
                closest(first, flag.keys) or f"one of {listing(flag.keys)}",
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
                closest(unknown[0], flag.keys) or f"one of {listing(flag.keys)}",
            )
        if flag.choices is not None and _folded(flag, value) not in flag.choices:
            self._report(
                token,
                "not-a-choice",
                f"the value must be one of {listing(flag.choices)}",
                repr(value),
                closest(_folded(flag, value), flag.choices),
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
        "si_int": "an integer, also as 8k or 8Ki",
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
        case "si_int":
            number = _reads(int, value) or _SI_NUMBER.fullmatch(value.strip())
            return "" if number else "write an integer, or one with k, M, G, T or Ki, Mi, Gi, Ti"
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


_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def human_int(value: str) -> int | None:
    """vLLM's human_readable_int: lower-case suffixes are decimal, upper-case are binary and whole."""
    text = value.strip()
    match = _HUMAN_NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return int(text) if len(text) <= _LONGEST and _reads(int, text) else None
    number, suffix = match.groups()
    if suffix.islower():
        return int(Fraction(number) * 1000 ** _POWERS[suffix])
    return None if "." in number else int(number) * 1024 ** _POWERS[suffix.lower()]


def _human(value: str) -> bool:
    return human_int(value) is not None


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
    """Problems of the arguments after the engine's command, in the order written.

    The engine's own command before them is passed over. For a whole command line, with variables or
    ``python -m``, use `rackwright.engines.command_line`.
    """
    matrix = load_matrix(engine, version)
    words = list(argv)
    for start in (list(matrix.command), list(matrix.command[1:])):
        if start and words[: len(start)] == start:
            words = words[len(start) :]
            break
    return _ArgChecker(matrix, words).run()


def check_env(engine: str, version: str, env_names: Iterable[str]) -> list[EnvProblem]:
    """Variables with the engine's prefix that this version does not read; others are not judged."""
    matrix = load_matrix(engine, version)
    dead = successors(engine, "env")
    problems: list[EnvProblem] = []
    for name in env_names:
        if name in matrix.env and matrix.env[name].get("deprecated"):
            said = str(matrix.env[name]["deprecated"])
            rule = "a variable should not be deprecated"
            problems.append(EnvProblem(name, rule, name, said, "warn", "deprecated-variable"))
        if not name.startswith(matrix.env_prefix) or name in matrix.env:
            continue
        successor = dead.get(name)
        hint = str(successor) if successor else closest(name, matrix.env)
        problems.append(
            EnvProblem(name, f"{engine} {version} must read the variable", f"{name}, which it ignores", hint)
        )
    return problems
