"""Faults of NVLink and of the RDMA fabric."""

from __future__ import annotations

import random

from tools.rack.faults.base import (
    GPU,
    PORT,
    Args,
    fault,
    has_infiniband,
    has_nvlink,
    has_rdma,
    has_roce,
    one_gpu,
    one_port,
)
from tools.rack.state import HostState


@fault(
    "nvlink-inactive", "nvlink", "nvlink-links nvlink-topology", touches="links", applies=has_nvlink, args=GPU
)
def nvlink_inactive(state: HostState, rng: random.Random, args: Args) -> None:
    """One NVLink of one GPU is inactive."""
    gpu = one_gpu(state, rng, args)
    gpu.links[rng.randrange(len(gpu.links))] = None


@fault("nvlink-slow", "nvlink", "nvlink-links", touches="links", applies=has_nvlink, args=GPU)
def nvlink_slow(state: HostState, rng: random.Random, args: Args) -> None:
    """The links of one GPU trained at half their rate."""
    gpu = one_gpu(state, rng, args)
    gpu.links = [rate / 2 if rate else None for rate in gpu.links]


@fault("nvlink-no-peer", "nvlink", "nvlink-topology", touches="links", applies=has_nvlink, args=GPU)
def nvlink_no_peer(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU reaches the others over PCIe only, though its links are up."""
    one_gpu(state, rng, args).peer_links = False


@fault("fabric-stuck", "nvlink", "nvlink-fabric-state", touches="fabric", applies=has_nvlink, args=GPU)
def fabric_stuck(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU never finished its registration in the NVLink fabric."""
    gpu = one_gpu(state, rng, args)
    gpu.fabric_state, gpu.fabric_status = "In Progress", "N/A"


@fault("fabric-error", "nvlink", "nvlink-fabric-state", touches="fabric", applies=has_nvlink, args=GPU)
def fabric_error(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU completed its registration in the fabric with an error."""
    one_gpu(state, rng, args).fabric_status = "Insufficient Resources"


@fault("fabric-manager-dead", "nvlink", "nvlink-fabric-manager", touches="fabric-manager", applies=has_nvlink)
def fabric_manager_dead(state: HostState, rng: random.Random, args: Args) -> None:
    """nvidia-fabricmanager failed after the fabric had been set up."""
    state.services["nvidia-fabricmanager"] = "failed"


@fault(
    "fabric-manager-version", "nvlink", "nvlink-fabric-manager", touches="fabric-manager", applies=has_nvlink
)
def fabric_manager_version(state: HostState, rng: random.Random, args: Args) -> None:
    """The fabric manager is of another version than the driver."""
    state.fabric_manager_version = "590.48.01"


@fault("sxid-fatal", "nvlink", "log-sxid", touches="sxid", applies=has_nvlink)
def sxid_fatal(state: HostState, rng: random.Random, args: Args) -> None:
    """An NVSwitch logged a fatal error."""
    state.log(
        "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 24007, Fatal, Link 28 sourcetrack timeout error (First)"
    )


@fault("port-down", "rdma", "ib-link ib-sm", touches="port", applies=has_rdma, args=PORT)
def port_down(state: HostState, rng: random.Random, args: Args) -> None:
    """One RDMA port has no link: a cable or its switch port."""
    port = one_port(state, rng, args)
    port.state, port.physical_state, port.rate_gbps = "DOWN", "Polling", 40
    port.lid = port.sm_lid = 0


@fault("port-slow", "rdma", "ib-link", touches="port", applies=has_rdma, args=PORT)
def port_slow(state: HostState, rng: random.Random, args: Args) -> None:
    """One RDMA port trained at half its rate."""
    port = one_port(state, rng, args)
    port.rate_gbps //= 2


@fault(
    "port-missing",
    "rdma",
    "ib-link ib-sm ib-names roce-mtu roce-qos roce-tos pcie-pairing ib-errors ib-firmware roce-gid "
    "ib-devices uniform-nic-firmware@pool",
    touches="port",
    alone=True,
    applies=has_rdma,
    args=PORT,
)
def port_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """One RDMA device is not there."""
    one_port(state, rng, args).present = False


@fault("rails-swapped", "rdma", "ib-names", touches="port", applies=lambda s: len(s.ports) > 1)
def rails_swapped(state: HostState, rng: random.Random, args: Args) -> None:
    """Two rails have each other's interface: the udev rule names them by another order."""
    first, second = rng.sample(state.ports, 2)
    first.netdev, second.netdev = second.netdev, first.netdev


@fault("sm-missing", "rdma", "ib-link ib-sm", touches="port", applies=has_infiniband)
def sm_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """No subnet manager serves one port's fabric."""
    port = one_port(state, rng, args)
    port.state, port.sm_lid, port.lid = "INIT", 0, 0


@fault("mtu-1500", "rdma", "roce-mtu", touches="mtu", applies=has_roce, args=PORT)
def mtu_1500(state: HostState, rng: random.Random, args: Args) -> None:
    """One rail's interface has the default MTU."""
    port = one_port(state, rng, args)
    port.mtu, port.active_mtu = 1500, 1024


@fault("pfc-off", "rdma", "roce-qos", touches="qos", applies=has_roce, args=PORT)
def pfc_off(state: HostState, rng: random.Random, args: Args) -> None:
    """Priority flow control is off on one port."""
    one_port(state, rng, args).pfc = [False] * 8


@fault("pfc-wrong-priority", "rdma", "roce-qos", touches="qos", applies=has_roce, args=PORT)
def pfc_wrong_priority(state: HostState, rng: random.Random, args: Args) -> None:
    """Priority flow control is on for another priority than the switch's."""
    port = one_port(state, rng, args)
    port.pfc = [*port.pfc[1:], port.pfc[0]]


@fault("trust-pcp", "rdma", "roce-qos", touches="qos", applies=has_roce, args=PORT)
def trust_pcp(state: HostState, rng: random.Random, args: Args) -> None:
    """One port trusts the VLAN priority instead of the DSCP."""
    one_port(state, rng, args).trust = "pcp"


@fault("dscp-map-wrong", "rdma", "roce-qos", touches="qos", applies=has_roce, args=PORT)
def dscp_map_wrong(state: HostState, rng: random.Random, args: Args) -> None:
    """One port maps the lossless DSCP to another priority."""
    port = one_port(state, rng, args)
    lossless = port.tos >> 2
    port.dscp_map[lossless] = (port.dscp_map[lossless] + 1) % 8


@fault("tos-wrong", "rdma", "roce-tos", touches="tos", applies=has_roce, args=PORT)
def tos_wrong(state: HostState, rng: random.Random, args: Args) -> None:
    """One device sends RDMA with the default traffic class."""
    one_port(state, rng, args).tos = 0


@fault("peermem-missing", "rdma", "rdma-gpudirect", touches="peermem", applies=has_rdma)
def peermem_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """Neither nvidia_peermem nor a driver with dma-buf: NICs cannot reach GPU memory."""
    state.system.peermem = False
    state.kernel_module = "proprietary"


@fault("acs-on", "rdma", "pcie-acs", touches="acs", applies=has_rdma)
def acs_on(state: HostState, rng: random.Random, args: Args) -> None:
    """ACS redirection is on: traffic between GPU and NIC takes the detour through the root complex."""
    state.system.acs_redirect = True


@fault("link-flap", "rdma", "ib-flaps", touches="flap", applies=has_roce, args=PORT)
def link_flap(state: HostState, rng: random.Random, args: Args) -> None:
    """One rail lost its link several times today; now it is up."""
    port = one_port(state, rng, args)
    for ago in (5400, 5200, 5100):
        state.log(f"mlx5_core {port.pci_address} {port.netdev}: Link down", ago_s=ago)
        state.log(f"mlx5_core {port.pci_address} {port.netdev}: Link up", ago_s=ago - 4)
    port.link_downed += 3


@fault(
    "nic-firmware-differs",
    "rdma",
    "uniform-nic-firmware@pool ib-firmware",
    touches="nic-firmware",
    applies=has_rdma,
)
def nic_firmware_differs(state: HostState, rng: random.Random, args: Args) -> None:
    """The NICs of this host have an older firmware than those of the others."""
    for port in state.ports:
        port.firmware = "28.39.3004"
