"""The engines that a plan can start: one module each, all with the functions of `Launcher`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from rackwright.engines import sglang, vllm
from rackwright.engines.vllm import Serve
from rackwright.errors import Problem
from rackwright.plan.deployments import EngineRole
from rackwright.plan.services import Rule, Trigger


class Launcher(Protocol):
    """What differs between engines, once the sizing has decided.

    ``roles`` spells `Serve` as command lines; ``flag_problems`` holds them against the pinned version;
    ``rules`` and ``triggers`` query what it exports.
    """

    def roles(self, serve: Serve, env: Mapping[str, str]) -> tuple[EngineRole, ...]: ...

    def flag_problems(self, version: str, parts: tuple[EngineRole, ...], where: str) -> Iterator[Problem]: ...

    def rules(
        self,
        namespace: str,
        model_name: str,
        *,
        ttft_p95_ms: float,
        tpot_p50_ms: float,
        max_num_seqs: int,
    ) -> tuple[Rule, ...]: ...

    def triggers(self, namespace: str, model_name: str, max_num_seqs: int) -> tuple[Trigger, ...]: ...


LAUNCHERS: Mapping[str, Launcher] = {"sglang": sglang, "vllm": vllm}
"""By the id of the engine's catalog entry."""
