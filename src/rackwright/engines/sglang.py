"""SGLang: from decided values to exact command lines, rules and triggers.

Source of flags and names: the matrix of the pinned version. Source of what its endpoints do, of how it stops
and of what its share of memory counts: its source at 0.5.23 (``entrypoints/http_server.py``,
``utils/auth.py``, ``managers/tokenizer_manager.py``, ``model_executor/model_runner.py``).
"""

from __future__ import annotations

from collections.abc import Mapping

from rackwright.engines import monitoring
from rackwright.engines.launcher import Owned, Serve, Traits, Value
from rackwright.plan.deployments import EngineRole
from rackwright.units import exact

COMMAND = ("sglang", "serve")
RENDEZVOUS_PORT = 20000
"""Port on which the ranks of a replica that spans nodes find each other."""
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
TRAITS = Traits(
    matrix="sglang",
    key_variable="ENGINE_API_KEY",
    address_variable="SGLANG_HOST_IP",
    alive="/health",
    ready="/health_generate",
    generates=True,
    engine_type="sglang",
    block_flag="page-size",
    block=1,
    ranks=True,
    loads=("bf16", "fp8", "int4", "nvfp4", "mxfp4"),
    processes=("sglang::", "sglang"),
    loud=("log-requests",),
    derived=(
        ("mem-fraction-static", "(weights + KV cache) / (total − context), rounded down to a thousandth"),
    ),
)
"""An idle engine generates one token for ``ready``; a busy one only has to answer. Neither path asks for the
key, nor does ``/metrics``."""
KEY = f"$({TRAITS.key_variable})"
"""The container's variable, filled in by the kubelet: SGLang reads none by itself."""
ENVIRONMENT = {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false"}
"""``/health`` then says that the process serves, which is what a restart can mend; a scheduler that hangs is
taken out of rotation by ``ready`` and ended by the engine's own watchdog."""

OWNED = Owned(
    batched="chunked-prefill-size",
    owners={
        "tp-size": "overrides.tensor_parallel",
        "pp-size": "overrides.pipeline_parallel",
        "attn-dp-size": "overrides.data_parallel",
        "nnodes": "overrides.pipeline_parallel",
        "node-rank": "overrides.pipeline_parallel",
        "dist-init-addr": "overrides.pipeline_parallel",
        "nccl-port": "overrides.pipeline_parallel",
        "max-running-requests": "overrides.max_num_seqs",
        "mem-fraction-static": "overrides.gpu_memory_utilization",
        "max-total-tokens": "overrides.gpu_memory_utilization",
        "context-length": "model.context",
        "kv-cache-dtype": "model.kv_cache",
        "quantization": "model.quantisation",
        "quantization-param-path": "model.quantisation",
        "modelopt-quant": "model.quantisation",
        "quantize-and-serve": "model.quantisation",
        "dtype": "model.quantisation",
        "model-path": "model.id",
        "served-model-name": "model.id",
        "tokenizer-path": "model.id",
        "revision": "model.revision",
        "max-queued-requests": "users.dau and redundancy",
        "enable-lora": "model.adapters",
        "lora-paths": "model.adapters.set",
        "max-loras-per-batch": "model.adapters.active",
        "max-loaded-loras": "model.adapters.cached",
        "max-lora-rank": "model.adapters.set[].rank",
        "lora-target-modules": "model.adapters",
        "trust-remote-code": "the model's catalog entry",
        "port": "the engine's catalog entry",
    },
    unsupported={
        r"dp-size|enable-dp-.*|load-balance-method|elastic-ep-.*|max-ep-size|dwdp-size"
        r"|use-ray": ("replicas are separate pods behind the gateway: set overrides.replicas"),
        r"attn-cp-size|dcp-.*|enable-prefill-cp|cp-strategy|moe-dp-size|ep-size|moe-dense-tp-size": "the "
        "memory arithmetic knows tensor and pipeline parallelism only",
        r"cpu-offload-gb|offload-.*|enable-hierarchical-cache|hicache-.*|enable-hisparse|hisparse-config"
        r"|enable-paged-experts|kt-.*|ple-offload-.*|enable-.*cpu-backup": "the pod's memory limit has no "
        "room for it: the container would be killed",
        r"disaggregation-.*|encoder-.*|language-only|enable-lmcache|lmcache-config-file|enable-flexkv"
        r"|kv-events-config|mooncake-ib-device": "prefill and decode share an engine in this plan",
        r"host|api-key|admin-api-key|fastapi-root-path|ssl-.*|enable-ssl-refresh|enable-http2|grpc-.*"
        r"|smg-.*|sidecar|sidecar-args|gated-launch-port": "probes, the gateway and the scraper would not "
        "reach the engine",
        r"config|help": "the plan holds the whole command line",
        r"enable-metrics|enable-metrics-for-all-schedulers|skip-tokenizer-init|device|base-gpu-id|gpu-id-step"
        r"|is-embedding|skip-server-warmup|enable-memory-saver|tokenizer-metrics-.*": "probes, metrics or "
        "device assignment of the plan would no longer fit the engine",
        r"enable-priority-scheduling|default-priority-value": "its series then come once more a priority: "
        "what the plan sums would count each request twice",
        r"load-format|custom-weight-loader|download-dir|remote-instance-.*|delete-ckpt-after-loading": "the "
        "plan counts on the weights in its volume",
    },
)


def words(flags: Mapping[str, Value]) -> tuple[str, ...]:
    """``--name=value`` for each flag; true is the bare flag, false leaves out what is off unless given."""
    args = []
    for name, value in flags.items():
        if value is True:
            args.append(f"--{name}")
        elif value is not False:
            args.append(f"--{name}={exact(value) if isinstance(value, float) else value}")
    return tuple(args)


def _common(serve: Serve) -> dict[str, Value]:
    """Flags that every rank of a replica must be given alike.

    With attention in parallel by data, ``--tp-size`` counts all GPUs, and a rank takes its share of
    ``--chunked-prefill-size`` and ``--max-running-requests``; its queue is its own
    (``arg_groups/parallel_hook.py``, ``managers/scheduler.py``).
    ``--mem-fraction-static`` counts weights and KV cache over what is free before the weights are loaded.
    """
    flags: dict[str, Value] = {
        "model-path": serve.path,
        "served-model-name": serve.served_name,
        "tp-size": serve.tp * serve.dp,
        "context-length": serve.context,
        "chunked-prefill-size": serve.batched_tokens * serve.dp,
        "max-running-requests": serve.max_num_seqs,
        "max-queued-requests": serve.a_rank(serve.max_queued),
        "mem-fraction-static": serve.memory.static_share,
    }
    if serve.dp > 1:
        flags["attn-dp-size"] = serve.dp
        flags["ep-size"] = serve.tp * serve.dp
    if serve.pp > 1:
        flags["pp-size"] = serve.pp
    if serve.nodes > 1:
        flags["nnodes"] = serve.nodes
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
    """``server`` alone, or ``leader`` and ``worker`` of a group that spans nodes.

    Told to stop, it takes no more requests and ends when the last one is done, however long that takes: the
    pod's grace is what bounds it.
    """
    base = {**_common(serve), **_listening(serve)}
    variables = {**ENVIRONMENT, **env}

    def role(name: str, flags: Mapping[str, Value]) -> EngineRole:
        args = words({**flags, **serve.extra})
        return EngineRole.model_validate({"role": name, "command": COMMAND, "args": args, "env": variables})

    if serve.nodes == 1:
        return (role("server", base),)
    worker = {**_common(serve), "node-rank": "$(LWS_WORKER_INDEX)", "log-level": "warning"}
    return role("leader", {**base, "node-rank": 0}), role("worker", worker)
