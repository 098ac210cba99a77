"""At which load a capture was taken: derived from the GPUs' utilisation, never claimed by a person."""

from __future__ import annotations

import re
from collections.abc import Sequence

from checks.areas._read import Context, applies, csv_rows, leaf
from checks.commands import SMI_LOAD
from checks.view import HostView
from rackwright.verdict import Load

IDLE_PERCENT = 10.0
"""At or below it on every GPU a host is idle."""


def utilisation(view: HostView) -> dict[str, float | None]:
    """Per cent by GPU; None where the tool printed no number (as under MIG), or one that is no share.

    Raises:
        NotMeasured: the reading is not in the capture.
    """
    rows = csv_rows(view, SMI_LOAD)
    return {
        f"gpu {row.get('index', n)}": _percent(row.get("utilization.gpu", "")) for n, row in enumerate(rows)
    }


def _percent(text: str) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", text)
    value = float(match.group(1)) if match else None
    return value if value is not None and value <= 100.0 else None


def load_of(view: HostView, context: Context) -> Load:
    """Full where every GPU is at the plan's utilisation, idle where none is above 10 %, else partial.

    A planned GPU whose utilisation is unknown keeps a host from counting as full or idle.

    Raises:
        NotMeasured: no utilisation in the capture, or no threshold in the plan.
    """
    values = list(utilisation(view).values())
    threshold = leaf(context, "power.full_load_gpu_utilisation")
    known = [v for v in values if v is not None]
    if len(known) < max(len(values), context.expectations.gpu.count):
        return Load.PARTIAL
    if known and max(known) <= IDLE_PERCENT:
        return Load.IDLE
    if known and applies(threshold) and min(known) >= threshold * 100.0:
        return Load.FULL
    return Load.PARTIAL


def least(loads: Sequence[Load]) -> Load:
    """The load that a sum over several hosts may claim: the lowest among them, mixed is partial."""
    kinds = set(loads)
    return kinds.pop() if len(kinds) == 1 else Load.PARTIAL
