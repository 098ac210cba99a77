"""What clients see: throughput, time to first token and time a token under four kinds of load.

A request costs the replica ``P`` (its prompt) and ``output × S/B`` (its share of B-wide steps), so that a
round of B requests takes ``W = B P + output × S``.

- ``closed``: a fixed number of clients, each sends the next request when it has its answer. A request meets
  the prompts of the B - 1 others.
- ``at_once``: a number of requests, all at time zero; the tail runs at a smaller batch.
- ``arriving``: requests at a rate; the batch follows from rate × time in the system (Little).
- ``decoding``: steps alone.
"""

from __future__ import annotations

from typing import NamedTuple

from rackwright.sizing import tails
from rackwright.sizing.arithmetic import least, most
from rackwright.sizing.constants import Constants
from rackwright.sizing.decode import step_s
from rackwright.sizing.prefill import alone_s, share_s
from rackwright.sizing.work import Work

ROUNDS = 10
"""Of the fixed point of batch and time in the system; it halves its error in each."""
MANY = 1e5
"""Requests of a load that has no end."""


class Served(NamedTuple):
    """One replica. Rates in tok/s, times in s. ``batch``: sequences a step; ``prefill``: seconds of the
    replica a prompt; ``busy``: share of time that prompts take. ``first_p95``, ``token_p95``: of a request in
    twenty and more."""

    output: float
    first: float
    token: float
    batch: float
    step: float
    prefill: float
    busy: float
    first_p95: float
    token_p95: float


class Times(NamedTuple):
    """Of one request in one replica: ``step`` as a function would be slow; seconds."""

    prefill: float
    alone: float
    speed: float
    context: float


def speed(work: Work, c: Constants) -> float:
    """Factor on every rate that is left after the physics: by kind, engine, class, and age of the version."""
    newer: float = c.newer**work.age
    return c.speed * newer


def times(work: Work, c: Constants, given: float, made: float) -> Times:
    """What a request of ``given`` and ``made`` tokens costs."""
    fast = speed(work, c)
    return Times(share_s(work, c, given) / fast, alone_s(work, c, given) / fast, fast, given + made / 2)


def slots(work: Work, c: Constants, given: float, made: float) -> float:
    """Requests that run at a time: what the cache holds, and what the engine allows."""
    free = work.memory * c.memory_share - work.held - c.reserved * 1e9 - work.workspace
    held = (
        given * work.kv_held + least(given + made / 2, work.window) * work.kv_sliding_held + work.state_held
    )
    grown = made * c.resident * work.kv_held
    capacity = most(free, 0.01 * work.memory) / (held + grown) * work.dp
    return least(most(capacity, 1.0), work.sequences * work.dp)


def token_s(work: Work, c: Constants, at: Times, batch: float) -> float:
    """Seconds a token of each sequence: a step and its drafts over the tokens that it yields."""
    bubbles: float = c.stages**work.staged * work.drafting / work.accepted
    return step_s(work, c, most(batch, 1.0), at.context) / at.speed * bubbles


def closed(work: Work, c: Constants, given: float, made: float, clients: float) -> Served:
    """``clients`` requests in the system at all times; those beyond the slots wait."""
    at = times(work, c, given, made)
    batch = most(least(slots(work, c, given, made), clients), 1.0)
    step = token_s(work, c, at, batch)
    queue, others = batch * at.prefill, (batch - 1) * at.prefill
    round_s = queue + made * step
    busy = queue / round_s
    token = step + c.interleaved * others / made
    behind: float = others * c.behind_clients * busy**c.behind_exponent
    first = c.first + step / 2 + at.alone * c.alone + behind
    output = batch * made / (first + made * token)
    beyond = most(clients - batch, 0.0)
    waiting = beyond / batch * round_s
    slow = tails.first_p95(first - behind, behind) + tails.behind_p95(waiting, beyond)
    return Served(
        output, first + waiting, token, batch, step, at.prefill, busy,
        slow, tails.token_p95(token, at.prefill, c.interleaved * (batch - 1), made),
    )  # fmt: skip


def at_once(
    work: Work, c: Constants, given: float, made: float, *, requests: float, clients: float
) -> Served:
    """``requests`` at time zero, of which at most ``clients`` are in the system."""
    at = times(work, c, given, made)
    batch = most(least(least(slots(work, c, given, made), clients), requests), 1.0)
    step = token_s(work, c, at, batch)
    queue = batch * at.prefill
    round_s = queue + made * step
    waves = requests / batch
    whole = waves // 1
    rest = requests - whole * batch
    stepped = whole * made * step + least(rest, 1.0) * made * token_s(work, c, at, rest)
    flowing = made * step * most(waves, 1.0)
    total = requests * at.prefill + (c.waves * stepped + flowing) / (1 + c.waves)
    output = requests * made / (total + c.first) * c.at_once
    full = work.chunk * work.dp
    passes = batch * given / full
    running = c.running * least(passes, made) * step
    in_first = least(batch / requests, 1.0)
    wait = in_first * (queue + running) / 2 + (1 - in_first) * round_s / 2 * (waves + 1) * c.wait_waves
    first = c.first + step / 2 + at.prefill + wait * c.wait / c.at_once
    between = least(queue / 2 / made, at.prefill * full / most(given, 1.0) * c.pass_limit)
    token = (step + between * c.between) / c.at_once
    slow = first - wait * c.wait / c.at_once + wait * c.wait / c.at_once * tails.EVENLY
    return Served(output, first, token, batch, step, at.prefill, queue / round_s, slow, token)


def arriving(work: Work, c: Constants, given: float, made: float, *, rate: float, requests: float) -> Served:
    """``requests`` that arrive at ``rate`` a second; a rate beyond capacity builds a queue."""
    at = times(work, c, given, made)
    most_at_once = least(slots(work, c, given, made), requests)
    batch = most_at_once
    for _ in range(ROUNDS):
        step = token_s(work, c, at, batch)
        inside = at.alone + made * step + c.interleaved * batch * at.prefill
        batch = (batch + least(rate * inside, most_at_once)) / 2
    batch = most(batch, 1.0)
    step = token_s(work, c, at, batch)
    queue = batch * at.prefill
    round_s = queue + made * step
    token = step + c.interleaved * queue / made
    behind = most(requests / batch * round_s - requests / rate, 0.0) / 2 * most(1 - batch / requests, 0.0)
    busy = queue / round_s
    first = c.first_arriving + step / 2 + at.alone + at.prefill * c.behind_arrivals * busy + behind
    total = most(requests / rate * c.span, requests / batch * round_s) + at.alone + made * token * c.tail
    queued: float = at.prefill * c.behind_arrivals * busy
    slow = tails.first_p95(first - behind - queued, queued) + behind * tails.EVENLY
    return Served(
        requests * made / total, first, token, batch, step, at.prefill, busy,
        slow, tails.token_p95(token, at.prefill, c.interleaved * batch, made),
    )  # fmt: skip


def decoding(work: Work, c: Constants, given: float, made: float, clients: float) -> Served:
    """Steps of ``clients`` sequences, prompts outside the time measured."""
    at = times(work, c, given, made)
    batch = most(least(slots(work, c, given, made), clients), 1.0)
    step = token_s(work, c, at, batch)
    first = c.first + at.alone * c.alone
    return Served(
        batch / step, first, step, batch, step, at.prefill, 0.0,
        tails.first_p95(first, 0.0), step * tails.JITTER_TOKEN,
    )  # fmt: skip
