"""What a pod needs whatever engine runs in it: probes, resources, limits, rollout."""

from __future__ import annotations

import math

from rackwright.engines.launcher import Traits
from rackwright.plan.deployments import Limits, PodResources, Probes, Rollout

STARTUP_PERIOD_S = 10
STARTUP_MARGIN = 2.0
"""The startup probe waits this many times the expected load of the weights."""
DRAIN_S = 30
"""Seconds a stopping pod waits before it shuts down, so that every router has dropped it."""
GRACE_MARGIN_S = 30
"""Seconds between the end of the engine's own shutdown and being killed."""
PROGRESS_MARGIN_S = 180
SHM_GIB_PER_GPU = 4
CPUS_PER_GPU = 2
MEMORY_PER_WEIGHTS = 1.2
CPU_SHARE = 0.85
"""Share of a node's CPU threads given to engines; the rest runs the node."""


def load_seconds(gigabytes_per_node: float, rate_gb_s: float, fixed_s: float) -> float:
    """Seconds until a replica answers: its node's share of the weights over the load rate, plus start-up."""
    return gigabytes_per_node / rate_gb_s + fixed_s


def probes(load_s: float, traits: Traits) -> Probes:
    """Startup covers twice the expected load; the engine's own paths prove that it lives and that it serves.

    Liveness is loose: a restart costs the whole load again.
    """
    return Probes(
        path=traits.alive,
        readiness_path=traits.ready,
        startup_period_s=STARTUP_PERIOD_S,
        startup_failures=math.ceil(load_s * STARTUP_MARGIN / STARTUP_PERIOD_S),
        readiness_period_s=5,
        readiness_failures=3,
        liveness_period_s=10,
        liveness_failures=6,
    )


def resources(gpus: int, gpus_per_node: float, threads: int, weights_gib: float) -> PodResources:
    """CPU: the node's threads shared by GPU, at least 2 a GPU. Memory: 1.2 × the pod's weights and its shm.

    A memory-backed /dev/shm counts against the pod's memory.
    """
    share = int(threads * CPU_SHARE * gpus / gpus_per_node)
    shm = SHM_GIB_PER_GPU * gpus
    return PodResources(
        gpus=gpus,
        cpus=max(CPUS_PER_GPU * gpus, share),
        memory_gib=math.ceil(MEMORY_PER_WEIGHTS * weights_gib) + shm,
        shm_gib=shm,
    )


def shutdown_seconds(total_cutoff_ms: float) -> int:
    """Seconds that a stopping engine finishes what it runs: the total cut-off of a request."""
    return math.ceil(total_cutoff_ms / 1000)


def rollout(load_s: float, free_slots: int, shutdown_s: int, *, drains: bool = True) -> Rollout:
    """One replica at a time: beside the old ones where a slot is free, else in place of one.

    A replica in place of another starts only when that one has ended, which counts as no progress. Of an
    engine that ends at once the pod waits until the longest request is done before it says so.
    """
    surge = 1 if free_slots >= 1 else 0
    grace = DRAIN_S + shutdown_s + GRACE_MARGIN_S
    return Rollout(
        max_surge=surge,
        max_unavailable=1 - surge,
        drain_s=DRAIN_S + (0 if drains else shutdown_s),
        termination_grace_s=grace,
        progress_deadline_s=math.ceil((load_s * STARTUP_MARGIN + grace + PROGRESS_MARGIN_S) / 60) * 60,
    )


def max_queued(requests_per_s: float, replicas: int, cutoff_ms: float) -> int:
    """Requests that a replica may hold waiting: what arrives until the first of them would be cut off."""
    return max(8, math.ceil(requests_per_s / replicas * cutoff_ms / 1000))


def limits(
    *,
    max_num_seqs: int,
    queued: int,
    replicas: int,
    requests_per_s: float,
    tokens_per_s: float,
    ttft_cutoff_ms: float,
    total_cutoff_ms: float,
) -> Limits:
    """The three dimensions of a limit for the whole deployment, and where requests are cut off."""
    return Limits(
        max_num_seqs=max_num_seqs,
        max_queued_requests=queued,
        requests_per_s=round(requests_per_s, 3),
        tokens_per_s=round(tokens_per_s, 1),
        connections=replicas * (max_num_seqs + queued),
        ttft_cutoff_ms=ttft_cutoff_ms,
        total_cutoff_ms=total_cutoff_ms,
    )
