"""npu-smi and hccn_tool, as driver 24.1 prints them."""

from __future__ import annotations

from collections.abc import Iterator

from tools.rack.devices import Accelerator
from tools.rack.emit.core import Recording
from tools.rack.state import HostState

_RULE = "+---------------------------+---------------+----------------------------------------------------+"
_THICK = "+===========================+===============+====================================================+"


def recordings(state: HostState) -> Iterator[Recording]:
    if state.vendor != "huawei":
        return
    yield Recording("npu-smi", "info", table(state))
    yield Recording("npu-smi", "info -m", mapping(state))
    for d in state.devices:
        if d.listed:
            yield Recording("npu-smi", f"info -t ecc -i {d.index} -c 0", ecc(d))
        yield Recording("hccn_tool", f"-i {d.index} -link -g", link(d), root=True, refusal="not permitted\n")
        yield Recording("hccn_tool", f"-i {d.index} -net_health -g", net_health(d), root=True)


def table(state: HostState) -> str:
    lines = [
        "+" + "-" * 96 + "+",
        f"| npu-smi {state.driver:<24} Version: {state.driver:<53} |",
        _RULE,
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        _THICK,
    ]
    for d in state.devices:
        if not d.listed:
            continue
        lines += [
            f"| {d.index:<5} {d.name:<19} | {d.health:<13} | {d.power_w:<11} {d.temperature_c:<17} "
            f"{'0    / 0':<21}|",
            f"| {0:<25} | {d.pci_address.upper():<13} | {d.utilisation:<11} {'0    / 0':<17} "
            f"{f'{d.memory_used_mib}/ {d.memory_total_mib}':<21}|",
            _THICK,
        ]
    return "\n".join(lines) + "\n"


def mapping(state: HostState) -> str:
    names = ("NPU ID", "Chip ID", "Chip Logic ID")
    head = "\t" + " ".join(f"{name:<30}" for name in names) + " Chip Name\n"
    rows = []
    for d in state.devices:
        if d.listed:
            rows.append(f"\t{d.index:<30} {0:<30} {d.index:<30} Ascend {d.name}\n")
            rows.append(f"\t{d.index:<30} {1:<30} {'-':<30} Mcu\n")
    return head + "".join(rows)


def ecc(d: Accelerator) -> str:
    rows = (
        ("NPU ID", d.index),
        ("HBM Single Bit Error Count", d.corrected),
        ("HBM Double Bit Error Count", d.uncorrected),
        ("HBM Single Bit Aggregate Total Err Cnt", d.corrected),
        ("HBM Double Bit Aggregate Total Err Cnt", d.uncorrected),
        ("HBM Single Bit Isolated Pages Count", d.isolated_pages),
        ("HBM Double Bit Isolated Pages Count", 0),
        ("Chip ID", 0),
    )
    return "".join(f"\t{name:<40} : {value}\n" for name, value in rows)


def link(d: Accelerator) -> str:
    return f"link status: {'UP' if d.network_up else 'DOWN'}\n"


def net_health(d: Accelerator) -> str:
    return f"net health status: {d.network_health}\n"


def composed(state: HostState) -> dict[str, str]:
    """What the collector's loops over devices print."""
    return {
        "npu-smi-ecc": "".join(f"== {d.index}/0\n{ecc(d)}" for d in state.devices) + "== end\n",
        "hccn-link": "".join(f"== {d.index}\n{link(d)}{net_health(d)}" for d in state.devices) + "== end\n",
    }
