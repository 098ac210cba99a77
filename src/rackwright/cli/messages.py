"""How messages reach a terminal: with the line they speak of, and with nothing in them that acts on it."""

from __future__ import annotations

import re
from dataclasses import replace

from rackwright.errors import RackwrightError
from rackwright.yamlio import Document

_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Control characters but tab and line feed, and those that reorder or hide text."""


def visible(text: str) -> str:
    """``text`` with control characters written out: a value of a file must not drive the terminal."""
    return _ACTS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def located(error: RackwrightError, document: Document) -> RackwrightError:
    """The same error with file and line before each path of the workload."""
    error.problems = tuple(
        replace(p, where=" ".join((document.place(path.split(".")), *rest)))
        for p in error.problems
        for path, *rest in (p.where.split(" "),)
    )
    error.args = ("\n".join(map(str, error.problems)),)
    return error
