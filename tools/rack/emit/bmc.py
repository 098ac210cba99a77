"""ipmitool."""

from __future__ import annotations

from collections.abc import Iterator

from tools.rack.emit.core import Recording
from tools.rack.state import HostState, Sensor

_NO_DEVICE = "Could not open device at /dev/ipmi0 or /dev/ipmi/0 or /dev/ipmidev/0: {}\n"


def recordings(state: HostState) -> Iterator[Recording]:
    bmc = state.bmc
    if bmc is None:
        return
    refusal = _NO_DEVICE.format("Permission denied")

    def record(argv: str, text: str) -> Recording:
        if not bmc.answers:
            return Recording("ipmitool", argv, stderr=_NO_DEVICE.format("No such file or directory"), rc=1)
        return Recording("ipmitool", argv, text, root=True, refusal=refusal)

    yield record("dcmi power reading", power_reading(state))
    yield record("sdr list full", "".join(_sensor(s) for s in bmc.sensors))
    supplies = [s for s in bmc.sensors if s.name.startswith("PSU") and s.name.endswith("Status")]
    yield record("sdr type Power Supply", "".join(_supply(i, s) for i, s in enumerate(supplies, 1)))
    yield record("sel elist last 200", events(state))


def power_reading(state: HostState) -> str:
    bmc = state.bmc
    assert bmc is not None
    rows = (
        ("Instantaneous power reading:", f"{bmc.power_w} Watts"),
        ("Minimum during sampling period:", f"{bmc.minimum_w} Watts"),
        ("Maximum during sampling period:", f"{bmc.maximum_w} Watts"),
        ("Average power reading over sample period:", f"{bmc.average_w} Watts"),
    )
    lines = [""]
    for name, value in rows:
        watts, unit = value.split()
        lines.append(f"    {name:<45}{watts:>6} {unit}")
    lines += [
        f"    {'IPMI timestamp:':<42}{state.now.strftime('%a %b %e %H:%M:%S %Y')}",
        f"    {'Sampling period:':<42}00000001 Seconds.",
        f"    {'Power reading state is:':<42}{'activated' if bmc.power_w else 'deactivated'}",
        "",
        "",
    ]
    return "\n".join(lines)


def _sensor(sensor: Sensor) -> str:
    if sensor.value is None:
        value = sensor.unit if sensor.status != "ns" else "no reading"
    else:
        value = f"{sensor.value:g} {sensor.unit}"
    return f"{sensor.name:<16} | {value:<17} | {sensor.status}\n"


def _supply(number: int, sensor: Sensor) -> str:
    text = {
        "ok": "Presence detected",
        "cr": "Presence detected, Power Supply AC lost",
        "ns": "No Reading",
    }.get(sensor.status, "Presence detected, Failure detected")
    return f"{sensor.name:<16} | {0x60 + number:02X}h | {sensor.status:<3} | 10.{number} | {text}\n"


def events(state: HostState) -> str:
    assert state.bmc is not None
    return "".join(
        f"{number:>4x} | {e.when.strftime('%m/%d/%Y | %H:%M:%S')} | {e.sensor} | {e.text} | "
        f"{'Asserted' if e.asserted else 'Deasserted'}\n"
        for number, e in enumerate(state.bmc.events, 1)
    )
