"""A healthy simulated host, its plan, and the texts of the tools on it: small, valid, written for the tests.

The host: 8 × H200 on NVSwitch, 8 RoCE rails, two NUMA nodes, one NVMe for models, a BMC with two supplies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from checks.capture import Capture, CommandOutput
from checks.parsers import parse
from checks.registry import Check, Command
from checks.view import HostView
from rackwright.plan import HostExpectation, Plan
from tests.checks import build_active

GPUS = 8
ADDRESSES = ("19", "3b", "4c", "5d", "9b", "bb", "cb", "db")

TOOLS = ("nvidia-smi", "lspci", "dmesg", "chronyc", "ipmitool", "nvme", "mlnx_qos", "rdma")

GPU: dict[str, Any] = {
    "product": "NVIDIA H200", "persistence": "Enabled", "mig": "Disabled", "mig_pending": "Disabled",
    "ecc": "Enabled", "ecc_pending": "Enabled", "sram": "0", "dram": "0", "aggregate_dram": "0",
    "sram_threshold": "No", "channel_repair": "No", "retired_pending": "N/A", "remap_unc": "0",
    "remap_pending": "No", "remap_failure": "No", "temperature": "34 C", "tlimit": "52 C", "memory": "38 C",
    "draw": "78.10 W", "limit": "700.00 W", "gen": "5", "gen_max": "5", "gen_device": "5", "gen_host": "5",
    "width": "16x", "width_max": "16x", "reasons": ["gpu_idle"], "fabric": "Completed", "status": "Success",
    "health": "Healthy", "route_unhealthy": "False", "used": "0 MiB", "recovery": "None",
    "address": None, "device": "0x233510DE", "vbios": "96.00.BC.00.02", "gsp": "570.148.08",
    "compute": "Default", "corrected": "0", "pages": "N/A",
    "cluster": "00000000-0000-0000-0000-000000000000", "clique": "0",
    "processes": "",
}  # fmt: skip
REASONS = (
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown",
    "hw_power_brake_slowdown", "sync_boost", "sw_thermal_slowdown", "display_clocks_setting",
)  # fmt: skip


def address(gpu: int) -> str:
    return f"00000000:{ADDRESSES[gpu].upper()}:00.0"


def _gpu_xml(number: int, g: Mapping[str, Any]) -> str:
    reasons = "".join(
        f"<clocks_event_reason_{r}>{'' if r in g['reasons'] else 'Not '}Active</clocks_event_reason_{r}>\n"
        for r in REASONS
    )
    at = g["address"] or address(number)
    return f"""<gpu id="{at}">
<product_name>{g["product"]}</product_name>
<product_brand>NVIDIA</product_brand>
<persistence_mode>{g["persistence"]}</persistence_mode>
<mig_mode>
<current_mig>{g["mig"]}</current_mig>
<pending_mig>{g["mig_pending"]}</pending_mig>
</mig_mode>
<uuid>GPU-{number:08d}-0000-4000-8000-000000000000</uuid>
<vbios_version>{g["vbios"]}</vbios_version>
<gpu_recovery_action>{g["recovery"]}</gpu_recovery_action>
<gsp_firmware_version>{g["gsp"]}</gsp_firmware_version>
<compute_mode>{g["compute"]}</compute_mode>
<pci>
<pci_device_id>{g["device"][2:]}</pci_device_id>
<pci_bus_id>{at}</pci_bus_id>
<pci_gpu_link_info>
<pcie_gen>
<max_link_gen>{g["gen_max"]}</max_link_gen>
<current_link_gen>{g["gen"]}</current_link_gen>
<max_device_link_gen>{g["gen_device"]}</max_device_link_gen>
<max_host_link_gen>{g["gen_host"]}</max_host_link_gen>
</pcie_gen>
<link_widths>
<max_link_width>{g["width_max"]}</max_link_width>
<current_link_width>{g["width"]}</current_link_width>
</link_widths>
</pci_gpu_link_info>
</pci>
<fan_speed>N/A</fan_speed>
<clocks_event_reasons>
{reasons}</clocks_event_reasons>
<fb_memory_usage>
<total>143771 MiB</total>
<used>{g["used"]}</used>
</fb_memory_usage>
<ecc_mode>
<current_ecc>{g["ecc"]}</current_ecc>
<pending_ecc>{g["ecc_pending"]}</pending_ecc>
</ecc_mode>
<ecc_errors>
<volatile>
<sram_correctable>0</sram_correctable>
<dram_correctable>{g["corrected"]}</dram_correctable>
<sram_uncorrectable_parity>0</sram_uncorrectable_parity>
<sram_uncorrectable_secded>{g["sram"]}</sram_uncorrectable_secded>
<dram_uncorrectable>{g["dram"]}</dram_uncorrectable>
</volatile>
<aggregate>
<sram_uncorrectable_parity>0</sram_uncorrectable_parity>
<sram_uncorrectable_secded>0</sram_uncorrectable_secded>
<dram_uncorrectable>{g["aggregate_dram"]}</dram_uncorrectable>
<sram_threshold_exceeded>{g["sram_threshold"]}</sram_threshold_exceeded>
</aggregate>
<channel_repair_pending>{g["channel_repair"]}</channel_repair_pending>
</ecc_errors>
<retired_pages>
<multiple_single_bit_retirement>
<retired_count>{g["pages"]}</retired_count>
</multiple_single_bit_retirement>
<double_bit_retirement>
<retired_count>{"0" if g["pages"] != "N/A" else "N/A"}</retired_count>
</double_bit_retirement>
<pending_retirement>{g["retired_pending"]}</pending_retirement>
</retired_pages>
<remapped_rows>
<remapped_row_corr>0</remapped_row_corr>
<remapped_row_unc>{g["remap_unc"]}</remapped_row_unc>
<remapped_row_pending>{g["remap_pending"]}</remapped_row_pending>
<remapped_row_failure>{g["remap_failure"]}</remapped_row_failure>
</remapped_rows>
<temperature>
<gpu_temp>{g["temperature"]}</gpu_temp>
<gpu_temp_tlimit>{g["tlimit"]}</gpu_temp_tlimit>
<memory_temp>{g["memory"]}</memory_temp>
</temperature>
<gpu_power_readings>
<instant_power_draw>{g["draw"]}</instant_power_draw>
<current_power_limit>{g["limit"]}</current_power_limit>
</gpu_power_readings>
<fabric>
<state>{g["fabric"]}</state>
<status>{g["status"]}</status>
<cliqueId>{g["clique"]}</cliqueId>
<clusterUuid>{g["cluster"]}</clusterUuid>
<health>
<summary>{g["health"]}</summary>
<route_unhealthy>{g["route_unhealthy"]}</route_unhealthy>
</health>
</fabric>
<processes>
{g["processes"]}</processes>
</gpu>
"""


def smi_xml(
    gpus: Mapping[int, Mapping[str, Any]] | None = None,
    every: Mapping[str, Any] | None = None,
    *,
    count: int = GPUS,
    attached: int | None = None,
    driver: str = "570.148.08",
    cuda: str = "12.8",
) -> str:
    """``nvidia-smi -q -x``: ``every`` changes all GPUs, ``gpus`` single ones."""
    changed = {**(every or {}), **{k: v for g in (gpus or {}).values() for k, v in g.items()}}
    assert set(changed) <= set(GPU), set(changed) - set(GPU)
    body = "".join(_gpu_xml(n, {**GPU, **(every or {}), **((gpus or {}).get(n, {}))}) for n in range(count))
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>\n'
        f"<driver_version>{driver}</driver_version>\n<cuda_version>{cuda}</cuda_version>\n"
        f"<attached_gpus>{count if attached is None else attached}</attached_gpus>\n{body}</nvidia_smi_log>\n"
    )


def smi_list(
    count: int = GPUS,
    product: str = "NVIDIA H200",
    every: Sequence[str] = (),
    gpus: Mapping[int, Sequence[str]] | None = None,
) -> str:
    """``every``: MIG instances of each GPU by their profiles; ``gpus``: those of some."""
    lines = []
    for n in range(count):
        lines.append(f"GPU {n}: {product} (UUID: GPU-{n:08d}-0000-4000-8000-000000000000)\n")
        lines += [
            f"  MIG {profile:<11} Device {index:>2}: (UUID: MIG-{n:04d}{index:04d}-0000-5000-8000-{0:012d})\n"
            for index, profile in enumerate((gpus or {}).get(n, every))
        ]
    return "".join(lines)


def smi_load(
    utilisation: int | str = 0,
    temperature: int | str = 34,
    gpus: Mapping[int, Mapping[str, Any]] | None = None,
    draw: str = "78.10 W",
) -> str:
    lines = ["index, utilization.gpu [%], power.draw [W], temperature.gpu"]
    for n in range(GPUS):
        g = {"utilisation": utilisation, "temperature": temperature, **((gpus or {}).get(n, {}))}
        used = g["utilisation"] if isinstance(g["utilisation"], str) else f"{g['utilisation']} %"
        lines.append(f"{n}, {used}, {draw}, {g['temperature']}")
    return "\n".join(lines) + "\n"


def smi_identity(
    vbios: str = "96.00.BC.00.02", limit: str = "700.00 W", driver: str = "570.148.08",
    clock: str = "1980 MHz", clocks: Mapping[int, str] | None = None, count: int = GPUS,
) -> str:  # fmt: skip
    head = "index, name, pci.bus_id, driver_version, vbios_version, power.limit [W], clocks.max.sm [MHz]\n"
    return head + "".join(
        f"{n}, NVIDIA H200, {address(n)}, {driver}, {vbios}, {limit}, {(clocks or {}).get(n, clock)}\n"
        for n in range(count)
    )


def smi_p2p(cells: Mapping[str, str] | None = None, count: int = GPUS) -> str:
    """``cells``: ``"2-5"`` (row-column) to what stands there."""
    lines = [" \t" + "\t".join(f"GPU{n}" for n in range(count)) + "\t"]
    for a in range(count):
        row = ["X" if a == b else (cells or {}).get(f"{a}-{b}", "OK") for b in range(count)]
        lines.append("\t".join([f" GPU{a}", *row, ""]))
    return (
        "\n".join(lines)
        + "\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n"
    )


def smi_nvlink_errors(errors: Mapping[int, Mapping[int, int]] | None = None, links: int = 18) -> str:
    """``errors``: GPU to link to its replays."""
    text = ""
    for n in range(GPUS):
        text += f"GPU {n}: NVIDIA H200 (UUID: GPU-{n:08d}-0000-4000-8000-000000000000)\n"
        for link in range(links):
            for kind in ("Replay", "Recovery", "CRC"):
                count = (errors or {}).get(n, {}).get(link, 0) if kind == "Replay" else 0
                text += f"\t Link {link}: {kind} Errors: {count}\n"
    return text


def ib_counters(ports: Mapping[int, Mapping[str, int]] | None = None, count: int = 8) -> str:
    names = ("symbol_error", "port_rcv_errors", "link_error_recovery")
    return "".join(
        f"./mlx5_{n}/ports/1/counters/{name}:{(ports or {}).get(n, {}).get(name, 0)}\n"
        for name in names for n in range(count)
    ) + "end\n"  # fmt: skip


def gids(index: Mapping[int, int] | None = None, without: tuple[int, ...] = ()) -> str:
    """Link-local addresses at 0 (v1) and 1 (v2), the rail's at 2 and 3 unless ``index`` says another."""
    text = ""
    for n in range(8):
        at = (index or {}).get(n, 3)
        rows = {0: (f"fe80:0000:0000:0000:0000:0000:0000:{n:04x}", "IB/RoCE v1"),
                1: (f"fe80:0000:0000:0000:0000:0000:0000:{n:04x}", "RoCE v2")}  # fmt: skip
        if n not in without:
            address = f"0000:0000:0000:0000:0000:ffff:0a0{n}:0001"
            rows |= {at - 1: (address, "IB/RoCE v1"), at: (address, "RoCE v2")}
        for row, (gid, kind) in rows.items():
            text += f"./mlx5_{n}/ports/1/gids/{row}:{gid}\n./mlx5_{n}/ports/1/gid_attrs/types/{row}:{kind}\n"
    return text + "end\n"


def edac(ue: Mapping[int, int] | None = None, ce: int = 0) -> str:
    return "".join(
        f"./mc{n}/ue_count:{(ue or {}).get(n, 0)}\n./mc{n}/ce_count:{ce}\n" for n in range(4)
    ) + "end\n"  # fmt: skip


def nvme_links(disks: Mapping[int, Mapping[str, str]] | None = None, count: int = 2) -> str:
    text = ""
    for n in range(count):
        d = {"current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe",
             "current_link_width": "4", "max_link_width": "4", **((disks or {}).get(n, {}))}  # fmt: skip
        text += "".join(f"./nvme{n}/device/{name}:{value}\n" for name, value in d.items())
    return text + "end\n"


def runtimes(
    units: Mapping[str, Mapping[str, str]] | None = None,
    asked: tuple[str, ...] = ("containerd", "crio", "docker"),
) -> str:
    absent = {"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead",
              "LimitMEMLOCK": "8388608"}  # fmt: skip
    there = {"LoadState": "loaded", "ActiveState": "active", "SubState": "running",
             "LimitMEMLOCK": "infinity"}  # fmt: skip
    text = ""
    for unit in asked:
        values = {**(there if unit == "containerd" else absent), **((units or {}).get(unit, {}))}
        text += f"== {unit}\n" + "".join(f"{k}={v}\n" for k, v in values.items())
    return text + "== end\n"


def smi_topo(
    link: str = "NV18", pairs: Mapping[str, str] | None = None, nics: Mapping[str, str] | None = None
) -> str:
    """``nics``: ``"3-3"`` (GPU-NIC) to the path between them."""
    names = [f"GPU{n}" for n in range(GPUS)]
    near_nics = [f"NIC{n}" for n in range(8)]
    lines = ["\t" + "\t".join([*names, *near_nics]) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for a in range(GPUS):
        cells = []
        for b in range(GPUS):
            pair = (pairs or {}).get(f"{min(a, b)}-{max(a, b)}", link)
            cells.append(" X " if a == b else pair)
        near = ("0-47,96-143", "0") if a < GPUS // 2 else ("48-95,144-191", "1")
        paths = [(nics or {}).get(f"{a}-{n}", _path(a, n)) for n in range(8)]
        lines.append("\t".join([names[a], *cells, *paths, *near, "", "N/A"]))
    for n in range(8):
        paths = [(nics or {}).get(f"{a}-{n}", _path(a, n)) for a in range(GPUS)]
        lines.append("\t".join([f"NIC{n}", *paths, *(" X " if n == m else _path(n, m) for m in range(8))]))
    legend = "".join(f"  NIC{n}: mlx5_{n}\n" for n in range(8))
    return "\n".join(lines) + f"\n\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n{legend}\n"


def _path(a: int, b: int) -> str:
    return "PIX" if a == b else "NODE" if a // 4 == b // 4 else "SYS"


def smi_nvlink(
    rate: str = "26.562 GB/s", links: int = 18, down: Mapping[int, list[int]] | None = None
) -> str:
    text = ""
    for n in range(GPUS):
        text += f"GPU {n}: NVIDIA H200 (UUID: GPU-{n:08d}-0000-4000-8000-000000000000)\n"
        for link in range(links):
            text += f"\t Link {link}: {'<inactive>' if link in (down or {}).get(n, []) else rate}\n"
    return text


def lspci(count: int = GPUS, device: str = "10de:2335") -> str:
    text = "0000:00:00.0 Host bridge [0600]: Intel Corporation Device [8086:09a2] (rev 20)\n"
    for n in range(count):
        text += (
            f"0000:{ADDRESSES[n]}:00.0 3D controller [0302]: NVIDIA Corporation Device [{device}] (rev a1)\n"
        )
    for n in range(4):
        text += f"0000:0{n + 1}:00.0 Bridge [0680]: NVIDIA Corporation Device [10de:22a3] (rev a1)\n"
    return text


def ib_sysfs(
    ports: Mapping[int, Mapping[str, str]] | None = None, *, count: int = 8, layer: str = "Ethernet"
) -> str:
    text = ""
    fabric = layer == "InfiniBand"
    for n in range(count):
        p = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)",
             "link_layer": layer,
             "lid": f"{n + 2:#x}" if fabric else "0x0", "sm_lid": "0x1" if fabric else "0x0",
             **((ports or {}).get(n, {}))}  # fmt: skip
        for name, value in p.items():
            text += f"./mlx5_{n}/ports/1/{name}:{value}\n"
        text += f"./mlx5_{n}/ports/1/gid_attrs/ndevs/0:eth{n}\n"
    return text


def rdma_link(names: Mapping[int, str] | None = None, count: int = 8) -> str:
    return "".join(
        f"link mlx5_{n}/1 state ACTIVE physical_state LINK_UP netdev {(names or {}).get(n, f'eth{n}')} \n"
        for n in range(count)
    )


def ip_link(mtu: Mapping[int, int] | None = None) -> str:
    text = "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN mode DEFAULT group default\n"
    text += "    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00\n"
    for n in range(8):
        text += (
            f"{n + 2}: eth{n}: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu {(mtu or {}).get(n, 9000)} qdisc mq "
            f"state UP mode DEFAULT group default qlen 1000\n"
            f"    link/ether 02:00:00:00:00:{n:02x} brd ff:ff:ff:ff:ff:ff\n"
        )
    return text


def ibv_devinfo(active_mtu: Mapping[int, int] | None = None) -> str:
    return "".join(
        f"hca_id:\tmlx5_{n}\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t28.43.2026\n"
        f"\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
        f"\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t{(active_mtu or {}).get(n, 4096)} (5)\n"
        f"\t\t\tlink_layer:\t\tEthernet\n\n"
        for n in range(8)
    )


def mlnx_qos(trust: str = "dscp", pfc: int = 3, moved: Mapping[int, int] | None = None) -> str:
    text = f"DCBX mode: OS controlled\nPriority trust state: {trust}\n"
    if trust == "dscp":
        text += "dscp2prio mapping:\n"
        where = {d: (moved or {}).get(d, d // 8) for d in range(64)}
        for priority in range(8):
            row = "".join(f"{d:02d}," for d in range(63, -1, -1) if where[d] == priority)
            text += f"\tprio:{priority} dscp:{row}\n"
    enabled = "   ".join("1" if p == pfc else "0" for p in range(8))
    text += "Cable len: 7\nPFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
    text += f"\tenabled     {enabled}\n"
    for tc in range(8):
        text += f"tc: {tc} ratelimit: unlimited, tsa: vendor\n\t priority:  {tc}\n"
    return text


def qos(ports: Mapping[int, Mapping[str, Any]] | None = None) -> str:
    return "".join(f"== eth{n}\n{mlnx_qos(**(ports or {}).get(n, {}))}" for n in range(8)) + "== end\n"


def traffic_class(values: Mapping[int, int] | None = None, missing: tuple[int, ...] = ()) -> str:
    return "".join(
        f"/sys/class/infiniband/mlx5_{n}/tc/1/traffic_class:Global tclass={(values or {}).get(n, 104)}\n"
        for n in range(8) if n not in missing
    ) + "end\n"  # fmt: skip


def pci_paths() -> str:
    text = ""
    for n in range(GPUS):
        root = f"/sys/devices/pci0000:{ADDRESSES[n]}/0000:{ADDRESSES[n]}:01.0"
        text += f"gpu 0000:{ADDRESSES[n]}:00.0 {root}/0000:{ADDRESSES[n]}:00.0\n"
    for n in range(8):
        text += f"hca mlx5_{n} /sys/devices/pci0000:{ADDRESSES[n]}/0000:{ADDRESSES[n]}:02.0/0000:a{n}:00.0\n"
    return text + f"end {GPUS + 8}\n"


def lspci_acs(redirect: tuple[str, ...] = ()) -> str:
    """A root port above every GPU and NIC, and one that carries neither."""
    text = ""
    ports = [f"0000:{a}:0{s}.0" for a in ADDRESSES for s in (1, 2)] + ["0000:ff:01.0"]
    for at in ports:
        on = "+" if at in redirect else "-"
        text += (
            f"{at} PCI bridge [0604]: Intel Corporation Device [8086:352a] (rev 11)\n"
            f"\tCapabilities: [148 v1] Access Control Services\n"
            f"\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl+ DirectTrans+\n"
            f"\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir{on} CmpltRedir{on} UpstreamFwd{on} "
            f"EgressCtrl- DirectTrans-\n"
            f"\tKernel driver in use: pcieport\n\n"
        )
    return text


def cpuidle(states: tuple[str, ...] = ("POLL", "C1", "C1E", "C6"), enabled: tuple[str, ...] = ("POLL", "C1"),
            driver: str = "intel_idle", cpus: int = 2) -> str:  # fmt: skip
    base = "/sys/devices/system/cpu"
    text = f"{base}/cpuidle/current_driver:{driver}\n"
    for cpu in range(cpus):
        for n, name in enumerate(states):
            text += f"{base}/cpu{cpu}/cpuidle/state{n}/name:{name}\n"
    for cpu in range(cpus):
        for n, name in enumerate(states):
            text += f"{base}/cpu{cpu}/cpuidle/state{n}/disable:{int(name not in enabled)}\n"
    return text


def governors(value: str = "performance", others: Mapping[int, str] | None = None,
              driver: str = "intel_pstate", epp: str = "performance") -> str:  # fmt: skip
    base = "/sys/devices/system/cpu"
    text = ""
    for cpu in range(4):
        text += f"{base}/cpu{cpu}/cpufreq/scaling_driver:{driver}\n"
        text += f"{base}/cpu{cpu}/cpufreq/scaling_governor:{(others or {}).get(cpu, value)}\n"
        text += f"{base}/cpu{cpu}/cpufreq/energy_performance_preference:{epp}\n"
    return text + "end\n"


def tools(missing: tuple[str, ...] = ()) -> str:
    return "".join(f"{t} {'no' if t in missing else 'yes'}\n" for t in TOOLS) + "end\n"


def nvme_smart(devices: Mapping[int, Mapping[str, int]] | None = None, count: int = 2) -> str:
    text = ""
    for n in range(count):
        d = {"critical_warning": 0, "media_errors": 0, "percentage_used": 3, "avail_spare": 100,
             **((devices or {}).get(n, {}))}  # fmt: skip
        text += (
            f'== nvme{n}\n{{\n  "critical_warning" : {d["critical_warning"]},\n  "temperature" : 311,\n'
            f'  "avail_spare" : {d["avail_spare"]},\n  "spare_thresh" : 10,\n'
            f'  "percent_used" : {d["percentage_used"]},\n  "media_errors" : {d["media_errors"]},\n'
            f'  "num_err_log_entries" : 0\n}}\n'
        )
    return text + "== end\n"


def lsblk(count: int = 2) -> str:
    disks = ",\n".join(
        f'      {{"name":"nvme{n}n1", "type":"disk", "size":7681501126656, "mountpoint":null}}'
        for n in range(count)
    )
    return (
        '{\n   "blockdevices": [\n'
        '      {"name":"sda", "type":"disk", "size":480103981056, "mountpoint":"/"}'
        f"{',' if count else ''}\n{disks}\n   ]\n}}\n"
    )


DCMI = """
    Instantaneous power reading:                  {watts} Watts
    Minimum during sampling period:                900 Watts
    Maximum during sampling period:               9800 Watts
    Average power reading over sample period:     5000 Watts
    IPMI timestamp:                           Mon Nov  2 12:49:51 2026
    Sampling period:                          00001000 Seconds.
    Power reading state is:                   {state}
"""
CHRONY = (
    "0A000001,10.0.0.1,3,1793606400.000000000,{offset},-0.000012345,0.000030000,12.345,-0.001,0.010,"
    "0.001000000,0.000500000,64.5,{leap}\n"
)
DRIVER = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (builder@host)
GCC version:  gcc version 13.3.0
"""


def dcmi(watts: int = 1850, state: str = "activated") -> str:
    return DCMI.format(watts=watts, state=state)


def chrony(offset: str = "0.000012345", leap: str = "Normal") -> str:
    return CHRONY.format(offset=offset, leap=leap)


def driver(version: str = "570.148.08", closed: bool = False) -> str:
    text = DRIVER.format(version=version)
    return text.replace("UNIX Open Kernel Module for x86_64", "UNIX x86_64 Kernel Module") if closed else text


def systemctl(load: str = "loaded", active: str = "active", sub: str = "running") -> str:
    return f"LoadState={load}\nActiveState={active}\nSubState={sub}\n"


def df(
    available: int = 6_000_000_000_000, source: str = "/dev/nvme0n1p1", mount: str = "/var/lib/models"
) -> str:
    return (
        "Filesystem     1B-blocks         Used    Available Capacity Mounted on\n"
        f"{source} 7681501126656 900000000000 {available}      13% {mount}\n"
    )


@lru_cache(maxsize=1)
def healthy() -> dict[str, str]:
    """Every command's output on the healthy host, by key."""
    fixed = yaml.safe_load((Path(__file__).parent / "healthy.yaml").read_text(encoding="utf-8"))
    made = {key: make() for key, make in BUILDERS.items()}
    firmware = "".join(f"/sys/class/infiniband/mlx5_{n}/fw_ver:28.43.2026\n" for n in range(8))
    return {**fixed, **made, "nic-firmware": firmware, "pci-paths": pci_paths()}


BUILDERS: dict[str, Any] = {
    "nvidia-smi-qx": smi_xml,
    "nvidia-smi-L": smi_list,
    "nvidia-smi-load": smi_load,
    "nvidia-smi-topo": smi_topo,
    "nvidia-smi-nvlink": smi_nvlink,
    "nvidia-smi-identity": smi_identity,
    "infiniband-sysfs": ib_sysfs,
    "rdma-link": rdma_link,
    "ip-link": ip_link,
    "ibv-devinfo": ibv_devinfo,
    "mlnx-qos": qos,
    "traffic-class": traffic_class,
    "ipmitool-dcmi": dcmi,
    "cpuidle": cpuidle,
    "governors": governors,
    "tools": tools,
    "chronyc-tracking": chrony,
    "lspci": lspci,
    "lspci-acs": lspci_acs,
    "driver-loaded": driver,
    "systemctl-persistenced": systemctl,
    "systemctl-fabricmanager": systemctl,
    "df-model-dir": df,
    "lsblk": lsblk,
    "nvme-smart": nvme_smart,
    "nvidia-smi-p2p": smi_p2p,
    "nvidia-smi-nvlink-errors": smi_nvlink_errors,
    "infiniband-counters": ib_counters,
    "infiniband-gids": gids,
    "edac": edac,
    "nvme-links": nvme_links,
    "container-runtimes": runtimes,
    **build_active.BUILDERS,
}
"""Which command's output a mapping of builder arguments in a recording makes."""

_OUTPUT = {"state", "rc", "seconds", "stdout", "stderr"}


def output(command: Command, value: Any) -> CommandOutput:
    """A recording's value: text; fields of the output; ``edit`` of the healthy text; or builder arguments."""
    fields: dict[str, Any] = {"state": "done", "rc": 0, "seconds": 0.3}
    if isinstance(value, str):
        fields["stdout"] = value
    elif set(value) == {"edit"}:
        text = healthy()[command.key]
        for old, new in value["edit"].items():
            assert old in text, f"{command.key}: {old!r} is not in the healthy output"
            text = text.replace(old, new)
        fields["stdout"] = text
    elif value and set(value) <= _OUTPUT:
        if value.get("state", "done") == "done":
            fields["stdout"] = healthy()[command.key] if set(value) <= {"seconds"} else ""
        else:
            fields["rc"] = None
        fields.update(value)
    else:
        fields["stdout"] = BUILDERS[command.key](**value)
    return CommandOutput(key=command.key, command=command.shell, **fields)


def view(check: Check, outputs: Mapping[str, Any], *, name: str = "node-1") -> HostView:
    """A host as the judge of ``check`` sees it: only the commands that the check declares."""
    declared = {c.key: c for c in check.commands}
    unknown = set(outputs) - set(declared)
    assert not unknown, f"{check.id} does not declare {unknown}"
    found = {key: output(c, outputs.get(key, healthy()[key])) for key, c in declared.items()}
    return HostView(Capture(host=name, outputs=found), pool="hot", rack="r1", parse=parse, commands=declared)


WEIGHTS = 700_000_000_000

EXPECTATION: dict[str, Any] = {
    "tools": list(TOOLS),
    "root": True,
    "response_max_s": 10.0,
    "uniform": ["driver", "vbios", "kernel", "cmdline", "os", "bios", "nic-firmware", "thp", "governor",
                "power-limit", "clocks"],
    "outlier_max": 0.05,
    "gpu": {
        "count": 8, "product": "NVIDIA H200", "pci_ids": ["10de:2335"], "driver_min": "560",
        "driver_pinned": "570.148.08", "cuda_min": "12.6", "cudnn_min": "9.0", "ecc": True,
        "persistence": True,
        "mig": False, "mps": False, "power_limit_w": 700.0, "temperature_max_c": 85.0,
        "memory_temperature_max_c": 95.0, "pcie_gen": 5, "pcie_width": 16, "memory_used_max_mib": 1024,
        "row_remap": "none-pending",
        "clock_reasons_allowed": ["gpu_idle", "applications_clocks_setting", "sw_power_cap"],
        "ecc_uncorrected_max": 0, "processes_allowed": ["VLLM::"],
        "xid_fatal": [48, 62, 64, 74, 79, 95, 119, 120, 140, 143],
        "retired_pages_max": {"not_applicable": "the card remaps rows instead"}, "recovery_action": "none",
        "compute_mode": "Default", "firmware_uniform": True, "ecc_corrected_max": 20_000_000,
        "clocks_uniform": True, "clock_max_mhz": 1980.0, "memory_bandwidth_min_gb_s": 3360.0,
        "host_bandwidth_min_gb_s": 48.0, "diag_level": 2,
    },
    "nvlink": {"links_per_gpu": 18, "link_gb_s": 26.5, "topology": "NV18", "fabric_manager": True,
               "fabric_state": "Completed", "peer_access": True, "errors_max": 0,
               "domain_gpus": {"not_applicable": "NVLink ends at the host"},
               "imex": {"not_applicable": "NVLink ends at the host"}, "peer_bandwidth_min_gb_s": 333.0,
               "all_reduce_min_gb_s": 440.0},
    "rdma": {
        "ports": [{"device": f"mlx5_{n}", "port": 1, "netdev": f"eth{n}", "rate_gbps": 400,
                   "link_layer": "Ethernet"} for n in range(8)],
        "mtu": 9000, "active_mtu": 4096, "trust": "dscp",
        "pfc": [False, False, False, True, False, False, False, False], "dscp": 26, "dscp_priority": 3,
        "traffic_class": 104, "subnet_manager": {"not_applicable": "RoCE has no subnet manager"},
        "gpudirect": True, "acs_redirect": False, "link_flaps_max": 0, "gpu_nic_paths": ["PIX", "PXB"],
        "firmware": "28.43.2026", "errors_max": 0, "gid_type": "RoCE v2",
        "write_min_gbps": 380.0,
    },
    "os": {
        "thp": ["never"], "cstates_allowed": ["POLL", "C1"], "governor": "performance", "swap": False,
        "numa_nodes": 2, "numa_balancing": False, "memory_gib": 2048.0, "memory_tolerance": 0.05,
        "iommu": "pt",
        "clock_offset_max_ms": 100.0, "ntp": ["10.0.0.1"],
        "kernel_faults": ["mce", "aer", "oom", "nvrm-assert", "gpu-lost", "nic-health"],
        "edac_uncorrected_max": 0, "memlock": "infinity", "stuck_max": 0, "container_runtime": "containerd",
        "clock_skew_max_ms": 100.0, "names": ["ntp1.dc1.internal", "harbor.dc1.internal"],
        "resolve_max_s": 1.0, "hugepages": 0, "shm_min_gib": 16.0,
        "package_holds": ["driver", "fabric-manager", "kernel"], "cgroup_driver": "systemd",
        "cpu_manager": "static", "topology_managers": ["best-effort", "restricted"],
    },
    "storage": {"model_dir": "/var/lib/models", "headroom_bytes": 2 * WEIGHTS, "nvme_count": 2,
                "nvme_wear_max_percent": 90, "nvme_full_link": True, "nvme_read_min_gb_s": 1.5},
    "power": {"full_load_w": 6500.0, "factor": 1.2, "psu_count": 2, "inlet_outlet_delta_c": 15.0,
              "full_load_gpu_utilisation": 0.95, "bmc": True, "fans": True},
}  # fmt: skip


def _merge(path: str, value: Any, into: dict[str, Any]) -> None:
    *sections, last = path.split(".")
    for section in sections:
        into[section] = dict(into[section])
        into = into[section]
    into[last] = value


def expectations(changes: Mapping[str, Any] | None = None) -> HostExpectation:
    data = dict(EXPECTATION)
    for path, value in (changes or {}).items():
        _merge(path, value, data)
    return HostExpectation.model_validate(data)


class Context:
    """What a judge is told besides the capture; two nodes in one rack unless said otherwise."""

    def __init__(
        self, expectation: HostExpectation, *, nodes: tuple[str, ...] = ("node-1", "node-2"),
        rating_w: float = 17_000.0, unreachable: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.expectations = expectation
        self.unreachable = unreachable
        self.host = nodes[0]
        self.plan = plan(expectation, nodes, rating_w)
        self.pool = self.plan.pool("hot")
        self.rack = next(iter(self.plan.racks()))


def plan(expectation: HostExpectation, nodes: tuple[str, ...], rating_w: float) -> Plan:
    full = expectation.power.full_load_w
    watts = full if isinstance(full, float) else 0.0
    return Plan.model_validate(
        {
            "schema": "rackwright/plan/v1",
            "header": {"name": "lab", "workload_digest": "0", "catalog_digest": "0", "generated_by": "tests"},
            "workload": {
                "schema": "rackwright/workload/v1", "name": "lab", "users": {"dau": 10_000},
                "model": {"id": "deepseek-v3"}, "hardware": {"machine": "hgx-h200-8"},
            },
            "sites": [{
                "name": "dc1", "country": "CN", "target": "hosts", "zone": "dc1",
                "racks": [{"name": "r1", "rating_w": rating_w, "power_factor": 1.2,
                           "planned_full_load_w": watts * len(nodes), "nodes": list(nodes)}],
            }],
            "pools": [{
                "name": "hot", "site": "dc1", "machine": "hgx-h200-8", "accelerator": "h200-sxm",
                "gpus_per_node": 8, "gpu_memory_gib": 131.3, "cpus_per_node": 192,
                "memory_gib_per_node": 2048.0,
                "nvme_bytes_per_node": 15_000_000_000_000, "idle_w_per_node": 1800.0,
                "full_load_w_per_node": watts, "labels": {}, "taints": [],
                "nodes": [{"name": n, "rack": "r1"} for n in nodes],
            }],
            "expectations": {"hot": expectation.model_dump(mode="json")},
        }
    )  # fmt: skip
