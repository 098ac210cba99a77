"""RDMA ports, their network interfaces and their end of the QoS profile."""

from __future__ import annotations

from collections.abc import Iterator

from tools.rack.emit import pci
from tools.rack.emit.core import Link, Recording, Tree
from tools.rack.state import HostState, Port

_GENERATIONS = {40: "QDR", 56: "FDR", 100: "EDR", 200: "HDR", 400: "NDR", 800: "XDR"}
_STATES = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4}
_PHYSICAL = {"Disabled": 3, "Polling": 2, "LinkUp": 5, "LinkErrorRecovery": 6}
_DETAIL = "promiscuity 0 minmtu 68 maxmtu 9978 addrgenmode none numtxqueues 504 numrxqueues 63"


def present(state: HostState) -> list[Port]:
    return [p for p in state.ports if p.present]


def recordings(state: HostState) -> Iterator[Recording]:
    ports = present(state)
    yield Recording("ip", "-d link show", ip_link(state))
    if not state.ports:
        return
    yield Recording("rdma", "link show", rdma_link(ports))
    yield Recording("ibv_devinfo", "", devinfo(ports), rc=0 if ports else 255)
    yield Recording("ibstat", "", ibstat(ports))
    for port in ports:
        argv = f"-i {port.netdev}"
        if port.ethernet:
            refusal = "Permission denied: try with sudo"
            yield Recording("mlnx_qos", argv, qos(port), root=True, refusal=refusal)
        else:
            yield Recording("mlnx_qos", argv, stderr="Netlink error: Operation not supported\n", rc=1)


def rdma_link(ports: list[Port]) -> str:
    lines = []
    for p in ports:
        physical = {"LinkUp": "LINK_UP", "Polling": "POLLING", "Disabled": "DISABLED"}.get(
            p.physical_state, "LINK_UP"
        )
        fabric = (
            "" if p.ethernet else f"subnet_prefix fe80:0000:0000:0000 lid {p.lid} sm_lid {p.sm_lid} lmc 0 "
        )
        lines.append(
            f"link {p.device}/{p.number} {fabric}state {p.state} physical_state {physical} netdev {p.netdev} "
        )
    return "\n".join(lines) + ("\n" if lines else "")


def _guid(port: Port) -> str:
    text = f"{port.guid:016x}"
    return ":".join(text[i : i + 4] for i in range(0, 16, 4))


def _mtu_code(mtu: int) -> str:
    codes = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
    return f"{mtu} ({codes.get(mtu, 5)})"


def devinfo(ports: list[Port]) -> str:
    if not ports:
        return "No IB devices found\n"
    blocks = []
    for p in ports:
        head = [
            f"hca_id:\t{p.device}",
            "\ttransport:\t\t\tInfiniBand (0)",
            f"\tfw_ver:\t\t\t\t{p.firmware}",
            f"\tnode_guid:\t\t\t{_guid(p)}",
            f"\tsys_image_guid:\t\t\t{_guid(p)}",
            "\tvendor_id:\t\t\t0x02c9",
            "\tvendor_part_id:\t\t\t4129",
            "\thw_ver:\t\t\t\t0x0",
            "\tboard_id:\t\t\tMT_0000000838",
            "\tphys_port_cnt:\t\t\t1",
            f"\t\tport:\t{p.number}",
            f"\t\t\tstate:\t\t\tPORT_{p.state} ({_STATES[p.state]})",
            f"\t\t\tmax_mtu:\t\t{_mtu_code(4096)}",
            f"\t\t\tactive_mtu:\t\t{_mtu_code(p.active_mtu)}",
            f"\t\t\tsm_lid:\t\t\t{p.sm_lid}",
            f"\t\t\tport_lid:\t\t{p.lid}",
            "\t\t\tport_lmc:\t\t0x00",
            f"\t\t\tlink_layer:\t\t{p.link_layer}",
        ]
        blocks.append("\n".join(head))
    return "\n\n".join(blocks) + "\n\n"


def ibstat(ports: list[Port]) -> str:
    lines: list[str] = []
    for p in ports:
        state = {"ACTIVE": "Active", "DOWN": "Down", "INIT": "Initializing"}[p.state]
        lines += [
            f"CA '{p.device}'",
            "\tCA type: MT4129",
            "\tNumber of ports: 1",
            f"\tFirmware version: {p.firmware}",
            "\tHardware version: 0",
            f"\tNode GUID: 0x{p.guid:016x}",
            f"\tSystem image GUID: 0x{p.guid:016x}",
            f"\tPort {p.number}:",
            f"\t\tState: {state}",
            f"\t\tPhysical state: {p.physical_state}",
            f"\t\tRate: {p.rate_gbps}",
            f"\t\tBase lid: {p.lid}",
            "\t\tLMC: 0",
            f"\t\tSM lid: {p.sm_lid}",
            "\t\tCapability mask: 0xa751e848" if not p.ethernet else "\t\tCapability mask: 0x00010000",
            f"\t\tPort GUID: 0x{p.guid:016x}",
            f"\t\tLink layer: {p.link_layer}",
        ]
    return "\n".join(lines) + "\n"


def qos(port: Port) -> str:
    lines = [
        "DCBX mode: OS controlled",
        f"Priority trust state: {port.trust}",
    ]
    if port.trust == "dscp":
        lines.append("dscp2prio mapping:")
        for priority in range(8):
            members = sorted((d for d, p in port.dscp_map.items() if p == priority), reverse=True)
            lines += [
                f"\tprio:{priority} dscp:" + "".join(f"{d:02d}," for d in members[i : i + 8])
                for i in range(0, len(members), 8)
            ]
    enabled = "   ".join("1" if on else "0" for on in port.pfc)
    buffers = "   ".join("1" if on else "0" for on in port.pfc)
    lines += [
        "Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,max_buffer_size=4130480",
        "Cable len: 7",
        "PFC configuration:",
        "\tpriority    0   1   2   3   4   5   6   7",
        f"\tenabled     {enabled}   ",
        f"\tbuffer      {buffers}   ",
    ]
    for tc, priority in enumerate((1, 0, 2, 3, 4, 5, 6, 7)):
        lines += [f"tc: {tc} ratelimit: unlimited, tsa: vendor", f"\t priority:  {priority}"]
    return "\n".join(lines) + "\n"


def ip_link(state: HostState) -> str:
    lines = [
        "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN "
        "mode DEFAULT group default qlen 1000",
        "    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00 promiscuity 0 minmtu 0 maxmtu 0 "
        "addrgenmode eui64 numtxqueues 1 numrxqueues 1",
        f"2: {state.management_interface}: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP "
        "mode DEFAULT group default qlen 1000",
        f"    link/ether 7c:c2:55:00:{len(state.name) % 256:02x}:{sum(state.name.encode()) % 256:02x} "
        f"brd ff:ff:ff:ff:ff:ff {_DETAIL}",
    ]
    for index, p in enumerate(present(state), start=3):
        flags = "BROADCAST,MULTICAST,UP,LOWER_UP" if p.up else "NO-CARRIER,BROADCAST,MULTICAST,UP"
        word = "UP" if p.up else "DOWN"
        lines.append(
            f"{index}: {p.netdev}: <{flags}> mtu {p.mtu} qdisc mq state {word} "
            "mode DEFAULT group default qlen 1000"
        )
        if p.ethernet:
            lines.append(f"    link/ether {p.mac} brd ff:ff:ff:ff:ff:ff {_DETAIL}")
        else:
            guid = _guid(p).replace(":", "")
            tail = ":".join(guid[i : i + 2] for i in range(0, 16, 2))
            lines.append(
                f"    link/infiniband 00:00:10:49:fe:80:00:00:00:00:00:00:{tail} "
                f"brd 00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff {_DETAIL}"
            )
    return "\n".join(lines) + "\n"


def files(state: HostState) -> Tree:
    tree: Tree = {}
    for p in present(state):
        base = f"/sys/class/infiniband/{p.device}"
        here = f"{base}/ports/{p.number}"
        rate = p.rate_gbps
        width = "1X" if rate in (10, 25, 50) else "4X"
        tree |= {
            f"{base}/fw_ver": f"{p.firmware}\n",
            f"{base}/board_id": "MT_0000000838\n",
            f"{base}/hca_type": "MT4129\n",
            f"{base}/node_guid": f"{_guid(p)}\n",
            f"{base}/tc/{p.number}/traffic_class": f"Global tclass={p.tos}\n" if p.ethernet else "",
            f"{base}/device": Link(pci.sys_path(state, p.pci_address)),
            f"{here}/state": f"{_STATES[p.state]}: {p.state}\n",
            f"{here}/phys_state": f"{_PHYSICAL[p.physical_state]}: {p.physical_state}\n",
            f"{here}/rate": f"{rate} Gb/sec ({width} {_GENERATIONS.get(rate, 'HDR')})\n",
            f"{here}/link_layer": f"{p.link_layer}\n",
            f"{here}/lid": f"0x{p.lid:x}\n",
            f"{here}/sm_lid": f"0x{p.sm_lid:x}\n",
            f"{here}/gid_attrs/ndevs/0": f"{p.netdev}\n",
            f"{here}/counters/link_downed": f"{p.link_downed}\n",
            f"{here}/counters/port_rcv_errors": "0\n",
            f"{pci.sys_path(state, p.pci_address)}/net/{p.netdev}/mtu": f"{p.mtu}\n",
            f"/sys/class/net/{p.netdev}": Link(f"{pci.sys_path(state, p.pci_address)}/net/{p.netdev}"),
        }
    return tree
