"""vLLM: from decided values to exact command lines, probes, resources, limits, rules and triggers.

Nothing is decided here that depends on hardware: the sizing decides, this module spells it for the engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rackwright.engines import launch, monitoring
from rackwright.errors import Problem
from rackwright.plan.deployments import EngineRole, Limits, PodResources, Probes, Rollout
from rackwright.plan.services import Rule, Trigger
from rackwright.units import exact

COMMAND = ("vllm", "serve")
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
KV_ALERT, KV_SCALE = monitoring.KV_ALERT, monitoring.KV_SCALE
RUNNING_SHARE, TTFT_ALERT = monitoring.RUNNING_SHARE, monitoring.TTFT_ALERT
NAMES = monitoring.Names(
    ttft="vllm:time_to_first_token_seconds",
    itl="vllm:inter_token_latency_seconds",
    e2e="vllm:e2e_request_latency_seconds",
    queue="vllm:request_queue_time_seconds",
    generated="vllm:generation_tokens_total",
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    kv_usage="vllm:kv_cache_usage_perc",
    hit_ratio="sum by ({by}) (rate(vllm:prefix_cache_hits_total{where}[5m])) / "
    "sum by ({by}) (rate(vllm:prefix_cache_queries_total{where}[5m]))",
)

Value = str | int | float | bool


@dataclass(frozen=True)
class Serve:
    """Everything the command line says."""

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
    kv_fp8: bool
    quantisation: str | None
    trust_remote_code: bool
    shutdown_s: int
    extra: Mapping[str, Value] = field(default_factory=dict)


def _common(serve: Serve) -> dict[str, Value]:
    """Flags that every rank of a replica must be given alike."""
    flags: dict[str, Value] = {
        "served-model-name": serve.served_name,
        "tensor-parallel-size": serve.tp,
        "max-model-len": serve.context,
        "max-num-batched-tokens": serve.batched_tokens,
        "max-num-seqs": serve.max_num_seqs,
        "gpu-memory-utilization": serve.utilization,
        "enable-prefix-caching": True,
    }
    if serve.pp > 1:
        flags["pipeline-parallel-size"] = serve.pp
        flags["nnodes"] = serve.pp
        flags["master-addr"] = "$(LWS_LEADER_ADDRESS)"
        flags["distributed-executor-backend"] = "mp"
    if serve.kv_fp8:
        flags["kv-cache-dtype"] = "fp8"
    if serve.quantisation:
        flags["quantization"] = serve.quantisation
    if serve.trust_remote_code:
        flags["trust-remote-code"] = True
    return flags


def _listening(serve: Serve) -> dict[str, Value]:
    """Flags of the rank that answers requests."""
    return {
        "host": "0.0.0.0",  # noqa: S104 - a pod listens on its own address
        "port": serve.port,
        "max-num-queued-reqs": serve.max_queued,
        "shutdown-timeout": serve.shutdown_s,
        "disable-access-log-for-endpoints": "/health,/metrics",
    }


def arguments(path: str, flags: Mapping[str, Value]) -> tuple[str, ...]:
    """``path`` and ``--name=value`` for each flag; true is the bare flag, false its ``--no-`` form."""
    words = [path]
    for name, value in flags.items():
        if value is True:
            words.append(f"--{name}")
        elif value is False:
            words.append(f"--no-{name}")
        else:
            words.append(f"--{name}={exact(value) if isinstance(value, float) else value}")
    return tuple(words)


def roles(serve: Serve, env: Mapping[str, str]) -> tuple[EngineRole, ...]:
    """``server`` alone, or ``leader`` and ``worker`` of a group that spans nodes."""
    base = {**_common(serve), **_listening(serve)}
    extra = dict(serve.extra)
    variables = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING", **env}

    def role(name: str, flags: Mapping[str, Value]) -> EngineRole:
        words = arguments(serve.path, {**flags, **extra})
        return EngineRole.model_validate({"role": name, "command": COMMAND, "args": words, "env": variables})

    if serve.pp == 1:
        return (role("server", base),)
    worker = {**_common(serve), "node-rank": "$(LWS_WORKER_INDEX)", "headless": True}
    return role("leader", {**base, "node-rank": 0}), role("worker", worker)


def flag_problems(version: str, parts: tuple[EngineRole, ...], where: str) -> Iterator[Problem]:
    """What the pinned version would not accept of the command lines and variables of ``parts``."""
    return launch.flag_problems("vllm", version, parts, where)


def load_seconds(gigabytes_per_node: float, rate_gb_s: float, fixed_s: float) -> float:
    """Seconds until a replica answers: its node's share of the weights over the load rate, plus start-up."""
    return gigabytes_per_node / rate_gb_s + fixed_s


def probes(load_s: float) -> Probes:
    """Startup covers twice the expected load; ``/health`` proves the process, ``/v1/models`` that it serves.

    Liveness is loose: a restart costs the whole load again.
    """
    return Probes(
        path="/health",
        readiness_path="/v1/models",
        startup_period_s=STARTUP_PERIOD_S,
        startup_failures=math.ceil(load_s * STARTUP_MARGIN / STARTUP_PERIOD_S),
        readiness_period_s=5,
        readiness_failures=3,
        liveness_period_s=10,
        liveness_failures=6,
    )


def resources(gpus: int, gpus_per_node: int, threads: int, weights_gib: float) -> PodResources:
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


def rollout(load_s: float, free_slots: int, shutdown_s: int) -> Rollout:
    """One replica at a time: beside the old ones where a slot is free, else in place of one.

    A replica in place of another starts only when that one has ended, which counts as no progress.
    """
    surge = 1 if free_slots >= 1 else 0
    grace = DRAIN_S + shutdown_s + GRACE_MARGIN_S
    return Rollout(
        max_surge=surge,
        max_unavailable=1 - surge,
        drain_s=DRAIN_S,
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


def triggers(namespace: str, model_name: str, max_num_seqs: int) -> tuple[Trigger, ...]:
    return monitoring.triggers(NAMES, namespace, model_name, max_num_seqs)


def rules(
    namespace: str, model_name: str, *, ttft_p95_ms: float, tpot_p50_ms: float, max_num_seqs: int
) -> tuple[Rule, ...]:
    return monitoring.rules(
        NAMES,
        namespace,
        model_name,
        ttft_p95_ms=ttft_p95_ms,
        tpot_p50_ms=tpot_p50_ms,
        max_num_seqs=max_num_seqs,
    )
