"""The slow requests: 95th percentiles of the time to first token and of the time a token.

Without a queue a benchmark's times spread little: ``JITTER_*``, from the 99th percentiles that runs at low
load report. The wait behind other prompts is taken as exponential (heavy traffic: Kingman, "The single server
queue in heavy traffic", 1961), so that its 95th percentile is ``ln 20`` times its mean. Where all wait for a
slot, the wait is the sum of as many departures as are ahead. Requests that came at once wait evenly between
nothing and twice the mean. A request's time a token carries the prompts that arrive while it is answered, a
Poisson number of them.
"""

from __future__ import annotations

import math

from rackwright.sizing.arithmetic import most

NINETY_FIFTH = 1.645
"""Standard deviations from the mean to the 95th percentile of a normal distribution."""
EXPONENTIAL = math.log(20)
"""95th percentile over mean of an exponential distribution."""
JITTER_FIRST, JITTER_TOKEN = 1.21, 1.02
"""95th percentile over mean with no queue. 99th over mean of the 18 runs of one accelerator that prompts keep
up to 10 % busy (IOG llm-inference-benchmarks) is 1.32 and 1.03 in the median; of a lognormal spread."""


def first_p95(alone: float, queued: float) -> float:
    """Seconds: ``alone`` without a queue, ``queued`` on average behind the prompts of others."""
    return alone * JITTER_FIRST + queued * EXPONENTIAL


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
