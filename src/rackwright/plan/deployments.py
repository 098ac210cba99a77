"""Deployments: a model served by an engine in a layout on a pool. Exact argv, probes and resources."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rackwright.plan.adapters import AdapterSet
from rackwright.plan.base import Section
from rackwright.younger import Grown


class Weights(Section):
    """The weights: where they lie, how large they are, and what proves that they are the right ones.

    ``manifest_sha256``: SHA-256 of a ``sha256sum``-format manifest at ``manifest_path`` inside the volume, or
    None while it is not pinned (a caution in the plan).
    """

    source: str
    revision: str | None = None
    quantisation: str
    bytes: int
    path: str
    manifest_path: str
    manifest_sha256: str | None = None


def degrees(tp: int, pp: int, dp: int) -> str:
    """A division of a model in words; ranks are named where there are several."""
    return f"TP {tp} × PP {pp}" + (f" × DP {dp}" if dp > 1 else "")


class Layout(Grown, Section):
    """replicas × TP × PP × DP; ``nodes_per_replica`` > 1 makes a multi-node group.

    ``data_parallel``: ranks of a replica that attend to requests of their own, each on ``tensor_parallel``
    GPUs, and share the experts among all their GPUs.
    """

    YOUNGER = ("data_parallel",)

    replicas: int
    tensor_parallel: int
    pipeline_parallel: int = 1
    data_parallel: int = 1
    nodes_per_replica: int = 1
    gpus_per_pod: int
    gpus_per_replica: int

    @property
    def words(self) -> str:
        """``TP 8 × PP 2``, or ``TP 1 × DP 8`` where ranks attend to requests of their own."""
        return degrees(self.tensor_parallel, self.pipeline_parallel, self.data_parallel)


class EngineRole(Section):
    """One container's exact command line. ``server`` alone, or ``leader`` and ``worker`` of a group."""

    role: Literal["server", "leader", "worker"]
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str] = Field(default_factory=dict)


class Engine(Section):
    """``image`` is pinned by digest: ``repository@sha256:…``."""

    name: str
    version: str
    image: str
    image_verified: bool = False
    port: int
    roles: tuple[EngineRole, ...]

    def role(self, name: str) -> EngineRole:
        return next(r for r in self.roles if r.role == name)


class MemoryBudget(Section):
    """Per GPU, in GiB. Red line 1: weights + KV + activations ≤ 85 % of ``total_gib``."""

    total_gib: float
    weights_gib: float
    kv_gib: float
    activations_gib: float
    overhead_gib: float
    utilization: float
    kv_bytes_per_token: int
    kv_tokens: int


class Estimate(Section):
    """What the estimator says of one replica at the planned concurrency, with an 80 % interval.

    ``calibration``: the catalog's entry of measurements that narrowed it, where there is one.
    """

    output_tok_s: float
    output_tok_s_low: float
    output_tok_s_high: float
    tpot_ms: float
    ttft_ms: float
    prefill_tok_s: float
    concurrency: float
    bandwidth_share: float
    calibration: str | None = None
    evidence: Literal["measured", "same-family", "extrapolated", "vendor", "assumed"]


class Slo(Section):
    ttft_p95_ms: float
    tpot_p50_ms: float
    e2e_p95_ms: float
    success_share: float


class Limits(Section):
    """Three dimensions of a limit, and where requests are cut off."""

    max_num_seqs: int
    max_queued_requests: int
    requests_per_s: float
    tokens_per_s: float
    connections: int
    ttft_cutoff_ms: float
    total_cutoff_ms: float


class Probes(Section):
    """``startup_failures`` × ``startup_period_s`` covers the load of the weights with margin."""

    path: str
    readiness_path: str
    startup_period_s: int
    startup_failures: int
    readiness_period_s: int
    readiness_failures: int
    liveness_period_s: int
    liveness_failures: int


class PodResources(Section):
    """CPU ≥ 2 × GPUs; memory ≥ 1.2 × the GPU memory used for weights on the node; /dev/shm for TP.

    ``gpus``: of the pool's resource, or of ``resource`` where pods ask for another one (a slice).
    ``shm_gib``: 0 where something else mounts /dev/shm.
    """

    gpus: int
    resource: str | None = None
    cpus: int
    memory_gib: int
    shm_gib: int


class Rollout(Section):
    """``max_surge`` is 0 where the pool has no free slot: a surge pod would never be scheduled."""

    max_surge: int
    max_unavailable: int
    drain_s: int
    termination_grace_s: int
    progress_deadline_s: int


class Deployment(Section):
    name: str
    pool: str
    model: str
    served_name: str
    context_tokens: int
    weights: Weights
    adapters: AdapterSet | None = None
    layout: Layout
    engine: Engine
    memory: MemoryBudget
    estimate: Estimate
    slo: Slo
    limits: Limits
    probes: Probes
    resources: PodResources
    rollout: Rollout
    disruption_max_unavailable: int = 1
