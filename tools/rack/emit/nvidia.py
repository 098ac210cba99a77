"""nvidia-smi: lists, CSV, topology, NVLink and the table a person looks at."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

from tools.rack.emit import nvidia_xml
from tools.rack.emit.core import Recording, Tree
from tools.rack.emit.nvidia_values import REASON_BITS, REASONS, ecc_word, mig_word, timestamp
from tools.rack.state import Gpu, HostState, Port

TOOL = "nvidia-smi"
CSV_TABLE = "nvidia-smi.csv"
APPS_TABLE = "nvidia-smi-apps.csv"
"""From these the shim answers any list of fields of ``--query-gpu`` and ``--query-compute-apps``."""


def recordings(state: HostState) -> Iterator[Recording]:
    if state.vendor != "nvidia":
        return
    if state.smi_error:
        for argv in ("", "-L", "-q -x", "topo -m", "nvlink -s", "nvlink -e", "--version"):
            yield Recording(TOOL, argv, stdout=state.smi_error, rc=15 if "lost" in state.smi_error else 9)
        return
    yield Recording(TOOL, "-L", device_list(state))
    yield Recording(TOOL, "-q -x", nvidia_xml.document(state))
    yield Recording(TOOL, "topo -m", topology(state))
    yield Recording(TOOL, "nvlink -s", nvlink_status(state))
    yield Recording(TOOL, "nvlink -e", nvlink_errors(state))
    yield Recording(TOOL, "", table(state))
    yield Recording(TOOL, "--version", version(state))


def device_list(state: HostState) -> str:
    """Each GPU, and under it its MIG devices, the largest first."""
    lines = []
    for g in state.gpus:
        lines.append(f"GPU {g.index}: {g.name} (UUID: {g.uuid})\n")
        lines += [
            f"  MIG {profile:<11} Device {n:>2}: (UUID: MIG-{uuid.uuid5(uuid.UUID(g.uuid[4:]), str(n))})\n"
            for n, profile in enumerate(sorted(g.mig_devices, reverse=True))
        ]
    return "".join(lines)


def version(state: HostState) -> str:
    return (
        f"NVIDIA-SMI version  : {state.driver}\n"
        f"NVML version        : {state.driver.rsplit('.', 1)[0]}\n"
        f"DRIVER version      : {state.driver}\n"
        f"CUDA Version        : {state.cuda}\n"
    )


def _reason(name: str) -> Callable[[HostState, Gpu], str]:
    return lambda _, g: "Active" if name in g.reasons else "Not Active"


_FIELDS: dict[str, Callable[[HostState, Gpu], str]] = {
    "timestamp": lambda s, _: s.now.strftime("%Y/%m/%d %H:%M:%S.000"),
    "driver_version": lambda s, _: s.driver,
    "count": lambda s, _: str(len(s.gpus)),
    "name": lambda _, g: g.name,
    "serial": lambda _, g: g.serial,
    "uuid": lambda _, g: g.uuid,
    "pci.bus_id": lambda _, g: g.bus_id,
    "pci.device_id": lambda _, g: "0x" + "".join(reversed(g.pci_id.upper().split(":"))),
    "pci.sub_device_id": lambda _, g: "0x" + "".join(reversed(g.product.subsystem.upper().split(":"))),
    "pcie.link.gen.current": lambda _, g: str(g.pcie_gen_current),
    "pcie.link.gen.gpucurrent": lambda _, g: str(g.pcie_gen_current),
    "pcie.link.gen.max": lambda _, g: str(g.pcie_gen_max),
    "pcie.link.gen.gpumax": lambda _, g: str(g.product.pcie_gen),
    "pcie.link.gen.hostmax": lambda _, g: str(g.pcie_gen_max),
    "pcie.link.width.current": lambda _, g: str(g.pcie_width_current),
    "pcie.link.width.max": lambda _, g: str(g.pcie_width_max),
    "index": lambda _, g: str(g.index),
    "persistence_mode": lambda _, g: "Enabled" if g.persistence else "Disabled",
    "vbios_version": lambda _, g: g.vbios,
    "inforom.img": lambda _, g: g.product.inforom,
    "gpu_recovery_action": lambda _, g: g.recovery_action,
    "pstate": lambda _, g: "P0" if g.utilisation or g.product.sxm else "P8",
    "clocks_event_reasons.active": lambda _, g: f"0x{sum(REASON_BITS[r] for r in g.reasons):016X}",
    **{f"clocks_event_reasons.{name}": _reason(name) for name in REASONS[:-1]},
    "memory.total [MiB]": lambda _, g: f"{g.memory_total_mib} MiB",
    "memory.used [MiB]": lambda _, g: f"{g.memory_used_mib} MiB",
    "memory.free [MiB]": lambda _, g: f"{g.memory_total_mib - g.memory_used_mib - 624} MiB",
    "compute_mode": lambda _, g: g.compute_mode,
    "compute_cap": lambda _, g: g.product.compute_cap,
    "utilization.gpu [%]": lambda _, g: f"{g.utilisation} %",
    "utilization.memory [%]": lambda _, g: f"{g.utilisation // 2} %",
    "ecc.mode.current": lambda _, g: _bracketed(ecc_word(g.ecc_current)),
    "ecc.mode.pending": lambda _, g: _bracketed(ecc_word(g.ecc_pending)),
    "ecc.errors.uncorrected.volatile.total": lambda _, g: _counter(g, g.uncorrected_volatile),
    "ecc.errors.uncorrected.aggregate.total": lambda _, g: _counter(g, g.uncorrected_aggregate),
    "temperature.gpu": lambda _, g: str(g.temperature_c),
    "temperature.gpu.tlimit": lambda _, g: str(g.tlimit_c),
    "temperature.memory": lambda _, g: (
        "N/A" if g.memory_temperature_c is None else str(g.memory_temperature_c)
    ),
    "power.draw [W]": lambda _, g: f"{g.power_draw_w:.2f} W",
    "power.draw.average [W]": lambda _, g: f"{g.power_draw_w:.2f} W",
    "power.draw.instant [W]": lambda _, g: f"{g.power_draw_w + 0.35:.2f} W",
    "power.limit [W]": lambda _, g: f"{g.power_limit_w:.2f} W",
    "enforced.power.limit [W]": lambda _, g: f"{g.power_limit_w:.2f} W",
    "power.default_limit [W]": lambda _, g: f"{g.product.power_w:.2f} W",
    "power.min_limit [W]": lambda _, g: f"{g.product.minimum_power_w:.2f} W",
    "power.max_limit [W]": lambda _, g: f"{g.product.power_w:.2f} W",
    "clocks.max.sm [MHz]": lambda _, g: f"{g.clock_max_mhz or g.product.graphics_mhz} MHz",
    "clocks.max.memory [MHz]": lambda _, g: f"{g.product.memory_mhz} MHz",
    "mig.mode.current": lambda _, g: _bracketed(mig_word(g.mig_current)),
    "mig.mode.pending": lambda _, g: _bracketed(mig_word(g.mig_pending)),
    "fabric.state": lambda _, g: g.fabric_state,
    "fabric.status": lambda _, g: g.fabric_status,
}


def _bracketed(word: str) -> str:
    return "[N/A]" if word == "N/A" else word


def _counter(gpu: Gpu, value: int) -> str:
    return str(value) if gpu.ecc_current else "[N/A]"


def csv_table(state: HostState) -> str:
    rows = [", ".join(_FIELDS)]
    rows += [", ".join(give(state, gpu) for give in _FIELDS.values()) for gpu in state.gpus]
    return "\n".join(rows) + "\n"


def apps_table(state: HostState) -> str:
    rows = [
        f"{g.bus_id}, {g.uuid}, {g.name}, {p.pid}, {p.name}, {p.used_mib} MiB\n"
        for g in state.gpus
        for p in g.processes
    ]
    return "gpu_bus_id, gpu_uuid, gpu_name, pid, process_name, used_gpu_memory [MiB]\n" + "".join(rows)


_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def topology(state: HostState) -> str:
    gpus, ports = state.gpus, [p for p in state.ports if p.present]
    heads = [f"GPU{g.index}" for g in gpus] + [f"NIC{i}" for i in range(len(ports))]
    lines = ["\t" + "\t".join([*heads, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for gpu in gpus:
        cells = [_gpu_cell(gpu, other) for other in gpus]
        cells += [_cell(gpu.numa, p.numa, near=_near(state, gpu, p)) for p in ports]
        cells += [_cpu_list(state, gpu.numa), str(gpu.numa), "", "N/A"]
        lines.append("\t".join([f"GPU{gpu.index}", *cells]))
    for row, port in enumerate(ports):
        cells = [_cell(port.numa, g.numa, near=_near(state, g, port)) for g in gpus]
        cells += [" X " if row == col else _cell(port.numa, p.numa) for col, p in enumerate(ports)]
        lines.append("\t".join([f"NIC{row}", *cells]))
    text = "\n".join(lines) + "\n" + _LEGEND
    if ports:
        text += "\nNIC Legend:\n\n" + "".join(f"  NIC{i}: {p.device}\n" for i, p in enumerate(ports)) + "\n"
    return text


def _near(state: HostState, gpu: Gpu, port: Port) -> bool:
    """Whether the port hangs on the GPU's own PCIe switch: same rank among all of its kind."""
    return (
        port.beside_gpu
        and state.ports.index(port) * state.planned_gpus // max(len(state.ports), 1) == gpu.index
    )


def _gpu_cell(gpu: Gpu, other: Gpu) -> str:
    if gpu is other:
        return " X "
    links = min(len(gpu.links), len(other.links))
    if links and gpu.peer_links and other.peer_links:
        active = min(sum(rate is not None for rate in g.links) for g in (gpu, other))
        return f"NV{active}" if active else _cell(gpu.numa, other.numa)
    return _cell(gpu.numa, other.numa)


def _cell(numa: int, other: int, *, near: bool = False) -> str:
    return "PIX" if near else "NODE" if numa == other else "SYS"


def _cpu_list(state: HostState, node: int) -> str:
    """The node's CPUs: first threads, then their siblings."""
    system = state.system
    cores = system.cpus // 2
    share = cores // max(system.numa_nodes, 1)
    low = node * share
    return f"{low}-{low + share - 1},{cores + low}-{cores + low + share - 1}"


def nvlink_status(state: HostState) -> str:
    if not state.nvlink:
        return "".join(
            f"GPU {g.index}: {g.name} (UUID: {g.uuid})\nDevice does not have or support Nvlink\n"
            for g in state.gpus
        )
    lines = []
    for gpu in state.gpus:
        lines.append(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})")
        lines += [
            f"\t Link {i}: {'<inactive>' if rate is None else f'{rate:.3f} GB/s'}"
            for i, rate in enumerate(gpu.links)
        ]
    return "\n".join(lines) + "\n"


def nvlink_errors(state: HostState) -> str:
    lines = []
    for gpu in state.gpus:
        lines.append(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})")
        for i, rate in enumerate(gpu.links):
            if rate is not None:
                replays = gpu.link_replays if i == 0 else 0
                counts = (("Replay", replays), ("Recovery", 0), ("CRC", 0))
                lines += [f"\t Link {i}: {kind} Error Counter: {count}" for kind, count in counts]
    return "\n".join(lines) + "\n"


_RULE = "+-----------------------------------------+------------------------+----------------------+"
_WIDE = "+-----------------------------------------------------------------------------------------+"


def table(state: HostState) -> str:
    head = (
        f"| NVIDIA-SMI {state.driver:<22} Driver Version: {state.driver:<14} CUDA Version: {state.cuda:<8} |"
    )
    lines = [
        timestamp(state.now).ljust(31),
        _WIDE,
        head,
        _RULE,
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|=========================================+========================+======================|",
    ]
    for gpu in state.gpus:
        lines += [*_table_rows(gpu), _RULE]
    lines += ["", _WIDE]
    for text in (
        "Processes:",
        " GPU   GI   CI              PID   Type   Process name                        GPU Memory",
        "       ID   ID                                                               Usage",
    ):
        lines.append(f"| {text:<87} |")
    lines.append("|" + "=" * 89 + "|")
    rows = [
        f"|{g.index:>5}   N/A  N/A{p.pid:>17}      C   {p.name[:35]:<35}{p.used_mib:>8}MiB |"
        for g in state.gpus
        for p in g.processes
    ]
    return "\n".join([*lines, *(rows or [f"|  {'No running processes found':<86} |"]), _WIDE]) + "\n"


def _table_rows(gpu: Gpu) -> list[str]:
    ecc = str(gpu.uncorrected_volatile) if gpu.ecc_current else "Off" if gpu.ecc_current is False else "N/A"
    state = "P0" if gpu.utilisation or gpu.product.sxm else "P8"
    usage = f"{gpu.power_draw_w:>12.0f}W / {gpu.power_limit_w:>4.0f}W"
    memory = f"{gpu.memory_used_mib:>8}MiB /{gpu.memory_total_mib:>7}MiB"
    name = gpu.name if len(gpu.name) <= 22 else f"{gpu.name[:19]}..."
    return [
        f"|{gpu.index:>4}  {name:<22}     {'On' if gpu.persistence else 'Off':>3}    |"
        f"   {gpu.bus_id} Off |{ecc:>21} |",
        f"| N/A{gpu.temperature_c:>5}C    {state}  {usage:>21} |{memory:>23} |"
        f"{gpu.utilisation:>7}%{'Default':>13} |",
        f"|{'':>41}|{'':>24}|{_bracketed(mig_word(gpu.mig_current)).strip('[]'):>21} |",
    ]


def files(state: HostState) -> Tree:
    if state.vendor != "nvidia":
        return {}
    flavour = "Open Kernel Module" if state.kernel_module == "open" else "Kernel Module"
    built = "Release Build  (dvs-builder@U22-I3-G08-1-1)" if state.kernel_module == "open" else ""
    text = (
        f"NVRM version: NVIDIA UNIX {flavour} for x86_64  {state.kernel_driver}  {built}  "
        "Tue Sep 23 10:11:16 UTC 2025\n"
        "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
    )
    return {"/proc/driver/nvidia/version": text}
