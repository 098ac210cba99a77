"""vLLM on Ascend: the plugin vllm-ascend, released for one version of vLLM and parsed by it.

Source: version 0.23.0 of the plugin requires vLLM of the same number, whose matrix judges the command line.
That version knows no limit of waiting requests; the gateway's time-out is what ends them. Driver and
libraries are put into the pod by the Ascend runtime that the device plugin calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rackwright.engines import vllm
from rackwright.engines.launcher import Serve, Value
from rackwright.plan.deployments import EngineRole

NAMES = vllm.NAMES
YOUNGER = frozenset({"max-num-active-seqs", "max-num-queued-reqs", "max-num-queued-tokens"})
"""Flags that the current vLLM has and this version does not."""
OWNED = replace(
    vllm.OWNED,
    owners={name: owner for name, owner in vllm.OWNED.owners.items() if name not in YOUNGER},
)
TRAITS = replace(
    vllm.TRAITS,
    spans="node",
    ranks=False,
    fixed_cache=False,
    loads=("bf16", "int8"),
    fp8_cache=False,
    processes=("VLLM::", "vllm"),
)
ABSENT = tuple(f"--{name}" for name in sorted(YOUNGER))


def words(flags: Mapping[str, Value]) -> tuple[str, ...]:
    return vllm.words(flags)


def roles(serve: Serve, env: Mapping[str, str]) -> tuple[EngineRole, ...]:
    """As vLLM's, without what its older version lacks."""
    return tuple(
        role.model_copy(update={"args": tuple(w for w in role.args if not w.startswith(ABSENT))})
        for role in vllm.roles(serve, env)
    )
