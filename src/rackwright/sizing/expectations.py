"""What every host of a pool must show, from the catalog, the workload and the decided plan.

Every leaf is filled: with a value, or with why it has no meaning here.
"""

from __future__ import annotations

import ipaddress

from rackwright.catalog import Accelerator, Machine
from rackwright.engines.registry import LAUNCHERS
from rackwright.images import DOCKER_HUB, host_of
from rackwright.plan.base import NotApplicable
from rackwright.plan.expectations import (
    GpuExpectation,
    HostExpectation,
    NvlinkExpectation,
    OsExpectation,
    PowerExpectation,
    RdmaExpectation,
    RdmaPort,
    StorageExpectation,
)
from rackwright.plan.fabric import Fabric
from rackwright.sizing import rates, vendor_expectations
from rackwright.workload import Workload

DRIVER_MIN = "560"
CUDA_MIN = "12.6"
CLOCK_OFFSET_MS = 100.0
CLOCK_SKEW_MS = 100.0
"""Between two hosts: traces and logs of one request are put in order by their times."""
RESOLVE_MAX_S = 1.0
"""A name that takes longer is asked of a server that does not answer, and then of the next."""
SHM_MIN_GIB = 16.0
"""What vLLM's and SGLang's documentation give a container (``--shm-size``) for tensor parallelism."""
TOPOLOGY_MANAGERS = ("best-effort", "restricted")
"""``single-numa-node`` refuses a pod whose GPUs hang at both sockets (go-gpuallocator#17)."""
MEMORY_TOLERANCE = 0.05
WEAR_MAX_PERCENT = 90
IDLE_MEMORY_MIB = 1024
FULL_LOAD_UTILISATION = 0.9
RESPONSE_MAX_S = 10.0
STORAGE_FACTOR = 2

UNCORRECTED_MAX = 0
CORRECTED_MAX = 20_000_000
"""Azure's limit of corrected DRAM errors (azurehpc-health-checks, ND H100 v5)."""
RETIRED_PAGES_MAX = 60
"""From here on NVIDIA exchanges a card (dynamic page retirement, RMA policy)."""
RECOVERY_ACTION_SINCE = 570
"""The driver branch that prints a recovery action."""
NEAR = ("PIX", "PXB")
"""One PCIe bridge, or several, but no host bridge between GPU and NIC."""
LINK_FLAPS_MAX = 0
XID_FATAL = (48, 62, 64, 74, 79, 95, 119, 120, 140, 143)
"""Xids after which a GPU must be reset or replaced: double-bit errors, retirement, NVLink, off the bus."""
CLOCK_REASONS = ("gpu_idle", "applications_clocks_setting", "sw_power_cap")
"""Reduced clocks that are no fault: nothing to do, a setting, and the power limit at full load."""
PROCESSES = ("nv-hostengine", "dcgm-exporter", "nvidia-persiste")
"""Processes on a GPU beside the engine's."""
KERNEL_FAULTS = ("mce", "aer", "oom", "nvrm-assert")
UNIFORM = (
    "driver",
    "vbios",
    "kernel",
    "cmdline",
    "os",
    "bios",
    "nic-firmware",
    "thp",
    "governor",
    "power-limit",
    "clocks",
)

TOOLS = ("nvidia-smi", "lspci", "lscpu", "df", "journalctl", "systemctl", "chronyc", "nvme", "timeout")
FABRIC_TOOLS = ("ip", "rdma", "ibstat", "ibv_devinfo")
ROCE_TOOLS = ("mlnx_qos", "show_gids")


def expectation(
    workload: Workload,
    machine: Machine,
    accelerator: Accelerator,
    *,
    fabric: Fabric | None,
    driver: str,
    engine: str,
    image: str,
    weight_bytes: int,
    power_factor: float,
) -> HostExpectation:
    """The expectations of one pool. ``weight_bytes``: on disk, all deployments of the pool together."""
    vendor, processes = accelerator.vendor, LAUNCHERS[engine].TRAITS.processes
    nvidia = vendor == "nvidia"
    fabric_wants = _rdma(machine, fabric)
    system = _os(workload, machine, accelerator, fabric, image)
    storage = StorageExpectation(
        model_dir=workload.site.model_dir,
        headroom_bytes=STORAGE_FACTOR * weight_bytes,
        nvme_count=int(machine.nvme_count.value),
        nvme_wear_max_percent=WEAR_MAX_PERCENT,
        nvme_full_link=True if machine.nvme_count.value else _no_disk(machine),
        nvme_read_min_gb_s=rates.NVME_READ_GB_S if machine.nvme_count.value else _no_disk(machine),
    )
    return HostExpectation(
        tools=_tools(machine, fabric)
        if nvidia
        else vendor_expectations.tools(vendor, _tools(machine, fabric)),
        root=True,
        response_max_s=RESPONSE_MAX_S,
        uniform=UNIFORM if nvidia else vendor_expectations.uniform(vendor, UNIFORM),
        outlier_max=rates.OUTLIER_MAX
        if vendor != "apple"
        else NotApplicable(not_applicable="nothing is measured on Macs"),
        gpu=_gpu(machine, accelerator, driver, processes)
        if nvidia
        else vendor_expectations.gpu(machine, accelerator, processes),
        device=None
        if nvidia
        else vendor_expectations.device(machine, accelerator, STORAGE_FACTOR * weight_bytes),
        nvlink=_nvlink(workload, machine, accelerator),
        rdma=fabric_wants if nvidia else vendor_expectations.rdma(vendor, fabric_wants),
        os=system if nvidia else vendor_expectations.os(vendor, system),
        storage=storage if nvidia else vendor_expectations.storage(vendor, storage),
        power=PowerExpectation(
            full_load_w=machine.full_load.value,
            factor=power_factor,
            psu_count=_supplies(machine),
            inlet_outlet_delta_c=workload.site.inlet_outlet_delta,
            full_load_gpu_utilisation=FULL_LOAD_UTILISATION,
            bmc=True if machine.bmc else _no_bmc(machine),
            fans=True
            if machine.bmc and machine.cooling == "air"
            else NotApplicable(not_applicable="no BMC reads fans" if not machine.bmc else "cooled by liquid"),
        ),
    )


def _no_disk(machine: Machine) -> NotApplicable:
    return NotApplicable(not_applicable=f"{machine.name} has no NVMe disk")


def _supplies(machine: Machine) -> int | NotApplicable:
    if not machine.bmc:
        return _no_bmc(machine)
    if machine.nodes > 1:
        return NotApplicable(not_applicable=f"supplies are the rack's, not a node's, in {machine.name}")
    return int(machine.psu_count.value)


def _no_bmc(machine: Machine) -> NotApplicable:
    return NotApplicable(not_applicable=f"{machine.name} has no BMC")


def _tools(machine: Machine, fabric: Fabric | None) -> tuple[str, ...]:
    tools = TOOLS + (("ipmitool",) if machine.bmc else ())
    if fabric is None:
        return tools
    return tools + FABRIC_TOOLS + (ROCE_TOOLS if fabric.kind == "roce" else ())


def _gpu(
    machine: Machine, accelerator: Accelerator, driver: str, processes: tuple[str, ...]
) -> GpuExpectation:
    name = accelerator.name
    memory_max = accelerator.memory_temperature_max
    return GpuExpectation(
        count=int(machine.gpus.value),
        product=accelerator.product,
        pci_ids=accelerator.pci_ids or NotApplicable(not_applicable=f"the catalog has no PCI id of {name}"),
        driver_min=DRIVER_MIN,
        driver_pinned=driver,
        cuda_min=CUDA_MIN,
        cudnn_min=NotApplicable(not_applicable="cuDNN comes with the engine's image"),
        ecc=True
        if accelerator.ecc != "none"
        else NotApplicable(not_applicable=f"{name} has no ECC to switch on"),
        persistence=True,
        mig=False if accelerator.mig_slices.value else NotApplicable(not_applicable=f"{name} has no MIG"),
        mps=False,
        power_limit_w=accelerator.power_limit.value,
        temperature_max_c=accelerator.temperature_max.value,
        memory_temperature_max_c=memory_max.value
        if memory_max is not None
        else NotApplicable(not_applicable=f"{name} reports no memory temperature"),
        pcie_gen=int(accelerator.pcie_gen.value),
        pcie_width=int(accelerator.pcie_width.value),
        memory_used_max_mib=IDLE_MEMORY_MIB,
        row_remap="none-pending"
        if accelerator.row_remap
        else NotApplicable(not_applicable=f"{name} does not remap rows"),
        clock_reasons_allowed=CLOCK_REASONS,
        ecc_uncorrected_max=UNCORRECTED_MAX
        if accelerator.ecc != "none"
        else NotApplicable(not_applicable=f"{name} counts no ECC errors"),
        processes_allowed=(*processes, *PROCESSES),
        xid_fatal=XID_FATAL,
        retired_pages_max=NotApplicable(not_applicable=f"{name} remaps rows instead")
        if accelerator.row_remap
        else RETIRED_PAGES_MAX,
        recovery_action="none"
        if driver.partition(".")[0].isdigit() and int(driver.partition(".")[0]) >= RECOVERY_ACTION_SINCE
        else NotApplicable(not_applicable=f"drivers before {RECOVERY_ACTION_SINCE} do not report it"),
        compute_mode="Default",
        firmware_uniform=True,
        ecc_corrected_max=CORRECTED_MAX
        if accelerator.ecc != "none"
        else NotApplicable(not_applicable=f"{name} counts no ECC errors"),
        clocks_uniform=True,
        clock_max_mhz=accelerator.clock_max.value
        if accelerator.clock_max is not None
        else NotApplicable(not_applicable=f"the catalog has no highest clock of {name}"),
        memory_bandwidth_min_gb_s=rates.memory(accelerator),
        host_bandwidth_min_gb_s=rates.host(accelerator),
        diag_level=rates.DIAG_LEVEL
        if accelerator.memory_class == "hbm"
        else NotApplicable(not_applicable=f"DCGM's diagnostics are made for data centre cards, not {name}"),
    )


def _nvlink(workload: Workload, machine: Machine, accelerator: Accelerator) -> NvlinkExpectation:
    link = accelerator.nvlink
    spans = link is not None and link.domain > machine.gpus.value
    if link is None:
        reason = NotApplicable(not_applicable=f"{accelerator.name} has no NVLink")
        return NvlinkExpectation(
            links_per_gpu=reason,
            link_gb_s=reason,
            topology=reason,
            fabric_manager=reason,
            fabric_state=reason,
            peer_access=reason,
            errors_max=reason,
            domain_gpus=reason,
            imex=reason,
            peer_bandwidth_min_gb_s=reason,
            all_reduce_min_gb_s=reason,
        )
    return NvlinkExpectation(
        links_per_gpu=int(link.links.value),
        link_gb_s=link.link_gb_s.value,
        topology=link.topology,
        fabric_manager=True,
        fabric_state="Completed",
        peer_access=True,
        errors_max=0,
        domain_gpus=link.domain if spans else _ends(link.domain),
        imex=("on-demand" if workload.site.target == "kubernetes" else "always")
        if spans
        else _ends(link.domain),
        peer_bandwidth_min_gb_s=rates.peer(link),
        all_reduce_min_gb_s=rates.all_reduce(accelerator, link, int(machine.gpus.value)),
    )


def _ends(gpus: int) -> NotApplicable:
    return NotApplicable(not_applicable=f"NVLink ends at the host: {gpus} GPUs")


def _rdma(machine: Machine, fabric: Fabric | None) -> RdmaExpectation:
    if fabric is None or machine.fabric is None:
        reason = NotApplicable(not_applicable="the plan has no scale-out fabric")
        return RdmaExpectation.model_validate(dict.fromkeys(RdmaExpectation.model_fields, reason))
    layer = machine.fabric.layer
    ports = tuple(
        RdmaPort(device=r.hca, netdev=r.netdev, rate_gbps=fabric.rate_gbps, link_layer=layer)
        for r in fabric.rails
    )
    lossless = NotApplicable(not_applicable="InfiniBand has credit-based flow control, no DSCP or PFC")
    qos = fabric.qos
    return RdmaExpectation(
        ports=ports,
        mtu=fabric.mtu,
        active_mtu=fabric.active_mtu,
        trust=qos.trust if qos else lossless,
        pfc=qos.pfc if qos else lossless,
        dscp=qos.dscp if qos else lossless,
        dscp_priority=qos.lossless_priority if qos else lossless,
        traffic_class=qos.tos if qos else lossless,
        subnet_manager=True
        if fabric.kind == "infiniband"
        else NotApplicable(not_applicable="RoCE has no subnet manager"),
        gpudirect=True,
        acs_redirect=False,
        link_flaps_max=LINK_FLAPS_MAX,
        gpu_nic_paths=NEAR
        if len(ports) >= machine.gpus.value
        else NotApplicable(not_applicable=f"{len(ports)} NICs serve {machine.gpus.value:g} GPUs"),
        firmware=fabric.firmware or NotApplicable(not_applicable="the plan pins no NIC firmware"),
        errors_max=0,
        gid_type="RoCE v2"
        if fabric.kind == "roce"
        else NotApplicable(not_applicable="InfiniBand addresses by LID"),
        write_min_gbps=rates.write(fabric),
    )


def _os(
    workload: Workload, machine: Machine, accelerator: Accelerator, fabric: Fabric | None, image: str
) -> OsExpectation:
    kubernetes = workload.site.target == "kubernetes"
    hosts = NotApplicable(not_applicable="the site's target is hosts, not Kubernetes")
    names = _names(workload, image)
    return OsExpectation(
        thp=(workload.overrides.thp or "never",),
        cstates_allowed=("POLL", "C1"),
        governor="performance",
        swap=False,
        numa_nodes=int(machine.numa_nodes.value),
        numa_balancing=False,
        kernel_faults=KERNEL_FAULTS,
        memory_gib=machine.memory.value,
        memory_tolerance=MEMORY_TOLERANCE,
        iommu="pt" if fabric is not None else NotApplicable(not_applicable="no RDMA between PCIe devices"),
        clock_offset_max_ms=CLOCK_OFFSET_MS,
        ntp=workload.site.ntp or NotApplicable(not_applicable="the workload names no NTP servers"),
        edac_uncorrected_max=0,
        memlock="infinity"
        if fabric is not None
        else NotApplicable(not_applicable="no RDMA, no memory to lock"),
        stuck_max=0,
        container_runtime="containerd" if kubernetes else hosts,
        clock_skew_max_ms=CLOCK_SKEW_MS,
        names=names or NotApplicable(not_applicable="the plan names no server that a host must find"),
        resolve_max_s=RESOLVE_MAX_S,
        hugepages=0,
        shm_min_gib=NotApplicable(not_applicable="every pod brings its own /dev/shm")
        if kubernetes
        else SHM_MIN_GIB,
        package_holds=_holds(workload, accelerator),
        cgroup_driver="systemd" if kubernetes else hosts,
        cpu_manager="static" if kubernetes else hosts,
        topology_managers=TOPOLOGY_MANAGERS if kubernetes else hosts,
    )


_DOCKER_HUB = "registry-1.docker.io"


def _names(workload: Workload, image: str) -> tuple[str, ...]:
    """Names that every host must resolve: the registry of the engine's image, and time servers by name."""
    servers = [name for name in workload.site.ntp if not _is_address(name)]
    if workload.site.target == "kubernetes":
        servers.append(registry_of(image))
    return tuple(dict.fromkeys(servers))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def registry_of(image: str) -> str:
    """The server that an image is fetched from, as a name to resolve."""
    host = host_of(image)
    return _DOCKER_HUB if host == DOCKER_HUB else host.partition(":")[0]


def _holds(workload: Workload, accelerator: Accelerator) -> tuple[str, ...]:
    """Packages that must stay as they are. Where the GPU operator brings the driver, hosts have none."""
    if workload.site.target == "kubernetes" and workload.hardware.driver_owner != "host":
        return ("kernel",)
    switched = accelerator.nvlink is not None
    return ("driver", *(("fabric-manager",) if switched else ()), "kernel")
