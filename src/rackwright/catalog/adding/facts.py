"""Reading facts out of a mapping somebody else wrote; every fact that is missing or odd is said at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rackwright.errors import InputErrors, Problem
from rackwright.yamlio import printable, quoted

MOST = 100_000_000
"""No count or size of a model comes near."""

WHY = "the size of weights and KV cache follows from it"


class Facts:
    """Whole numbers, shares and lists of one mapping; ``problems`` collects what is wrong.

    ``where``: file and path of the mapping, for messages.
    """

    def __init__(self, data: Mapping[str, Any], where: str, problems: list[Problem] | None = None) -> None:
        self.data = data
        self.where = where
        self.problems: list[Problem] = [] if problems is None else problems

    def place(self, name: str) -> str:
        return f"{printable(self.where)} {printable(name)}"

    def wrong(self, name: str, rule: str, found: str, next_step: str = "") -> None:
        self.problems.append(
            Problem(self.place(name), rule, found, WHY, next_step or "mend the file, or take it whole again")
        )

    def _raw(self, names: tuple[str, ...]) -> tuple[str, Any]:
        for name in names:
            if self.data.get(name) is not None:
                return name, self.data[name]
        return names[0], None

    def whole(self, *names: str, least: int = 1, default: int | None = None) -> int:
        """The first of ``names`` that is there, as a whole number; ``default`` where none is.

        A missing or odd one is noted, and ``least`` or 1 returned so that reading goes on.
        """
        name, value = self._raw(names)
        if value is None:
            if default is not None:
                return default
            others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
            self.wrong(name, f"must be given{others}", "nothing")
            return max(least, 1)
        if isinstance(value, float) and value.is_integer() and abs(value) <= MOST:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
            self.wrong(name, f"must be a whole number of {least} to {MOST:,}", quoted(value))
            return max(least, 1)
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong(name, "must be true or false", quoted(value))
            return default
        return value

    def text(self, *names: str) -> str:
        name, value = self._raw(names)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.wrong(name, "must be a text", quoted(value))
            return ""
        return value

    def mapping(self, name: str) -> Mapping[str, Any]:
        value = self.data.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.wrong(name, "must be a mapping", quoted(value))
            return {}
        return value

    def names(self, name: str, length: int, known: tuple[str, ...]) -> tuple[str, ...] | None:
        """A list with one of ``known`` for every layer; None where there is none or it is odd."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != length:
            found = f"a list of {len(value)}" if isinstance(value, list) else quoted(value)
            self.wrong(name, f"must be a list with one kind for each of {length} layers", found)
            return None
        odd = sorted({str(item) for item in value if item not in known})
        if odd:
            self.wrong(name, f"must hold only {', '.join(known)}", quoted(odd[0]))
            return None
        return tuple(value)

    def finish(self) -> None:
        """Raise what was noted.

        Raises:
            InputErrors: anything was.
        """
        if self.problems:
            raise InputErrors(list(_once(self.problems)))


def _once(problems: list[Problem]) -> Iterator[Problem]:
    seen: set[str] = set()
    for problem in problems:
        if str(problem) not in seen:
            seen.add(str(problem))
            yield problem
