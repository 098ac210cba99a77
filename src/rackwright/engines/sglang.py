"""SGLang: from decided values to exact command lines, rules and triggers, behind the interface of `vllm`.

Source of flags and names: the matrix of the pinned version. What a pod needs whatever runs in it (probes,
resources, limits, rollout) is taken over: SGLang answers ``/health`` and ``/v1/models`` too, and drains its
requests when it is told to stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rackwright.engines import launch, monitoring
from rackwright.engines.vllm import (
    Serve,
    Value,
    limits,
    load_seconds,
    max_queued,
    probes,
    resources,
    rollout,
    shutdown_seconds,
)
from rackwright.errors import Problem
from rackwright.plan.deployments import EngineRole
from rackwright.plan.services import Rule, Trigger
from rackwright.units import exact

__all__ = [
    "COMMAND",
    "NAMES",
    "Serve",
    "arguments",
    "flag_problems",
    "limits",
    "load_seconds",
    "max_queued",
    "probes",
    "resources",
    "roles",
    "rollout",
    "rules",
    "shutdown_seconds",
    "static_fraction",
    "triggers",
]

COMMAND = ("sglang", "serve")
RENDEZVOUS_PORT = 20000
"""Port on which the ranks of a replica that spans nodes find each other."""
KEY = "$(VLLM_API_KEY)"
"""The pod's variable with the engine's key, filled in by the kubelet: SGLang reads none by itself."""
NAMES = monitoring.Names(
    ttft="sglang:time_to_first_token_seconds",
    itl="sglang:inter_token_latency_seconds",
    e2e="sglang:e2e_request_latency_seconds",
    queue="sglang:queue_time_seconds",
    generated="sglang:generation_tokens_total",
    running="sglang:num_running_reqs",
    waiting="sglang:num_queue_reqs",
    kv_usage="sglang:token_usage",
    hit_ratio="sum by ({by}) (rate(sglang:cached_tokens_total{where}[5m])) / "
    "sum by ({by}) (rate(sglang:prompt_tokens_total{where}[5m]))",
)


def static_fraction(weights_gib: float, kv_gib: float, total_gib: float) -> float:
    """Share of a GPU's memory for weights and KV cache, which is what ``--mem-fraction-static`` counts.

    vLLM's utilisation counts activations too; `Serve.utilization` must hold this one here. Rounded down to a
    thousandth, so that activations and CUDA graphs keep what was counted for them.
    """
    return int((weights_gib + kv_gib) / total_gib * 1000) / 1000


def arguments(flags: Mapping[str, Value]) -> tuple[str, ...]:
    """``--name=value`` for each flag; true is the bare flag, false leaves out what is off unless given."""
    words = []
    for name, value in flags.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not False:
            words.append(f"--{name}={exact(value) if isinstance(value, float) else value}")
    return tuple(words)


def _common(serve: Serve) -> dict[str, Value]:
    """Flags that every rank of a replica must be given alike."""
    flags: dict[str, Value] = {
        "model-path": serve.path,
        "served-model-name": serve.served_name,
        "tp-size": serve.tp,
        "context-length": serve.context,
        "chunked-prefill-size": serve.batched_tokens,
        "max-running-requests": serve.max_num_seqs,
        "max-queued-requests": serve.max_queued,
        "mem-fraction-static": serve.utilization,
    }
    if serve.pp > 1:
        flags["pp-size"] = serve.pp
        flags["nnodes"] = serve.pp
        flags["dist-init-addr"] = f"$(LWS_LEADER_ADDRESS):{RENDEZVOUS_PORT}"
    if serve.kv_fp8:
        flags["kv-cache-dtype"] = "fp8_e4m3"
    if serve.quantisation:
        flags["quantization"] = serve.quantisation
    if serve.trust_remote_code:
        flags["trust-remote-code"] = True
    return flags


def _listening(serve: Serve) -> dict[str, Value]:
    """Flags of the rank that answers requests; metrics are served only where they are asked for."""
    return {
        "host": "0.0.0.0",  # noqa: S104 - a pod listens on its own address
        "port": serve.port,
        "api-key": KEY,
        "enable-metrics": True,
        "log-level": "warning",
    }


def roles(serve: Serve, env: Mapping[str, str]) -> tuple[EngineRole, ...]:
    """``server`` alone, or ``leader`` and ``worker`` of a group that spans nodes."""
    base = {**_common(serve), **_listening(serve)}

    def role(name: str, flags: Mapping[str, Value]) -> EngineRole:
        words = arguments({**flags, **serve.extra})
        return EngineRole.model_validate({"role": name, "command": COMMAND, "args": words, "env": dict(env)})

    if serve.pp == 1:
        return (role("server", base),)
    worker = {**_common(serve), "node-rank": "$(LWS_WORKER_INDEX)", "log-level": "warning"}
    return role("leader", {**base, "node-rank": 0}), role("worker", worker)


def flag_problems(version: str, parts: tuple[EngineRole, ...], where: str) -> Iterator[Problem]:
    """What the pinned version would not accept of the command lines and variables of ``parts``."""
    return launch.flag_problems("sglang", version, parts, where)


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
