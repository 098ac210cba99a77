"""One decode step: a token for each of B sequences.

It reads the weights it touches and the cache of every sequence, and computes two FLOP a parameter and token;
memory and compute overlap partly. Of E experts a step touches ``E × (1 − (1 − k/E)^B)``. Stages work on B/PP
sequences each, one after another, so that a step passes all layers at B/PP. With drafts a sequence counts as
its verified tokens in all but the cache, which is read once.
"""

from __future__ import annotations

from rackwright.sizing.arithmetic import joined, least, most, touched
from rackwright.sizing.collectives import handover_s, latency_s, token_s
from rackwright.sizing.constants import Constants
from rackwright.sizing.work import Work


def launch_s(work: Work, c: Constants) -> float:
    """Launches and synchronisation a pass, by kind of layer."""
    return (
        work.layers * c.layer
        + work.expert_layers * c.expert_layer
        + work.linear_layers * c.linear_layer
        + work.sparse_layers * c.sparse_layer
        + work.latent_layers * c.latent_layer
    )


def cache_bytes(work: Work, context: float) -> float:
    """Bytes of cache and state that a step reads for one sequence of ``context`` tokens, over all ranks."""
    read = work.kv * least(context, work.sparse) + work.index * context
    return read + work.kv_sliding * least(context, work.window)


def step_s(work: Work, c: Constants, batch: float, context: float) -> float:
    """Seconds of a step of ``batch`` sequences of ``context`` tokens in one replica, without prefill."""
    together = most(batch / work.pp, 1.0)
    rank = most(batch / work.pp / work.dp, 1.0)
    shards = work.tp * work.dp
    together, computed = together * work.verified, rank * work.verified
    experts = touched(work.experts, work.chosen, together) * work.expert_bytes / shards
    cache = rank * (cache_bytes(work, context) / work.kv_shards + work.state / work.tp)
    moved = (computed * work.moved / work.tp + together * work.moved_experts / shards) * c.activations
    read = (
        work.dense_bytes / work.tp / c.dense + cache / c.cache + experts / c.experts + moved
    ) / work.bandwidth
    dense = 2 * computed * work.dense_parameters / work.tp / (work.dense_flops * c.decode_flops)
    mixed = (
        2 * together * work.expert_parameters / shards / (work.expert_flops * c.decode_flops * c.mixed_decode)
    )
    seen = least(context, work.sparse) * work.attention + least(context, work.window) * work.attention_sliding
    attention = computed * seen / work.tp / (work.wide_flops * c.decode_flops)
    reduces, moves = token_s(work, c)
    talk = latency_s(work, c) + computed * (reduces + moves) + handover_s(work, c, together)
    fixed = launch_s(work, c) + c.step + batch / work.dp * c.sequence
    return joined(read, dense + mixed + attention) + talk + fixed
