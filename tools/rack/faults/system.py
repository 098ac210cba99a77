"""Faults of the operating system, of storage, and of the chassis."""

from __future__ import annotations

import random

from tools.rack.faults.base import Args, fault, has_bmc, has_rdma
from tools.rack.state import HostState, SelEvent


@fault("thp-always", "os", "os-thp uniform-thp@pool", touches="thp")
def thp_always(state: HostState, rng: random.Random, args: Args) -> None:
    """Transparent huge pages are always on."""
    state.system.thp = "always"


@fault("cstates-enabled", "os", "os-cstates", touches="cstates")
def cstates_enabled(state: HostState, rng: random.Random, args: Args) -> None:
    """The deep idle states are enabled."""
    for idle in state.system.idle_states:
        idle.enabled = True


@fault("governor-powersave", "os", "os-governor uniform-governor@pool", touches="governor")
def governor_powersave(state: HostState, rng: random.Random, args: Args) -> None:
    """The CPUs run the powersave governor."""
    state.system.governor = "powersave"


@fault("swap-on", "os", "os-swap", touches="swap")
def swap_on(state: HostState, rng: random.Random, args: Args) -> None:
    """A swap file is in use."""
    state.system.swap_kib = 8_388_604


@fault("numa-off", "os", "os-numa uniform-cmdline@pool", touches="numa cmdline", alone=True)
def numa_off(state: HostState, rng: random.Random, args: Args) -> None:
    """Booted with numa=off: every GPU looks near to every core."""
    state.system.cmdline["numa"] = "off"
    state.system.numa_nodes = 1
    for gpu in state.gpus:
        gpu.numa = 0
    for port in state.ports:
        port.numa = 0


@fault("numa-balancing", "os", "os-numa", touches="numa")
def numa_balancing(state: HostState, rng: random.Random, args: Args) -> None:
    """The kernel moves pages between NUMA nodes under the engine."""
    state.system.numa_balancing = 1


@fault("dimm-missing", "os", "os-memory", touches="memory")
def dimm_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """The BIOS mapped out two memory modules."""
    lost = 2 if len(state.system.dimms) > 8 else 1
    share = lost / len(state.system.dimms)
    state.system.dimms = state.system.dimms[lost:]
    state.system.memory_kib = round(state.system.memory_kib * (1 - share))


@fault("iommu-translating", "os", "os-iommu uniform-cmdline@pool", touches="cmdline", applies=has_rdma)
def iommu_translating(state: HostState, rng: random.Random, args: Args) -> None:
    """Booted without iommu=pt: every transfer between devices is translated."""
    state.system.cmdline.pop("iommu", None)


@fault("clock-off", "os", "time-sync uniform-clock@pool", touches="clock")
def clock_off(state: HostState, rng: random.Random, args: Args) -> None:
    """The clock is off by most of a second."""
    state.system.clock_offset_s = 0.731


@fault("clock-unsynchronised", "os", "time-sync", touches="clock")
def clock_unsynchronised(state: HostState, rng: random.Random, args: Args) -> None:
    """The time servers do not answer."""
    state.system.clock_synchronised = False


@fault("kernel-differs", "os", "uniform-kernel@pool", touches="kernel")
def kernel_differs(state: HostState, rng: random.Random, args: Args) -> None:
    """This host runs another kernel than its pool."""
    state.system.kernel = "6.8.0-71-generic"


@fault("os-differs", "os", "uniform-os@pool", touches="os-release")
def os_differs(state: HostState, rng: random.Random, args: Args) -> None:
    """This host was installed with an older release."""
    state.system.os_version = "22.04"


@fault("bios-differs", "os", "uniform-bios@pool", touches="bios")
def bios_differs(state: HostState, rng: random.Random, args: Args) -> None:
    """This host missed the BIOS update of the others."""
    state.system.bios_version = "2.1.0"


@fault("machine-check", "os", "log-hardware", touches="kernel-log")
def machine_check(state: HostState, rng: random.Random, args: Args) -> None:
    """A memory controller reported an uncorrected error."""
    state.log("mce: [Hardware Error]: Machine check events logged", ago_s=9000)
    state.log("mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: bd80000000100091", ago_s=8999)


@fault("oom-kill", "os", "log-hardware", touches="kernel-log")
def oom_kill(state: HostState, rng: random.Random, args: Args) -> None:
    """The kernel killed a process for lack of memory."""
    state.log(
        "Out of memory: Killed process 40021 (VLLM::Worker_TP0) total-vm:512345678kB, anon-rss:2012345678kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:4012345kB oom_score_adj:0",
        ago_s=4000,
    )


@fault("model-dir-full", "storage", "nvme-headroom", touches="model-dir")
def model_dir_full(state: HostState, rng: random.Random, args: Args) -> None:
    """The model directory has no room for a second set of weights."""
    state.model_bytes_free = min(state.model_bytes_free // 10, 40 * 10**9)


@fault("nvme-worn", "storage", "nvme-health", touches="nvme", applies=lambda s: bool(s.disks))
def nvme_worn(state: HostState, rng: random.Random, args: Args) -> None:
    """One NVMe device has used up its rated writes."""
    rng.choice(state.disks).percentage_used = 97


@fault("nvme-critical", "storage", "nvme-health", touches="nvme", applies=lambda s: bool(s.disks))
def nvme_critical(state: HostState, rng: random.Random, args: Args) -> None:
    """One NVMe device warns that its spare blocks run out."""
    disk = rng.choice(state.disks)
    disk.critical_warning, disk.available_spare = 1, 4


@fault("nvme-media-errors", "storage", "nvme-health", touches="nvme", applies=lambda s: bool(s.disks))
def nvme_media_errors(state: HostState, rng: random.Random, args: Args) -> None:
    """One NVMe device could not read back some of what was written."""
    rng.choice(state.disks).media_errors = rng.randint(2, 40)


@fault("nvme-missing", "storage", "nvme-count", touches="nvme", applies=lambda s: len(s.disks) > 1)
def nvme_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """One NVMe device is not there."""
    state.disks.remove(rng.choice(state.disks))


@fault(
    "rack-overload",
    "power",
    "power-rack-budget@rack",
    touches="power",
    applies=lambda s: has_bmc(s) and s.load == "full",
)
def rack_overload(state: HostState, rng: random.Random, args: Args) -> None:
    """This host draws so much that its rack comes near its rating."""
    assert state.bmc is not None
    state.bmc.power_w = round(state.bmc.power_w * 2.4)
    state.bmc.maximum_w, state.bmc.average_w = state.bmc.power_w + 90, state.bmc.power_w - 120


@fault("psu-lost", "power", "power-psu", touches="psu", applies=has_bmc)
def psu_lost(state: HostState, rng: random.Random, args: Args) -> None:
    """One power supply has lost its input."""
    assert state.bmc is not None
    supplies = [s for s in state.bmc.sensors if s.name.startswith("PSU") and s.name.endswith("Status")]
    lost = rng.choice(supplies)
    lost.status = "cr"
    number = lost.name.split()[0]
    state.bmc.sensor(f"{number} Power In").value = 0


@fault("bmc-no-power", "power", "power-rack-budget@rack", touches="power", applies=has_bmc)
def bmc_no_power(state: HostState, rng: random.Random, args: Args) -> None:
    """The BMC reads 0 W: no data."""
    assert state.bmc is not None
    state.bmc.power_w = state.bmc.minimum_w = state.bmc.maximum_w = state.bmc.average_w = 0


@fault("sel-critical", "power", "bmc-sel", touches="sel", applies=has_bmc)
def sel_critical(state: HostState, rng: random.Random, args: Args) -> None:
    """The system event log holds a fatal bus error of this week."""
    assert state.bmc is not None
    state.bmc.events.append(SelEvent(state.booted, "Critical Interrupt #0x90", "Bus Fatal Error"))


@fault("outlet-hot", "thermal", "thermal-delta", touches="air", applies=has_bmc)
def outlet_hot(state: HostState, rng: random.Random, args: Args) -> None:
    """The air leaves 19 degrees warmer than it came."""
    assert state.bmc is not None
    inlet = state.bmc.sensor("Inlet Temp").value or 22
    state.bmc.sensor("Exhaust Temp").value = inlet + 19


@fault("fan-stopped", "thermal", "bmc-sel thermal-fans", touches="sel", applies=has_bmc)
def fan_stopped(state: HostState, rng: random.Random, args: Args) -> None:
    """One fan stands still."""
    assert state.bmc is not None
    fan = rng.choice([s for s in state.bmc.sensors if s.unit == "RPM"])
    fan.value, fan.status = 0, "cr"
    state.bmc.events.append(SelEvent(state.booted, f"Fan {fan.name}", "Lower Non-recoverable going low"))
