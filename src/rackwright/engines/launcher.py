"""What the sizing hands to an engine's module, and what such a module says of its engine.

Nothing here depends on hardware: the sizing decides, the modules spell it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rackwright.engines.monitoring import Names
from rackwright.plan.deployments import EngineRole
from rackwright.units import thousandths

Value = str | int | float | bool


@dataclass(frozen=True)
class GpuMemory:
    """What the sizing planned for one GPU, GiB. ``context``: what the driver and the collectives hold before
    any weights are there, without captured graphs."""

    total: float
    weights: float
    kv: float
    activations: float
    context: float

    @property
    def static_share(self) -> float:
        """Weights and KV cache over what is free when the engine starts, rounded down to a thousandth."""
        return thousandths((self.weights + self.kv) / (self.total - self.context))

    @property
    def kv_share(self) -> float:
        """KV cache over what is free once the weights are loaded, rounded down to a thousandth."""
        return thousandths(self.kv / (self.total - self.context - self.weights))


@dataclass(frozen=True)
class Serve:
    """Everything a command line says, in words of no engine.

    ``nodes``: that a replica spans. ``dp``: ranks of a replica that attend to
    requests of their own and share the experts; limits on requests are the replica's. ``utilization``: share
    of a GPU's memory that the engine may use in all; ``memory``: the same in parts, for engines that count
    otherwise. ``replica_tokens``: tokens of KV cache that a replica was planned with. ``cache_bytes``: of a
    GPU, where the engine must not go by what is free; None: it may.
    """

    path: str
    served_name: str
    port: int
    tp: int
    pp: int
    context: int
    max_num_seqs: int
    max_queued: int
    batched_tokens: int
    utilization: float
    memory: GpuMemory
    kv_fp8: bool
    quantisation: str | None
    trust_remote_code: bool
    shutdown_s: int
    dp: int = 1
    nodes: int = 1
    replica_tokens: int = 0
    cache_bytes: int | None = None
    extra: Mapping[str, Value] = field(default_factory=dict)

    def a_rank(self, requests: int) -> int:
        """A rank's share of a limit on the replica's requests, rounded up."""
        return -(-requests // self.dp)


@dataclass(frozen=True)
class Owned:
    """Flags that are not a person's to add.

    Attributes:
        owners: flag to the field of the workload that decides it.
        unsupported: pattern of whole flags that no field offers, to why.
        batched: the flag for the tokens of one engine step, which a person may give; empty: there is none.
        suffixes: whether that flag's value may end in k or K, m or M.
    """

    owners: Mapping[str, str]
    unsupported: Mapping[str, str]
    batched: str = ""
    suffixes: bool = False


@dataclass(frozen=True)
class Traits:
    """What pods, routers, checks and cautions must know of an engine.

    Attributes:
        matrix: the engine whose matrix judges its command lines and queries.
        key_variable: the container's variable that holds the engine's API key.
        address_variable: the one by which a rank of several is told its own address.
        alive, ready: paths of the probes. ``generates``: whether ``ready`` has a token generated.
        engine_type: what the endpoint picker calls the engine, to know its metrics; None: its default.
        block_flag, block: tokens of a block of KV cache, and the flag that changes it.
        spans: how far a replica reaches: one GPU, the GPUs of a node, or several nodes.
        ranks: whether ranks of a replica can attend to requests of their own and share the experts.
        loads: precisions of weights that the module can start.
        fp8_cache: whether the KV cache can be kept in FP8.
        fixed_cache: whether it can be told the bytes of its KV cache, whatever else is free.
        picked_by_load: whether the endpoint picker knows the engine's metrics of queue and cache.
        processes: names of its processes as the driver lists them, or how they begin.
        loud: flags that write requests into the log.
        metrics_need_key: whether a scrape must bring the API key.
        labels_model: whether its series carry ``model_name``; else the scrape puts it on them.
        drains: whether it finishes its requests when it is told to stop; else the pod waits for them first.
        tag: the image's tag for a version, as its makers write it.
        derived: flags whose numbers stand nowhere else in the plan, and how they come about.
        weights_file: name of the one file that the engine is started with; empty: a directory.
    """

    matrix: str
    key_variable: str
    address_variable: str | None
    alive: str
    ready: str
    generates: bool
    engine_type: str | None
    block_flag: str
    block: int
    processes: tuple[str, ...]
    loads: tuple[str, ...]
    spans: Literal["gpu", "node", "nodes"] = "nodes"
    ranks: bool = False
    fp8_cache: bool = True
    fixed_cache: bool = False
    picked_by_load: bool = True
    loud: tuple[str, ...] = ()
    metrics_need_key: bool = False
    labels_model: bool = True
    drains: bool = True
    tag: str = "v{version}"
    weights_file: str = ""
    derived: tuple[tuple[str, str], ...] = ()


class Launcher(Protocol):
    """One module an engine.

    ``roles`` spells `Serve` as command lines; ``words`` flags alone, so that they can be judged; ``NAMES``
    are the series that recordings, alerts and scaling query.
    """

    TRAITS: Traits
    OWNED: Owned
    NAMES: Names

    def words(self, flags: Mapping[str, Value]) -> tuple[str, ...]: ...

    def roles(self, serve: Serve, env: Mapping[str, str]) -> tuple[EngineRole, ...]: ...
