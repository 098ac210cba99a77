"""Prefill and decode on GPUs of their own: prompts are computed by one pool, their cache moves to the other.

The pools run side by side, so that a request rate is the least of the prefill pool's, the decode pool's and
what the clients ask for: ``X = min(Np / P, B / (made S(B)), clients / (T0 + made S(B)))`` with P the seconds
of a prefill replica a prompt, S a decode step without prompts, and T0 a first token without a queue. Clients
beyond wait before the first token: ``clients / X - made S`` (interactive response time law: Denning and
Buzen, "The operational analysis of queueing network models", 1978).
"""

from __future__ import annotations

from dataclasses import dataclass

from rackwright.sizing import queueing, tails
from rackwright.sizing.arithmetic import least, most
from rackwright.sizing.constants import Constants
from rackwright.sizing.queueing import Served
from rackwright.sizing.work import Work


@dataclass(frozen=True)
class Pools:
    """Replicas of each pool, and bytes a second out of one prefill accelerator to the decode pool."""

    prefill: float
    decode: float
    link: float


def transfer_s(work: Work, given: float, link: float) -> float:
    """Seconds in which the cache of a prompt of ``given`` tokens moves, every rank its part at ``link`` B/s.

    Nothing of it is hidden behind the prefill: engines that send layer by layer hide most.
    """
    held = given * work.kv_held + least(given, work.window) * work.kv_sliding_held + work.state_held
    return held / link


def served(work: Work, c: Constants, pools: Pools, given: float, made: float, *, clients: float) -> Served:
    """All replicas of both pools, whose accelerators are alike. ``output``: tok/s of all; ``batch``: of one
    decode replica; ``busy``: share of time that the prefill pool works."""
    at = queueing.times(work, c, given, made)
    moved = transfer_s(work, given, pools.link)
    alone = c.first + at.alone * c.alone + moved
    most_at_once = queueing.slots(work, c, given, made)
    fastest = pools.prefill / at.prefill
    batch = most(least(clients / pools.decode, most_at_once), 1.0)
    step, rate = 0.0, 0.0
    for _ in range(2 * queueing.ROUNDS):
        step = queueing.token_s(work, c, at, batch)
        rate = least(
            least(fastest, clients / (alone + made * step)), pools.decode * most_at_once / (made * step)
        )
        batch = (batch + most(least(rate * made * step / pools.decode, most_at_once), 1.0)) / 2
    first = most(alone, clients / rate - made * step)
    busy = rate / fastest
    return Served(
        rate * made, first, step, batch, step, at.prefill, busy,
        alone * tails.JITTER_FIRST + tails.behind_p95(first - alone, rate * (first - alone)),
        step * tails.JITTER_TOKEN,
    )  # fmt: skip
