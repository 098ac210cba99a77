"""Numbers with unit, source and date, and what every entry has."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


def _a_date(text: str) -> str:
    if not _DATE.fullmatch(text):
        raise ValueError('must be a date such as "2026", "2026-05" or "2026-05-31"')
    return text


Date = Annotated[str, AfterValidator(_a_date)]


class Figure(Frozen):
    """A number that says where it is from. ``verified``: the source was read, not remembered.

    ``date``: when the source says so, or when it was read. ``low``, ``high``: where sources disagree.
    """

    value: float
    unit: str
    source: Annotated[str, Field(min_length=4)]
    verified: bool
    note: str = ""
    date: Date | None = None
    low: float | None = None
    high: float | None = None


def checked(figure: Figure) -> Figure:
    """``figure`` where it is finite, not negative and inside its own range.

    Raises:
        ValueError: otherwise.
    """
    if not 0 <= figure.value < float("inf"):
        raise ValueError("must not be negative")
    low = figure.value if figure.low is None else figure.low
    high = figure.value if figure.high is None else figure.high
    if not 0 <= low <= figure.value <= high:
        raise ValueError("must lie between its low and its high")
    return figure


def in_unit(unit: str) -> AfterValidator:
    """A validator for a figure in ``unit``."""

    def check(figure: Figure) -> Figure:
        if figure.unit != unit:
            raise ValueError(f"must be in {unit}")
        return checked(figure)

    return AfterValidator(check)


GigabytesPerSecond = Annotated[Figure, in_unit("GB/s")]
Gigabytes = Annotated[Figure, in_unit("GB")]
Mebibytes = Annotated[Figure, in_unit("MiB")]
Gibibytes = Annotated[Figure, in_unit("GiB")]
GigabitsPerSecond = Annotated[Figure, in_unit("Gb/s")]
Teraflops = Annotated[Figure, in_unit("TFLOPS")]
Teraops = Annotated[Figure, in_unit("TOPS")]
Watt = Annotated[Figure, in_unit("W")]
DegreesC = Annotated[Figure, in_unit("°C")]
Megahertz = Annotated[Figure, in_unit("MHz")]
Count = Annotated[Figure, in_unit("1")]
Share = Annotated[Figure, in_unit("share")]
Microseconds = Annotated[Figure, in_unit("us")]
Milliseconds_ = Annotated[Figure, in_unit("ms")]
Seconds = Annotated[Figure, in_unit("s")]
Hours = Annotated[Figure, in_unit("h")]
Billions = Annotated[Figure, in_unit("1e9")]
Millions = Annotated[Figure, in_unit("1e6")]


FIRST = "2026-11"
"""When the first entries were written; later ones say it themselves."""


class Entry(Frozen):
    """What every entry has.

    ``aliases``: other names, such as a Hugging Face id; no two entries of a kind share one, in any case.
    ``sources``: short keys for the texts that figures cite. ``note``: what a reader must know, such as where
    a widely read figure is wrong. ``replaces``: a user's entry that stands in place of ours of the same id.
    ``dated``: when its figures were written down or last compared with their sources; a figure of another
    date says so itself.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]
    kind: str
    name: str
    aliases: tuple[Annotated[str, Field(min_length=1, max_length=120)], ...] = ()
    sources: dict[str, str] = Field(default_factory=dict)
    note: str = ""
    replaces: bool = False
    dated: Date = FIRST
