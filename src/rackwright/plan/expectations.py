"""What every host of a pool must show: the expected values of all checks.

Each leaf is a value, ``not_applicable: reason`` (the plan says it has no meaning here), or absent.
Absent is an error for the check that needs it, never a pass.
"""

from __future__ import annotations

from typing import Literal

from rackwright.plan.base import NotApplicable, Section

NA = NotApplicable


class GpuExpectation(Section):
    """``temperature_max_c``: hottest GPU at full load. ``power_limit_w``: the enforced limit, ± 1 W."""

    vendor: Literal["nvidia"] = "nvidia"
    count: int
    product: str
    pci_ids: tuple[str, ...]
    driver_min: str | NA | None = None
    driver_pinned: str | NA | None = None
    cuda_min: str | NA | None = None
    ecc: bool | NA | None = None
    persistence: bool | NA | None = None
    mig: bool | NA | None = None
    mps: bool | NA | None = None
    power_limit_w: float | NA | None = None
    temperature_max_c: float | NA | None = None
    memory_temperature_max_c: float | NA | None = None
    pcie_gen: int | NA | None = None
    pcie_width: int | NA | None = None
    memory_used_max_mib: int | NA | None = None
    row_remap: Literal["none-pending"] | NA | None = None


class NvlinkExpectation(Section):
    links_per_gpu: int | NA | None = None
    link_gb_s: float | NA | None = None
    topology: str | NA | None = None
    fabric_manager: bool | NA | None = None
    fabric_state: str | NA | None = None


class RdmaPort(Section):
    device: str
    port: int = 1
    netdev: str
    rate_gbps: int
    link_layer: Literal["Ethernet", "InfiniBand"]


class RdmaExpectation(Section):
    ports: tuple[RdmaPort, ...] | NA | None = None
    mtu: int | NA | None = None
    active_mtu: int | NA | None = None
    trust: str | NA | None = None
    pfc: tuple[bool, ...] | NA | None = None
    dscp: int | NA | None = None
    dscp_priority: int | NA | None = None
    traffic_class: int | NA | None = None
    subnet_manager: bool | NA | None = None
    gpudirect: bool | NA | None = None


class OsExpectation(Section):
    """``cstates``: the deepest idle states that may be enabled."""

    thp: tuple[Literal["never", "madvise"], ...] | NA | None = None
    cstates_allowed: tuple[str, ...] | NA | None = None
    governor: str | NA | None = None
    swap: bool | NA | None = None
    numa_nodes: int | NA | None = None
    memory_gib: float | NA | None = None
    memory_tolerance: float | NA | None = None
    iommu: str | NA | None = None
    clock_offset_max_ms: float | NA | None = None
    ntp: tuple[str, ...] | NA | None = None


class StorageExpectation(Section):
    """``headroom_bytes`` = 2 × all model weights of the pool's deployments."""

    model_dir: str | NA | None = None
    headroom_bytes: int | NA | None = None
    nvme_count: int | NA | None = None
    nvme_wear_max_percent: int | NA | None = None


class PowerExpectation(Section):
    """``full_load_w`` per node; a rack's sum × ``factor`` must stay below its rating."""

    full_load_w: float | NA | None = None
    factor: float | NA | None = None
    psu_count: int | NA | None = None
    inlet_outlet_delta_c: float | NA | None = None
    full_load_gpu_utilisation: float | NA | None = None
    bmc: bool | NA | None = None


class HostExpectation(Section):
    """All of it, for the hosts of one pool."""

    tools: tuple[str, ...] | NA | None = None
    root: bool | NA | None = None
    response_max_s: float | NA | None = None
    gpu: GpuExpectation
    nvlink: NvlinkExpectation = NvlinkExpectation()
    rdma: RdmaExpectation = RdmaExpectation()
    os: OsExpectation = OsExpectation()
    storage: StorageExpectation = StorageExpectation()
    power: PowerExpectation = PowerExpectation()
