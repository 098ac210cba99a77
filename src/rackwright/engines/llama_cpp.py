"""llama.cpp's server: one GPU or one workstation, weights in a GGUF file.

Source of flags and names: the matrix of the pinned build. Source of what its endpoints do: its source at that
build (``tools/server/server-http.cpp``, ``common/arg.cpp``).
"""

from __future__ import annotations

from collections.abc import Mapping

from rackwright.engines import monitoring
from rackwright.engines.launcher import Owned, Serve, Traits, Value
from rackwright.plan.deployments import EngineRole
from rackwright.units import exact

COMMAND = ("/app/llama-server",)
"""The image's own program, which is not on its path."""
NAMES = monitoring.Names(
    generated="llamacpp:tokens_predicted_total",
    running="llamacpp:requests_processing",
    waiting="llamacpp:requests_deferred",
)
"""It exports no histogram: neither the time to the first token nor between tokens can be alerted on."""
TRAITS = Traits(
    matrix="llama.cpp",
    key_variable="LLAMA_API_KEY",
    address_variable=None,
    alive="/health",
    ready="/health",
    generates=False,
    engine_type=None,
    block_flag="",
    block=1,
    processes=("llama-server", "/app/llama-server"),
    spans="gpu",
    loads=("q2_k", "q3_k_m", "q4_0", "q4_k_m", "q5_k_m", "q6_k", "q8_0"),
    fp8_cache=False,
    picked_by_load=False,
    metrics_need_key=True,
    labels_model=False,
    drains=False,
    tag="server-cuda-b{version}",
    weights_file="model.gguf",
    derived=(("ctx-size", "min(KV cache of a replica in tokens, max_num_seqs × context)"),),
)
"""``/health`` alone asks for no key; it says that the model is loaded. Told to stop, it ends at once."""
OWNED = Owned(
    batched="batch-size",
    owners={
        "split-mode": "overrides.tensor_parallel",
        "tensor-split": "overrides.tensor_parallel",
        "main-gpu": "overrides.tensor_parallel",
        "parallel": "overrides.max_num_seqs",
        "gpu-layers": "overrides.gpu_memory_utilization",
        "fit": "overrides.gpu_memory_utilization",
        "fit-ctx": "overrides.gpu_memory_utilization",
        "fit-target": "overrides.gpu_memory_utilization",
        "ctx-size": "model.context",
        "cache-type-k": "model.kv_cache",
        "cache-type-v": "model.kv_cache",
        "model": "model.id",
        "alias": "model.id",
        "port": "the engine's catalog entry",
    },
    unsupported={
        r"host|api-key|api-key-file|api-prefix|ssl-.*|path|reuse-port": "probes, the gateway and the scraper "
        "would not reach the engine",
        r"model-url|docker-repo|hf-.*|models-.*|.*-default|lora|lora-scaled|lora-init-without-apply": "the "
        "plan counts on the weights in its volume",
        r"cache-ram|cpu-moe|n-cpu-.*|no-host|override-tensor|kv-offload|rpc|cache-idle-slots": "the pod's "
        "memory limit has no room for it: the container would be killed",
        r"metrics|embedding|rerank|device|sleep-idle-seconds|kv-unified.*": "probes, metrics or device "
        "assignment of the plan would no longer fit the engine",
        r"agent|tools|tools-runtime|mcp-.*|ui-mcp-proxy|media-path|slot-save-path|log-prompts-dir": "it "
        "opens the host to whoever may ask the model",
        r"help|version|cache-list|list-devices|completion-bash": "the server would print and end",
    },
)


def words(flags: Mapping[str, Value]) -> tuple[str, ...]:
    """``--name value`` for each flag, as the parser reads only two words; true is the bare flag, false its
    ``--no-`` form."""
    args: list[str] = []
    for name, value in flags.items():
        if value is True:
            args.append(f"--{name}")
        elif value is False:
            args.append(f"--no-{name}")
        else:
            args += [f"--{name}", exact(value) if isinstance(value, float) else str(value)]
    return tuple(args)


def roles(serve: Serve, env: Mapping[str, str]) -> tuple[EngineRole, ...]:
    """``server``: all layers on the GPU, one cache that the slots share; nothing is adjusted to fit."""
    flags: dict[str, Value] = {
        "model": f"{serve.path}/{TRAITS.weights_file}",
        "alias": serve.served_name,
        "gpu-layers": "all",
        "fit": "off",
        "ctx-size": min(serve.replica_tokens, serve.max_num_seqs * serve.context),
        "parallel": serve.max_num_seqs,
        "kv-unified": True,
        "cache-ram": 0,
        "batch-size": serve.batched_tokens,
        "flash-attn": "on",
        "host": "0.0.0.0",  # noqa: S104 - a pod listens on its own address
        "port": serve.port,
        "metrics": True,
        "ui": False,
        "offline": True,
        "verbosity": 2,
    }
    args = words({**flags, **serve.extra})
    role = {"role": "server", "command": COMMAND, "args": args, "env": dict(env)}
    return (EngineRole.model_validate(role),)
