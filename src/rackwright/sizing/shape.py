"""One replica and one point of load: what every part of the estimator is asked about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from rackwright.catalog import Accelerator, EngineEntry, ModelEntry, Quantisation
from rackwright.sizing.calibrated import Calibration
from rackwright.sizing.constants import Keys, fitted
from rackwright.sizing.lora import Slots
from rackwright.sizing.speculation import Draft
from rackwright.sizing.versions import age_of
from rackwright.sizing.work import attention_of, link_of, precision_of

GIB = 2.0**30
CHUNK, SEQUENCES = 2048, 256
"""Prompt tokens a pass and sequences at a time where nothing is known of an engine (vLLM's smallest)."""
LARGE_GIB = 70.0
"""From this much memory on vLLM and SGLang choose larger defaults; the A100 is left out by name."""


@dataclass(frozen=True)
class Shape:
    """One replica: hardware, division of the model, precision. ``rdma_gb_s``: a GPU's share between nodes.

    ``dp``: ranks that split the requests and share the experts. ``chunk``, ``sequences``: what the engine is
    told, else its defaults; ``age``: of the engine's version, years since October 2025. ``calibration``: what
    was measured of it. ``draft``: of speculative decoding, or none. ``lora``: slots for adapters.
    """

    accelerator: Accelerator
    model: ModelEntry
    quantisation: str
    engine: EngineEntry
    tp: int
    pp: int = 1
    kv_bits: Literal[8, 16] = 16
    rdma_gb_s: float = 50.0
    dp: int = 1
    chunk: int = 0
    sequences: int = 0
    age: float = math.nan
    calibration: Calibration | None = None
    draft: Draft | None = None
    lora: Slots | None = None

    def __post_init__(self) -> None:
        limits = limits_of(self.engine.id, self.accelerator)
        if not self.chunk:
            object.__setattr__(self, "chunk", limits[0])
        if not self.sequences:
            object.__setattr__(self, "sequences", limits[1])
        if math.isnan(self.age):
            object.__setattr__(self, "age", age_of(self.engine.id, self.engine.version))

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def weights(self) -> Quantisation:
        return self.model.quantisations[self.quantisation]

    @property
    def stage_share(self) -> float:
        """Layers of the fullest pipeline stage, as a share of all."""
        layers = self.model.layers.value
        return math.ceil(layers / self.pp) / layers

    def keys(self, kind: str) -> Keys:
        """Which constants hold under the kind of load ``kind``."""
        accelerator, model = self.accelerator, self.model
        scheme = model.weights(self.quantisation).compute
        attention = attention_of(model, 16)
        return Keys(
            engine=spoken(self.engine.id),
            memory_class=accelerator.efficiency_key,
            architecture=f"{accelerator.architecture}/{accelerator.memory_class}",
            precision=precision_of(accelerator, scheme, self.quantisation),
            link=link_of(accelerator, self.tp * self.dp, self.rdma_gb_s)[0],
            kind=kind,
            attention="sparse"
            if attention.indexed
            else "latent"
            if attention.latent
            else "linear"
            if attention.linear
            else "sliding"
            if attention.kv_sliding
            else "full",
            scheme=self.quantisation,
            design=model.architecture or model.id,
        )


@dataclass(frozen=True)
class Point:
    """Tokens in and out per request, and how many requests run at a time."""

    input_tokens: float
    output_tokens: float
    concurrency: float


def spoken(engine: str) -> str:
    """The engine whose constants ``engine`` uses."""
    return fitted().engines.get(engine, engine)


def limits_of(engine: str, accelerator: Accelerator) -> tuple[int, int]:
    """Prompt tokens a pass and sequences at a time that ``engine`` chooses by itself on ``accelerator``."""
    large = accelerator.memory_class == "hbm" and accelerator.memory_gib >= LARGE_GIB
    large = large and not accelerator.id.startswith("a100")
    known = fitted().limits.get(f"{spoken(engine)}/large" if large else spoken(engine), {})
    return int(known.get("chunk", CHUNK)), int(known.get("sequences", SEQUENCES))
