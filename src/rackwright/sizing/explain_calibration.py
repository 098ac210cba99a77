"""How a calibration enters an estimate: one step of its own, and its factor in the formulas after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rackwright.plan.cost import Explanation
from rackwright.sizing.calibrated import Calibration, Distance, Factor
from rackwright.sizing.estimate import Estimated, Point, corrected, evidence_of
from rackwright.sizing.explained import entry
from rackwright.sizing.shape import Shape


@dataclass(frozen=True)
class Times:
    """What is added to formulas and sources; all empty without a calibration."""

    throughput: str = ""
    ttft: str = ""
    tpot: str = ""
    interval: str = ""
    source: str = ""
    found: Calibration | None = None

    def uncalibrated(self, at: Estimated) -> dict[str, float]:
        """The times that the throughput's formula is about: before their own factors."""
        ttft, tpot = (_value(f) for f in ((self.found.ttft, self.found.tpot) if self.found else (None, None)))
        return {"tpot_ms": at.tpot_ms / tpot, "ttft_ms": at.ttft_ms / ttft}


def times(shape: Shape) -> Times:
    """The calibration's part of the formulas of ``shape``."""
    found = shape.calibration
    if found is None:
        return Times()
    return Times(
        throughput=_times(found.throughput),
        ttft=_times(found.ttft),
        tpot=_times(found.tpot),
        interval=", narrowed by the calibration",
        source=f"; {found.id}",
        found=found,
    )


def _times(factor: Factor | None) -> str:
    return f", × {factor.value:.3f} of the calibration" if factor is not None else ""


def _value(factor: Factor | None) -> float:
    return factor.value if factor is not None else 1.0


def explanations(shape: Shape, at: Estimated, base: Mapping[str, float]) -> Iterator[Explanation]:
    """The calibration's step: factors with their spread, and how far the plan is from what was measured."""
    found = shape.calibration
    if found is None:
        return
    point = Point(base["input"], base["output"], at.concurrency)
    applied = corrected(shape, point, evidence_of(shape))
    inputs: dict[str, object] = {
        "measured points": found.throughput.count,
        "throughput": _shown(found.throughput),
        **({"ttft": _shown(found.ttft)} if found.ttft else {}),
        **({"tpot": _shown(found.tpot)} if found.tpot else {}),
        "from the nearest point": _far(applied.distance),
        "engine": f"{found.version}" + ("" if found.same_version else ", not the plan's version"),
        **({} if found.same_cache else {"KV cache": "of another precision than the plan's"}),
        "interval": f"× {applied.low:.3f} to × {applied.high:.3f}",
    }
    yield entry(
        "deployments[0].estimate.calibration",
        found.id,
        "measured / predicted, geometric mean; spread √(1 + 1/n) × max(noise between runs, Student's t × "
        "deviation), widened by k × √doublings away from the measured points, never beyond the class's "
        "own interval",
        inputs,
        found.source,
        "measured",
    )


def _shown(factor: Factor) -> str:
    return f"× {factor.value:.3f} ({factor.low:.3f}–{factor.high:.3f})"


def _far(distance: Distance) -> str:
    parts = (
        (distance.concurrency, "concurrency"),
        (distance.length, "lengths"),
        (distance.division, "TP, PP, DP"),
    )
    shown = [f"{value:.1f} doublings of {name}" for value, name in parts if value > 0.05]
    return ", ".join(shown) or "at it"
