"""Verdicts and the results of a run: what preflight, pytest, reports and certificates share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rackwright.files import write_whole

RESULTS_SCHEMA = "rackwright/results/v1"


class Status(StrEnum):
    """What a check found. ``ERROR`` means it could not be measured: never a pass."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    WARN = "warn"
    NOT_APPLICABLE = "not-applicable"
    ERROR = "error"


class Severity(StrEnum):
    """How much a failure weighs: critical and major block go-live, warn and info do not."""

    CRITICAL = "critical"
    MAJOR = "major"
    WARN = "warn"
    INFO = "info"


class Load(StrEnum):
    """The load a reading of power or temperature was taken at."""

    IDLE = "idle"
    PARTIAL = "partial"
    FULL = "full"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Outcome(_Frozen):
    """What a judge returns: the pure result of comparing a capture with an expectation."""

    status: Status
    expected: str = ""
    actual: str = ""
    message: str = ""
    load: Load | None = None
    where: tuple[str, ...] = ()


def passed(actual: str, expected: str = "", *, message: str = "", load: Load | None = None) -> Outcome:
    return Outcome(status=Status.PASS, actual=actual, expected=expected, message=message, load=load)


def failed(
    actual: str,
    expected: str,
    message: str = "",
    *,
    where: Iterable[str] = (),
    load: Load | None = None,
) -> Outcome:
    return Outcome(
        status=Status.FAIL, actual=actual, expected=expected, message=message, where=tuple(where), load=load
    )


def warned(actual: str, expected: str, message: str, *, load: Load | None = None) -> Outcome:
    return Outcome(status=Status.WARN, actual=actual, expected=expected, message=message, load=load)


def not_applicable(reason: str) -> Outcome:
    return Outcome(status=Status.NOT_APPLICABLE, message=reason)


def could_not_measure(message: str, *, expected: str = "", actual: str = "") -> Outcome:
    return Outcome(status=Status.ERROR, message=message, expected=expected, actual=actual)


class Evidence(_Frozen):
    """What a verdict rests on: the command, its exit status and the lines that matter.

    ``host`` is set where the verdict is about several.
    """

    command: str
    rc: int | None = None
    excerpt: str = ""
    host: str = ""


class Waived(_Frozen):
    """Who accepted a finding, why, and until which day (``YYYY-MM-DD``, that day included)."""

    owner: str
    reason: str
    expires: str
    ticket: str = ""


class Result(_Frozen):
    """One check on one subject (a host, a pool or a rack)."""

    check: str
    subject: str
    scope: Literal["host", "pool", "rack"] = "host"
    pool: str = ""
    title: str = ""
    severity: Severity
    status: Status
    expected: str = ""
    actual: str = ""
    message: str = ""
    load: Load | None = None
    where: tuple[str, ...] = ()
    remedy: str = ""
    plan_path: str = ""
    evidence: tuple[Evidence, ...] = ()
    waived: Waived | None = None

    @property
    def heavy(self) -> bool:
        """Whether a failure of it would block."""
        return self.severity in (Severity.CRITICAL, Severity.MAJOR)

    @property
    def blocking(self) -> bool:
        """Whether this verdict makes the run a finding (exit 1)."""
        if self.waived is not None:
            return False
        return self.status is Status.ERROR or (self.status is Status.FAIL and self.heavy)


_PIECE = 500
_PART: TypeAdapter[Any] = TypeAdapter(tuple[Result, ...])


def _dumped(what: Results | tuple[Result, ...]) -> str:
    """Indented JSON, by pydantic's own writer, which is ten times as fast as json's."""
    adapter = TypeAdapter(Results) if isinstance(what, Results) else _PART
    try:
        return adapter.dump_json(what, by_alias=True, indent=1).decode()
    except ValueError:  # half a surrogate pair, which json writes as it is
        data = adapter.dump_python(what, mode="json", by_alias=True)
        return json.dumps(data, ensure_ascii=False, indent=1)


class Results(_Frozen):
    """Everything one run established. One file, one schema; reports are views of it.

    ``not_measured`` counts, for a host that was not reached or was left out of later tiers, the checks that
    gave no result; ``notes`` are remarks about the run itself. ``left_out_checks`` and ``left_out_hosts``
    are the checks of tier 0 and the nodes of the plan that the run did not include, ``reason`` is why: it
    says nothing about them. ``complete`` is false where the run ended before every verdict was in.
    ``captures`` names the directory whose kept captures were judged; ``started`` is then the time of the
    oldest.
    """

    schema_: str = Field(default=RESULTS_SCHEMA, alias="schema")
    plan: str
    plan_digest: str
    inventory: str = ""
    started: str = ""
    seconds: float = 0.0
    hosts: tuple[str, ...] = ()
    unreachable: dict[str, str] = Field(default_factory=dict)
    not_measured: dict[str, int] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    captures: str = ""
    complete: bool = True
    left_out_checks: tuple[str, ...] = ()
    left_out_hosts: tuple[str, ...] = ()
    reason: str = ""
    results: tuple[Result, ...] = ()

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def counts(self) -> dict[Status, int]:
        tally = Counter(r.status for r in self.results)
        return {s: tally.get(s, 0) for s in Status}

    def findings(self) -> tuple[Result, ...]:
        return tuple(r for r in self.results if r.blocking)

    @property
    def exit_code(self) -> int:
        """0 good, 1 findings, 2 nothing measured or the run did not end (see docs/exit-codes.md)."""
        if not self.results or not self.complete or (self.hosts and len(self.unreachable) == len(self.hosts)):
            return 2
        return 1 if self.findings() or self.unreachable else 0

    def to_json(self) -> str:
        return "".join(self.pieces())

    def pieces(self) -> Iterator[str]:
        """The file in pieces: as one text it would be larger than everything else of a large run."""
        head, _, tail = _dumped(self.model_copy(update={"results": ()})).rpartition("[]")
        yield head
        if not self.results:
            yield "[]"
        for start in range(0, len(self.results), _PIECE):
            part = self.results[start : start + _PIECE]
            yield "[" if start == 0 else ","
            yield _dumped(part)[1:-2].replace("\n", "\n ")
        yield ("\n ]" if self.results else "") + tail + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        data: Any = json.loads(text)
        return cls.model_validate(data)

    def write(self, path: Path) -> None:
        """Write whole or not at all: a reader never sees half a file.

        Raises:
            CannotRun: it cannot be written.
        """
        write_whole(path, self.pieces())
