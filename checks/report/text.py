"""Words for people: host output made harmless, host names folded, quantities with units."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def clean(text: str) -> str:
    """``text`` with control, bidirectional and undecodable characters made visible.

    Host output is hostile: an escape sequence must not reach a terminal, nor hide a line of a report.
    """
    return _UNSAFE.sub(_visible, text.replace("\r\n", "\n"))


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str) -> str:
    """``text`` cleaned, with every run of white space as one space."""
    return clean(" ".join(text.split()))


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def first_sentence(text: str, limit: int = 160) -> str:
    """The first sentence of a check's *why*, short enough for a summary."""
    head = re.split(r"(?<=[.!?])\s+(?=[A-Z])", one_line(text), maxsplit=1)[0]
    return shorten(head, limit)


def plural(count: int, noun: str, many: str = "") -> str:
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def remedy_parts(remedy: str) -> tuple[str, str]:
    """The command to paste, and what a person must know beside it (after ``  # `` in a check's remedy)."""
    command, _, note = remedy.strip().partition("  # ")
    return clean(command.strip()), one_line(note)


def is_prose(text: str) -> bool:
    """Whether a remedy is a sentence for a person instead of a command."""
    return text.rstrip().endswith(".") or ", then " in text or ", or " in text or ". " in text


def duration(seconds: float) -> str:
    """``41.2 s``, ``3 min 5 s``, ``1 h 2 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def kilowatts(watts: float) -> str:
    return f"{watts / 1000:.1f} kW"


_LAST_NUMBER = re.compile(r"^(.*?)(\d+)(\D*)$")
_DIGITS = re.compile(r"(\d+)")


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key: ``gpu-9`` stands before ``gpu-10``."""
    return tuple(
        (0, int(part), part) if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(name) if part
    )


def fold(names: Iterable[str]) -> list[str]:
    """Host names in the short form that cluster tools read: ``gpu-[01-04,07]``, ``r[1-9]-n[1-8]``."""
    inner = _gather(((head, tail), number) for head, number, tail in map(_split, set(names)))
    parts = [(_split(head), body, tail) for (head, tail), body in inner]
    outer = _gather(((head, middle, body, tail), number) for (head, number, middle), body, tail in parts)
    whole = [head + number + middle + body + tail for (head, middle, body, tail), number in outer]
    return sorted(whole, key=natural)


def folded(names: Iterable[str], limit: int = 240) -> str:
    """As :func:`fold`, in one string of about ``limit`` characters; what is left out is counted."""
    ordered = sorted(set(names), key=natural)
    text = ",".join(fold(ordered))
    if len(text) <= limit:
        return text
    count = len(ordered)
    while count > 1 and len(text) > limit:
        count -= max(1, count // 8)
        text = ",".join(fold(ordered[:count]))
    return f"{text} and {len(ordered) - count:,} more"


def _split(name: str) -> tuple[str, str, str]:
    """Name → before the folded number, the number ("" where there is none), after it."""
    label, dot, domain = name.partition(".")
    if label.isdecimal():
        label, dot, domain = name, "", ""
    match = _LAST_NUMBER.match(label)
    if match is None:
        return name, "", ""
    return match.group(1), match.group(2), match.group(3) + dot + domain


def _gather(items: Iterable[tuple[K, str]]) -> list[tuple[K, str]]:
    """Each key once with the numbers seen under it; a key seen without a number keeps that form too."""
    seen: dict[K, set[str]] = {}
    for key, number in items:
        seen.setdefault(key, set()).add(number)
    out: list[tuple[K, str]] = []
    for key, numbers in seen.items():
        if "" in numbers:
            out.append((key, ""))
        present = sorted(numbers - {""}, key=lambda n: (int(n), len(n)))
        if present:
            out.append((key, _ranges(present)))
    return out


def _ranges(numbers: Sequence[str]) -> str:
    if len(numbers) == 1:
        return numbers[0]
    runs: list[list[str]] = []
    for number in numbers:
        if runs and number == str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][-1])):
            runs[-1].append(number)
        else:
            runs.append([number])
    return "[" + ",".join(f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(r) for r in runs) + "]"


def display_width(text: str) -> int:
    """Terminal columns: wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def wrap(text: str, columns: int) -> list[str]:
    """``text`` on lines of at most ``columns``, broken at spaces and, where there is none, anywhere."""
    lines: list[str] = [""]
    for word in text.split(" "):
        for piece in _pieces(word, columns):
            joined = f"{lines[-1]} {piece}" if lines[-1] else piece
            if display_width(joined) <= columns:
                lines[-1] = joined
            else:
                lines.append(piece)
    return [line.rstrip() for line in lines]


def _pieces(word: str, columns: int) -> list[str]:
    """``word`` in parts of at most ``columns``, broken after a comma or a slash where there is one."""
    out = [""]
    for char in word:
        if display_width(out[-1] + char) > columns:
            cut = max(out[-1].rfind(","), out[-1].rfind("/")) + 1
            keep = cut if cut > len(out[-1]) // 2 else len(out[-1])
            out[-1:] = [out[-1][:keep], out[-1][keep:]]
        out[-1] += char
    return out
