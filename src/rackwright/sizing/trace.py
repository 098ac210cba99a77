"""What a request log says of its users: how often, how long, and at which hours.

A trace is a CSV with a column of arrival times and the tokens of each request. The result is the ``users``
section of a workload: figures a person can read and change, not a reference to a file.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rackwright.errors import CannotRun, InputErrors, Problem, listing

TIMES = ("timestamp", "time", "arrival_time", "arrived_at", "ts")
GIVEN = ("input_tokens", "input", "input_length", "prompt_tokens", "contexttokens", "request tokens")
MADE = ("output_tokens", "output", "output_length", "completion_tokens", "generatedtokens", "response tokens")
"""Names of the columns, in lower case: those of public traces and of engines' own logs."""

HOUR, DAY = 3600.0, 86_400.0
MILLISECONDS_FROM = 1e11
"""Numbers above it are milliseconds since 1970; seconds reach it in the year 5138."""
MOST_TOKENS = 10_000_000
SHOWN = 20
"""Problems of one kind that are told one by one."""
QUIET = 1e-6
"""An empty hour is a gap where chance would leave it empty less often than this."""


@dataclass(frozen=True)
class Length:
    """Tokens of a request: mean, median, 95th percentile."""

    mean: float
    p50: float
    p95: float


@dataclass(frozen=True)
class Trace:
    """``hourly``: mean requests of each hour of the day (UTC). ``peak``: a second in the busiest hour."""

    sha256: str
    requests: int
    first: datetime
    days: float
    per_day: float
    peak: float
    hourly: tuple[float, ...]
    given: Length
    made: Length


def read_trace(path: Path, *, gaps: bool = False) -> Trace:
    """Read the trace at ``path``. ``gaps``: hours without requests are real.

    Raises:
        CannotRun: it cannot be read.
        InputErrors: columns missing, and every line that is no request, by its number.
    """
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRun(
            Problem(
                str(path),
                "must be a readable CSV file in UTF-8",
                error.strerror if isinstance(error, OSError) and error.strerror else "other bytes",
                "the load is read from it",
                "write the trace as CSV: timestamp,input_tokens,output_tokens",
            )
        ) from None
    rows = csv.reader(io.StringIO(text))
    columns = _columns(path, next(rows, []))
    problems: list[Problem] = []
    times: list[float] = []
    given: list[int] = []
    made: list[int] = []
    for row in rows:
        if not row:
            continue
        where, before = f"{path}:{rows.line_num}", len(problems)
        cells = [row[i].strip() if i < len(row) else "" for i in columns]
        moment = _moment(cells[0])
        if moment is None:
            problems.append(_bad(where, "must have a time: seconds, milliseconds or ISO 8601", cells[0]))
        tokens = [_tokens(cell) for cell in cells[1:]]
        for name, cell, count in zip(("input", "output"), cells[1:], tokens, strict=True):
            if count is None:
                problems.append(_bad(where, f"must have {name} tokens from 0 to {MOST_TOKENS:,}", cell))
        if len(problems) == before:
            times.append(moment or 0.0)
            given.append(tokens[0] or 0)
            made.append(tokens[1] or 0)
    if problems:
        rest = len(problems) - SHOWN
        more = [_bad(str(path), "must hold requests alone", f"{rest:,} more such lines")] if rest > 0 else []
        raise InputErrors([*problems[:SHOWN], *more])
    if len(times) < 2 or max(times) - min(times) < HOUR:
        raise InputErrors(
            _bad(str(path), "must span at least an hour of requests", f"{len(times):,} requests")
        )
    if not gaps and (holes := list(_holes(path, times))):
        raise InputErrors(holes)
    return _summary(raw, times, given, made)


def _columns(path: Path, header: Sequence[str]) -> tuple[int, int, int]:
    names = [name.strip().lower() for name in header]
    found = [next((names.index(n) for n in known if n in names), None) for known in (TIMES, GIVEN, MADE)]
    problems = [
        Problem(
            f"{path}:1",
            f"must have a column of {what}: {listing(known)}",
            listing(header) if header else "an empty file",
            "the load is read from it",
            "name the columns in the first line",
        )
        for what, known, at in zip(
            ("times", "input tokens", "output tokens"), (TIMES, GIVEN, MADE), found, strict=True
        )
        if at is None
    ]
    if problems:
        raise InputErrors(problems)
    a, b, c = (at for at in found if at is not None)
    return a, b, c


def _bad(where: str, rule: str, found: str) -> Problem:
    shown = found if len(found) <= 60 else found[:57] + "…"
    return Problem(where, rule, repr(shown), "the load is read from it", "mend or drop that line")


def _moment(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(value) or value < 0:
        return None
    return value / 1000 if value > MILLISECONDS_FROM else value


def _tokens(text: str) -> int | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value == value // 1 and 0 <= value <= MOST_TOKENS else None


def _holes(path: Path, times: Sequence[float]) -> Iterator[Problem]:
    """Whole hours inside the trace without a request, where the hours beside them had too many for that."""
    counts = Counter(int(t // HOUR) for t in times)
    first, last = min(counts), max(counts)
    empty = [h for h in range(first, last + 1) if h not in counts]
    for hour in empty:
        beside = min(_beside(counts, hour, -1), _beside(counts, hour, 1))
        if math.exp(-beside) < QUIET:
            moment = datetime.fromtimestamp(hour * HOUR, UTC).isoformat(timespec="minutes")
            yield Problem(
                str(path),
                "must have no gap",
                f"no request in the hour from {moment}, {beside:,} in a full hour beside it",
                "what was not logged would count as users who were not there",
                "complete the trace, or say that the gap is real: --gaps",
            )
            return


def _beside(counts: Counter[int], hour: int, step: int) -> int:
    while hour not in counts:
        hour += step
    return counts[hour]


def _summary(raw: bytes, times: list[float], given: list[int], made: list[int]) -> Trace:
    """Rates over the time spanned; the profile is a mean over the days in which an hour was observed."""
    first, last = min(times), max(times)
    hours = Counter(int(t // HOUR) for t in times)
    seen = Counter(h % 24 for h in range(int(first // HOUR), int(last // HOUR) + 1))
    by_hour: Counter[int] = Counter()
    for hour, count in hours.items():
        by_hour[hour % 24] += count
    hourly = tuple(by_hour[h] / seen[h] if seen[h] else 0.0 for h in range(24))
    days = (last - first) / DAY
    return Trace(
        sha256=hashlib.sha256(raw).hexdigest(),
        requests=len(times),
        first=datetime.fromtimestamp(first, UTC),
        days=days,
        per_day=sum(hourly) if days >= 1 else len(times) / days,
        peak=max(hours.values()) / HOUR,
        hourly=hourly,
        given=_length(given),
        made=_length(made),
    )


def _length(values: list[int]) -> Length:
    ordered = sorted(values)

    def at(share: float) -> float:
        return float(ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)])

    return Length(sum(ordered) / len(ordered), at(0.5), at(0.95))


def users_section(trace: Trace, users: int) -> str:
    """The ``users`` section of a workload for ``users`` daily users, with where its figures are from."""
    whole_day = trace.days >= 1
    lines = [
        f"# {trace.requests:,} requests over {trace.days:.2f} days from {trace.first:%Y-%m-%d %H:%M} UTC,",
        f"# trace sha256 {trace.sha256[:16]}…; busiest hour {trace.peak:,.3f} requests/s",
        f"# input p50 {trace.given.p50:,.0f}, p95 {trace.given.p95:,.0f}; "
        f"output p50 {trace.made.p50:,.0f}, p95 {trace.made.p95:,.0f} tokens",
        "users:",
        f"  dau: {users}",
        f"  sessions_per_day: {trace.per_day / users:.6g}",
        f"  input_per_session: {max(trace.given.mean, 1):.6g} tokens",
        f"  output_per_session: {max(trace.made.mean, 1):.6g} tokens",
    ]
    if whole_day:
        lines.append(f"  hourly: [{', '.join(f'{h:.6g}' for h in trace.hourly)}]")
    else:
        share = min(1.0, trace.peak * HOUR / trace.per_day)
        lines.append(
            "  # less than a day was seen: the peak hour is the busiest of those over a day at this rate"
        )
        lines.append(f"  peak_hour: {share * 100:.4g} %")
    return "\n".join(lines) + "\n"
