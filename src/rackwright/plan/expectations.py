"""What every host of a pool must show: the expected values of all checks.

Each leaf is a value, ``not_applicable: reason`` (the plan says it has no meaning here), or absent.
Absent is an error for the check that needs it, never a pass.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rackwright.plan.base import NotApplicable, Section
from rackwright.plan.devices import DeviceExpectation, Vendor

NA = NotApplicable
_SOME = Field(min_length=1)
"""Of an empty list a check would find nothing missing: it is refused. What has no meaning says why."""
Words = Annotated[tuple[str, ...], _SOME]
Kinds = Annotated[tuple[Literal["driver", "fabric-manager", "kernel"], ...], _SOME]
Codes = Annotated[tuple[int, ...], _SOME]


class GpuExpectation(Section):
    """``temperature_max_c``: hottest GPU at full load. ``power_limit_w``: the enforced limit, ± 1 W.

    ``mig``: whether MIG is on; or the instances that every GPU is divided into, by their profiles, sorted.
    ``cudnn_min``: of the host; not applicable where cuDNN comes with the engine's image.
    ``clock_reasons_allowed``: NVIDIA's names of clock event reasons that are no fault.
    ``ecc_uncorrected_max``: uncorrectable errors since the last reset of the GPU.
    ``processes_allowed``: beginnings of the names of processes that may hold a GPU.
    ``xid_fatal``: Xids after which a GPU must not serve; any other Xid is a warning.
    ``retired_pages_max``: single- and double-bit retirements together, of cards that do not remap rows.
    ``ecc_corrected_max``: corrected errors since the last reset; more is a warning.
    ``firmware_uniform``: one VBIOS on all GPUs of a host, and the driver's own GSP firmware.
    ``clocks_uniform``: one highest clock on all GPUs of a host; ``clock_max_mhz``: what it is.
    ``memory_bandwidth_min_gb_s``: read plus written by a copy within one GPU's memory.
    ``host_bandwidth_min_gb_s``: of a copy between pinned host memory and a GPU, each way.
    ``diag_level``: the level of DCGM's diagnostics, 1 (seconds) to 3 (half an hour).
    """

    vendor: Vendor = "nvidia"
    count: int
    product: str
    pci_ids: Words | NA
    driver_min: str | NA | None = None
    driver_pinned: str | NA | None = None
    cuda_min: str | NA | None = None
    cudnn_min: str | NA | None = None
    ecc: bool | NA | None = None
    persistence: bool | NA | None = None
    mig: bool | Words | NA | None = None
    mps: bool | NA | None = None
    power_limit_w: float | NA | None = None
    temperature_max_c: float | NA | None = None
    memory_temperature_max_c: float | NA | None = None
    pcie_gen: int | NA | None = None
    pcie_width: int | NA | None = None
    memory_used_max_mib: int | NA | None = None
    row_remap: Literal["none-pending"] | NA | None = None
    clock_reasons_allowed: tuple[str, ...] | NA | None = None
    ecc_uncorrected_max: int | NA | None = None
    processes_allowed: tuple[str, ...] | NA | None = None
    xid_fatal: Codes | NA | None = None
    retired_pages_max: int | NA | None = None
    recovery_action: Literal["none"] | NA | None = None
    compute_mode: str | NA | None = None
    firmware_uniform: bool | NA | None = None
    ecc_corrected_max: int | NA | None = None
    clocks_uniform: bool | NA | None = None
    clock_max_mhz: float | NA | None = None
    memory_bandwidth_min_gb_s: float | NA | None = None
    host_bandwidth_min_gb_s: float | NA | None = None
    diag_level: int | NA | None = None


class NvlinkExpectation(Section):
    """``peer_access``: every pair of GPUs of a host can read each other's memory. ``errors_max``: of one
    kind on one link since the driver was loaded. ``domain_gpus``: GPUs of an NVLink domain over several
    hosts (a rack with NVLink switches); not applicable where NVLink ends at the host.
    ``imex``: whether the memory-exchange daemon must run ``always``, or only ``on-demand``, while a compute
    domain needs it. ``peer_bandwidth_min_gb_s``: of a copy from one GPU to another, one way.
    ``all_reduce_min_gb_s``: bus bandwidth of an all-reduce over all GPUs of a host.
    """

    links_per_gpu: int | NA | None = None
    link_gb_s: float | NA | None = None
    topology: str | NA | None = None
    fabric_manager: bool | NA | None = None
    fabric_state: str | NA | None = None
    peer_access: bool | NA | None = None
    errors_max: int | NA | None = None
    domain_gpus: int | NA | None = None
    imex: Literal["always", "on-demand"] | NA | None = None
    peer_bandwidth_min_gb_s: float | NA | None = None
    all_reduce_min_gb_s: float | NA | None = None


class RdmaPort(Section):
    device: str
    port: int = 1
    netdev: str
    rate_gbps: int
    link_layer: Literal["Ethernet", "InfiniBand"]


class RdmaExpectation(Section):
    """``acs_redirect``: whether bridges above GPUs and NICs may redirect peer-to-peer traffic (in a virtual
    machine not applicable: the host decides). ``link_flaps_max``: losses of a planned port's link this boot.
    ``gpu_nic_paths``: nvidia-smi's words for a NIC that is near enough to its GPU (PIX, PXB).
    ``errors_max``: of one kind on one port since the driver was loaded. ``gid_type``: one GID of every port
    must be of it, with an address.
    """

    ports: Annotated[tuple[RdmaPort, ...], _SOME] | NA | None = None
    mtu: int | NA | None = None
    active_mtu: int | NA | None = None
    trust: str | NA | None = None
    pfc: Annotated[tuple[bool, ...], Field(min_length=8, max_length=8)] | NA | None = None
    dscp: int | NA | None = None
    dscp_priority: int | NA | None = None
    traffic_class: int | NA | None = None
    subnet_manager: bool | NA | None = None
    gpudirect: bool | NA | None = None
    acs_redirect: bool | NA | None = None
    link_flaps_max: int | NA | None = None
    gpu_nic_paths: Words | NA | None = None
    firmware: str | NA | None = None
    errors_max: int | NA | None = None
    gid_type: str | NA | None = None
    write_min_gbps: float | NA | None = None


class OsExpectation(Section):
    """``cstates_allowed``: the idle states that may be enabled. ``kernel_faults``: kinds of kernel log
    events that must not occur (mce, aer, oom, nvrm-assert, …). ``edac_uncorrected_max``: memory errors that
    the controllers counted since boot. ``memlock``: what the container runtime may lock. ``stuck_max``:
    processes in uninterruptible sleep. ``container_runtime``: the unit that runs the pods.
    ``clock_skew_max_ms``: between any two hosts of a pool. ``names``: what must resolve, within
    ``resolve_max_s``. ``hugepages``: static ones, which engines cannot use. ``shm_min_gib``: of /dev/shm.
    ``package_holds``: kinds of packages that no unattended upgrade may change. ``cgroup_driver``: of the
    container runtime. ``cpu_manager``, ``topology_managers``: the kubelet's policies.
    """

    thp: Annotated[tuple[Literal["never", "madvise"], ...], _SOME] | NA | None = None
    cstates_allowed: Words | NA | None = None
    governor: str | NA | None = None
    swap: bool | NA | None = None
    numa_nodes: int | NA | None = None
    numa_balancing: bool | NA | None = None
    kernel_faults: Words | NA | None = None
    memory_gib: float | NA | None = None
    memory_tolerance: float | NA | None = None
    iommu: str | NA | None = None
    clock_offset_max_ms: float | NA | None = None
    ntp: Words | NA | None = None
    edac_uncorrected_max: int | NA | None = None
    memlock: Literal["infinity"] | NA | None = None
    stuck_max: int | NA | None = None
    container_runtime: str | NA | None = None
    clock_skew_max_ms: float | NA | None = None
    names: Words | NA | None = None
    resolve_max_s: float | NA | None = None
    hugepages: int | NA | None = None
    shm_min_gib: float | NA | None = None
    package_holds: Kinds | NA | None = None
    cgroup_driver: Literal["systemd"] | NA | None = None
    cpu_manager: Literal["static"] | NA | None = None
    topology_managers: Words | NA | None = None


class StorageExpectation(Section):
    """``headroom_bytes`` = 2 × all model weights of the pool's deployments. ``nvme_full_link``: disks run at
    the speed and width that they and their slots can do. ``nvme_read_min_gb_s``: of one disk, read alone."""

    model_dir: str | NA | None = None
    headroom_bytes: int | NA | None = None
    nvme_count: int | NA | None = None
    nvme_wear_max_percent: int | NA | None = None
    nvme_full_link: bool | NA | None = None
    nvme_read_min_gb_s: float | NA | None = None


class PowerExpectation(Section):
    """``full_load_w`` per node; a rack's sum × ``factor`` must stay below its rating. ``fans``: whether every
    fan that the BMC shows must turn."""

    full_load_w: float | NA | None = None
    factor: float | NA | None = None
    psu_count: int | NA | None = None
    inlet_outlet_delta_c: float | NA | None = None
    full_load_gpu_utilisation: float | NA | None = None
    bmc: bool | NA | None = None
    fans: bool | NA | None = None


class HostExpectation(Section):
    """All of it, for the hosts of one pool. ``uniform``: what must be equal on all of them (driver, vbios,
    kernel, cmdline, os, bios, nic-firmware, thp, governor, power-limit, clocks).
    ``outlier_max``: how far below the pool's median a measured bandwidth may lie, as a share of it.
    ``device``: of other vendors than NVIDIA.
    """

    tools: Words | NA | None = None
    root: bool | NA | None = None
    response_max_s: float | NA | None = None
    uniform: Words | NA | None = None
    outlier_max: float | NA | None = None
    gpu: GpuExpectation
    device: DeviceExpectation | None = None
    nvlink: NvlinkExpectation = NvlinkExpectation()
    rdma: RdmaExpectation = RdmaExpectation()
    os: OsExpectation = OsExpectation()
    storage: StorageExpectation = StorageExpectation()
    power: PowerExpectation = PowerExpectation()
