"""vLLM on AMD's accelerators: vLLM's own command lines in an image built for ROCm.

Source: the release's image of its makers, ``vllm/vllm-openai-rocm``, in which the same program parses the
same flags; the matrix of the version was extracted with the platform fixed to CUDA, so that choices of a
platform's own kernels are not judged. RCCL reads NCCL's variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rackwright.engines import vllm
from rackwright.engines.launcher import Serve, Value
from rackwright.plan.deployments import EngineRole

NAMES = vllm.NAMES
OWNED = vllm.OWNED
TRAITS = replace(
    vllm.TRAITS,
    ranks=False,
    fixed_cache=False,
    loads=("bf16", "fp8", "int4", "mxfp4"),
)
ENVIRONMENT = {"VLLM_ROCM_USE_AITER": "1"}
"""AMD's own kernels, which the release leaves off."""


def words(flags: Mapping[str, Value]) -> tuple[str, ...]:
    return vllm.words(flags)


def roles(serve: Serve, env: Mapping[str, str]) -> tuple[EngineRole, ...]:
    """As vLLM's, with AMD's kernels on."""
    return vllm.roles(serve, {**ENVIRONMENT, **env})
