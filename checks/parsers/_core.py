"""Types shared by all parsers, and the registry they enter themselves into."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

Facts = dict[str, Any]

_MOST_PROBLEMS = 50
_MOST_BLANK_LINES = 3
LONGEST_LINE = 20_000


@dataclass(frozen=True)
class NA:
    """A value that the tool printed as not available; ``reason`` is what it printed."""

    reason: str

    def as_dict(self) -> dict[str, str]:
        return {"na": self.reason}


@dataclass(frozen=True)
class Problem:
    """Something wrong: ``code`` is a check id, ``where`` names the part, ``text`` says what was seen."""

    code: str
    where: str
    text: str

    def as_dict(self) -> dict[str, str]:
        return {"code": self.code, "where": self.where, "text": self.text}


@dataclass(frozen=True)
class Parsed:
    """What one output says.  ``kind`` is None only where ``auto`` recognised nothing."""

    kind: str | None
    facts: Facts
    problems: list[Problem]
    understood: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "facts": plain(self.facts),
            "problems": [problem.as_dict() for problem in self.problems],
            "understood": self.understood,
        }


def plain(value: Any) -> Any:
    """``value`` with NA and Problem replaced by what JSON can hold."""
    if isinstance(value, NA | Problem):
        return value.as_dict()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass
class Reading:
    """What a parser fills in while it reads."""

    facts: Facts
    problems: dict[Problem, None] = field(default_factory=dict)
    """In the order they were found, each once: a damaged log may hold one a line."""
    understood: bool = True

    def problem(self, code: str, where: str, text: str) -> None:
        """Report a problem once; of unreadable lines only the first, for the rest say the same again."""
        found = Problem(code, where, text)
        if code.startswith("output-") and len(self.problems) >= _MOST_PROBLEMS:
            return
        self.problems.setdefault(found)

    def reject(self, code: str, where: str, text: str) -> None:
        """Mark the output as not understood and say why (``text`` holds the offending line)."""
        self.understood = False
        self.problem(code, where, text)

    def unknown(self, line: str, where: str = "output") -> None:
        self.reject("output-unknown", where, f"cannot read: {shorten(line)}")

    def truncated(self, text: str, where: str = "output") -> None:
        self.reject("output-truncated", where, text)

    def contradiction(self, text: str, where: str = "output") -> None:
        self.reject("output-contradiction", where, text)


def shorten(line: str, limit: int = 160) -> str:
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


ParseFunction = Callable[[str], Reading]
SniffFunction = Callable[[str], int]


@dataclass(frozen=True)
class ParserEntry:
    """One kind of output.  ``sniff`` gives 0 (not mine) to 100 (surely mine) for a text."""

    kind: str
    title: str
    commands: tuple[str, ...]
    function: ParseFunction
    sniff: SniffFunction
    aliases: tuple[str, ...] = ()
    document: bool = False  # may be JSON or XML without line breaks


REGISTRY: dict[str, ParserEntry] = {}


def parser(
    kind: str,
    title: str,
    commands: tuple[str, ...],
    sniff: SniffFunction,
    *,
    aliases: tuple[str, ...] = (),
    document: bool = False,
) -> Callable[[ParseFunction], ParseFunction]:
    """Enter the decorated function as the parser of ``kind``; a second one of that name is an error."""

    def enter(function: ParseFunction) -> ParseFunction:
        taken = set(REGISTRY) | {alias for entry in REGISTRY.values() for alias in entry.aliases}
        for name in (kind, *aliases):
            if name in taken or name == "auto":
                raise ValueError(f"two parsers for the kind {name!r}")
        REGISTRY[kind] = ParserEntry(kind, title, commands, function, sniff, aliases, document)
        return function

    return enter


_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_BLANK_RUN = re.compile(r"\n(?:[^\S\n]*\n){3}[^\S\n]*(?:\n|\Z)")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CONTROL_BYTES = bytes([*range(9), 11, 12, *range(14, 32), 127])


def normalise(text: str) -> str:
    """``text`` without byte order mark, escape sequences and control characters, with LF line ends.

    Of many blank lines in a row a few are kept.
    """
    text = text.removeprefix("\ufeff")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():  # what nearly every tool prints: six times as fast
        data = text.encode("ascii").translate(None, _CONTROL_BYTES)
        text = data.decode("ascii")
        if b"\n\n\n\n" not in b"\n" + data.translate(None, b" \t"):
            return text
    else:
        text = _CONTROL.sub("", text).replace("\u00a0", " ")
    if not _BLANK_RUN.search("\n" + text):
        return text
    kept: list[str] = []
    blank = 0
    for line in text.split("\n"):
        blank = 0 if line.strip() else blank + 1
        if blank <= _MOST_BLANK_LINES:
            kept.append(line)
    return "\n".join(kept)


def _has_long_line(text: str) -> bool:
    at = 0
    while len(text) - at > LONGEST_LINE:
        end = text.rfind("\n", at, at + LONGEST_LINE + 1)
        if end < 0:
            return True
        at = end + 1
    return False


def too_long(text: str) -> str | None:
    """A line that no tool prints, unless it begins a document (JSON, XML) that is printed without breaks."""
    if len(text) <= LONGEST_LINE:
        return None
    if not _has_long_line(text):
        return None
    for line in text.split("\n"):
        if len(line) > LONGEST_LINE and line.lstrip()[:1] not in {"[", "{", "<"}:
            return line
    return None
