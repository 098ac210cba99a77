"""Which engine for which model, hardware and demand: the guides' rules, each with its reason.

A rule either leaves only its engines, or puts them first. Where the engine is left open (``engine: auto``),
every engine that a rule names and none bars is sized and the objective decides; the order here only breaks
ties.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rackwright.catalog import Accelerator, EngineEntry, ModelEntry
from rackwright.workload import Requirements

GUIDE = "hardware-selection guide, engines; infrastructure guide, when to choose which"


_GGUF = re.compile(r"q[2-8]_(k_[sml]|k|0|1)")
"""Names of llama.cpp's own precisions."""


@dataclass(frozen=True)
class Case:
    """What the rules look at. ``edge``: a module for devices, not a card for servers."""

    encoder_decoder: bool = False
    mixture: bool = False
    vendor: str = "nvidia"
    edge: bool = False
    reproducible: bool = False
    research: bool = False
    gguf: bool = False


@dataclass(frozen=True)
class ChoiceRule:
    """``only``: other engines are refused; else its engines are merely preferred. ``engines``: best first."""

    id: str
    when: str
    engines: tuple[str, ...]
    kind: Literal["only", "prefer", "never"]
    why: str
    source: str
    applies: Callable[[Case], bool]


RULES: tuple[ChoiceRule, ...] = (
    ChoiceRule(
        "research-only",
        "anything that serves users",
        ("transformers",),
        "never",
        "it is a library for research: hooks cost about 30 % and nothing schedules requests",
        GUIDE,
        lambda case: not case.research,
    ),
    ChoiceRule(
        "encoder-decoder",
        "an encoder-decoder model such as T5",
        ("tgi", "transformers"),
        "only",
        "engines for decoder-only models refuse it",
        GUIDE,
        lambda case: case.encoder_decoder,
    ),
    ChoiceRule(
        "reproducible",
        "answers that must be the same bit for bit",
        ("trtllm",),
        "only",
        "its kernels are chosen when the engine is built, not when a request comes",
        GUIDE,
        lambda case: case.reproducible,
    ),
    ChoiceRule(
        "gguf",
        "weights in a GGUF file",
        ("llama.cpp", "ollama", "lm-studio"),
        "only",
        "GGUF is llama.cpp's format",
        GUIDE,
        lambda case: case.gguf,
    ),
    ChoiceRule(
        "ascend",
        "accelerators of Huawei",
        ("mindie", "vllm-ascend"),
        "only",
        "no other engine has kernels for Ascend; MindIE is first class for DeepSeek, Qwen and GLM",
        GUIDE,
        lambda case: case.vendor == "huawei",
    ),
    ChoiceRule(
        "rocm",
        "accelerators of AMD",
        ("vllm-rocm", "sglang", "llama.cpp", "tgi", "transformers", "ollama", "lm-studio"),
        "only",
        "vLLM has an image of its own for ROCm; what has none does not start there",
        GUIDE,
        lambda case: case.vendor == "amd",
    ),
    ChoiceRule(
        "apple",
        "Apple's machines",
        ("mlx", "llama.cpp", "ollama", "lm-studio", "transformers"),
        "only",
        "no CUDA and no ROCm: MLX and llama.cpp use Metal",
        GUIDE,
        lambda case: case.vendor == "apple",
    ),
    ChoiceRule(
        "research",
        "research with hooks into attention",
        ("transformers",),
        "prefer",
        "its modules can be hooked",
        GUIDE,
        lambda case: case.research,
    ),
    ChoiceRule(
        "edge",
        "a module for devices, such as Jetson",
        ("llama.cpp",),
        "prefer",
        "small, quick to start, GGUF in four and five bits",
        GUIDE,
        lambda case: case.edge,
    ),
    ChoiceRule(
        "mixture",
        "a mixture of experts, DeepSeek above all",
        ("sglang",),
        "prefer",
        "first choice for mixtures of experts",
        GUIDE,
        lambda case: case.mixture,
    ),
    ChoiceRule(
        "default",
        "a decoder-only model",
        ("vllm", "vllm-rocm", "sglang"),
        "prefer",
        "the default for decoder-only models, with the API of OpenAI",
        GUIDE,
        lambda case: not case.encoder_decoder,
    ),
)


def case_of(
    model: ModelEntry,
    accelerator: Accelerator | None,
    asked: Requirements | None,
    quantisation: str | None = None,
) -> Case:
    """What the rules look at, from the entries and the demand."""
    return Case(
        encoder_decoder=model.encoder_decoder,
        mixture=model.experts is not None,
        vendor=accelerator.vendor if accelerator is not None else "nvidia",
        edge=accelerator is not None and accelerator.id.startswith("jetson"),
        reproducible=asked is not None and asked.reproducible,
        research=asked is not None and asked.purpose == "research",
        gguf=quantisation is not None and _GGUF.fullmatch(quantisation) is not None,
    )


def barring(engine: str, case: Case) -> Iterator[ChoiceRule]:
    """Rules that bar ``engine`` in ``case``."""
    for rule in RULES:
        if rule.kind == "prefer" or not rule.applies(case):
            continue
        if (engine in rule.engines) == (rule.kind == "never"):
            yield rule


def allowed(case: Case, engines: Iterable[EngineEntry]) -> list[EngineEntry]:
    """Engines that no rule bars, the preferred ones first."""
    open_to = [engine for engine in engines if not list(barring(engine.id, case))]
    return sorted(open_to, key=lambda engine: (rank(engine.id, case), engine.id))


def named(case: Case, engines: Iterable[EngineEntry]) -> list[EngineEntry]:
    """`allowed`, of which a rule speaks for each."""
    return [engine for engine in allowed(case, engines) if reason(engine.id, case) is not None]


def rank(engine: str, case: Case) -> int:
    """Place of ``engine`` among those that the rules prefer; those that none names come last."""
    spoken = [name for rule in RULES if rule.kind != "never" and rule.applies(case) for name in rule.engines]
    order = list(dict.fromkeys(spoken))
    return order.index(engine) if engine in order else len(order)


def reason(engine: str, case: Case) -> ChoiceRule | None:
    """The first rule that speaks for ``engine``."""
    speaking = (r for r in RULES if r.kind != "never" and r.applies(case) and engine in r.engines)
    return next(speaking, None)


def verdict(engine: str, case: Case, engines: Iterable[EngineEntry]) -> str:
    """What the rules say of ``engine``, which the objective chose, against what they prefer."""
    first = next((e.id for e in allowed(case, engines) if e.launchable), engine)
    rule = reason(first, case)
    if rule is None:
        return f"no rule of the guides prefers an engine to {engine} here"
    chosen = "it too" if first == engine else first
    return f"the guides would take {chosen} for {rule.when}: {rule.why}"
