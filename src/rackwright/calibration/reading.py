"""Recognises what a result file is and has it read: one module in ``readers`` for each format.

A reader has ``NAME``, ``SHAPE`` (by what it is recognised), ``recognises(content)`` and ``read(content)``.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from rackwright.calibration import readers
from rackwright.calibration.measurement import Content, Measurement
from rackwright.errors import CannotRun, InputErrors, Problem
from rackwright.yamlio import printable, read_text

LARGEST = 256 << 20
"""Bytes of a result; with every request in it (vllm bench serve --save-detailed) it is tens of megabytes."""
WHY = "only a result whose figures are understood may change what a plan says"


class Reader(Protocol):
    """What a module in ``readers`` has."""

    NAME: str
    SHAPE: str

    @staticmethod
    def recognises(content: Content) -> bool: ...

    @staticmethod
    def read(content: Content) -> Measurement: ...


@cache
def known() -> tuple[Reader, ...]:
    """Every reader, by name."""
    modules = (
        importlib.import_module(f"{readers.__name__}.{found.name}")
        for found in pkgutil.iter_modules(readers.__path__)
    )
    return tuple(sorted((cast("Reader", module) for module in modules), key=lambda reader: reader.NAME))


def measurements(paths: Sequence[Path]) -> list[Measurement]:
    """Every run in ``paths``.

    Raises:
        CannotRun: a file cannot be read.
        InputErrors: all that is wrong with any of them: not a known result, a field that is missing.
    """
    found: list[Measurement] = []
    problems: list[Problem] = []
    seen: dict[str, str] = {}
    for path in paths:
        try:
            for content in _contents(path):
                if content.sha256 in seen:
                    problems.append(_twice(content, seen[content.sha256]))
                    continue
                seen[content.sha256] = content.where
                found.append(_reader(content).read(content))
        except InputErrors as error:
            problems.extend(error.problems)
    if problems:
        raise InputErrors(problems)
    return found


def _contents(path: Path) -> list[Content]:
    """The results in one file: one, or one a line (vllm bench serve --append-result)."""
    where = printable(str(path))
    try:
        size = path.stat().st_size
    except (OSError, ValueError):
        size = 0
    if size > LARGEST:
        raise CannotRun(
            Problem(where, f"must be at most {LARGEST >> 20} MiB", f"{size:,} bytes", WHY, "give the summary")
        )
    text = read_text(path, "rackwright calibrate RESULT…")
    if not text.strip():
        raise InputErrors(Problem(where, "must be a result of a benchmark", "an empty file", WHY, _formats()))
    whole = _json(text)
    if whole is not None:
        return [_content(where, text, whole)]
    lines = [line for line in text.splitlines() if line.strip()]
    each = [_json(line) for line in lines] if len(lines) > 1 and text.lstrip()[:1] == "{" else []
    if each and all(isinstance(data, dict) for data in each):
        return [
            _content(f"{where}:{number}", line, data)
            for number, (line, data) in enumerate(zip(lines, each, strict=True), start=1)
        ]
    return [_content(where, text, None)]


def _content(where: str, text: str, data: Any) -> Content:
    return Content(where, text, data, hashlib.sha256(text.encode()).hexdigest())


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _reader(content: Content) -> Reader:
    """The one reader that recognises ``content``."""
    readers_ = [reader for reader in known() if reader.recognises(content)]
    if len(readers_) == 1:
        return readers_[0]
    if readers_:
        found = " and ".join(reader.NAME for reader in readers_)
    elif isinstance(content.data, dict):
        keys = sorted(map(str, content.data))
        found = "JSON with " + (
            ", ".join(printable(key)[:40] for key in keys[:6]) or "nothing in it"
        ) + (f" and {len(keys) - 6} more keys" if len(keys) > 6 else "")  # fmt: skip
    elif content.data is not None:
        found = f"JSON that is no object ({type(content.data).__name__})"
    else:
        head = printable(content.text.lstrip()[:40])
        found = f'a text that begins "{head}"'
    raise InputErrors(Problem(content.where, "must be one known result", found, WHY, _formats()))


def _formats() -> str:
    return "give one of: " + "; ".join(f"{reader.NAME} ({reader.SHAPE})" for reader in known())


def _twice(content: Content, earlier: str) -> Problem:
    return Problem(
        content.where,
        "must be another run than the others",
        f"the very text of {earlier}",
        "one run counted twice would look like two that agree",
        "give it once",
    )
