"""Words and numbers as nvidia-smi writes them."""

from __future__ import annotations

from datetime import datetime

REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "display_clocks_setting",
)
REASON_BITS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}


def timestamp(moment: datetime) -> str:
    return moment.strftime("%a %b %e %H:%M:%S %Y")


def watts(value: float) -> str:
    return f"{value:.2f} W"


def yes_no(value: bool) -> str:
    return "Yes" if value else "No"


def ecc_word(value: bool | None) -> str:
    return "N/A" if value is None else "Enabled" if value else "Disabled"


mig_word = ecc_word
