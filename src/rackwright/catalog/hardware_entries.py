"""The shapes of accelerators, machines and cabinets."""

from __future__ import annotations

from typing import Literal

from rackwright.catalog.figures import (
    Count,
    DegreesC,
    Entry,
    Frozen,
    Gibibytes,
    GigabitsPerSecond,
    Gigabytes,
    GigabytesPerSecond,
    Mebibytes,
    Megahertz,
    Share,
    Teraflops,
    Teraops,
    Watt,
)

Vendor = Literal["nvidia", "amd", "huawei", "apple", "intel", "moore-threads", "biren", "cambricon"]
EfficiencyClass = Literal["hbm", "hbm-amd", "hbm-other", "gddr", "unified", "apple", "ascend"]
"""Which constants of an engine hold: they follow the memory and the maturity of the vendor's kernels."""


class NvLink(Frozen):
    """``link_gb_s``: what ``nvidia-smi nvlink -s`` prints a link; ``unidirectional``: per GPU, all links.

    ``domain``: GPUs that reach each other over it.
    """

    links: Count
    link_gb_s: GigabytesPerSecond
    unidirectional: GigabytesPerSecond
    topology: str
    domain: int = 8


class Link(Frozen):
    """How accelerators of one domain reach each other without the host.

    ``unidirectional``: GB/s out of one accelerator, all links. ``domain``: how many reach each other.
    ``switched``: any pair gets the full rate; in a mesh a pair gets its own link only.
    """

    kind: Literal[
        "nvlink",
        "nvlink-bridge",
        "xgmi",
        "hccs",
        "ub",
        "mtlink",
        "blink",
        "mlu-link",
        "thunderbolt",
        "ethernet",
    ]
    unidirectional: GigabytesPerSecond
    domain: int
    switched: bool


class Accelerator(Entry):
    """One accelerator.

    ``memory``: what the driver's tool shows as total (a data sheet's size is ``memory_nominal``).
    ``memory_share``: what of it the accelerator may use where the host lives in the same memory.
    ``product``, ``pci_ids``, ``nvlink``: as nvidia-smi and lspci -nn print them; of others empty.
    ``link``: for what has no ``nvlink``; read ``interconnect``, which knows both.
    ``pcie``: unidirectional; 0 where the accelerator is part of a system on a chip.
    ``ecc``: always-on (HBM parts), switchable (off as shipped on workstation cards), or none.
    ``efficiency_class``: constants of the estimator; ``memory_class`` where it is not given.
    ``clock_max``: the highest of its multiprocessors, as the driver's tool prints it.
    ``c2c``: unidirectional, to the CPU of the same module. ``dies``: per package.
    """

    kind: Literal["accelerator"]
    vendor: Vendor
    product: str = ""
    pci_ids: tuple[str, ...] = ()
    pci_ids_verified: bool = False
    architecture: str = ""
    memory_class: Literal["hbm", "gddr", "unified"]
    efficiency_class: EfficiencyClass | None = None
    memory: Mebibytes
    memory_nominal: Gigabytes | None = None
    memory_share: Share | None = None
    bandwidth: GigabytesPerSecond
    bf16: Teraflops
    fp8: Teraflops | None = None
    fp4: Teraflops | None = None
    int8: Teraops | None = None
    power_limit: Watt
    idle: Watt
    nvlink: NvLink | None = None
    link: Link | None = None
    c2c: GigabytesPerSecond | None = None
    dies: int = 1
    pcie_gen: Count
    pcie_width: Count
    pcie: GigabytesPerSecond
    ecc: Literal["always-on", "switchable", "none"]
    mig_slices: Count
    temperature_max: DegreesC
    memory_temperature_max: DegreesC | None = None
    clock_max: Megahertz | None = None
    row_remap: bool = False
    open_kernel_module_only: bool = False
    eula_restricted: bool = False

    @property
    def memory_gib(self) -> float:
        """GiB that programs on the accelerator can use."""
        share = 1.0 if self.memory_share is None else self.memory_share.value
        return self.memory.value * share / 1024

    @property
    def efficiency_key(self) -> EfficiencyClass:
        return self.efficiency_class or self.memory_class

    @property
    def interconnect(self) -> Link | None:
        """The link between accelerators, whichever vendor's; None where there is only PCIe or the network."""
        if self.nvlink is None:
            return self.link
        return Link(
            kind="nvlink",
            unidirectional=self.nvlink.unidirectional,
            domain=self.nvlink.domain,
            switched=True,
        )

    def flops(self, precision: str) -> float:
        """Dense operations a second at ``precision`` (bf16, int8, fp8, fp4).

        The next wider precision where it is missing: weights are then widened before the product.
        """
        chains = {"fp4": (self.fp4, self.fp8), "fp8": (self.fp8,), "int8": (self.int8,)}
        for figure in chains.get(precision, ()):
            if figure is not None:
                return figure.value * 1e12
        return self.bf16.value * 1e12


class Nic(Frozen):
    """One fabric NIC, on the rail of the same index."""

    rail: int
    hca: str
    netdev: str
    pci_address: str


class FabricNics(Frozen):
    """``nic_type``: PCI device id that NIC templates select by (1021 is ConnectX-7, 1023 ConnectX-8)."""

    layer: Literal["Ethernet", "InfiniBand"]
    vendor: str
    nic_type: str
    model: str
    rate_gbps: GigabitsPerSecond
    nics: tuple[Nic, ...]
    addresses_verified: bool


class Network(Frozen):
    """Ports beside the fabric: front end, storage, or the link to a second machine of the same kind."""

    model: str
    ports: int
    rate_gbps: GigabitsPerSecond
    rdma: bool


class Machine(Entry):
    """One node. ``pool``: how pools of it are named. ``pci_addresses``: of the GPUs, in index order.

    ``nodes``: operating systems in it (an NVL72 rack has 18 compute trays). ``memory``: of the host; 0 where
    host and accelerator share one memory. ``psu_needed``: supplies that carry full load; the rest is
    redundant. ``pair``: the network over which two of these serve one model. ``no_price``: why no price list
    has it; empty where one does. ``cloud_only``: it is rented, not bought.
    """

    kind: Literal["machine"]
    pool: str
    accelerator: str
    gpus: Count
    nodes: int = 1
    form: Literal["server", "workstation", "desktop", "module", "rack"]
    cpu: str = ""
    sockets: Count
    cores: Count
    threads: Count
    numa_nodes: Count
    memory: Gibibytes
    nvme_count: Count
    nvme_each: Gigabytes
    fabric: FabricNics | None = None
    network: Network | None = None
    pair: Network | None = None
    management_interface: str
    idle: Watt
    full_load: Watt
    psu_count: Count
    psu_needed: Count | None = None
    psu_each: Watt | None = None
    rack_units: Count | None = None
    cooling: Literal["air", "liquid"] = "air"
    bmc: bool = True
    no_price: str = ""

    @property
    def psu_redundant(self) -> bool | None:
        """Whether one supply may fail at full load; None where it is not known."""
        return None if self.psu_needed is None else self.psu_count.value > self.psu_needed.value


class Cabinet(Entry):
    """One rack of a data centre, empty. ``feeds``: power feeds; ``rating`` holds with one of them lost."""

    kind: Literal["cabinet"]
    units: Count
    rating: Watt
    feeds: Count
    feed: Watt
    cooling: Literal["air", "liquid"]
    country: str = ""
