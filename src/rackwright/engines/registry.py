"""The engines that a plan can start: one module each, with the parts of `Launcher`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rackwright.catalog import EngineEntry
from rackwright.engines import launch, llama_cpp, sglang, tgi, vllm, vllm_ascend, vllm_rocm
from rackwright.engines.launcher import Launcher
from rackwright.errors import Problem
from rackwright.plan.deployments import EngineRole

LAUNCHERS: Mapping[str, Launcher] = {
    "llama.cpp": llama_cpp,
    "sglang": sglang,
    "tgi": tgi,
    "vllm": vllm,
    "vllm-ascend": vllm_ascend,
    "vllm-rocm": vllm_rocm,
}
"""By the id of the engine's catalog entry."""


def matrix_of(engine: str) -> str:
    """The engine whose matrix judges ``engine``: a variant speaks as the one that it is built from."""
    known = LAUNCHERS.get(engine)
    return known.TRAITS.matrix if known is not None else engine


def flag_problems(engine: str, version: str, parts: tuple[EngineRole, ...], where: str) -> Iterator[Problem]:
    """What the pinned version would not accept of the command lines and variables of ``parts``."""
    return launch.flag_problems(matrix_of(engine), version, parts, where)


def scrape_labels(engine: str) -> tuple[str, ...]:
    """Labels that the scrape puts on the series of ``engine``, which does not export them itself."""
    known = LAUNCHERS.get(engine)
    return ("model_name",) if known is not None and not known.TRAITS.labels_model else ()


def spans(engine: EngineEntry) -> str:
    """How far a replica of ``engine`` reaches: ``gpu``, ``node`` or ``nodes``."""
    known = LAUNCHERS.get(engine.id)
    return known.TRAITS.spans if known is not None else "nodes" if engine.multi_node else "node"


def ranks(engine: EngineEntry) -> bool:
    """Whether ranks of a replica of ``engine`` can attend to requests of their own and share the experts."""
    known = LAUNCHERS.get(engine.id)
    return known is not None and known.TRAITS.ranks


def loads(engine: EngineEntry) -> tuple[str, ...]:
    """Precisions of weights that ``engine`` loads: what its module starts, else what its entry says."""
    known = LAUNCHERS.get(engine.id)
    return known.TRAITS.loads if known is not None else engine.supports


def batched_flag(engine: str) -> str:
    """The flag by which a person sets the tokens of one engine step; empty where there is none."""
    known = LAUNCHERS.get(engine)
    return known.OWNED.batched if known is not None else ""
