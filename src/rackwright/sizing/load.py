"""From users to load: the arithmetic of the hardware-selection guide, kept exactly.

    tokens a day         = DAU × sessions a day × (input + output) × scenario factor
    output tokens a day  = DAU × sessions a day × output × scenario factor
    peak output tok/s    = output tokens a day × peak-hour share / 3600 × redundancy

Users are those at the end of the stated growth; the peak hour is stated, or the busiest of a profile.
At its defaults (20 sessions, 1,400 in and 600 out, 15 %, 1.5) a thousand users give 750 tok/s.
The factor and, with ``users.preset: scenario``, the lengths are those of the scenario's entry in the catalog.
Concurrency is not ``peak / 40 tok/s``, which holds only at 25 ms a token: it is rate × latency.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rackwright.catalog import load_catalog
from rackwright.workload import Users, Workload

SECONDS_AN_HOUR = 3600


@dataclass(frozen=True)
class Demand:
    """What must be served in the peak hour, redundancy included. Rates a second, tokens a request."""

    factor: float
    tokens_per_day: float
    output_tokens_per_day: float
    requests_per_s: float
    input_tok_s: float
    output_tok_s: float
    input_tokens: float
    output_tokens: float


def lengths(users: Users) -> tuple[float, float]:
    """Tokens of a prompt and of an answer: those given, else the means published for the scenario."""
    entry = load_catalog().scenario(users.scenario)
    given, made = users.input_per_session, users.output_per_session
    return (
        entry.input.mean.value if given is None else given,
        entry.output.mean.value if made is None else made,
    )


def factor_of(users: Users) -> float:
    """Tokens relative to the guide's product; 1 where lengths are the scenario's own."""
    return load_catalog().scenario(users.scenario).factor.value if users.preset == "guide" else 1.0


def demand(workload: Workload) -> Demand:
    """The peak-hour demand of ``workload``. A session is one request with its input and output."""
    users = workload.users
    factor = Fraction(str(factor_of(users)))
    sessions = Fraction(str(users.carried)) * Fraction(str(users.sessions_per_day)) * factor
    share = Fraction(str(users.peak_share)) / SECONDS_AN_HOUR * Fraction(str(workload.redundancy))
    given, made = (Fraction(str(length)) for length in lengths(users))
    return Demand(
        factor=float(factor),
        tokens_per_day=float(sessions * (given + made)),
        output_tokens_per_day=float(sessions * made),
        requests_per_s=float(sessions * share),
        input_tok_s=float(sessions * share * given),
        output_tok_s=float(sessions * share * made),
        input_tokens=float(given),
        output_tokens=float(made),
    )
