"""Reads declarations out of C++ and Rust source: quoted text, nesting, and what stands between commas."""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPEN = {"(": ")", "{": "}", "[": "]"}
_CLOSE = frozenset(_OPEN.values())
_SKIPPED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def pieces(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """(place, text) of each quoted string or comment as a whole, and of every other character."""
    place = start
    while place < len(text):
        match = _SKIPPED.match(text, place)
        part = match.group() if match else text[place]
        yield place, part
        place += len(part)


def closing(text: str, opening: int) -> int:
    """Place of the bracket that closes the one at ``opening``; ValueError where none does."""
    depth = 0
    for place, part in pieces(text, opening):
        if part in _OPEN:
            depth += 1
        elif part in _CLOSE:
            depth -= 1
            if depth == 0:
                return place
    raise ValueError(f"nothing closes the bracket at {opening}")


def arguments(text: str) -> list[str]:
    """``text``, what stands between two brackets, cut at its outer commas; without comments."""
    found, depth, current = [], 0, ""
    for _, part in pieces(text):
        if part.startswith(("//", "/*")):
            continue
        if part in _OPEN:
            depth += 1
        elif part in _CLOSE:
            depth -= 1
        if part == "," and depth == 0:
            found.append(current.strip())
            current = ""
        else:
            current += part
    return [*found, current.strip()] if current.strip() else found


def strings(text: str) -> list[str]:
    """Every quoted string outside comments, escapes left as they are."""
    return [part[1:-1] for _, part in pieces(text) if _STRING.fullmatch(part)]


def flag(
    name: str,
    aliases: list[str],
    *,
    negatives: list[str] | None = None,
    takes_value: str = "valued",
    nargs: int | None = None,
    kind: str = "str",
) -> dict[str, object]:
    """One entry of the data file, with what the source does not say left open."""
    return {
        "name": name,
        "aliases": sorted(aliases),
        "negatives": sorted(negatives or []),
        "takes_value": takes_value,
        "nargs": nargs,
        "type": kind,
        "nullable": False,
        "repeatable": False,
        "choices": None,
        "keys": None,
        "deprecated": None,
    }
