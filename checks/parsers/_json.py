"""Reading of JSON outputs that may be surrounded by warnings, or cut."""

from __future__ import annotations

import json
import re
from typing import Any

from checks.parsers._core import Reading, shorten
from checks.parsers._errors import tool_errors

_MAX_DEPTH = 200


def _too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= _MAX_DEPTH:
        return False
    depth = 0
    for char in text:
        if char in "[{":
            depth += 1
            if depth > _MAX_DEPTH:
                return True
        elif char in "]}":
            depth -= 1
    return False


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def load(reading: Reading | None, text: str) -> Any:
    """The first JSON object or array in ``text``; None (and a rejected reading) without a whole one.

    Lines of other text before and after it are warnings of the tool; errors among them are reported.
    """
    start = re.search(r"^[ \t]*[\[{]", text, re.M)
    if start is None:
        return None
    begin = start.end() - 1
    if _too_deep(text):
        if reading:
            reading.unknown("nested too deeply")
        return None
    decoder = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_pairs(reading))
    try:
        value, end = decoder.raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        if reading:
            reading.truncated(f"the JSON is cut or damaged: {error}")
        return None
    if reading:
        tool_errors(reading, text[:begin])
        rest = text[end:].strip().lstrip(",").strip()
        if rest and not tool_errors(reading, rest) and rest[0] in '[{]}"':
            reading.unknown(f"after the JSON: {shorten(rest)}")
    return value


def _pairs(reading: Reading | None) -> Any:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key, value in pairs:
            if key in built and built[key] != value and reading:
                reading.contradiction(f"the key {key} stands twice with different values")
            built[key] = value
        return built

    return build


def peek(text: str) -> Any:
    """The JSON in ``text`` for recognition; None if there is none.  Cut documents give None."""
    return load(None, text)


def integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
