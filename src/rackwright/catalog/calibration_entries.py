"""A calibration: what an engine did with a model on a hardware, as ``rackwright calibrate`` writes it.

The measured points are what counts. Factors of measured over predicted are computed anew from them by the
estimator that reads them; those of the entry are those of the day it was written, for a reader.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from rackwright.catalog.figures import Entry, Figure, Frozen, in_unit

_TOKEN_RATE = in_unit("tok/s")
TokensPerSecond = Annotated[Figure, _TOKEN_RATE]
Milliseconds = Annotated[Figure, in_unit("ms")]
Tokens = Annotated[Figure, in_unit("tokens")]
Requests = Annotated[Figure, in_unit("requests")]
Ratio = Annotated[Figure, in_unit("measured/predicted")]


def _above_zero(figure: Figure) -> Figure:
    if figure.value <= 0:
        raise ValueError("must be above 0")
    return figure


_POSITIVE = AfterValidator(_above_zero)


class MeasuredPoint(Frozen):
    """One run. Throughput is that of all ``gpus``; ``concurrency`` of all clients together.

    ``ttft``, ``tpot``: means; absent where the run does not say them for a fixed number of clients.
    """

    gpus: Annotated[int, Field(ge=1)]
    tensor_parallel: Annotated[int, Field(ge=1)]
    pipeline_parallel: Annotated[int, Field(ge=1)] = 1
    data_parallel: Annotated[int, Field(ge=1)] = 1
    concurrency: Annotated[Requests, _POSITIVE]
    input: Annotated[Tokens, _POSITIVE]
    output: Annotated[Tokens, _POSITIVE]
    requests: Annotated[Requests, _POSITIVE]
    throughput: Annotated[TokensPerSecond, _POSITIVE]
    ttft: Annotated[Milliseconds, _POSITIVE] | None = None
    tpot: Annotated[Milliseconds, _POSITIVE] | None = None
    remarks: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _whole_replicas(self) -> MeasuredPoint:
        each = self.tensor_parallel * self.pipeline_parallel * self.data_parallel
        if self.gpus % each:
            raise ValueError(f"gpus must be whole replicas of {each}")
        return self

    @property
    def replicas(self) -> int:
        return self.gpus // (self.tensor_parallel * self.pipeline_parallel * self.data_parallel)


class Factors(Frozen):
    """Measured over predicted: the geometric mean of the points, between its 80 % ``low`` and ``high``.

    ``estimator``: digest of the estimator that predicted.
    """

    estimator: str
    throughput: Ratio
    ttft: Ratio | None = None
    tpot: Ratio | None = None


class CalibrationEntry(Entry):
    """Measured: ``hardware`` (an accelerator) × ``model`` × ``precision`` × ``engine`` × ``version``."""

    kind: Literal["calibration"]
    hardware: str
    model: str
    precision: str
    kv_cache: Literal["bf16", "fp8"]
    engine: str
    version: str
    points: Annotated[tuple[MeasuredPoint, ...], Field(min_length=1)]
    factors: Factors
