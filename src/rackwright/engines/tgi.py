"""Text Generation Inference: the engine for encoder-decoder models.

Source of flags and names: the matrix of the pinned version. Source of what its endpoints do and of how it
stops: its source at 3.3.7 (``router/src/server.rs``, ``backends/v3/src/backend.rs``,
``launcher/src/main.rs``).
"""

from __future__ import annotations

from collections.abc import Mapping

from rackwright.engines import monitoring
from rackwright.engines.launcher import Owned, Serve, Traits, Value
from rackwright.plan.deployments import EngineRole
from rackwright.units import exact

COMMAND = ("text-generation-launcher",)
NAMES = monitoring.Names(
    e2e="tgi_request_duration",
    queue="tgi_request_queue_duration",
    generated="tgi_request_generated_tokens_sum",
    running="tgi_batch_current_size",
    waiting="tgi_queue_size",
)
"""It exports neither the time to the first token nor between tokens, nor the use of its cache."""
TRAITS = Traits(
    matrix="tgi",
    key_variable="API_KEY",
    address_variable=None,
    alive="/health",
    ready="/health",
    generates=True,
    engine_type=None,
    block_flag="",
    block=1,
    processes=("text-generation", "python"),
    spans="node",
    loads=("bf16", "fp8", "int4"),
    picked_by_load=False,
    labels_model=False,
    tag="{version}",
    derived=(
        ("max-input-tokens", "context − 1: one token of output at least"),
        ("max-batch-prefill-tokens", "max(tokens of a step, context − 1): a prompt must fit one prefill"),
        ("max-batch-total-tokens", "KV cache of a replica, in tokens"),
        ("max-concurrent-requests", "max_num_seqs + max_queued_requests"),
    ),
)
"""``/health`` has a token generated until one was, then asks the shards for memory. It and ``/metrics``
ask for no key; the key is the variable of this name, not a flag."""
OWNED = Owned(
    batched="max-batch-prefill-tokens",
    owners={
        "num-shard": "overrides.tensor_parallel",
        "sharded": "overrides.tensor_parallel",
        "max-batch-size": "overrides.max_num_seqs",
        "max-batch-total-tokens": "overrides.gpu_memory_utilization",
        "cuda-memory-fraction": "overrides.gpu_memory_utilization",
        "max-total-tokens": "model.context",
        "max-input-tokens": "model.context",
        "max-input-length": "model.context",
        "kv-cache-dtype": "model.kv_cache",
        "quantize": "model.quantisation",
        "dtype": "model.quantisation",
        "model-id": "model.id",
        "revision": "model.revision",
        "max-concurrent-requests": "users.dau and redundancy",
        "graceful-termination-timeout": "slo.e2e_p95",
        "trust-remote-code": "the model's catalog entry",
        "port": "the engine's catalog entry",
    },
    unsupported={
        r"hostname|api-key|ngrok.*|shard-uds-path|prometheus-port|master-.*|cors-allow-origin": "probes, the "
        "gateway and the scraper would not reach the engine",
        r"huggingface-hub-cache|weights-cache-override": "the plan counts on the weights in its volume",
        r"env|help|version": "the launcher would print and end",
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


def roles(serve: Serve, env: Mapping[str, str]) -> tuple[EngineRole, ...]:
    """``server``: the launcher with a shard a GPU.

    A prompt must fit one prefill, and what a batch holds the KV cache that was planned.
    """
    flags: dict[str, Value] = {
        "model-id": serve.path,
        "num-shard": serve.tp,
        "max-total-tokens": serve.context,
        "max-input-tokens": serve.context - 1,
        "max-batch-prefill-tokens": max(serve.batched_tokens, serve.context - 1),
        "max-batch-total-tokens": serve.replica_tokens,
        "max-batch-size": serve.max_num_seqs,
        "max-concurrent-requests": serve.max_num_seqs + serve.max_queued,
        "cuda-memory-fraction": serve.utilization,
        "graceful-termination-timeout": serve.shutdown_s,
        "hostname": "0.0.0.0",  # noqa: S104 - a pod listens on its own address
        "port": serve.port,
        "json-output": True,
        "usage-stats": "off",
    }
    if serve.kv_fp8:
        flags["kv-cache-dtype"] = "fp8_e4m3fn"
    if serve.quantisation:
        flags["quantize"] = serve.quantisation
    if serve.trust_remote_code:
        flags["trust-remote-code"] = True
    variables = {"LOG_LEVEL": "warn", **env}
    args = words({**flags, **serve.extra})
    role = {"role": "server", "command": COMMAND, "args": args, "env": variables}
    return (EngineRole.model_validate(role),)
