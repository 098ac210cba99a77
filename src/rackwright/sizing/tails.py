"""The slow requests: 95th percentiles of the time to first token and of the time a token.

Without a queue a benchmark's times spread little: ``JITTER_*``, from the 99th percentiles that runs at low
load report. A queue in front of the prompts has an exponential tail (M/M/1: Kleinrock, Queueing Systems I,
3.2): one waits at all with probability ``busy``, and then an exponential time of mean ``mean / busy``. Where
all wait for a slot, the wait is the sum of as many departures as are ahead. Requests that came at once wait
evenly between nothing and twice the mean. A request's time a token carries the prompts that arrive while it
is answered, a Poisson number of them.
"""

from __future__ import annotations

from rackwright.sizing.arithmetic import most

NINETY_FIFTH = 1.645
"""Standard deviations from the mean to the 95th percentile of a normal distribution."""
TAIL = 20.0
"""One over the share of requests beyond the 95th percentile."""
JITTER_FIRST, JITTER_TOKEN = 1.21, 1.02
"""95th percentile over mean with no queue. 99th over mean of the 18 runs of one accelerator that prompts keep
up to 10 % busy (IOG llm-inference-benchmarks) is 1.32 and 1.03 in the median; of a lognormal spread."""


def first_p95(alone: float, queued: float, *, busy: float) -> float:
    """Seconds: ``alone`` without a queue, ``queued`` on average behind prompts that keep it ``busy``."""
    tail = queued / most(busy, 1e-9) * _log(most(TAIL * busy, 1.0))
    return alone * JITTER_FIRST + most(tail, queued)


def behind_p95(mean: float, ahead: float) -> float:
    """Seconds of waiting for ``ahead`` departures that take ``mean`` together."""
    spread: float = 1 + NINETY_FIFTH / most(ahead, 1.0) ** 0.5
    return mean * spread


def spread_p95(mean: float) -> float:
    """Seconds of a wait that is spread evenly from 0 to twice ``mean``."""
    return 1.9 * mean


def token_p95(token: float, prefill: float, prompts: float, made: float) -> float:
    """Seconds a token: ``prompts`` prompts of ``prefill`` seconds come on average within ``made`` tokens."""
    spread: float = prompts**0.5 * NINETY_FIFTH * prefill / made
    return token * JITTER_TOKEN + spread


def _log(value: float) -> float:
    """Natural logarithm of floats and arrays alike: the limit of ``(v^h - 1) / h``."""
    h = 1e-6
    power: float = value**h
    return (power - 1) / h
