"""What tools print of a GPU model, where the plan has no word for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuProduct:
    """``pci_id`` is vendor:device as lspci writes it. Clocks in MHz."""

    name: str
    chip: str
    architecture: str
    brand: str
    pci_id: str
    subsystem: str
    vbios: str
    inforom: str
    part: str
    memory_mib: int
    power_w: float
    minimum_power_w: float
    idle_w: float
    slowdown_c: int
    pcie_gen: int
    graphics_mhz: int
    idle_mhz: int
    memory_mhz: int
    memory_clocks: tuple[int, ...]
    compute_cap: str
    sxm: bool
    ecc: bool = True
    mig: bool = True
    memory_sensor: bool = True
    display: bool = False


_H200 = GpuProduct(
    name="NVIDIA H200",
    chip="GH100 [H200 SXM 141GB]",
    architecture="Hopper",
    brand="NVIDIA",
    pci_id="10de:2335",
    subsystem="10de:18be",
    vbios="96.00.C7.00.06",
    inforom="G520.0280.00.04",
    part="692-2G520-0280-001",
    memory_mib=143771,
    power_w=700.0,
    minimum_power_w=200.0,
    idle_w=77.0,
    slowdown_c=87,
    pcie_gen=5,
    graphics_mhz=1980,
    idle_mhz=345,
    memory_mhz=3201,
    memory_clocks=(3201, 1593),
    compute_cap="9.0",
    sxm=True,
)
_PRO_6000_SERVER = GpuProduct(
    name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
    chip="GB202GL [RTX PRO 6000 Blackwell Server Edition]",
    architecture="Blackwell",
    brand="NVIDIA RTX",
    pci_id="10de:2bb5",
    subsystem="10de:204e",
    vbios="98.02.81.00.07",
    inforom="G153.0510.00.02",
    part="900-2G153-0000-000",
    memory_mib=97887,
    power_w=600.0,
    minimum_power_w=300.0,
    idle_w=34.0,
    slowdown_c=92,
    pcie_gen=5,
    graphics_mhz=2430,
    idle_mhz=180,
    memory_mhz=12481,
    memory_clocks=(12481, 810, 405),
    compute_cap="12.0",
    sxm=False,
    memory_sensor=False,
)
_PRO_6000_WORKSTATION = GpuProduct(
    **{
        **_PRO_6000_SERVER.__dict__,
        "name": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "chip": "GB202GL [RTX PRO 6000 Blackwell Workstation Edition]",
        "pci_id": "10de:2bb1",
        "subsystem": "10de:204b",
        "graphics_mhz": 3090,
        "display": True,
    }
)
_PRO_6000_MAX_Q = GpuProduct(
    **{
        **_PRO_6000_SERVER.__dict__,
        "name": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "chip": "GB202GL [RTX PRO 6000 Blackwell Max-Q Workstation Edition]",
        "pci_id": "10de:2bb4",
        "subsystem": "10de:204c",
        "power_w": 300.0,
        "minimum_power_w": 150.0,
        "display": True,
    }
)
_H100 = GpuProduct(
    **{
        **_H200.__dict__,
        "name": "NVIDIA H100 80GB HBM3",
        "chip": "GH100 [H100 SXM5 80GB]",
        "pci_id": "10de:2330",
        "subsystem": "10de:16c1",
        "vbios": "96.00.99.00.01",
        "inforom": "G520.0200.00.05",
        "part": "692-2G520-0200-000",
        "memory_mib": 81559,
        "memory_mhz": 2619,
        "memory_clocks": (2619, 1593),
    }
)

_GB200 = GpuProduct(
    **{
        **_H200.__dict__,
        "name": "NVIDIA GB200",
        "chip": "GB100 [GB200]",
        "architecture": "Blackwell",
        "pci_id": "10de:2941",
        "memory_mib": 189471,
        "power_w": 1200.0,
        "idle_w": 150.0,
        "graphics_mhz": 2062,
        "compute_cap": "10.0",
    }
)

GPU_PRODUCTS: dict[str, GpuProduct] = {
    p.name: p for p in (_H200, _H100, _GB200, _PRO_6000_SERVER, _PRO_6000_WORKSTATION, _PRO_6000_MAX_Q)
}
