"""The slow requests: 95th percentiles of the time to first token and of the time a token.

Without a queue a benchmark's times spread little: ``JITTER_*``, from the 99th percentiles that runs at low
load report. The wait behind other prompts is spread evenly between nothing and twice its mean, as where
prompts come in waves and are served in order: runs at 32 requests a second report 99th percentiles of 2.0 to
2.7 times the mean, of an exponential wait they would be 4.6. Where all wait for a slot, the wait is the sum
of as many departures as are ahead. A request's time a token carries the prompts that arrive while it is
answered, a Poisson number of them.
"""

from __future__ import annotations

from rackwright.sizing.arithmetic import most

NINETY_FIFTH = 1.645
"""Standard deviations from the mean to the 95th percentile of a normal distribution."""
EVENLY = 1.9
"""95th percentile over mean of a wait that is spread evenly from 0 to twice its mean."""
JITTER_FIRST, JITTER_TOKEN = 1.21, 1.02
"""95th percentile over mean with no queue. 99th over mean of the 18 runs of one accelerator that prompts keep
up to 10 % busy (IOG llm-inference-benchmarks) is 1.32 and 1.03 in the median; of a lognormal spread."""


def first_p95(alone: float, queued: float) -> float:
    """Seconds: ``alone`` without a queue, ``queued`` on average behind the prompts of others."""
    return alone * JITTER_FIRST + queued * EVENLY


def behind_p95(mean: float, ahead: float) -> float:
    """Seconds of waiting for ``ahead`` departures that take ``mean`` together."""
    spread: float = 1 + NINETY_FIFTH / most(ahead, 1.0) ** 0.5
    return mean * spread


def token_p95(token: float, prefill: float, prompts: float, made: float) -> float:
    """Seconds a token: ``prompts`` prompts of ``prefill`` seconds come on average within ``made`` tokens."""
    spread: float = prompts**0.5 * NINETY_FIFTH * prefill / made
    return token * JITTER_TOKEN + spread
