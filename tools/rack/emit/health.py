"""What the health checks read: peer access, counters, addresses, memory controllers, disks' links, units."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from tools.rack.emit import fabric, pci
from tools.rack.emit.core import Link, Recording, Tree
from tools.rack.state import HostState, Port

_SPEEDS = {3: "8.0", 4: "16.0", 5: "32.0"}
_DEFAULT_MEMLOCK = "8388608"
_RUNTIMES = ("containerd", "crio", "docker")


def recordings(state: HostState) -> Iterator[Recording]:
    if not state.smi_error and state.vendor == "nvidia":
        yield Recording("nvidia-smi", "topo -p2p r", peers(state))
    yield Recording("ps", "-e -o stat=,ppid=,pid=,comm=", process_states(state))
    yield from _time_sources(state)
    for unit in _RUNTIMES:
        yield Recording(
            "systemctl", f"show {unit} -p LoadState,ActiveState,SubState,LimitMEMLOCK", unit_of(state, unit)
        )


def peers(state: HostState) -> str:
    lines = [" \t" + "\t".join(f"GPU{n}" for n in range(len(state.gpus))) + "\t"]
    for gpu in state.gpus:
        cells = [
            "X" if gpu is other else "OK" if gpu.peer_access and other.peer_access else "CNS"
            for other in state.gpus
        ]
        lines.append("\t".join([f" GPU{len(lines) - 1}", *cells, ""]))
    return (
        "\n".join(lines)
        + "\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n"
        "  GNS  = GPU not supported\n  TNS  = Topology not supported\n  NS   = Not supported\n"
        "  U    = Unknown\n"
    )


def process_states(state: HostState) -> str:
    rows = [
        ("Ss", 0, 1, "systemd"),
        ("S", 0, 2, "kthreadd"),
        ("I<", 2, 14, "kworker/0:1H"),
        ("Ss", 1, 901, "sshd"),
    ]
    rows += [("Sl", 1, p.pid, p.name[:15]) for p in state.processes]
    rows += [("Rl", 901, p.pid, p.name[:15]) for g in state.gpus for p in g.processes]
    rows += [("Dl", 901, p.pid, p.name[:15]) for p in state.stuck]
    return "".join(f"{stat:<4} {parent:>7} {pid:>7} {name}\n" for stat, parent, pid, name in rows)


def _time_sources(state: HostState) -> Iterator[Recording]:
    system = state.system
    yield Recording("timedatectl", "show-timesync -p ServerName -p ServerAddress", rc=1,
                    stderr="Failed to query server: Unit not found.\n")  # fmt: skip
    word = "*" if system.clock_synchronised else "?"
    reach = 377 if system.clock_synchronised else 0
    text = f"^,{word},{system.ntp_server},2,6,{reach},21,0.000012345,0.000012345,0.000300000\n"
    if not system.ntp_active:
        text = "506 Cannot talk to daemon\n"
    for option in ("-N", "-n"):
        yield Recording("chronyc", f"-c {option} sources", text, rc=0 if system.ntp_active else 1)


def unit_of(state: HostState, unit: str) -> str:
    active = state.services.get(unit, "active" if unit == "containerd" else "absent")
    known = active != "absent"
    sub = {"active": "running", "failed": "failed"}.get(active, "dead")
    memlock = state.system.memlock if unit == "containerd" else _DEFAULT_MEMLOCK
    return (
        f"LoadState={'loaded' if known else 'not-found'}\nActiveState={active if known else 'inactive'}\n"
        f"SubState={sub}\nLimitMEMLOCK={memlock}\n"
    )


def files(state: HostState) -> Tree:
    tree: Tree = {}
    for port in fabric.present(state):
        tree |= _port(port)
    for disk in state.disks:
        path = pci.sys_path(state, disk.pci_address)
        tree |= {
            f"/sys/class/nvme/nvme{disk.index}/device": Link(path),
            f"{path}/current_link_speed": f"{_SPEEDS[disk.link_gen]} GT/s PCIe\n",
            f"{path}/max_link_speed": f"{_SPEEDS[4]} GT/s PCIe\n",
            f"{path}/current_link_width": f"{disk.link_width}\n",
            f"{path}/max_link_width": "4\n",
        }
    return tree


def _port(port: Port) -> Tree:
    here = f"/sys/class/infiniband/{port.device}/ports/{port.number}"
    tree: Tree = {f"{here}/counters/symbol_error": f"{port.symbol_errors}\n"}
    local = f"fe80:0000:0000:0000:{port.guid >> 48:04x}:{port.guid >> 32 & 0xFFFF:04x}:" \
            f"{port.guid >> 16 & 0xFFFF:04x}:{port.guid & 0xFFFF:04x}"  # fmt: skip
    rows = [(local, "IB/RoCE v1"), (local, "RoCE v2")] if port.ethernet else [(local, "IB/RoCE v1")]
    if port.ethernet and port.gid_address:
        address = ipaddress.IPv4Address((port.address or "10.0.0.1").partition("/")[0])
        high, low = int(address) >> 16, int(address) & 0xFFFF
        mapped = f"0000:0000:0000:0000:0000:ffff:{high:04x}:{low:04x}"
        rows += [(mapped, "IB/RoCE v1"), (mapped, "RoCE v2")]
    for index, (gid, kind) in enumerate(rows):
        tree[f"{here}/gids/{index}"] = f"{gid}\n"
        tree[f"{here}/gid_attrs/types/{index}"] = f"{kind}\n"
    return tree
