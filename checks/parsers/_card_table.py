"""The table that vendors' tools print: bars around it, a heading, two lines for every card.

npu-smi, cnmon and mthreads-gmi differ in their rules and cells only; a :class:`Layout` says how.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from checks.parsers._core import Facts, Reading
from checks.parsers._errors import error_code

_NONE = re.compile(r"(?!)")
_HTTP_OR_TIME = re.compile(r"^https?://\S+$|^\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}\s*$")


@dataclass(frozen=True)
class Layout:
    """How one tool draws its table.

    Attributes:
        noun: what a row is, for messages (``card``).
        start: the line after which rows stand.
        rule: a line that closes a row.
        end: the line that begins the next table.
        first, second: a card's two lines.
        extra: a further line of a card, between its second and the next rule.
        blank: a line that says nothing, wherever it stands.
    """

    noun: str
    start: re.Pattern[str]
    rule: re.Pattern[str]
    end: re.Pattern[str]
    first: re.Pattern[str]
    second: re.Pattern[str]
    extra: re.Pattern[str] = _NONE
    blank: re.Pattern[str] = _NONE


def read_table(
    reading: Reading,
    text: str,
    layout: Layout,
    first: Callable[[Reading, re.Match[str]], Facts],
    second: Callable[[Reading, Facts, re.Match[str]], None],
) -> list[Facts]:
    """The cards of a table; what is missing, cut or unknown in it is reported to ``reading``."""
    cards: list[Facts] = []
    started = half = closed = False
    for line in text.split("\n"):
        stripped = line.strip()
        if layout.end.match(stripped):
            break
        if layout.start.match(stripped):
            started = True
            if not cards:
                continue
        if layout.rule.match(stripped):
            if half:
                reading.truncated(f"{layout.noun} {cards[-1]['index']} has no second line")
            closed, half = True, False
            continue
        if not stripped or not started or _HTTP_OR_TIME.match(stripped):
            continue
        one, two = layout.first.match(stripped), layout.second.match(stripped)
        if half and two:
            second(reading, cards[-1], two)
            half = False
        elif one and not half:
            cards.append(first(reading, one))
            half, closed = True, False
        elif not (layout.blank.match(stripped) or (cards and not half and layout.extra.match(stripped))):
            _unread(reading, line, stripped)
    if not cards:
        reading.truncated(f"a table without {layout.noun}s")
    elif half or not closed:
        reading.truncated("the table's last line is missing")
    return cards


def _unread(reading: Reading, line: str, stripped: str) -> None:
    error = error_code(line)
    if error:
        reading.reject(error[0], error[1], stripped)
    else:
        reading.unknown(line)
