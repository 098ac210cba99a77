"""Prompts: passes of up to a chunk of tokens, bound by compute, or by reading the weights where short."""

from __future__ import annotations

from rackwright.sizing.arithmetic import joined, least, most, touched
from rackwright.sizing.collectives import latency_s, token_s
from rackwright.sizing.constants import Constants
from rackwright.sizing.decode import launch_s
from rackwright.sizing.work import Work


def pass_s(work: Work, c: Constants, tokens: float, context: float) -> float:
    """Seconds of a pass of ``tokens`` prompt tokens in one replica that attend to ``context`` on average."""
    rank, shards = tokens / work.dp, work.tp * work.dp
    experts = touched(work.experts, work.chosen, tokens) * work.expert_bytes / shards
    read = (work.dense_bytes / work.tp + experts) / (work.bandwidth * c.dense)
    moved = (rank * work.moved / work.tp + tokens * work.moved_experts / shards) * c.activations
    dense = 2 * rank * work.prompt_parameters / work.tp / (work.dense_flops * c.prefill_flops)
    mixed = 2 * tokens * work.expert_parameters / shards
    mixed = mixed / (work.expert_flops * c.prefill_flops * c.mixed_prefill)
    seen = (
        work.attention_prompt * least(context, work.sparse)
        + work.attention_sliding * least(context, work.window)
        + work.attention_index * context
    )
    attention = rank * seen / work.tp / (work.wide_flops * c.attention_flops)
    reduces, moves = token_s(work, c)
    talk = rank * (reduces * c.link_prefill + moves) + latency_s(work, c)
    return joined(read, dense + mixed + attention) + moved / work.bandwidth + launch_s(work, c) + talk


def share_s(work: Work, c: Constants, prompt: float) -> float:
    """Seconds of a replica that one prompt takes when passes are full; stages work side by side."""
    full = work.chunk * work.dp
    passes = pass_s(work, c, full, prompt / 2) * prompt / full / work.pp
    bubbles: float = c.stages**work.staged
    return passes * bubbles + c.request


def alone_s(work: Work, c: Constants, prompt: float) -> float:
    """Seconds of one prompt that has the replica to itself: pass after pass through every stage."""
    return pass_s(work, c, least(most(prompt, 1.0), work.chunk), prompt / 2) * most(prompt / work.chunk, 1.0)
