"""What one simulated machine is: its parts and settings, healthy as the plan wants them.

A fault changes this state; what the commands print follows from it (``tools.rack.emit``).
"""

from __future__ import annotations

import math
import random
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

from rackwright.plan import Fabric, HostExpectation, Node, NotApplicable, Plan, Pool
from rackwright.plan.expectations import RdmaPort
from tools.rack.active import Active, active
from tools.rack.devices import KINDS, Accelerator, Mac, accelerators, mac
from tools.rack.products import GPU_PRODUCTS, GpuProduct
from tools.rack.settings import Settings, settings

Load = Literal["idle", "full"]
T = TypeVar("T")
NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
"""What a host reports whose NVLink ends at it."""


def planned(value: Any, default: T) -> T:
    """The plan's value, or ``default`` where it has none or says that there is no meaning in it."""
    return default if value is None or isinstance(value, NotApplicable) else value


@dataclass
class Process:
    pid: int
    name: str
    used_mib: int


@dataclass
class Gpu:
    index: int
    product: GpuProduct
    name: str
    uuid: str
    serial: str
    pci_address: str
    pci_id: str
    numa: int
    power_draw_w: float
    power_limit_w: float
    temperature_c: int
    memory_temperature_c: int | None
    utilisation: int
    memory_total_mib: int
    memory_used_mib: int
    ecc_current: bool | None
    ecc_pending: bool | None
    pcie_gen_current: int
    pcie_gen_max: int
    pcie_width_current: int
    pcie_width_max: int
    links: list[float | None]
    fabric_state: str
    fabric_status: str
    persistence: bool = True
    mig_current: bool | None = False
    mig_pending: bool | None = False
    mig_devices: tuple[str, ...] = ()
    fabric_cluster: str = NO_CLUSTER
    fabric_clique: int = 0
    uncorrected_volatile: int = 0
    uncorrected_aggregate: int = 0
    corrected_aggregate: int = 0
    remap_pending: bool = False
    remap_failure: bool = False
    remap_uncorrectable: int = 0
    recovery_action: str = "None"
    compute_mode: str = "Default"
    reasons: set[str] = field(default_factory=set)
    processes: list[Process] = field(default_factory=list)
    peer_links: bool = True
    vbios: str = ""
    gsp_firmware: str = ""
    """Empty: the driver's own."""
    corrected_volatile: int = 0
    peer_access: bool = True
    link_replays: int = 0
    clock_max_mhz: int = 0
    """0: the product's own."""

    @property
    def bus_id(self) -> str:
        """As nvidia-smi prints it: an eight-digit domain, upper case."""
        return f"0000{self.pci_address}".upper()

    @property
    def tlimit_c(self) -> int:
        return self.product.slowdown_c - self.temperature_c


@dataclass
class Port:
    """One RDMA port with its network interface and its end of the QoS profile."""

    device: str
    netdev: str
    number: int
    rate_gbps: int
    link_layer: Literal["Ethernet", "InfiniBand"]
    pci_address: str
    numa: int
    guid: int
    mac: str
    mtu: int
    active_mtu: int
    address: str = ""
    firmware: str = "28.43.2026"
    state: str = "ACTIVE"
    physical_state: str = "LinkUp"
    lid: int = 0
    sm_lid: int = 0
    link_downed: int = 0
    symbol_errors: int = 0
    gid_address: bool = True
    beside_gpu: bool = True
    present: bool = True
    trust: str = "dscp"
    pfc: list[bool] = field(default_factory=lambda: [False] * 8)
    dscp_map: dict[int, int] = field(default_factory=dict)
    tos: int = 0

    @property
    def ethernet(self) -> bool:
        return self.link_layer == "Ethernet"

    @property
    def up(self) -> bool:
        return self.state == "ACTIVE"


@dataclass
class Disk:
    index: int
    model: str
    serial: str
    bytes: int
    pci_address: str
    critical_warning: int = 0
    percentage_used: int = 3
    media_errors: int = 0
    available_spare: int = 100
    temperature_c: int = 34
    link_gen: int = 4
    link_width: int = 4


@dataclass
class Sensor:
    name: str
    value: float | None
    unit: str
    status: str = "ok"


@dataclass
class SelEvent:
    when: datetime
    sensor: str
    text: str
    asserted: bool = True


@dataclass
class Bmc:
    power_w: int
    minimum_w: int
    maximum_w: int
    average_w: int
    sensors: list[Sensor]
    events: list[SelEvent]
    answers: bool = True

    def sensor(self, name: str) -> Sensor:
        return next(s for s in self.sensors if s.name == name)


@dataclass
class IdleState:
    name: str
    latency_us: int
    enabled: bool


@dataclass
class System:
    kernel: str
    os_name: str
    os_version: str
    cpus: int
    sockets: int
    numa_nodes: int
    memory_kib: int
    dimms: list[int]
    cmdline: dict[str, str | None]
    thp: str = "never"
    thp_defrag: str = "madvise"
    idle_driver: str = "intel_idle"
    idle_states: list[IdleState] = field(default_factory=list)
    governor: str = "performance"
    swap_kib: int = 0
    clock_synchronised: bool = True
    clock_offset_s: float = 0.000021
    ntp_server: str = ""
    ntp_active: bool = True
    numa_balancing: int = 0
    edac_ue: int = 0
    edac_ce: int = 0
    peermem: bool = True
    acs_redirect: bool = False
    bios_version: str = "2.3.2"
    memlock: str = "infinity"


@dataclass
class Login:
    """What meets a person or program that connects."""

    up: bool = True
    frozen: bool = False
    key_accepted: bool = True
    host_key_changed: bool = False
    banner: str = ""
    motd: str = ""
    locale: str = "C.UTF-8"
    sudo: bool = True


@dataclass
class ToolFault:
    """A command that misbehaves whatever the state of the machine is."""

    tool: str
    how: Literal["missing", "hangs", "floods", "cuts", "slow"]


@dataclass
class HostState:
    name: str
    pool: str
    rack: str
    load: Load
    booted: datetime
    now: datetime
    driver: str
    kernel_driver: str
    cuda: str
    kernel_module: Literal["open", "proprietary"]
    gpus: list[Gpu]
    planned_gpus: int
    ports: list[Port]
    disks: list[Disk]
    bmc: Bmc | None
    system: System
    login: Login
    model_dir: str
    model_bytes_free: int
    model_bytes_total: int
    management_interface: str
    services: dict[str, str]
    fabric_manager_version: str
    settings: Settings
    active: Active
    diag_level: int
    """Of DCGM's tests that the plan asks for; 0: none."""
    tool_faults: list[ToolFault] = field(default_factory=list)
    kernel_log: list[tuple[float, str]] = field(default_factory=list)
    journal: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    stuck: list[Process] = field(default_factory=list)
    log_wrapped: bool = False
    smi_error: str = ""
    vendor: str = "nvidia"
    devices: list[Accelerator] = field(default_factory=list)
    """Accelerators of other vendors; NVIDIA's are ``gpus``."""
    mac: Mac | None = None
    foreign: list[tuple[str, str, str]] = field(default_factory=list)
    """Further PCI devices: address, class and title, ids."""

    @property
    def nvlink(self) -> bool:
        return any(g.links for g in self.gpus)

    @property
    def roce(self) -> bool:
        return any(p.ethernet for p in self.ports)

    @property
    def parts(self) -> str:
        """What the host has, in words, for messages."""
        kind = "RoCE" if self.roce else "InfiniBand"
        if self.vendor != "nvidia":
            return f"{self.name} with {len(self.devices) or 1} accelerators of {self.vendor}"
        words = [
            f"{len(self.gpus)} GPUs" if len(self.gpus) != 1 else "1 GPU",
            "NVLink" if self.nvlink else "no NVLink",
            f"{len(self.ports)} {kind} ports" if self.ports else "no RDMA ports",
            "a BMC" if self.bmc else "no BMC",
        ]
        return f"{self.name} with {', '.join(words)}"

    @property
    def uptime_s(self) -> float:
        return (self.now - self.booted).total_seconds()

    def log(self, text: str, *, ago_s: float = 3600.0) -> None:
        """Append a kernel message that is ``ago_s`` seconds old."""
        self.kernel_log.append((max(self.uptime_s - ago_s, 30.0), text))


_HGX_GPUS = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")
_HGX_NICS = ("1a", "2c", "3c", "5f", "9c", "ad", "bc", "dd")
_PCIE_GPUS = ("41", "c1", "01", "81")
_SPARE_BUSES = tuple(f"{bus:02x}" for bus in range(0x62, 0x72))
BOOT_AGE = timedelta(days=3, hours=5, minutes=12)
SPARE_BYTES = 400 * 10**9
"""Free space beyond twice the weights on a healthy model directory."""


def build(
    plan: Plan, name: str, *, load: Load = "idle", seed: int = 1, now: datetime | None = None
) -> HostState:
    """The healthy host ``name`` of ``plan``: it shows what the plan's expectations ask for.

    Raises:
        KeyError: no pool has such a node.
    """
    for pool in plan.pools:
        for node in pool.nodes:
            if node.name == name:
                expected = plan.expectations[pool.name]
                return build_host(
                    pool,
                    node,
                    expected,
                    plan.fabric,
                    load=load,
                    seed=seed,
                    now=now,
                    kernel_module=plan.platform.kernel_module if plan.platform else "open",
                )
    raise KeyError(name)


def build_host(
    pool: Pool,
    node: Node,
    expected: HostExpectation,
    fabric: Fabric | None,
    *,
    load: Load = "idle",
    seed: int = 1,
    now: datetime | None = None,
    kernel_module: Literal["open", "proprietary"] = "open",
) -> HostState:
    now = (now or datetime.now(UTC)).replace(microsecond=0, tzinfo=UTC)
    rng = random.Random(f"{seed}/{node.name}")
    vendor = expected.gpu.vendor
    driver = planned(expected.gpu.driver_pinned, "") or _at_least(expected.gpu.driver_min, "580.105.08")
    if vendor in KINDS:
        driver = KINDS[vendor].version
    headroom = planned(expected.storage.headroom_bytes, 0)
    state = HostState(
        name=node.name,
        pool=pool.name,
        rack=node.rack,
        load=load,
        booted=now - BOOT_AGE,
        now=now,
        driver=driver,
        kernel_driver=driver,
        cuda=_at_least(expected.gpu.cuda_min, "13.0"),
        kernel_module=kernel_module,
        gpus=[],
        planned_gpus=expected.gpu.count,
        ports=_ports(node, expected, fabric, rng),
        disks=_disks(pool, expected, rng),
        bmc=None,
        system=_system(pool, expected),
        login=Login(),
        model_dir=planned(expected.storage.model_dir, "/var/lib/models"),
        model_bytes_free=headroom + SPARE_BYTES,
        model_bytes_total=max(pool.nvme_bytes_per_node, headroom + 2 * SPARE_BYTES),
        management_interface=fabric.management_interface if fabric else "eno1",
        services=_services(expected),
        fabric_manager_version=driver,
        settings=settings(expected, driver),
        active=active(expected),
        diag_level=planned(expected.gpu.diag_level, 0),
        vendor=vendor,
    )
    taken = {p.pci_address for p in state.ports}
    if vendor == "nvidia":
        state.gpus = [_gpu(i, expected, load, rng, taken) for i in range(expected.gpu.count)]
        _join(state, expected)
    else:
        free = [a for a in (f"0000:{b}:00.0" for b in (*_HGX_GPUS, *_SPARE_BUSES)) if a not in taken]
        state.devices = accelerators(expected, load, rng, free)
        state.mac = mac(expected)
    if not isinstance(expected.power.bmc, NotApplicable) and planned(expected.power.bmc, True):
        state.bmc = _bmc(pool, expected, load, rng, now)
    return state


def _at_least(minimum: Any, usual: str) -> str:
    floor = planned(minimum, "")

    def key(version: str) -> list[int]:
        return [int(p) for p in version.split(".") if p.isdigit()]

    return floor if floor and key(floor) > key(usual) else usual


def _gpu(index: int, expected: HostExpectation, load: Load, rng: random.Random, taken: set[str]) -> Gpu:
    want = expected.gpu
    product = GPU_PRODUCTS.get(want.product) or GPU_PRODUCTS["NVIDIA H200"]
    links = planned(expected.nvlink.links_per_gpu, 0)
    buses = _HGX_GPUS if want.count > 4 or links else _PCIE_GPUS
    addresses = [a for a in (f"0000:{b}:00.0" for b in (*buses, *_SPARE_BUSES)) if a not in taken]
    limit = planned(want.power_limit_w, product.power_w)
    full = load == "full"
    temperature = rng.randint(58, 66) if full else rng.randint(28, 34)
    ecc = planned(want.ecc, False) if product.ecc else None
    gen, width = planned(want.pcie_gen, product.pcie_gen), planned(want.pcie_width, 16)
    fabric = planned(expected.nvlink.fabric_state, "Completed") if links else "N/A"
    used = round(product.memory_mib * 0.9) if full else 0
    processes = [Process(40_000 + index, f"VLLM::Worker_TP{index}", used - 600)] if full else []
    divided = planned(want.mig, False)
    mig = bool(divided) if product.mig else None
    return Gpu(
        index=index,
        product=product,
        name=want.product,
        uuid=f"GPU-{uuid.UUID(int=rng.getrandbits(128), version=4)}",
        serial=f"16{rng.randrange(10**11):011d}",
        pci_address=addresses[index],
        pci_id=planned(want.pci_ids, (product.pci_id,))[0],
        numa=_half(index, want.count, planned(expected.os.numa_nodes, 2)),
        power_draw_w=round(
            limit * rng.uniform(0.9, 0.96) if full else product.idle_w * rng.uniform(0.95, 1.05), 2
        ),
        power_limit_w=float(limit),
        temperature_c=temperature,
        memory_temperature_c=temperature + rng.randint(6, 10) if product.memory_sensor else None,
        utilisation=rng.randint(97, 100) if full else 0,
        memory_total_mib=product.memory_mib,
        memory_used_mib=used,
        ecc_current=ecc,
        ecc_pending=ecc,
        pcie_gen_current=gen if full or product.sxm else 1,
        pcie_gen_max=gen,
        pcie_width_current=width,
        pcie_width_max=width,
        links=[planned(expected.nvlink.link_gb_s, 26.562)] * links,
        fabric_state=fabric,
        fabric_status="Success" if links else "N/A",
        persistence=planned(want.persistence, True),
        mig_current=mig,
        mig_pending=mig,
        mig_devices=divided if isinstance(divided, tuple) else (),
        vbios=product.vbios,
        reasons=set() if full else {"gpu_idle"},
        processes=processes,
    )


def _half(index: int, count: int, nodes: int) -> int:
    """The NUMA node of part ``index`` of ``count``, spread in order."""
    return index * nodes // max(count, 1)


def _ports(node: Node, expected: HostExpectation, fabric: Fabric | None, rng: random.Random) -> list[Port]:
    want: tuple[RdmaPort, ...] = planned(expected.rdma.ports, ())
    ports: list[Port] = []
    for index, port in enumerate(want):
        rail = next((r for r in fabric.rails if r.hca == port.device), None) if fabric else None
        guid = 0x58A2E10000000000 | rng.getrandbits(40)
        ib = port.link_layer == "InfiniBand"
        address = node.rail_addresses[index] if index < len(node.rail_addresses) else ""
        built = Port(
            device=port.device,
            netdev=port.netdev,
            number=port.port,
            rate_gbps=port.rate_gbps,
            link_layer=port.link_layer,
            pci_address=rail.pci_address if rail else f"0000:{_HGX_NICS[index % 8]}:00.0",
            numa=_half(index, len(want), planned(expected.os.numa_nodes, 2)),
            guid=guid,
            mac=":".join(f"{b:02x}" for b in (guid & 0x3FFFFFFFFFF | 0x580000000000).to_bytes(6, "big")),
            mtu=planned(expected.rdma.mtu, 4092 if ib else 9000),
            active_mtu=planned(expected.rdma.active_mtu, 4096),
            address=address,
            firmware=fabric.firmware if fabric and fabric.firmware else "28.43.2026",
            lid=rng.randint(64, 4000) if ib else 0,
            sm_lid=1 if ib else 0,
            trust=planned(expected.rdma.trust, "dscp"),
            pfc=list(planned(expected.rdma.pfc, (False,) * 8)),
            dscp_map={d: d // 8 for d in range(64)},
            tos=planned(expected.rdma.traffic_class, 0),
        )
        dscp, priority = planned(expected.rdma.dscp, None), planned(expected.rdma.dscp_priority, None)
        if dscp is not None and priority is not None:
            built.dscp_map[dscp] = priority
        if fabric and fabric.qos:
            built.dscp_map[fabric.qos.cnp_dscp] = fabric.qos.cnp_priority
        ports.append(built)
    return ports


def _disks(pool: Pool, expected: HostExpectation, rng: random.Random) -> list[Disk]:
    count = planned(expected.storage.nvme_count, 8 if pool.gpus_per_node >= 8 else 2)
    size = round(pool.nvme_bytes_per_node / max(count, 1)) or 3_840_755_982_336
    return [
        Disk(
            index=i,
            model="SAMSUNG MZQL23T8HCLS-00A07",
            serial=f"S64HNE0W{rng.randrange(10**6):06d}",
            bytes=size,
            pci_address=f"0000:{0xE1 + i:02x}:00.0",
            temperature_c=rng.randint(31, 38),
        )
        for i in range(count)
    ]


def _system(pool: Pool, expected: HostExpectation) -> System:
    want = expected.os
    gib = planned(want.memory_gib, pool.memory_gib_per_node)
    nodes = planned(want.numa_nodes, 2)
    iommu = planned(want.iommu, "pt")
    cmdline: dict[str, str | None] = {
        "BOOT_IMAGE": "/vmlinuz-6.8.0-64-generic",
        "root": "/dev/mapper/vg0-root",
        "ro": None,
        "transparent_hugepage": planned(want.thp, ("never",))[0],
        "intel_iommu": "off" if iommu == "off" else "on",
    }
    if iommu not in ("off", "on"):
        cmdline["iommu"] = iommu
    cmdline |= {"intel_idle.max_cstate": "1", "processor.max_cstate": "1", "nvme_core.multipath": "N"}
    deepest = set(planned(want.cstates_allowed, ("POLL", "C1", "C1E")))
    dimm = 64 if gib <= 16 * 64 else 128
    sticks = max(2, math.ceil(gib / dimm))
    return System(
        kernel="6.8.0-64-generic",
        os_name="Ubuntu",
        os_version="24.04",
        cpus=pool.cpus_per_node,
        sockets=2 if nodes >= 2 else 1,
        numa_nodes=nodes,
        memory_kib=round(gib * 1024 * 1024 * 0.985),
        dimms=[dimm] * sticks,
        cmdline=cmdline,
        thp=planned(want.thp, ("never",))[0],
        idle_states=[
            IdleState(name, latency, name in deepest)
            for name, latency in (("POLL", 0), ("C1", 1), ("C1E", 2), ("C6", 290))
        ],
        governor=planned(want.governor, "performance"),
        swap_kib=8_388_604 if planned(want.swap, False) else 0,
        ntp_server=(planned(want.ntp, ()) or ("ntp.example.net",))[0],
    )


def _join(state: HostState, expected: HostExpectation) -> None:
    """Trays of a rack register in its NVLink domain; a single host's switches know no cluster."""
    if planned(expected.nvlink.domain_gpus, 0):
        for gpu in state.gpus:
            gpu.fabric_cluster, gpu.fabric_clique = str(uuid.uuid5(uuid.NAMESPACE_DNS, state.rack)), 1


def _services(expected: HostExpectation) -> dict[str, str]:
    services = {"nvidia-persistenced": "active", "chronyd": "active", "chrony": "active", "sshd": "active"}
    if planned(expected.nvlink.fabric_manager, False):
        services["nvidia-fabricmanager"] = "active"
    imex = planned(expected.nvlink.imex, "")
    if imex:
        services["nvidia-imex"] = "active" if imex == "always" else "inactive"
    return services


def _bmc(pool: Pool, expected: HostExpectation, load: Load, rng: random.Random, now: datetime) -> Bmc:
    full = load == "full"
    top = planned(expected.power.full_load_w, pool.full_load_w_per_node)
    watts = round((top if full else pool.idle_w_per_node) * rng.uniform(0.93, 0.97))
    supplies = planned(expected.power.psu_count, 6 if pool.gpus_per_node >= 8 else 2)
    inlet = rng.randint(21, 23)
    rise = min(planned(expected.power.inlet_outlet_delta_c, 15.0) - 3, 12.0)
    outlet = inlet + (round(rise) if full else 7)
    sensors = [Sensor("Inlet Temp", inlet, "degrees C"), Sensor("Exhaust Temp", outlet, "degrees C")]
    sensors += [Sensor(f"CPU{i} Temp", 68 if full else 38, "degrees C") for i in (1, 2)]
    sensors += [Sensor(f"Fan{i}", (9600 if full else 5100) + 60 * (i % 3), "RPM") for i in range(1, 9)]
    sensors += [Sensor(f"PSU{i} Power In", round(watts / supplies), "Watts") for i in range(1, supplies + 1)]
    sensors += [Sensor(f"PSU{i} Status", None, "0x01") for i in range(1, supplies + 1)]
    sensors += [Sensor("PS Redundancy", None, "0x01"), Sensor("12V Rail", 12.1, "Volts")]
    return Bmc(
        power_w=watts,
        minimum_w=round(pool.idle_w_per_node * 0.8),
        maximum_w=round(watts * 1.02),
        average_w=round(watts * 0.98),
        sensors=sensors,
        events=[
            SelEvent(now - timedelta(days=60), "Event Logging Disabled SEL", "Log area reset/cleared"),
            SelEvent(now - BOOT_AGE - timedelta(seconds=90), "System Event OS Boot", "C: boot completed"),
        ],
    )
