"""LoRA on the command lines of the engines that serve adapters.

Sources: vLLM 0.33 (``--max-lora-rank`` takes certain ranks only; the resolver plugin, which needs runtime
updating and compares ``base_model_name_or_path``), SGLang 0.5.23 (``--lora-paths``).
"""

from __future__ import annotations

from collections.abc import Sequence

from rackwright.plan.adapters import AdapterSet
from rackwright.plan.deployments import EngineRole

VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
ENGINES = ("vllm", "sglang")
HOT_SWAP = ("vllm",)
"""Engines that find adapters by name in a directory; SGLang has to be told on every pod."""
ROUTED = ("vllm",)
"""Engines that export which adapters a replica holds (``vllm:lora_requests_info``)."""
MOST_RANK = VLLM_RANKS[-1]


def max_rank(engine: str, ranks: Sequence[int]) -> int:
    """The rank of every slot: the largest of the set, rounded up to what the engine takes."""
    most = max(ranks)
    return next(rank for rank in VLLM_RANKS if rank >= most) if engine == "vllm" else most


def with_adapters(engine: str, roles: Sequence[EngineRole], found: AdapterSet) -> tuple[EngineRole, ...]:
    """``roles`` that serve ``found``: every rank of a replica holds the slots."""
    args, env = (_vllm if engine == "vllm" else _sglang)(found)
    return tuple(
        role.model_copy(update={"args": (*role.args, *args), "env": {**role.env, **env}}) for role in roles
    )


def _vllm(found: AdapterSet) -> tuple[tuple[str, ...], dict[str, str]]:
    args = (
        "--enable-lora",
        f"--max-loras={found.active}",
        f"--max-cpu-loras={found.cached}",
        f"--max-lora-rank={found.max_rank}",
    )
    if found.hot_swap:
        return args, {
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "true",
            "VLLM_PLUGINS": "lora_filesystem_resolver",
            "VLLM_LORA_RESOLVER_CACHE_DIR": found.directory,
        }
    return (*args, "--lora-modules", *_named(found)), {}


def _sglang(found: AdapterSet) -> tuple[tuple[str, ...], dict[str, str]]:
    return (
        "--enable-lora",
        f"--max-loras-per-batch={found.active}",
        f"--max-loaded-loras={found.cached}",
        f"--max-lora-rank={found.max_rank}",
        "--lora-target-modules",
        "all",
        "--lora-paths",
        *_named(found),
    ), {}


def _named(found: AdapterSet) -> tuple[str, ...]:
    return tuple(f"{adapter.name}={adapter.path}" for adapter in found.adapters)
