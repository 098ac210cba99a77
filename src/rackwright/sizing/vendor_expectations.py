"""What hosts with accelerators of other vendors than NVIDIA must show, from the catalog.

What only NVIDIA's tools know does not apply there and says so; what a vendor's own tool shows stands in the
section ``device``.
"""

from __future__ import annotations

from collections.abc import Mapping

from rackwright.catalog import Accelerator, Machine
from rackwright.plan.base import NotApplicable
from rackwright.plan.devices import DeviceExpectation
from rackwright.plan.expectations import (
    GpuExpectation,
    OsExpectation,
    RdmaExpectation,
    StorageExpectation,
)

COMPUTE_PARTITION, MEMORY_PARTITION = "SPX", "NPS1"
"""One device a card and one memory domain: what engines are measured with on MI300 (AMD's default)."""
HEALTH = "OK"
"""npu-smi's word; Warning, Alarm, Critical and UNKNOWN are the others."""
UNCORRECTED_MAX = 0
CORRECTED_MAX = 20_000_000
"""As of NVIDIA's cards: nobody published a limit of corrected errors for other vendors' HBM (assumed)."""
IDLE_MEMORY_MIB = 4096
"""Drivers of these vendors keep more for themselves than NVIDIA's: 0.3 GB of an MI300X, 3.4 GB of a 910B are
seen in public outputs."""
MEMORY_SHARE = 0.95
"""Of the catalog's size: tools print 64 GiB of HBM as 65536 or 65452 MiB, a chip of 24 GiB as 23374."""
DRIVER_MIN = {
    "amd": "6.7",
    "huawei": "23.0.3",
    "cambricon": "5.10.13",
    "moore-threads": "2.7.0",
    "apple": "14.0",
}
"""Of AMD the kernel driver of ROCm 6.1, of Apple macOS 14 (``iogpu.wired_limit_mb``); the rest are the oldest
drivers in public outputs of such devices with an LLM engine. General knowledge, no release note read."""
TOOLS = {
    "amd": ("amd-smi",),
    "huawei": ("npu-smi",),
    "cambricon": ("cnmon",),
    "moore-threads": ("mthreads-gmi",),
    "apple": ("system_profiler", "sysctl", "pmset", "sw_vers"),
}
"""Of each vendor; a Mac needs no other."""
_LISTED_BY_DIE = frozenset({"huawei", "cambricon"})
"""Vendors whose tools list every die of a card as a device of its own."""
_NVIDIA_UNIFORM = frozenset({"driver", "vbios", "power-limit"})


def tools(vendor: str, common: tuple[str, ...]) -> tuple[str, ...]:
    """``common`` with NVIDIA's tool exchanged for the vendor's."""
    own = TOOLS.get(vendor, ())
    return own if vendor == "apple" else (*own, *(t for t in common if t != "nvidia-smi"))


def uniform(vendor: str, names: tuple[str, ...]) -> tuple[str, ...] | NotApplicable:
    """What can be compared between hosts without NVIDIA's tools; between Macs their version is a check."""
    if vendor == "apple":
        return NotApplicable(not_applicable="macOS has none of the files that are compared")
    return tuple(name for name in names if name not in _NVIDIA_UNIFORM)


def gpu(machine: Machine, accelerator: Accelerator, processes: tuple[str, ...]) -> GpuExpectation:
    """The vendor-neutral part; every setting of NVIDIA's says that it does not apply."""
    name = accelerator.name
    none = NotApplicable(not_applicable=f"a setting of NVIDIA's driver; the plan has {name}")
    counts = accelerator.ecc != "none"
    memory_max = accelerator.memory_temperature_max
    linked = bool(accelerator.pcie_gen.value)
    on_chip = NotApplicable(not_applicable=f"{name} is part of the system on the chip")
    given = {
        "vendor": accelerator.vendor,
        "count": int(machine.gpus.value),
        "product": accelerator.product or accelerator.name,
        "pci_ids": accelerator.pci_ids or (
            on_chip if not linked else NotApplicable(not_applicable=f"the catalog has no PCI id of {name}")
        ),
        "power_limit_w": accelerator.power_limit.value
        if accelerator.vendor == "amd"
        else NotApplicable(not_applicable=f"the tool of {name} sets no limit that a plan could count on"),
        "temperature_max_c": accelerator.temperature_max.value
        if linked
        else NotApplicable(not_applicable=f"{name} shows no temperature without root and a long sample"),
        "memory_temperature_max_c": memory_max.value
        if memory_max is not None
        else NotApplicable(not_applicable=f"{name} reports no memory temperature"),
        "pcie_gen": int(accelerator.pcie_gen.value) if linked else on_chip,
        "pcie_width": int(accelerator.pcie_width.value) if linked else on_chip,
        "memory_used_max_mib": IDLE_MEMORY_MIB if linked else on_chip,
        "processes_allowed": processes,
        "ecc_uncorrected_max": UNCORRECTED_MAX
        if counts
        else NotApplicable(not_applicable=f"{name} counts no ECC errors"),
    }  # fmt: skip
    return GpuExpectation.model_validate({**dict.fromkeys(_rest(given), none), **given})


def _rest(given: Mapping[str, object]) -> list[str]:
    return [name for name in GpuExpectation.model_fields if name not in given]


def device(machine: Machine, accelerator: Accelerator, headroom: int) -> DeviceExpectation:
    """The vendor's own part. ``headroom``: bytes free on the model directory's volume."""
    dies = accelerator.dies if accelerator.vendor in _LISTED_BY_DIE else 1
    vendor, name = accelerator.vendor, accelerator.name

    def only(*vendors: str) -> NotApplicable | None:
        return None if vendor in vendors else NotApplicable(not_applicable=f"{name} does not have it")

    link, count = accelerator.link, int(machine.gpus.value)
    apple = vendor == "apple"
    return DeviceExpectation(
        chips=count * dies,
        memory_min_mib=round(accelerator.memory.value / dies * MEMORY_SHARE),
        driver_min=DRIVER_MIN.get(vendor)
        or NotApplicable(not_applicable=f"no oldest driver of {name} is known"),
        health=only("huawei") or HEALTH,
        peer_links=only("amd")
        or (
            min(link.domain, count) - 1
            if link is not None and link.domain > 1 and count > 1
            else NotApplicable(not_applicable=f"{count} × {name} a host: no link between devices")
        ),
        network_link=only("huawei")
        or (
            True
            if machine.network is not None and machine.network.ports >= count
            else NotApplicable(not_applicable=f"{machine.name} has no network port of each device")
        ),
        compute_partition=only("amd") or COMPUTE_PARTITION,
        memory_partition=only("amd") or MEMORY_PARTITION,
        throttled=False
        if vendor == "amd"
        else NotApplicable(not_applicable=f"the tool of {name} does not say whether clocks are held down"),
        bad_pages_max=only("amd") or 0,
        corrected_max=CORRECTED_MAX
        if vendor in ("amd", "huawei")
        else NotApplicable(not_applicable=f"the tool of {name} counts no corrected errors"),
        disk_free_min_bytes=headroom if apple else NotApplicable(not_applicable="nvme-headroom reads it"),
        wired_limit_min_mib=round(accelerator.memory_gib * 1024 * MEMORY_SHARE)
        if apple
        else NotApplicable(not_applicable=f"{name} has its own memory"),
        sleep=False if apple else NotApplicable(not_applicable="servers do not go to sleep"),
    )


def rdma(vendor: str, given: RdmaExpectation) -> RdmaExpectation:
    """The fabric's part without what only NVIDIA's tools and modules show."""
    if isinstance(given.ports, NotApplicable):
        return given
    return given.model_copy(
        update={
            "gpudirect": NotApplicable(not_applicable=f"drivers of {vendor} share memory without a module"),
            "gpu_nic_paths": NotApplicable(not_applicable="read from nvidia-smi's matrix only"),
        }
    )


def storage(vendor: str, given: StorageExpectation) -> StorageExpectation:
    """Of a Mac's disk only the model directory's free space is judged, by macOS' own tools."""
    if vendor != "apple":
        return given
    none = NotApplicable(not_applicable="read by Linux tools only")
    return StorageExpectation.model_validate(
        {**dict.fromkeys(StorageExpectation.model_fields, none), "model_dir": given.model_dir}
    )


def os(vendor: str, given: OsExpectation) -> OsExpectation:
    """macOS has none of Linux's switches; other vendors' hosts are Linux as NVIDIA's."""
    if vendor != "apple":
        return given
    none = NotApplicable(not_applicable="macOS has no such switch or file")
    return OsExpectation.model_validate(dict.fromkeys(OsExpectation.model_fields, none))
