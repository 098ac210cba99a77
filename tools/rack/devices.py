"""Accelerators of other vendors in a simulated host: what each is, healthy as the plan wants it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Literal

from rackwright.plan import HostExpectation
from rackwright.plan.base import NotApplicable
from rackwright.sizing.vendor_expectations import MEMORY_SHARE


@dataclass(frozen=True)
class Kind:
    """How lspci shows a vendor's accelerators, and what its driver keeps of their memory (MiB)."""

    pci_class: str
    title: str
    driver: str
    pci_id: str
    version: str
    idle_w: float
    kept_mib: int


KINDS: dict[str, Kind] = {
    "amd": Kind(
        "Processing accelerators [1200]", "Advanced Micro Devices, Inc. [AMD/ATI] Device", "amdgpu",
        "1002:74a1", "6.12.12", 141.0, 285,
    ),
    "huawei": Kind(
        "Processing accelerators [1200]", "Huawei Technologies Co., Ltd. Device", "devdrv_device_driver",
        "19e5:d802", "24.1.rc2", 93.0, 3396,
    ),
    "cambricon": Kind(
        "Processing accelerators [1200]", "Cambricon Technologies Device", "cambricon-drv",
        "cabc:0370", "5.10.13", 41.0, 0,
    ),
    "moore-threads": Kind(
        "3D controller [0302]", "Moore Threads Technology Co.,Ltd Device", "mtgpu", "1ed5:0400",
        "3.3.5-server", 85.0, 6,
    ),
    "apple": Kind("", "", "", "", "15.5", 15.0, 0),
}  # fmt: skip


@dataclass
class Accelerator:
    """One device, as its driver counts them. ``links``: by the other device's index, whether it is up."""

    index: int
    name: str
    pci_address: str
    pci_id: str
    temperature_c: int
    memory_temperature_c: int
    power_w: float
    power_limit_w: float
    utilisation: int
    memory_total_mib: int
    memory_used_mib: int
    pcie_gen: int
    pcie_width: int
    health: str = "OK"
    uncorrected: int = 0
    deferred: int = 0
    corrected: int = 0
    isolated_pages: int = 0
    pages_pending: int = 0
    compute_partition: str = "SPX"
    memory_partition: str = "NPS1"
    throttled: bool = False
    network_up: bool = True
    network_health: str = "Success"
    listed: bool = True
    links: dict[int, bool] = field(default_factory=dict)


@dataclass
class Mac:
    """What macOS says of the machine."""

    chip: str
    memory_mib: int
    wired_limit_mib: int = 0
    sleep_minutes: int = 0
    version: str = "15.5"
    metal: str = "spdisplays_metal3"
    serial_up: bool = True


def accelerators(
    expected: HostExpectation, load: Literal["idle", "full"], rng: random.Random, addresses: list[str]
) -> list[Accelerator]:
    """The devices that the plan wants, none on a machine of NVIDIA or Apple."""
    gpu, device = expected.gpu, expected.device
    if device is None or gpu.vendor == "apple":
        return []
    kind, full = KINDS[gpu.vendor], load == "full"
    count = _value(device.chips, gpu.count)
    memory = _memory(_value(device.memory_min_mib, 1024))
    limit = float(_value(gpu.power_limit_w, 350.0))
    ids = _value(gpu.pci_ids, (kind.pci_id,))
    found = []
    for index in range(count):
        temperature = rng.randint(56, 66) if full else rng.randint(34, 40)
        found.append(
            Accelerator(
                index=index,
                name=gpu.product,
                pci_address=addresses[index],
                pci_id=ids[0],
                temperature_c=temperature,
                memory_temperature_c=temperature - rng.randint(3, 8),
                power_w=round(limit * rng.uniform(0.9, 0.95) if full else kind.idle_w, 1),
                power_limit_w=limit,
                utilisation=rng.randint(97, 100) if full else 0,
                memory_total_mib=memory,
                memory_used_mib=round(memory * 0.88) if full else kind.kept_mib,
                pcie_gen=_value(gpu.pcie_gen, 4),
                pcie_width=_value(gpu.pcie_width, 16),
                links={other: True for other in range(count) if other != index},
            )
        )
    return found


def mac(expected: HostExpectation) -> Mac | None:
    """macOS as the plan wants it; None on any other machine."""
    device = expected.device
    if device is None or expected.gpu.vendor != "apple":
        return None
    return Mac(
        chip=expected.gpu.product,
        memory_mib=_memory(_value(device.memory_min_mib, 131072)),
        wired_limit_mib=round(_value(device.wired_limit_min_mib, 0) * 1.02),
    )


def _memory(minimum: int) -> int:
    """A little above what the plan demands."""
    return round(minimum / MEMORY_SHARE)


def _value(value: Any, default: Any) -> Any:
    return default if value is None or isinstance(value, NotApplicable) else value
