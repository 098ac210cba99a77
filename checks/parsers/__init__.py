"""Parsers that turn the output of hardware tools into facts.

``parse(kind, text)`` reads an output of a known kind, ``parse("auto", text)`` finds the kind first, and
``recognise(text)`` only finds the kind.  ``KINDS`` lists the kinds.  Parsers are pure functions of the
text: no files, no commands, no state.  Adding a kind means adding one module to this package whose
function carries the ``parser`` decorator.

A fact which the output does not contain is None, one which the tool printed as not available is an
:class:`NA`.  ``understood`` is False when the text is not of the kind, is cut, or contradicts itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checks.parsers._core import (
    LONGEST_LINE,
    NA,
    REGISTRY,
    Facts,
    Parsed,
    ParserEntry,
    Problem,
    Reading,
    normalise,
    shorten,
    too_long,
)
from checks.parsers._errors import tool_errors
from checks.parsers.codes import CODES

if TYPE_CHECKING:
    KINDS: dict[str, ParserEntry]

__all__ = [
    "CODES",
    "KINDS",
    "NA",
    "Facts",
    "Parsed",
    "ParserEntry",
    "Problem",
    "parse",
    "parse_once",
    "recognise",
]

_ORDER = (
    "nvidia-smi-qx",
    "nvidia-smi-q",
    "nvidia-smi-csv",
    "nvidia-smi-L",
    "nvidia-smi-version",
    "nvidia-smi-topo",
    "nvidia-smi-nvlink",
    "nvidia-smi-table",
)


def _modules() -> list[str]:
    names = (info.name for info in pkgutil.iter_modules(__path__))
    return sorted(name for name in names if not name.startswith("_") and name != "codes")


_ENTERED = re.compile(r'^@parser\(\s*"([^"]+)"', re.M)


@cache
def _module_of() -> dict[str, str]:
    """Kind to the module that enters it, by the sources: a run needs half of them. Empty without sources."""
    found = {}
    for module in _modules():
        with contextlib.suppress(OSError, UnicodeDecodeError):
            source = (Path(__path__[0]) / f"{module}.py").read_text(encoding="utf-8")
            found.update(dict.fromkeys(_ENTERED.findall(source), module))
    return found


def _entry(name: str) -> ParserEntry | None:
    """The parser of a kind, imported alone where its module is known, else the one of an alias."""
    if name in REGISTRY:
        return REGISTRY[name]
    if module := _module_of().get(name):
        importlib.import_module(f"{__name__}.{module}")
    return REGISTRY.get(name) or _by_name().get(name)


@cache
def _kinds() -> dict[str, ParserEntry]:
    """All kinds, in the order in which a text is tried."""
    for module in _modules():
        importlib.import_module(f"{__name__}.{module}")
    first = [kind for kind in _ORDER if kind in REGISTRY]
    others = sorted((k for k in REGISTRY if k not in first), key=lambda k: REGISTRY[k].function.__module__)
    return {kind: REGISTRY[kind] for kind in (*first, *others)}


def __getattr__(name: str) -> Any:
    if name == "KINDS":
        return _kinds()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _by_name() -> dict[str, ParserEntry]:
    return {name: entry for entry in _kinds().values() for name in (entry.kind, *entry.aliases)}


# What is enough to tell the kind; the rest of a long log need not be looked at.
_SNIFFED = 200_000


def recognise(text: str) -> str | None:
    """The kind that ``text`` is most likely of, or None."""
    return _recognise(normalise(text[:_SNIFFED]))


def _recognise(text: str) -> str | None:
    if too_long(text) is not None:
        return None
    best, best_score = None, 0
    for entry in _kinds().values():
        try:
            score = entry.sniff(text)
        except Exception:  # a sniffing rule must not break the recognition of other kinds
            score = 0
        if score > best_score:
            best, best_score = entry.kind, score
    return best


def parse(kind: str, text: str) -> Parsed:
    """The facts of ``text``, an output of ``kind`` (a name in KINDS, an alias, or ``auto``).

    Never raises for any text; a ValueError means that there is no such kind.
    """
    clean_text = normalise(text)
    if kind == "auto":
        found = _recognise(clean_text[:_SNIFFED])
        if found is None:
            return _unrecognised(clean_text)
        kind = found
    entry = _entry(kind)
    if entry is None:
        raise ValueError(f"no parser for the kind {kind!r}; kinds are: auto, {', '.join(_kinds())}")
    line = too_long(clean_text)
    if line is None and not entry.document:
        line = next((line for line in clean_text.split("\n") if len(line) > LONGEST_LINE), None)
    if line is not None:
        reading = Reading({})
        reading.unknown(f"a line of {len(line)} characters: {line[:100]}")
        return Parsed(entry.kind, {}, list(reading.problems), False)
    try:
        reading = entry.function(clean_text)
    except Exception as error:  # last resort: a text must never end the run
        reading = Reading({})
        reading.reject("output-unknown", "output", f"the parser failed: {type(error).__name__}: {error}")
    return Parsed(entry.kind, reading.facts, list(reading.problems), reading.understood)


_ONCE: dict[bytes, Parsed] = {}
_ONCE_MAX = 256
"""Texts that several hosts print come again with each of them; those of one host alone make room soon."""


def parse_once(kind: str, text: str) -> Parsed:
    """As :func:`parse`, of each text once: hosts of a pool and devices of a host print alike.

    What it returns is shared and not to be changed.
    """
    key = hashlib.blake2b(f"{kind}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    found = _ONCE.pop(key, None)
    if found is None:
        found = parse(kind, text)
        if len(_ONCE) >= _ONCE_MAX:
            del _ONCE[next(iter(_ONCE))]
    _ONCE[key] = found
    return found


def _unrecognised(text: str) -> Parsed:
    reading = Reading({}, understood=False)
    tool_errors(reading, text)
    if not reading.problems:
        lines = [line for line in text.split("\n") if line.strip()]
        what = f"no kind recognised; first line: {shorten(lines[0])}" if lines else "the output is empty"
        reading.problem("output-unknown", "output", what)
    return Parsed(None, {}, list(reading.problems), False)
