"""Checks of Apple machines: macOS over SSH, with its own tools only."""

from __future__ import annotations

from typing import Any

from checks.areas._read import Range, absent, at_least, fault, is_number, reading, unread, verdict
from checks.registry import Command, check
from checks.vendor_commands import MAC_DISK, MAC_HARDWARE, MAC_LIMITS, MAC_POWER, MAC_VERSION
from checks.view import HostView, NotMeasured
from rackwright.verdict import Outcome, Severity

_BYTES = Range(2**20, 2**60, "bytes")


def _limit(view: HostView, name: str, command: Command = MAC_LIMITS) -> int:
    value = view.facts(command)["values"].get(name)
    if not isinstance(value, int):
        raise NotMeasured(f"`{command.shell}` does not say {name}")
    return value


@check(
    id="mac-model",
    title="Chip as planned",
    severity=Severity.CRITICAL,
    commands=[MAC_HARDWARE],
    expects="gpu.product",
    remedy="system_profiler SPHardwareDataType"
    "  # another machine stands here: exchange it, or correct the plan",
    reversible=False,
    source="system_profiler chip_type; exact names (gpud#1206): M3 Max is not M3 Ultra",
)
def model(view: HostView, want: str) -> Outcome:
    """Max and Ultra differ by half of the memory bandwidth, and so does every planned rate."""
    chip = view.facts(MAC_HARDWARE)["chip"]
    if not isinstance(chip, str):
        return verdict([absent("", "chip_type", chip)], actual="unknown", expected=want)
    found = [] if chip == want else [fault("", f"the chip is {chip}")]
    return verdict(found, actual=chip, expected=want)


@check(
    id="mac-memory",
    title="Unified memory as planned",
    severity=Severity.CRITICAL,
    commands=[MAC_LIMITS, MAC_HARDWARE],
    expects="device.memory_min_mib",
    remedy="sysctl hw.memsize  # memory cannot be added: another machine, or another plan",
    reversible=False,
    source="sysctl hw.memsize; two sources must agree",
)
def memory(view: HostView, want: int) -> Outcome:
    """Weights, KV cache and the system share this memory; it was bought with the machine and cannot grow."""
    size = _limit(view, "hw.memsize")
    found = reading("", "hw.memsize", size, _BYTES)
    mib = size // 2**20
    said = view.facts(MAC_HARDWARE)["memory_mib"]
    if not is_number(said):
        found.append(absent("", "physical_memory", said))
    elif not found and abs(said - mib) > 0.05 * mib:
        found.append(unread("", f"sysctl says {mib} MiB, system_profiler {said} MiB"))
    if not found and mib < want:
        found.append(fault("", f"{mib} MiB"))
    return verdict(found, actual=f"{mib} MiB", expected=f"≥ {want} MiB")


@check(
    id="mac-version",
    title="macOS new enough",
    severity=Severity.MAJOR,
    commands=[MAC_VERSION],
    expects="device.driver_min",
    remedy="sudo softwareupdate --install --all --restart",
    reversible=False,
    source="iogpu.wired_limit_mb exists since macOS 14; MLX asks for macOS 14",
)
def version(view: HostView, want: str) -> Outcome:
    """The driver of the GPU comes with the system: an older one lacks kernels that MLX uses, or the switch
    for the memory that the GPU may wire."""
    seen = view.facts(MAC_VERSION)["version"]
    if not isinstance(seen, str):
        raise NotMeasured("`sw_vers` does not say the version")
    found = [] if at_least(seen, want) else [fault("", f"macOS {seen} is older than {want}")]
    return verdict(found, actual=seen, expected=f"≥ {want}")


@check(
    id="mac-wired-limit",
    title="GPU may wire the planned memory",
    severity=Severity.CRITICAL,
    commands=[MAC_LIMITS],
    expects="device.wired_limit_min_mib",
    remedy="sudo sysctl iogpu.wired_limit_mb=MIB"
    "  # MIB: the plan's expectations.<pool>.device.wired_limit_min_mib, or 0; it is lost at reboot",
    reversible=True,
    source="llama.cpp and MLX documentation of iogpu.wired_limit_mb",
)
def wired_limit(view: HostView, want: int) -> Outcome:
    """A limit below the plan's makes the engine fail while it loads; 0 leaves the system's own, which the
    plan was sized with."""
    limit = _limit(view, "iogpu.wired_limit_mb")
    found = []
    if limit < 0:
        found.append(unread("", f"iogpu.wired_limit_mb reads {limit}, which is implausible"))
    elif 0 < limit < want:
        found.append(fault("", f"iogpu.wired_limit_mb is {limit}"))
    actual = f"{limit} MiB" if limit else "the system's own"
    return verdict(found, actual=actual, expected=f"≥ {want} MiB, or the system's own")


@check(
    id="mac-sleep",
    title="The machine does not go to sleep",
    severity=Severity.CRITICAL,
    commands=[MAC_POWER],
    expects="device.sleep",
    remedy="sudo pmset -a sleep 0 disksleep 0 autorestart 1",
    reversible=True,
    source="pmset(1); preflight practice for Macs as servers",
)
def sleep(view: HostView, want: bool) -> Outcome:
    """A Mac leaves the factory to sleep when nobody types: the engine then stops at night."""
    minutes = view.facts(MAC_POWER)["settings"].get("sleep")
    if not isinstance(minutes, int):
        raise NotMeasured("`pmset -g` does not say sleep")
    asleep = minutes > 0
    found = [fault("", f"it sleeps after {minutes} min")] if asleep and not want else []
    return verdict(found, actual=f"sleep {minutes}", expected="sleep 0" if not want else "any")


@check(
    id="mac-disk",
    title="Free disk for twice the weights",
    severity=Severity.CRITICAL,
    commands=[MAC_DISK],
    expects="device.disk_free_min_bytes",
    remedy='du -sh "$MODEL_DIR"/*; rm -r OLD  # or name a larger volume in site.model_dir',
    reversible=False,
    source="deployment checklist, hardware: free space > 2 × all model weights",
    ids=["H6"],
)
def disk(view: HostView, want: int) -> Outcome:
    """A new version of the weights is loaded beside the old one before traffic moves."""
    values = view.facts(MAC_DISK)
    free: Any = next((d["available_bytes"] for d in values["filesystems"]), None)
    if not is_number(free):
        raise NotMeasured(f"`{MAC_DISK.shell}` does not say the free space")
    found = [] if free > want else [fault("", f"{free / 1e9:.0f} GB free")]
    return verdict(found, actual=f"{free / 1e9:.0f} GB free", expected=f"> {want / 1e9:.0f} GB")
