"""Files as sets of settings: what a file says, whatever its order, spacing and comments.

A setting is a path and a value. Two files that say the same have the same settings; a file that differs from
what the plan gives differs in a setting with a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rackwright.errors import InputErrors, Problem
from rackwright.yamlio import parse_yaml


@dataclass(frozen=True)
class Setting:
    """``where``: the line where that is known. ``key``: the path."""

    value: str
    line: int | None = None


Settings = dict[str, Setting]


def unreadable(source: str, what: str, found: str) -> InputErrors:
    return InputErrors(
        Problem(
            source,
            f"must be {what}",
            found,
            "what cannot be read cannot be proven to agree with the other end",
            "mend it, or render it again: rackwright fabric render PLAN -o DIR",
        )
    )


def _no_duplicates(source: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in items:
            if key in out:
                raise unreadable(source, "JSON without repeated keys", f'"{key}" twice')
            out[key] = value
        return out

    return pairs


def json_data(text: str, source: str) -> Any:
    """The data of a JSON file.

    Raises:
        InputErrors: it is none, or a key stands twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates(source))
    except ValueError as error:
        raise unreadable(source, "JSON", str(error)) from None
    except RecursionError:
        raise unreadable(source, "JSON of a sane depth", "thousands of levels") from None


def yaml_data(text: str, source: str) -> Any:
    """The data of a YAML file of one document; keys as text.

    Raises:
        InputErrors: it is none.
    """
    return parse_yaml(text, source).data


def tree(data: Any) -> Settings:
    """Every scalar of nested data by its path; an empty mapping or list is a setting too."""
    return {path: Setting(value) for path, value in _walk(data, "")}


def _walk(node: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, Mapping) and node:
        for key, value in node.items():
            yield from _walk(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list) and node:
        for index, value in enumerate(node):
            yield from _walk(value, f"{path}[{index}]")
    else:
        yield path, json.dumps(node)


def assignments(text: str, source: str, comment: str = "#") -> Settings:
    """``KEY=value`` lines, as an EnvironmentFile and sysctl.d have them.

    Raises:
        InputErrors: a line is neither a comment nor an assignment, or a key stands twice.
    """
    found: Settings = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith(comment):
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise unreadable(f"{source}:{number}", "KEY=value lines", f"{line!r}")
        if key.strip() in found:
            raise unreadable(f"{source}:{number}", "KEY=value lines, each key once", f"{key.strip()} twice")
        found[key.strip()] = Setting(value.strip(), number)
    return found


def lines(text: str, comment: str = "#") -> Settings:
    """Every line that is no comment, with its number among equals; spacing inside a line counts once."""
    found: Settings = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = " ".join(raw.split())
        if not line or line.startswith(comment):
            continue
        key, again = line, 2
        while key in found:
            key, again = f"{line} (again, {again})", again + 1
        found[key] = Setting("present", number)
    return found


def sections(text: str, source: str) -> Settings:
    """A configuration of indented lines, as EOS prints it: each line below its section's.

    Raises:
        InputErrors: a line is indented below nothing.
    """
    found: Settings = {}
    stack: list[tuple[int, str]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or re.fullmatch(r"!.*|end", line):
            continue
        depth = len(raw) - len(raw.lstrip(" "))
        while stack and stack[-1][0] >= depth:
            stack.pop()
        if depth and not stack:
            raise unreadable(
                f"{source}:{number}", "a configuration of sections", f"{line!r} below no section"
            )
        path = " > ".join([*(name for _, name in stack), " ".join(line.split())])
        found.setdefault(path, Setting("present", number))
        stack.append((depth, " ".join(line.split())))
    return found
