"""What serving LoRA adapters beside their model brings with it."""

from __future__ import annotations

from rackwright.sizing.cautions.base import Finding, Rule, Sized, many

VLLM = "vLLM: LoRA resolver plugins; lora/layers"


def adapters_unproven(s: Sized) -> Finding | None:
    """Adapters whose files no manifest proves."""
    asked = s.workload.model.adapters
    bare = [each.name for each in asked.set if each.manifest is None] if asked else []
    if not bare:
        return None
    return (
        "warn",
        f"No manifest is pinned of {many(len(bare), 'adapter')}: an adapter is identified by the SHA-256 of "
        "its files, not by its name. Write one with sha256sum over them and put its digest under manifest.",
        "input",
        "deployment checklist: weights proven by SHA-256",
    )


def adapters_not_measured(s: Sized) -> Finding | None:
    """Bytes and FLOP of adapters are counted, kernels are not."""
    asked, slots = s.workload.model.adapters, s.chosen.candidate.shape.lora
    if asked is None or slots is None:
        return None
    return (
        "warn",
        f"{many(slots.count, 'slot')} of rank {slots.rank} are counted in memory and in the bytes and FLOP "
        "of every step, all in use; the kernels' own overhead is not known. Measure with as many in use.",
        "extrapolated",
        VLLM,
    )


def adapters_cut_batches(s: Sized) -> Finding | None:
    """A batch holds as many adapters as there are slots."""
    asked = s.workload.model.adapters
    if asked is None or asked.active >= len(asked.set):
        return None
    return (
        "info",
        f"{len(asked.set)} adapters share {many(asked.active, 'slot')}: a request for another one waits "
        "until a slot is free. Requests are routed to replicas that hold their adapter; raise "
        "model.adapters.active if many are in use at once.",
        "plan",
        VLLM,
    )


def adapters_swapped_at_run_time(s: Sized) -> Finding | None:
    """What lies in the directory is served."""
    asked = s.workload.model.adapters
    if asked is None or not asked.hot_swap:
        return None
    return (
        "warn",
        "Any adapter put into the volume is served by its folder's name, without a restart and without the "
        "check of its manifest that pods make at their start: let only the staging job write there, and "
        "prove what it stages. Its adapter_config.json must name the base by the engine's path of it.",
        "plan",
        VLLM,
    )


RULES: tuple[Rule, ...] = (
    adapters_unproven,
    adapters_not_measured,
    adapters_swapped_at_run_time,
    adapters_cut_batches,
)
