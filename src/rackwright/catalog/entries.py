"""The shapes of catalog entries. Units are fixed per field and checked when an entry is read."""

from __future__ import annotations

from typing import Literal

from rackwright.catalog.figures import (
    Billions,
    Count,
    Entry,
    Figure,
    Frozen,
    Gibibytes,
    GigabytesPerSecond,
    Microseconds,
    Millions,
    Milliseconds_,
    Seconds,
    Share,
)
from rackwright.catalog.hardware_entries import (
    Accelerator,
    Cabinet,
    EfficiencyClass,
    FabricNics,
    Link,
    Machine,
    Network,
    Nic,
    NvLink,
)
from rackwright.catalog.model_entries import (
    Encoder,
    Experts,
    FullAttention,
    LatentAttention,
    LinearAttention,
    Mla,
    ModelEntry,
    Quantisation,
    SlidingAttention,
    Sparse,
)
from rackwright.catalog.price_entries import ApiPrice, PricePoint, Prices, Region, Rental, Staff
from rackwright.catalog.scenario_entries import Lengths, ScenarioEntry
from rackwright.catalog.switch_entries import SonicPlatform, SwitchEntry

__all__ = [
    "Accelerator", "ApiPrice", "Billions", "Cabinet", "Efficiency", "EfficiencyClass", "Encoder",
    "EngineEntry", "Entry", "Experts", "FabricNics", "Figure", "FullAttention", "LatentAttention",
    "Lengths", "LinearAttention", "Link", "Machine", "Millions", "Mla", "ModelEntry", "Network", "Nic",
    "NvLink", "OperatorEntry", "PlatformEntry", "PricePoint", "Prices", "Quantisation", "Region", "Rental",
    "ScenarioEntry", "SlidingAttention", "SonicPlatform", "Sparse", "Staff", "SwitchEntry",
]  # fmt: skip


class Efficiency(Frozen):
    """Constants of the estimator for one class of memory: shares of nominal bandwidth (dense weights and
    KV cache; expert weights, which are read in pieces) and of nominal FLOP/s (decode, prefill)."""

    memory: Share
    experts: Share
    decode_compute: Share
    prefill_compute: Share


class EngineEntry(Entry):
    """One engine at one default version.

    ``launchable``: plans can start it; others can be estimated only. ``vendors``: accelerators that it runs
    on. ``supports``: precisions of weights. ``serves``: kinds of models. ``when``: what it is chosen for.
    """

    kind: Literal["engine"]
    launchable: bool = True
    vendors: tuple[str, ...] = ("nvidia",)
    serves: tuple[Literal["decoder-only", "encoder-decoder"], ...] = ("decoder-only",)
    when: str = ""
    multi_node: bool = True
    version: str
    repository: str
    digests: dict[str, str]
    digest_verified: bool
    port: int
    supports: tuple[str, ...]
    overhead: Gibibytes
    graphs: Gibibytes
    load_rate: GigabytesPerSecond
    load_fixed: Seconds
    layer_overhead: Microseconds
    expert_layer_overhead: Microseconds
    step_overhead: Milliseconds_
    sequence_overhead: Microseconds
    nvlink_latency: Microseconds
    pcie_latency: Microseconds
    rdma_latency: Microseconds
    ttft_factor: Count
    efficiency: dict[EfficiencyClass, Efficiency]
    max_batched_tokens: Count
    max_num_seqs: Count
    measured: tuple[str, ...]


class OperatorEntry(Frozen):
    version: str
    namespace: str
    source: str
    verified: bool


class PlatformEntry(Entry):
    """Versions of what stands below the engine."""

    kind: Literal["platform"]
    driver: str
    driver_source: str
    operators: dict[str, OperatorEntry]
    picker_image: str
    picker_verified: bool
    prometheus_url: str
