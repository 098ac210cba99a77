"""One measured run in the terms of the estimator, and the file that it came from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rackwright.errors import Problem
from rackwright.yamlio import dotted_path, printable, quoted

Path_ = tuple[str | int, ...]
MOST = 1e15
"""No count, rate or time of a run comes near."""


@dataclass(frozen=True)
class Content:
    """A result file. ``data``: as JSON, or None where it is none; ``where``: as messages name it."""

    where: str
    text: str
    data: Any
    sha256: str


@dataclass(frozen=True)
class Measurement:
    """Means over the requests that succeeded. Times in ms, rates over all replicas.

    ``concurrency``: clients that the tool held busy, ``rate``: requests a second that it offered; None where
    the result does not say. ``warmup``: requests before those counted, ``latency_ms``: of whole requests,
    ``failed``, ``ttft_ms``, ``tpot_ms``: likewise. ``pooled``: several loads in one figure. ``against``: what
    else rules the run out, with the reason; ``facts``: options that the result itself answers.
    """

    tool: str
    where: str
    sha256: str
    date: str
    model: str
    completed: int
    failed: int | None
    input_tokens: float
    output_tokens: float
    requests_per_s: float
    output_tok_s: float
    ttft_ms: float | None
    tpot_ms: float | None
    latency_ms: float | None
    concurrency: float | None = None
    rate: float | None = None
    warmup: int | None = None
    pooled: bool = False
    against: tuple[Problem, ...] = ()
    facts: Mapping[str, str | float] = field(default_factory=dict)

    @property
    def in_flight(self) -> float | None:
        """Requests in the system on average: rate × latency (Little's law)."""
        latency = self.latency_ms
        if latency is None and self.ttft_ms is not None and self.tpot_ms is not None:
            latency = self.ttft_ms + max(self.output_tokens - 1, 0.0) * self.tpot_ms
        return None if latency is None else self.requests_per_s * latency / 1000


class Fields:
    """Numbers and texts of a result by path; everything wrong is gathered in ``problems``."""

    def __init__(self, content: Content, why: str) -> None:
        self._content, self._why = content, why
        self.problems: list[Problem] = []

    def at(self, *path: str | int) -> Any:
        """The value at ``path``; None where there is none."""
        node = self._content.data
        for part in path:
            if isinstance(node, dict):
                node = node.get(part)
            elif isinstance(node, list) and isinstance(part, int) and part < len(node):
                node = node[part]
            else:
                return None
        return node

    def number(self, *path: str | int) -> float:
        """The number at ``path``; NaN after a problem."""
        found = self.optional(*path)
        if self.at(*path) is None:
            self.problem(path, "must be given", "nothing")
        return math.nan if found is None else found

    def positive(self, *path: str | int) -> float:
        """The number above zero at ``path``; NaN after a problem."""
        found = self.number(*path)
        if found == 0:
            self.problem(path, "must be above 0", "0")
            return math.nan
        return found

    def optional(self, *path: str | int) -> float | None:
        """The number at ``path``, or None where there is none."""
        value = self.at(*path)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.problem(path, "must be a number", quoted(value))
            return None
        if not 0 <= value < MOST:
            self.problem(path, "must be a finite number, not negative", quoted(value))
            return None
        return float(value)

    def count(self, *path: str | int) -> int:
        """The whole number at ``path``; 0 after a problem."""
        found = self.number(*path)
        if math.isnan(found):
            return 0
        if found != int(found):
            self.problem(path, "must be a whole number", f"{found:g}")
        return int(found)

    def text(self, *path: str | int) -> str:
        """The text at ``path`` on one line; empty where there is none."""
        value = self.at(*path)
        return printable(value)[:200] if isinstance(value, str) else ""

    def unit(self, *path: str | int, allowed: Mapping[str, float]) -> float:
        """What the number beside ``path`` must be multiplied with; NaN after a problem."""
        value = self.at(*path)
        if isinstance(value, str) and value in allowed:
            return allowed[value]
        self.problem(path, f"must be {' or '.join(allowed)}", quoted(value))
        return math.nan

    def problem(self, path: Path_, rule: str, found: str) -> None:
        """Note what is wrong at ``path``."""
        self.problems.append(
            Problem(f"{self._content.where} {dotted_path(path)}", rule, found, self._why, "measure again")
        )
