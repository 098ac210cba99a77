"""How an output is damaged: cut, lines lost, noise, another locale, columns swapped."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

NOISE = (
    "warning: x", "\x1b[31mred\x1b[0m", "ERR!", "N/A", "] [ } {", "0,5 W", "9" * 60, "\t\t|", "Traceback",
    ":", "é", "Unable to determine the device handle", "<", "{}", "null", "-1", "1e400", "\x00", "\ufeff",
    "°C", "0x", "NaN",
)  # fmt: skip

_WORDS = {
    "Enabled": "Aktiviert", "Disabled": "Deaktiviert", "Active": "Aktiv", "Yes": "Ja", "No": "Nein",
    "true": "wahr", "false": "falsch", "OK": "正常", "ok": "okay", "up": "oben", "down": "unten",
    "Link": "Verbindung", "Warning": "警告", "Total": "Gesamt",
}  # fmt: skip


@dataclass(frozen=True)
class Damaged:
    """A text and how it was damaged. ``lossy``: something was taken away and nothing put in its place."""

    text: str
    how: str
    lossy: bool


Damage = Callable[[str, random.Random], str]


def truncated(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text))]


def without_lines(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    return "\n".join(lines[:at] + lines[at + chance.choice((1, 1, 1, 2, 3, 8)) :])


def without_a_span(text: str, chance: random.Random) -> str:
    start = chance.randrange(len(text))
    return text[:start] + text[start + chance.randrange(1, 40) :]


def noisy_line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines) + 1)
    return "\n".join([*lines[:at], chance.choice(NOISE), *lines[at:]])


def noisy_span(text: str, chance: random.Random) -> str:
    start = chance.randrange(len(text))
    return text[:start] + chance.choice(NOISE) + text[start + chance.randrange(0, 30) :]


def another_locale(text: str, chance: random.Random) -> str:
    """Decimal commas, or words in another language."""
    if chance.random() < 0.5:
        return re.sub(r"(?<=\d)\.(?=\d)", lambda m: "," if chance.random() < 0.6 else m[0], text)
    return re.sub(r"[A-Za-z]+", lambda m: _WORDS.get(m[0], m[0]) if chance.random() < 0.6 else m[0], text)


def swapped_columns(text: str, chance: random.Random) -> str:
    """Two cells of one line, or of every line, change places."""
    separator = chance.choice(("|", ",", ":", "\t", " "))
    lines = text.split("\n")
    having = [n for n, line in enumerate(lines) if line.count(separator) >= 1]
    if not having:
        return noisy_line(text, chance)
    chosen = having if chance.random() < 0.3 else [chance.choice(having)]
    first, second = chance.randrange(4), chance.randrange(1, 5)
    for n in chosen:
        cells = lines[n].split(separator)
        one, two = first % len(cells), (first + second) % len(cells)
        cells[one], cells[two] = cells[two], cells[one]
        lines[n] = separator.join(cells)
    return "\n".join(lines)


def doubled_lines(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    count = chance.randrange(1, 6)
    return "\n".join(lines[: at + count] + lines[at:])


DAMAGES: dict[str, tuple[Damage, bool]] = {
    "truncation": (truncated, True),
    "deleted lines": (without_lines, True),
    "deleted span": (without_a_span, False),
    "noise line": (noisy_line, False),
    "noise span": (noisy_span, False),
    "locale": (another_locale, False),
    "swapped columns": (swapped_columns, False),
    "doubled lines": (doubled_lines, False),
}


def damaged(text: str, chance: random.Random, count: int) -> Iterator[Damaged]:
    """``count`` damaged texts, the kinds in turn; none of an empty text."""
    kinds = list(DAMAGES.items())
    for number in range(count if text else 0):
        how, (damage, lossy) = kinds[number % len(kinds)]
        yield Damaged(damage(text, chance), how, lossy)


def without_each_line(text: str) -> Iterator[Damaged]:
    """Every text that lacks one line, in order."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line.strip():
            yield Damaged(
                "\n".join(lines[:at] + lines[at + 1 :]), f"without line {at + 1}: {line[:80]}", True
            )
