"""Time of communication inside a replica.

Tensor parallelism: two all-reduces a layer, ``2 (n−1)/n`` of the activations over the link,
and over nodes at the rate of all ports of a node. Attention in
parallel by data, experts spread over the ranks: a dispatch and a combine a layer of experts; a token goes
once to every rank that holds one of its experts, ``(n−1) (1 − (1 − 1/n)^k)`` ranks on average. Stages hand
over activations once.
"""

from __future__ import annotations

from rackwright.sizing.constants import Constants
from rackwright.sizing.work import Work

DISPATCH_BYTES = 1.5
"""Bytes a value, mean of dispatch (8 bit) and combine (16 bit)."""


def token_s(work: Work, c: Constants) -> tuple[float, float]:
    """Seconds a token of one rank: all-reduces, dispatches; without latency."""
    reduces = work.reduces * work.hidden * 2 * 2 * (work.tp - 1) / work.tp / (work.link * c.link)
    moves = work.dispatches * work.hidden * work.copies * DISPATCH_BYTES
    moves = moves / (work.dispatch_link * c.link * c.dispatch)
    return reduces, moves


def latency_s(work: Work, c: Constants) -> float:
    """Seconds a pass, however few its tokens."""
    return c.hop * (work.reduces + work.dispatches * c.dispatch_hop)


def handover_s(work: Work, c: Constants, tokens: float) -> float:
    """Seconds of handing ``tokens`` tokens from stage to stage, all stages."""
    return (work.pp - 1) * (c.hop + tokens * work.hidden * 2 / work.stage_link)
