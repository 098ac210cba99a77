"""What measurements of the same hardware, model, precision and engine do to an estimate.

The ratio of measured over predicted multiplies the prediction. The interval becomes that of the ratio: of n
points with sample deviation s of their logarithms ``√(1 + 1/n) × max(noise, t₈₀(n−1) × s)``, and of one point
that of the noise between runs; it never reaches zero. Away from the measured points it widens:
``√(spread² + Σ k² × doublings)`` over concurrency, lengths and division, up to the interval of the class
without any calibration. Constants and their sources: ``catalog/estimator/calibration.yaml``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rackwright.sizing.limits import limit

STUDENT_80 = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372)
"""Two-sided 80 % quantiles of Student's t for 1 … 10 degrees of freedom (any table of it)."""
NORMAL_80 = 1.282
NEAR = 1.0
"""Doublings from a measured point within which an estimate counts as measured."""


@dataclass(frozen=True)
class Factor:
    """Measured over predicted of ``count`` points; ``spread``: half the 80 % interval, as a logarithm."""

    value: float
    spread: float
    count: int

    @property
    def low(self) -> float:
        return self.value * math.exp(-self.spread)

    @property
    def high(self) -> float:
        return self.value * math.exp(self.spread)


@dataclass(frozen=True)
class Place:
    """Where a point lies: how the model is divided and the load of one replica."""

    tp: int
    pp: int
    dp: int
    given: float
    made: float
    clients: float

    def beside(self, other: Place) -> bool:
        """Whether the two differ in nothing but concurrency."""
        return self.divided == other.divided and (self.given, self.made) == (other.given, other.made)

    @property
    def divided(self) -> tuple[int, int, int]:
        return self.tp, self.pp, self.dp


@dataclass(frozen=True)
class Distance:
    """Doublings from the nearest measured point; between two points that differ in concurrency only, none."""

    concurrency: float
    length: float
    division: float

    @property
    def widening(self) -> float:
        """The square of what it adds to the half-width."""
        return (
            limit("widening", "concurrency") ** 2 * self.concurrency
            + limit("widening", "length") ** 2 * self.length
            + limit("widening", "division") ** 2 * self.division
        )

    @property
    def near(self) -> bool:
        return max(self.concurrency, self.length) <= NEAR and self.division == 0


@dataclass(frozen=True)
class Calibration:
    """An entry's factors under today's estimator. ``version``: measured on; ``same_version``,
    ``same_cache``: whether it is what is asked about."""

    id: str
    version: str
    same_version: bool
    same_cache: bool
    throughput: Factor
    ttft: Factor | None
    tpot: Factor | None
    places: tuple[Place, ...]
    source: str
    date: str


@dataclass(frozen=True)
class Correction:
    """Factors to multiply an estimate with; ``low``, ``high``: of the interval, relative to the result.

    ``measured``: near enough to a measured point to be called that.
    """

    throughput: float
    ttft: float
    tpot: float
    low: float
    high: float
    measured: bool
    distance: Distance


def factor(ratios: Sequence[float], noise: float) -> Factor:
    """The geometric mean of ``ratios`` and its spread; ``noise``: the least half-width, as a logarithm."""
    logs = [math.log(ratio) for ratio in ratios]
    count = len(logs)
    half = noise
    if count > 1:
        freedom = count - 1
        quantile = STUDENT_80[freedom - 1] if freedom <= len(STUDENT_80) else NORMAL_80
        half = max(noise, quantile * stdev(logs))
    return Factor(math.exp(fmean(logs)), math.sqrt(1 + 1 / count) * half, count)


def distance(places: Sequence[Place], at: Place) -> Distance:
    """How far ``at`` is from the nearest of ``places``."""
    return min((_from(places, place, at) for place in places), key=lambda d: d.widening)


def _from(places: Sequence[Place], place: Place, at: Place) -> Distance:
    held = [other.clients for other in places if place.beside(other)]
    inside = min(max(at.clients, min(held)), max(held))
    return Distance(
        concurrency=_doublings(at.clients, inside),
        length=_doublings(at.given, place.given) + _doublings(at.made, place.made),
        division=sum(_doublings(a, b) for a, b in zip(at.divided, place.divided, strict=True)),
    )


def _doublings(a: float, b: float) -> float:
    return abs(math.log2(max(a, 1.0) / max(b, 1.0)))


def correction(found: Calibration, at: Place, low: float, high: float) -> Correction:
    """What ``found`` says at ``at``; ``low``, ``high``: factors of the interval without it."""
    far = distance(found.places, at)
    widening = far.widening
    widening += 0.0 if found.same_version else limit("widening", "version") ** 2
    widening += 0.0 if found.same_cache else limit("widening", "kv_cache") ** 2
    half = math.sqrt(found.throughput.spread**2 + widening)
    return Correction(
        throughput=found.throughput.value,
        ttft=found.ttft.value if found.ttft else 1.0,
        tpot=found.tpot.value if found.tpot else 1.0,
        low=max(low, math.exp(-half)),
        high=min(high, math.exp(half)),
        measured=far.near and found.same_version and found.same_cache,
        distance=far,
    )
