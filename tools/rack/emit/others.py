"""cnmon, mthreads-gmi, and macOS' own tools."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tools.rack.emit.core import Recording
from tools.rack.state import HostState


def recordings(state: HostState) -> Iterator[Recording]:
    if state.vendor == "cambricon":
        yield Recording("cnmon", "info", cnmon(state))
    elif state.vendor == "moore-threads":
        yield Recording("mthreads-gmi", "", mthreads(state))
    elif state.vendor == "apple":
        yield from macos(state)


_CN_RULE = "+-------------------------------+----------------------+-----------------------+"


def cnmon(state: HostState) -> str:
    lines = [
        "+------------------------------------------------------------------------------+",
        f"| CNMON v{state.driver:<51} Driver v{state.driver:<8} |",
        _CN_RULE,
        "| Card  VF  Name       Firmware |               Bus-Id | Util        Ecc-Error |",
        "| Fan   Temp      Pwr:Usage/Cap |         Memory-Usage | SR-IOV   Compute-Mode |",
        "|===============================+======================+=======================|",
    ]
    for d in state.devices:
        if d.listed:
            lines += [
                f"| {d.index:<5} /   {d.name:<9}    v1.1.6 |{d.pci_address.upper():>21} | "
                f"{f'{d.utilisation}%':<10}{'N/A':>11} |",
                f"|  0%   {d.temperature_c}C       {d.power_w:>4.0f} W/ 250 W |"
                f"{f'{d.memory_used_mib} MiB/ {d.memory_total_mib} MiB':>21} | N/A           Default |",
                _CN_RULE,
            ]
    return "\n".join(lines) + "\n"


_MT_RULE = "+-------------------------------------------------------------------+"


def mthreads(state: HostState) -> str:
    dashes = "-" * 69
    lines = [
        state.now.strftime("%a %b %e %H:%M:%S %Y"),
        dashes,
        f"    mthreads-gmi:2.3.2           Driver Version:{state.driver}",
        dashes,
        "ID   Name                 |PCIe                |%GPU  Mem             ",
        "     Device Type   Perf   |Pcie Lane Width     |Temp  MPC Capable     ",
        "                                               |      ECC Mode        ",
        _MT_RULE,
    ]
    for d in state.devices:
        if d.listed:
            memory = f"{d.memory_used_mib}MiB({d.memory_total_mib}MiB)"
            lines += [
                f"{d.index:<5}{d.name:<21}|{'0000' + d.pci_address:<20}|{f'{d.utilisation}%':<6}{memory}",
                f"     {'Physical':<14}{'P0':<7}|{f'{d.pcie_width}x(16x)':<20}|{d.temperature_c}C   YES",
                f"{'':<47}|      On-die, EDC",
                _MT_RULE,
            ]
    return "\n".join(lines) + "\n"


def macos(state: HostState) -> Iterator[Recording]:
    mac = state.mac
    assert mac is not None
    size = f"{mac.memory_mib // 1024} GB"
    hardware = {
        "SPDisplaysDataType": [
            {
                "_name": mac.chip, "spdisplays_mtlgpufamilysupport": mac.metal,
                "sppci_cores": "80", "sppci_device_type": "spdisplays_gpu", "sppci_model": mac.chip,
            }
        ],
        "SPHardwareDataType": [
            {
                "_name": "hardware_overview", "chip_type": mac.chip, "machine_model": "Mac15,14",
                "machine_name": "Mac Studio", "number_processors": "proc 32:24:8", "physical_memory": size,
            }
        ],
    }  # fmt: skip
    yield Recording(
        "system_profiler",
        "-json SPHardwareDataType SPDisplaysDataType",
        json.dumps(hardware, indent=2) + "\n",
    )
    version = f"ProductName:\t\tmacOS\nProductVersion:\t\t{mac.version}\nBuildVersion:\t\t24F74\n"
    yield Recording("sw_vers", "", version)
    limits = f"hw.memsize: {mac.memory_mib * 2**20}\niogpu.wired_limit_mb: {mac.wired_limit_mib}\n"
    yield Recording("sysctl", "hw.memsize iogpu.wired_limit_mb", limits)
    yield Recording(
        "pmset", "-g",
        "System-wide power settings:\nCurrently in use:\n"
        " standby              0\n Sleep On Power Button 1\n autorestart          1\n"
        f" networkoversleep     0\n disksleep            0\n sleep                {mac.sleep_minutes}\n"
        " ttyskeepawake        1\n displaysleep         10\n womp                 1\n",
    )  # fmt: skip
    yield Recording("df", f"-P -k -- {state.model_dir}", disk(state))


def disk(state: HostState) -> str:
    total, free = state.model_bytes_total // 1024, state.model_bytes_free // 1024
    return (
        "Filesystem   1024-blocks       Used Available Capacity  Mounted on\n"
        f"/dev/disk3s5 {total:>11} {total - free:>10} {free} {_used(free, total):>7}%"
        "  /System/Volumes/Data\n"
    )


def _used(free: int, total: int) -> int:
    return 100 - 100 * free // total
