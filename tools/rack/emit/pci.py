"""The PCIe tree: lspci, and /sys/bus/pci. A GPU and its NIC share a switch under one root port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tools.rack.devices import KINDS
from tools.rack.emit.core import Link, Recording, Tree
from tools.rack.state import HostState

_SPEEDS = {1: "2.5GT/s", 2: "5GT/s", 3: "8GT/s", 4: "16GT/s", 5: "32GT/s", 6: "64GT/s"}


@dataclass(frozen=True)
class Device:
    """One function. ``path`` is its place below /sys/devices."""

    address: str
    kind: str
    title: str
    ids: str
    path: str
    driver: str
    link_max: tuple[int, int] | None = None
    link_now: tuple[int, int] | None = None
    bridge: bool = False
    revision: str = "a1"
    numa: int = 0

    @property
    def class_code(self) -> str:
        return self.kind[-5:-1]


def recordings(state: HostState) -> Iterator[Recording]:
    found = devices(state)
    yield Recording("lspci", "-D -nn", "".join(f"{_head(d)}\n" for d in found))
    yield Recording("lspci", "-D -nn -vvv", _verbose(found, state, acs=True), root=True)


def sys_path(state: HostState, address: str) -> str:
    for device in devices(state):
        if device.address == address:
            return device.path
    return f"/sys/devices/pci0000:00/{address}"


def devices(state: HostState) -> tuple[Device, ...]:
    key = (
        tuple(
            (g.index, g.pci_address, g.pci_id, g.pcie_gen_max, g.pcie_width_max, g.pcie_gen_current,
             g.pcie_width_current, g.numa)
            for g in state.gpus
        )
        + tuple(
            (d.index, d.pci_address, d.pci_id, *(d.pcie_gen, d.pcie_width) * 2, d.index // 4)
            for d in state.devices
        ),
        tuple((i, p.pci_address, p.ethernet, p.numa) for i, p in enumerate(state.ports) if p.present),
        tuple(d.pci_address for d in state.disks),
        max(state.planned_gpus, len(state.devices)),
        len(state.ports),
    )  # fmt: skip
    found = _devices(key, _card(state), state.nvlink)
    if not state.foreign:
        return found
    more = [
        Device(address, *title.split(": ", 1), ids, f"/sys/devices/pci0000:f0/0000:f0:01.0/{address}", "")
        for address, title, ids in state.foreign
    ]
    return tuple(sorted([*found, *more], key=lambda d: d.address))


Card = tuple[str, str, str]
"""How lspci shows an accelerator: class, title, driver."""


def _card(state: HostState) -> Card:
    if state.vendor in KINDS:
        kind = KINDS[state.vendor]
        return kind.pci_class, kind.title, kind.driver
    chip = state.gpus[0].product.chip if state.gpus else ""
    return "3D controller [0302]", f"NVIDIA Corporation {chip}", "nvidia"


@lru_cache(maxsize=256)
def _devices(key: tuple[Any, ...], card: Card, nvlink: bool) -> tuple[Device, ...]:
    gpus, ports, disks, planned, planned_ports = key
    slots = max(planned, 1)
    by_slot = {g[0]: g for g in gpus}
    nic_slots: dict[int, list[tuple[int, str, bool, int]]] = {}
    for port in ports:
        nic_slots.setdefault(port[0] * slots // max(planned_ports, 1), []).append(port)
    found: list[Device] = []
    taken = {int(item[1].split(":")[1], 16) for item in (*gpus, *ports)}
    taken |= {int(address.split(":")[1], 16) for address in disks}
    free = iter(bus for bus in range(0x10, 0xE0) if bus not in taken)
    for slot in range(slots):
        buses = (next(free), next(free), next(free))
        found += _slot(buses, by_slot.get(slot), nic_slots.get(slot, []), card)
    if nvlink:
        found += [
            Device(
                f"0000:{0x05 + i:02x}:00.0", "Bridge [0680]", "NVIDIA Corporation GH100 [H100 NVSwitch]",
                "10de:22a3", f"/sys/devices/pci0000:00/0000:00:{0x10 + i:02x}.0/0000:{0x05 + i:02x}:00.0",
                "nvidia-nvswitch", (4, 2), (4, 2),
            )
            for i in range(4)
        ]  # fmt: skip
    for i, address in enumerate(disks):
        found.append(
            Device(
                address, "Non-Volatile memory controller [0108]",
                "Samsung Electronics Co Ltd NVMe SSD Controller PM9A1/PM9A3/980PRO", "144d:a80a",
                f"/sys/devices/pci0000:e0/0000:e0:{1 + i:02x}.0/{address}", "nvme",
                (4, 4), (4, 4), revision="00",
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda d: d.address))


def _slot(
    buses: tuple[int, int, int],
    gpu: tuple[Any, ...] | None,
    nics: list[tuple[int, str, bool, int]],
    card: Card,
) -> list[Device]:
    """Root port, switch (upstream and downstream ports) and what hangs on it."""
    root_bus, upper, lower = (f"0000:{bus:02x}" for bus in buses)
    root = f"/sys/devices/pci{root_bus}/{root_bus}:01.0"
    upstream = f"{root}/{upper}:00.0"
    found = [
        Device(
            f"{root_bus}:01.0", "PCI bridge [0604]", "Intel Corporation Device", "8086:352a", root,
            "pcieport", (5, 16), (5, 16), bridge=True, revision="30",
        ),
        Device(
            f"{upper}:00.0", "PCI bridge [0604]", "Broadcom / LSI PEX890xx PCIe Gen 5 Switch", "1000:c030",
            upstream, "pcieport", (5, 16), (5, 16), bridge=True, revision="b0",
        ),
    ]  # fmt: skip
    children: list[Device] = []
    if gpu is not None:
        _, address, pci_id, gen, width, now_gen, now_width, numa = gpu
        children.append(
            Device(
                address, card[0], card[1], pci_id, "", card[2], (gen, width), (now_gen, now_width), numa=numa,
            )
        )  # fmt: skip
    for _, address, ethernet, numa in nics:
        kind = "Ethernet controller [0200]" if ethernet else "Infiniband controller [0207]"
        children.append(
            Device(
                address, kind, "Mellanox Technologies MT2910 Family [ConnectX-7]", "15b3:1021", "",
                "mlx5_core", (5, 16), (5, 16), revision="00", numa=numa,
            )
        )  # fmt: skip
    for port, child in enumerate(children):
        address = f"{lower}:{port:02x}.0"
        path = f"{upstream}/{address}"
        found.append(
            Device(
                address, "PCI bridge [0604]", "Broadcom / LSI PEX890xx PCIe Gen 5 Switch", "1000:c030", path,
                "pcieport", child.link_max, child.link_now, bridge=True, revision="b0",
            )
        )  # fmt: skip
        found.append(Device(**{**child.__dict__, "path": f"{path}/{child.address}"}))
    return found


def _head(device: Device) -> str:
    revision = f" (rev {device.revision})" if device.revision != "00" else ""
    return f"{device.address} {device.kind}: {device.title} [{device.ids}]{revision}"


def _verbose(found: tuple[Device, ...], state: HostState, *, acs: bool) -> str:
    return "\n".join(_block(d, redirect=state.system.acs_redirect, acs=acs) for d in found) + "\n"


def _block(device: Device, *, redirect: bool, acs: bool) -> str:
    lines = [
        _head(device),
        "\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr+ "
        "Stepping- SERR+ FastB2B- DisINTx+",
        "\tStatus: Cap+ 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- "
        ">SERR- <PERR- INTx-",
        "\tLatency: 0, Cache Line Size: 64 bytes",
        f"\tNUMA node: {device.numa}",
    ]
    if device.link_max and device.link_now:
        kind = "Downstream Port (Slot+)" if device.bridge else "Endpoint"
        max_gen, max_width = device.link_max
        gen, width = device.link_now
        lines += [
            f"\tCapabilities: [60] Express (v2) {kind}, MSI 00",
            f"\t\tLnkCap:\tPort #0, Speed {_SPEEDS[max_gen]}, Width x{max_width}, ASPM not supported",
            "\t\tLnkCtl:\tASPM Disabled; RCB 64 bytes, Disabled- CommClk+",
            f"\t\tLnkSta:\tSpeed {_SPEEDS[gen]}{' (downgraded)' if gen < max_gen else ''}, "
            f"Width x{width}{' (downgraded)' if width < max_width else ''}",
            "\t\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-",
        ]
    lines += [
        "\tCapabilities: [100 v2] Advanced Error Reporting",
        "\t\tUESta:\tDLP- SDES- TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- RxOF- MalfTLP- "
        "ECRC- UnsupReq- ACSViol-",
    ]
    if acs and device.bridge:
        flag = "+" if redirect else "-"
        lines += [
            "\tCapabilities: [148 v1] Access Control Services",
            "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+",
            f"\t\tACSCtl:\tSrcValid{flag} TransBlk- ReqRedir{flag} CmpltRedir{flag} UpstreamFwd{flag} "
            "EgressCtrl- DirectTrans-",
        ]
    lines.append(f"\tKernel driver in use: {device.driver}\n")
    return "\n".join(lines)


def files(state: HostState) -> Tree:
    tree: Tree = {}
    for d in devices(state):
        vendor, product = d.ids.split(":")
        tree |= {
            f"/sys/bus/pci/devices/{d.address}": Link(d.path),
            f"{d.path}/vendor": f"0x{vendor}\n",
            f"{d.path}/device": f"0x{product}\n",
            f"{d.path}/class": f"0x{d.class_code}00\n",
        }
        if not d.bridge:
            tree[f"{d.path}/numa_node"] = f"{d.numa}\n"
    return tree
