"""vLLM: from decided values to exact command lines, rules and triggers."""

from __future__ import annotations

from collections.abc import Mapping

from rackwright.engines import monitoring
from rackwright.engines.launcher import Owned, Serve, Traits, Value
from rackwright.plan.deployments import EngineRole
from rackwright.units import exact

COMMAND = ("vllm", "serve")
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
TRAITS = Traits(
    matrix="vllm",
    key_variable="VLLM_API_KEY",
    address_variable="VLLM_HOST_IP",
    alive="/health",
    ready="/v1/models",
    generates=False,
    engine_type=None,
    block_flag="block-size",
    block=16,
    ranks=True,
    fixed_cache=True,
    loads=("bf16", "fp8", "int4", "nvfp4", "mxfp4"),
    processes=("VLLM::", "vllm"),
    loud=("enable-log-requests", "enable-log-outputs"),
)
OWNED = Owned(
    batched="max-num-batched-tokens",
    suffixes=True,
    owners={
        "tensor-parallel-size": "overrides.tensor_parallel",
        "pipeline-parallel-size": "overrides.pipeline_parallel",
        "data-parallel-size": "overrides.data_parallel",
        "nnodes": "overrides.pipeline_parallel",
        "node-rank": "overrides.pipeline_parallel",
        "master-addr": "overrides.pipeline_parallel",
        "master-port": "overrides.pipeline_parallel",
        "headless": "overrides.pipeline_parallel",
        "distributed-executor-backend": "overrides.pipeline_parallel",
        "max-num-seqs": "overrides.max_num_seqs",
        "max-num-active-seqs": "overrides.max_num_seqs",
        "gpu-memory-utilization": "overrides.gpu_memory_utilization",
        "kv-cache-memory-bytes": "overrides.gpu_memory_utilization",
        "num-gpu-blocks-override": "overrides.gpu_memory_utilization",
        "max-model-len": "model.context",
        "kv-cache-dtype": "model.kv_cache",
        "quantization": "model.quantisation",
        "quantization-config": "model.quantisation",
        "dtype": "model.quantisation",
        "model": "model.id",
        "served-model-name": "model.id",
        "tokenizer": "model.id",
        "revision": "model.revision",
        "max-num-queued-reqs": "users.dau and redundancy",
        "max-num-queued-tokens": "users.dau and redundancy",
        "shutdown-timeout": "slo.e2e_p95",
        "enable-lora": "model.adapters",
        "lora-modules": "model.adapters.set",
        "max-loras": "model.adapters.active",
        "max-cpu-loras": "model.adapters.cached",
        "max-lora-rank": "model.adapters.set[].rank",
        "lora-target-modules": "model.adapters",
        "trust-remote-code": "the model's catalog entry",
        "port": "the engine's catalog entry",
    },
    unsupported={
        r"data-parallel-(?!size$).*|dp-.*|elastic-ep-.*|enable-elastic-ep|api-server-count": "replicas are "
        "separate pods behind the gateway (overrides.replicas), ranks of one stay in it "
        "(overrides.data_parallel)",
        r"(prefill|decode)-context-parallel-size": "the memory arithmetic knows tensor and pipeline "
        "parallelism only",
        r"cpu-offload-.*|offload-.*|kv-offloading-.*": "the pod's memory limit has no room for it: the "
        "container would be killed",
        r"kv-transfer-config|ec-transfer-config|kv-events-config": "prefill and decode share an engine in "
        "this plan",
        r"host|uds|grpc|grpc-port|root-path|ssl-.*|enable-ssl-refresh": "probes, the gateway and the scraper "
        "would not reach the engine",
        r"config|help": "the plan holds the whole command line",
        r"disable-log-stats|device-ids|enable-sleep-mode|tokens-only|skip-tokenizer-init": "probes, metrics "
        "or device assignment of the plan would no longer fit the engine",
        r"load-format": "the plan counts on the weights in its volume",
    },
)


def _common(serve: Serve) -> dict[str, Value]:
    """Flags that every rank of a replica must be given alike.

    ``--max-num-seqs`` is of a rank's scheduler; ``--max-num-queued-reqs`` of all, kept by the API servers.
    """
    flags: dict[str, Value] = {
        "served-model-name": serve.served_name,
        "tensor-parallel-size": serve.tp,
        "max-model-len": serve.context,
        "max-num-batched-tokens": serve.batched_tokens,
        "max-num-seqs": serve.a_rank(serve.max_num_seqs),
        "gpu-memory-utilization": serve.utilization,
        "enable-prefix-caching": True,
    }
    if serve.dp > 1:
        flags["data-parallel-size"] = serve.dp
        flags["enable-expert-parallel"] = True
    if serve.pp > 1:
        flags["pipeline-parallel-size"] = serve.pp
    if serve.nodes > 1:
        flags["nnodes"] = serve.nodes
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
    args = [path]
    for name, value in flags.items():
        if value is True:
            args.append(f"--{name}")
        elif value is False:
            args.append(f"--no-{name}")
        else:
            args.append(f"--{name}={exact(value) if isinstance(value, float) else value}")
    return tuple(args)


def words(flags: Mapping[str, Value]) -> tuple[str, ...]:
    """Flags alone; the model's path stands for any."""
    return arguments("model", flags)


def roles(serve: Serve, env: Mapping[str, str]) -> tuple[EngineRole, ...]:
    """``server`` alone, or ``leader`` and ``worker`` of a group that spans nodes."""
    base = {**_common(serve), **_listening(serve)}
    extra = dict(serve.extra)
    if serve.cache_bytes is not None:
        extra = {"kv-cache-memory-bytes": serve.cache_bytes, **extra}
    variables = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING", **env}

    def role(name: str, flags: Mapping[str, Value]) -> EngineRole:
        args = arguments(serve.path, {**flags, **extra})
        return EngineRole.model_validate({"role": name, "command": COMMAND, "args": args, "env": variables})

    if serve.nodes == 1:
        return (role("server", base),)
    worker = {**_common(serve), "node-rank": "$(LWS_WORKER_INDEX)", "headless": True}
    return role("leader", {**base, "node-rank": 0}), role("worker", worker)
