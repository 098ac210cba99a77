"""Finds the calibration of a shape in a catalog, and its factors under today's estimator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from rackwright.catalog import Catalog
from rackwright.catalog.calibration_entries import CalibrationEntry, MeasuredPoint
from rackwright.sizing.calibrated import Calibration, Factor, Place, factor
from rackwright.sizing.estimate import CLOSED, answer
from rackwright.sizing.limits import limit
from rackwright.sizing.queueing import MANY
from rackwright.sizing.rows import Case
from rackwright.sizing.shape import Shape
from rackwright.sizing.versions import age_of


class Ratios(NamedTuple):
    """Measured over predicted of one point; None where the run does not say the measured value."""

    throughput: float
    ttft: float | None
    tpot: float | None


def calibrated(shape: Shape, entries: Iterable[CalibrationEntry]) -> Shape:
    """``shape`` with the calibration that holds for it, if there is one.

    Of several versions of the engine the one that is asked about, else the newest measurement.
    """
    alike = [entry for entry in entries if holds(entry, shape)]
    if not alike:
        return shape
    best = max(alike, key=lambda e: (e.version == shape.engine.version, e.kv_cache == cache(shape), e.dated))
    return replace(shape, calibration=_computed(_Asked(best, shape)))


def calibrated_case(case: Case, catalog: Catalog) -> Case:
    """``case`` with the calibration of its shape."""
    return replace(case, shape=calibrated(case.shape, catalog.calibrations.values()))


def holds(entry: CalibrationEntry, shape: Shape) -> bool:
    """Whether ``entry`` measured the hardware, model, precision and engine of ``shape``."""
    return (entry.hardware, entry.model, entry.precision, entry.engine) == (
        shape.accelerator.id,
        shape.model.id,
        shape.quantisation,
        shape.engine.id,
    )


def cache(shape: Shape) -> str:
    """The precision of the KV cache as entries say it."""
    return "fp8" if shape.kv_bits == 8 else "bf16"


class _Asked:
    """An entry and a shape as a key, compared by the catalog entries that they hold: a search asks often."""

    def __init__(self, entry: CalibrationEntry, shape: Shape) -> None:
        self.entry, self.shape = entry, shape
        self._key = (
            id(entry), id(shape.accelerator), id(shape.model), id(shape.engine), shape.quantisation,
            shape.kv_bits,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and self._key == other._key


@lru_cache(maxsize=256)
def _computed(asked: _Asked) -> Calibration:
    entry, shape = asked.entry, asked.shape
    ratios = [ratios_of(point, measured_shape(entry, point, shape)) for point in entry.points]
    throughput = factor_of("throughput", [r.throughput for r in ratios])
    assert throughput is not None
    first = entry.points[0].throughput
    return Calibration(
        id=entry.id,
        version=entry.version,
        same_version=entry.version == shape.engine.version,
        same_cache=entry.kv_cache == cache(shape),
        throughput=throughput,
        ttft=factor_of("ttft", [r.ttft for r in ratios]),
        tpot=factor_of("tpot", [r.tpot for r in ratios]),
        places=tuple(place_of(point) for point in entry.points),
        source=first.source,
        date=entry.dated,
    )


def measured_shape(entry: CalibrationEntry, point: MeasuredPoint, like: Shape) -> Shape:
    """The replica that ``point`` measured, on the catalog entries of ``like``."""
    return Shape(
        like.accelerator,
        like.model,
        entry.precision,
        like.engine,
        point.tensor_parallel,
        point.pipeline_parallel,
        8 if entry.kv_cache == "fp8" else 16,
        like.rdma_gb_s,
        dp=point.data_parallel,
        age=age_of(entry.engine, entry.version),
    )


def ratios_of(point: MeasuredPoint, shape: Shape) -> Ratios:
    """Measured over what the estimator says of that very point, without any calibration."""
    replicas = point.replicas
    predicted = answer(
        Case(
            shape, replicas, CLOSED, point.input.value, point.output.value,
            point.concurrency.value / replicas, MANY, 0.0,
        )
    )  # fmt: skip
    return Ratios(
        point.throughput.value / predicted.output_tok_s,
        point.ttft.value / predicted.ttft_ms if point.ttft else None,
        point.tpot.value / predicted.tpot_ms if point.tpot else None,
    )


def factor_of(name: str, ratios: Iterable[float | None]) -> Factor | None:
    """The factor of ``name`` (throughput, ttft, tpot) over the points that say it; None where none does."""
    known = [ratio for ratio in ratios if ratio is not None]
    return factor(known, limit("noise", name)) if known else None


def place_of(point: MeasuredPoint) -> Place:
    """Where ``point`` lies, by replica."""
    return Place(
        point.tensor_parallel,
        point.pipeline_parallel,
        point.data_parallel,
        point.input.value,
        point.output.value,
        point.concurrency.value / point.replicas,
    )
