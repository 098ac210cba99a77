"""Reading of single values: the many spellings of "not available", numbers with units, yes and no."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

from checks.parsers._core import NA

_NA_WORDS = {
    "n/a",
    "na",
    "n.a.",
    "not supported",
    "not available",
    "not applicable",
    "not found",
    "function not found",
    "no reading",
    "unknown",
    "unknown error",
    "err!",
    "error",
    "insufficient permissions",
    "no permission",
    "gpu is lost",
    "gpu requires reset",
    "gpu access blocked",
    "gpu not found",
    "requested functionality has been deprecated",
    "deprecated",
    "disabled by policy",
    "-",
    "--",
}
# The driver's words for a device that should answer and does not (not for one that has no such sensor).
FAULT_WORDS = {"err!", "unknown error", "gpu is lost", "gpu requires reset", "gpu access blocked", "error"}

_DEPRECATED = re.compile(r"\s*\[\s*Deprecated\b[^\]]*(?:\]|$)", re.IGNORECASE)
_NUMBER = re.compile(r"^([+-]?(?:\d+(?:[.,]\d+)?|\.\d+))(?:\s*([^\d\s.,].*|%))?$")
_HEX = re.compile(r"^0x[0-9a-fA-F]+$")


_Read = TypeVar("_Read")
_SHORT = 80


def _remembered(read: Callable[[str], _Read]) -> Callable[[str], _Read]:
    """``read`` with its answers to short texts kept: a report repeats a few values thousands of times."""
    known = lru_cache(maxsize=4096)(read)

    @wraps(read)
    def ask(value: str) -> _Read:
        return known(value) if len(value) <= _SHORT else read(value)

    return ask


@_remembered
def clean(value: str) -> str:
    """``value`` without outer blanks, quotes and the suffix by which driver 610 announces a removal."""
    value = _DEPRECATED.sub("", value.strip()).strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1].strip()
    return value


@_remembered
def bare(value: str) -> str:
    """``value`` in lower case without the square or angle brackets that stand around words like N/A."""
    value = clean(value).lower()
    while len(value) >= 2 and (value[0], value[-1]) in {("[", "]"), ("<", ">"), ("(", ")")}:
        value = value[1:-1].strip()
    return value


@_remembered
def na(value: str) -> NA | None:
    """NA if ``value`` is one of the words for "not available" or an error, or any words in brackets."""
    value = clean(value)
    word = bare(value)
    if word in _NA_WORDS or word.startswith(("n/a ", "n/a(")) or "deprecated" in word:
        return NA(value)
    if value.startswith("[") and value.endswith("]") and re.search(r"[A-Za-z]", value):
        return NA(value)
    return None


def is_fault(value: Any) -> bool:
    """Whether ``value`` is an NA whose word says that the device failed to answer."""
    return isinstance(value, NA) and bare(value.reason) in FAULT_WORDS


def to_number(text: str) -> int | float | None:
    """A plain number (decimal point or comma), without unit; None if it is none."""
    text = text.strip()
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text) if len(text) <= 40 else None
    if re.fullmatch(r"[+-]?(?:\d+[.,]\d+|\.\d+)", text) and len(text) <= 40:
        return float(text.replace(",", "."))
    if _HEX.match(text) and len(text) <= 40:
        return int(text, 16)
    return None


@_remembered
def split_number(value: str) -> tuple[int | float, str] | None:
    """``"69.62 W"`` as (69.62, "W"); None if ``value`` does not start with a number."""
    value = clean(value)
    if _HEX.match(value) and len(value) <= 40:
        return int(value, 16), ""
    match = _NUMBER.match(value)
    if not match or len(match.group(1)) > 40:
        return None
    number = to_number(match.group(1))
    if number is None:
        return None
    return number, (match.group(2) or "").strip()


@_remembered
def to_bool(value: str) -> bool | None:
    word = bare(value)
    if word in {"yes", "enabled", "on", "true", "active", "enable", "supported"}:
        return True
    if word in {"no", "disabled", "off", "false", "not active", "disable", "inactive", "none"}:
        return False
    return None


def text_or_na(value: str | None) -> str | NA | None:
    """``value`` as text; NA for the words of absence, None for nothing at all."""
    if value is None:
        return None
    value = clean(value)
    if not value:
        return None
    return na(value) or value
