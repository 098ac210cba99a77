"""What the areas of other vendors share: the devices that a tool lists, and findings about each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from checks.areas._read import Context, Finding, Range, absent, applies, fault, is_number, reading, unread
from checks.commands import LSPCI
from checks.parsers import NA
from checks.registry import Command
from checks.view import HostView, NotMeasured

Device = Mapping[str, Any]
Named = list[tuple[str, Device]]
PERCENT = Range(0.0, 100.0, "%")


def listed(view: HostView, command: Command, noun: str, key: str = "devices") -> Named:
    """(``npu 3``, facts) for every device that an output shows; ``npu 3/1`` where a card has several chips.

    Raises:
        NotMeasured: it shows none, or was not understood.
    """
    found = view.facts(command).get(key) or []
    if not found:
        raise NotMeasured(f"`{command.shell}` shows no {noun}")
    cards = [d.get("index") for d in found]
    several = len(set(cards)) < len(cards)

    def name(device: Device) -> str:
        chip = f"/{device['chip']}" if several and is_number(device.get("chip")) else ""
        return f"{noun} {device['index']}{chip}"

    return [(name(device), device) for device in found]


def each(devices: Named, judge: Callable[[str, Device], Iterable[Finding]]) -> list[Finding]:
    return [finding for where, device in devices for finding in judge(where, device)]


def exactly(name: str, fact: str, want: Any) -> Callable[[str, Device], Iterable[Finding]]:
    """A judge of one fact that must read ``want`` on every device."""

    def judge(where: str, device: Device) -> Iterable[Finding]:
        value: Any = device.get(fact)
        if value is None or isinstance(value, NA):
            yield absent(where, name, value)
        elif value != want:
            yield fault(where, f"{name} is {value:g}" if is_number(value) else f"{name} is {value}")

    return judge


def at_most(
    name: str, fact: str, most: float, possible: Range, unit: str = ""
) -> Callable[[str, Device], Iterable[Finding]]:
    """A judge of one number that may not exceed ``most``."""

    def judge(where: str, device: Device) -> Iterable[Finding]:
        value: Any = device.get(fact)
        odd = reading(where, name, value, possible)
        if odd:
            yield from odd
        elif value > most:
            yield fault(where, f"{name} reads {value:g}{unit}")

    return judge


def below(
    name: str, fact: str, limit: float, possible: Range, unit: str = ""
) -> Callable[[str, Device], Iterable[Finding]]:
    """A judge of one number that must stay below ``limit``."""

    def judge(where: str, device: Device) -> Iterable[Finding]:
        value: Any = device.get(fact)
        odd = reading(where, name, value, possible)
        if odd:
            yield from odd
        elif value >= limit:
            yield fault(where, f"{name} at {value:g}{unit}")

    return judge


def at_least(
    name: str, fact: str, least: float, possible: Range, unit: str = ""
) -> Callable[[str, Device], Iterable[Finding]]:
    def judge(where: str, device: Device) -> Iterable[Finding]:
        value: Any = device.get(fact)
        odd = reading(where, name, value, possible)
        if odd:
            yield from odd
        elif value < least:
            yield fault(where, f"{name} is {value:g}{unit}")

    return judge


def on_bus(view: HostView, context: Context) -> int | None:
    """How many devices with the plan's PCI ids the bus shows; None where the plan names none.

    Raises:
        NotMeasured: the list of the bus was not understood.
    """
    ids = context.expectations.gpu.pci_ids
    devices = view.facts(LSPCI)["devices"]
    if not applies(ids):
        return None
    return sum(f"{d['vendor_id']}:{d['device_id']}" in ids for d in devices)


def counted(
    noun: str, tool: str, chips: int, seen: int | None, want: int, *, chips_wanted: int
) -> list[Finding]:
    """What differs between the tool's list, the bus and the plan; ``want`` is of cards, as on the bus."""
    found = []
    if chips != chips_wanted:
        found.append(fault("", f"{tool} shows {chips} {noun}s instead of {chips_wanted}"))
    if seen is not None and seen not in (want, chips_wanted):
        found.append(fault("", f"the PCI bus shows {seen} instead of {want}"))
    if seen is not None and chips < chips_wanted and seen in (want, chips_wanted):
        found.append(fault("", f"a {noun} is on the PCI bus that the driver does not show"))
    return found


def widest(devices: Named, fact: str) -> float | None:
    values: list[Any] = [d.get(fact) for _, d in devices]
    return max((v for v in values if is_number(v)), default=None)


def driver_of(view: HostView, commands: Sequence[Command]) -> str:
    """The driver's version.

    Raises:
        NotMeasured: no output says it.
    """
    for command in commands:
        value = view.facts(command).get("driver_version")
        if isinstance(value, str):
            return value
    raise NotMeasured(f"`{commands[0].shell}` does not say the driver's version")


def missing(where: str, name: str) -> Finding:
    return unread(where, f"{name} is not in the output")
