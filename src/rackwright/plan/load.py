"""The load that the plan is sized for."""

from __future__ import annotations

from rackwright.plan.base import Section


class Load(Section):
    """Peak-hour load with redundancy, and the concurrency it causes (rate × latency)."""

    scenario_factor: float
    tokens_per_day: float
    output_tokens_per_day: float
    peak_requests_per_s: float
    peak_input_tok_s: float
    peak_output_tok_s: float
    concurrency: float
