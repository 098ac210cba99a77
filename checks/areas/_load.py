"""At which load a capture was taken: derived from the GPUs' utilisation, never claimed by a person."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from checks.areas._read import Context, applies, csv_rows, is_number, leaf
from checks.commands import SMI_LOAD
from checks.vendor_commands import AMD_METRIC, CNMON, MTHREADS, NPU_INFO, ROCM_SMI
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


_OTHERS = {
    "amd": (("gpus", AMD_METRIC), ("gpus", ROCM_SMI)),
    "huawei": (("devices", NPU_INFO),),
    "cambricon": (("devices", CNMON),),
    "moore-threads": (("devices", MTHREADS),),
}
LOAD_TOOLS = (SMI_LOAD, *(command for tools in _OTHERS.values() for _, command in tools))
"""What a check declares that asks for the load; a host is asked its own vendor's."""


def _utilisation_of(view: HostView, vendor: str) -> dict[str, float | None]:
    """As :func:`utilisation`, of the vendor's tool: the first that the host has."""
    if vendor == "nvidia":
        return utilisation(view)
    tools = _OTHERS.get(vendor, ())
    for key, command in tools:
        if view.output(command).state != "missing" or command == tools[-1][1]:
            values = [d.get("utilisation_percent") for d in view.facts(command)[key] or ()]
            return {f"device {n}": _share(value) for n, value in enumerate(values)}
    return {}


def _share(value: Any) -> float | None:
    return float(value) if is_number(value) and 0 <= value <= 100 else None


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
    gpu, device = context.expectations.gpu, context.expectations.device
    values = list(_utilisation_of(view, gpu.vendor).values())
    chips = device.chips if device is not None and isinstance(device.chips, int) else gpu.count
    threshold = leaf(context, "power.full_load_gpu_utilisation")
    known = [v for v in values if v is not None]
    if len(known) < max(len(values), chips):
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
