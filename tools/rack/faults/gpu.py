"""Faults of GPUs, their driver, their temperature and power."""

from __future__ import annotations

import random

from tools.rack.faults.base import GPU, Args, fault, one_gpu
from tools.rack.state import NO_CLUSTER, HostState, Process, ToolFault


def _bus(address: str) -> str:
    return address.removesuffix(".0")


@fault(
    "ecc-off",
    "gpu",
    "gpu-ecc gpu-ecc-errors",
    touches="ecc",
    applies=lambda s: bool(s.gpus[0].ecc_current),
    args=GPU,
)
def ecc_off(state: HostState, rng: random.Random, args: Args) -> None:
    """ECC was switched off on one GPU and the host rebooted."""
    gpu = one_gpu(state, rng, args)
    gpu.ecc_current = gpu.ecc_pending = False


@fault(
    "ecc-pending", "gpu", "gpu-ecc", touches="ecc", applies=lambda s: bool(s.gpus[0].ecc_current), args=GPU
)
def ecc_pending(state: HostState, rng: random.Random, args: Args) -> None:
    """ECC is on, but will be off after the next reboot."""
    one_gpu(state, rng, args).ecc_pending = False


@fault(
    "ecc-uncorrected",
    "gpu",
    "gpu-ecc-errors",
    touches="ecc",
    applies=lambda s: bool(s.gpus[0].ecc_current),
    args=GPU,
)
def ecc_uncorrected(state: HostState, rng: random.Random, args: Args) -> None:
    """Memory errors that ECC could not correct since the last reset."""
    gpu = one_gpu(state, rng, args)
    gpu.uncorrected_volatile = gpu.uncorrected_aggregate = rng.randint(1, 7)


@fault("remap-pending", "gpu", "gpu-remap", touches="remap", args=GPU)
def remap_pending(state: HostState, rng: random.Random, args: Args) -> None:
    """A row remapping waits for a reset of the GPU."""
    gpu = one_gpu(state, rng, args)
    gpu.remap_pending, gpu.remap_uncorrectable = True, 1


@fault("remap-failed", "gpu", "gpu-remap", touches="remap", args=GPU)
def remap_failed(state: HostState, rng: random.Random, args: Args) -> None:
    """No spare row was left: a remapping failed, the GPU goes back."""
    one_gpu(state, rng, args).remap_failure = True


@fault("gpu-lost", "gpu", "*nvidia-smi log-xid", alone=True, args=GPU)
def gpu_lost(state: HostState, rng: random.Random, args: Args) -> None:
    """A GPU fell off the bus while the host ran: nvidia-smi answers with one line."""
    gpu = one_gpu(state, rng, args)
    state.smi_error = (
        f"Unable to determine the device handle for GPU{gpu.index}: {gpu.pci_address.upper()}: GPU is lost.  "
        "Reboot the system to recover this GPU\n"
    )
    state.log(f"NVRM: Xid (PCI:{_bus(gpu.pci_address)}): 79, {_XIDS[79]}")


@fault(
    "gpu-missing", "gpu",
    "gpu-count gpu-clocks nvlink-links nvlink-topology "
    "gpu-temperature~full gpu-memory-temperature~full thermal-delta~full",
    touches="gpus", alone=True, args=GPU,
)  # fmt: skip
def gpu_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """A GPU did not come up at boot: neither the driver nor the PCI bus shows it."""
    gone = one_gpu(state, rng, args)
    state.gpus.remove(gone)
    for index, gpu in enumerate(state.gpus):
        gpu.index = index


@fault("wrong-model", "gpu", "gpu-model", touches="model", args=GPU)
def wrong_model(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU is another product whose name looks alike."""
    gpu = one_gpu(state, rng, args)
    gpu.name, gpu.pci_id = (
        ("NVIDIA H200 NVL", "10de:233b")
        if gpu.product.sxm
        else ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "10de:2bb4")
    )


@fault("driver-old", "gpu", "gpu-driver gpu-cuda uniform-driver@pool", touches="driver cuda")
def driver_old(state: HostState, rng: random.Random, args: Args) -> None:
    """An older driver than the plan asks for, with the fabric manager that belongs to it."""
    state.driver = state.kernel_driver = state.fabric_manager_version = "550.163.01"
    state.cuda = "12.4"


@fault("driver-differs", "gpu", "gpu-driver uniform-driver@pool", touches="driver")
def driver_differs(state: HostState, rng: random.Random, args: Args) -> None:
    """A newer driver than the pinned one: somebody upgraded this host alone."""
    state.driver = state.kernel_driver = state.fabric_manager_version = "595.95.02"


@fault("driver-mismatch", "gpu", "*nvidia-smi", alone=True)
def driver_mismatch(state: HostState, rng: random.Random, args: Args) -> None:
    """The driver was upgraded under a running kernel module."""
    state.smi_error = (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 595.95\n"
    )


@fault("cuda-old", "gpu", "gpu-cuda", touches="cuda")
def cuda_old(state: HostState, rng: random.Random, args: Args) -> None:
    """The driver supports an older CUDA than the plan asks for."""
    state.cuda = "12.4"


@fault("persistence-off", "gpu", "gpu-persistence", touches="persistence", args=GPU)
def persistence_off(state: HostState, rng: random.Random, args: Args) -> None:
    """Persistence mode is off on one GPU."""
    one_gpu(state, rng, args).persistence = False


@fault("persistenced-dead", "gpu", "gpu-persistence", touches="persistence")
def persistenced_dead(state: HostState, rng: random.Random, args: Args) -> None:
    """nvidia-persistenced failed and was not started again."""
    state.services["nvidia-persistenced"] = "failed"
    for gpu in state.gpus:
        gpu.persistence = False


@fault(
    "mig-on", "gpu", "gpu-mig", touches="mig", applies=lambda s: s.gpus[0].mig_current is not None, args=GPU
)
def mig_on(state: HostState, rng: random.Random, args: Args) -> None:
    """MIG will be switched after the next reset, on where the plan has it off; somebody asked for it."""
    gpu = one_gpu(state, rng, args)
    gpu.mig_pending = not gpu.mig_current


@fault("mig-instance-gone", "gpu", "gpu-mig", touches="mig", applies=lambda s: bool(divided(s)), args=GPU)
def mig_instance_gone(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU lost an instance of the planned division; pods of that profile find one slice fewer."""
    gpu = one_gpu(state, rng, args)
    gpu.mig_devices = gpu.mig_devices[1:]


def divided(state: HostState) -> tuple[str, ...]:
    return state.gpus[0].mig_devices if state.gpus else ()


@fault(
    "tray-outside-domain",
    "nvlink",
    "nvlink-domain@rack",
    touches="domain",
    applies=lambda s: bool(s.gpus) and s.gpus[0].fabric_cluster != NO_CLUSTER,
)
def tray_outside_domain(state: HostState, rng: random.Random, args: Args) -> None:
    """A tray registered in another NVLink clique than the rest of its rack."""
    for gpu in state.gpus:
        gpu.fabric_clique += 1


@fault("imex-failed", "nvlink", "nvlink-imex", touches="imex", applies=lambda s: "nvidia-imex" in s.services)
def imex_failed(state: HostState, rng: random.Random, args: Args) -> None:
    """The memory-exchange daemon of a tray failed."""
    state.services["nvidia-imex"] = "failed"


@fault("mps-running", "gpu", "gpu-mps", touches="mps")
def mps_running(state: HostState, rng: random.Random, args: Args) -> None:
    """An MPS control daemon runs although the plan shares no card."""
    state.processes.append(Process(31_337, "nvidia-cuda-mps-control", 0))


@fault(
    "power-limit-low", "power", "gpu-power-limit uniform-power-limit@pool", touches="power-limit", args=GPU
)
def power_limit_low(state: HostState, rng: random.Random, args: Args) -> None:
    """Somebody lowered one GPU's power limit."""
    gpu = one_gpu(state, rng, args)
    gpu.power_limit_w = round(gpu.power_limit_w * 0.7)
    gpu.power_draw_w = min(gpu.power_draw_w, gpu.power_limit_w)


@fault("power-brake", "power", "gpu-power-brake gpu-throttle", touches="reasons")
def power_brake(state: HostState, rng: random.Random, args: Args) -> None:
    """The chassis pulls the power brake of every GPU."""
    for gpu in state.gpus:
        gpu.reasons |= {"hw_slowdown", "hw_power_brake_slowdown"}


@fault("thermal-slowdown", "thermal", "gpu-throttle", touches="reasons", args=GPU)
def thermal_slowdown(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU slows down because of heat, though its sensor has cooled below the limit again."""
    one_gpu(state, rng, args).reasons |= {"hw_slowdown", "hw_thermal_slowdown"}


@fault("gpu-hot", "thermal", "gpu-temperature", touches="temperature", args=GPU)
def gpu_hot(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU is hotter than its limit."""
    one_gpu(state, rng, args).temperature_c = 86


@fault(
    "memory-hot", "thermal", "gpu-memory-temperature", touches="memory-temperature",
    applies=lambda s: s.gpus[0].memory_temperature_c is not None, args=GPU,
)  # fmt: skip
def memory_hot(state: HostState, rng: random.Random, args: Args) -> None:
    """The memory of one GPU is hotter than its limit."""
    one_gpu(state, rng, args).memory_temperature_c = 98


@fault("pcie-narrow", "gpu", "gpu-pcie", touches="pcie", args=GPU)
def pcie_narrow(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU's link trained with half its lanes."""
    one_gpu(state, rng, args).pcie_width_current = 8


@fault("pcie-slow", "gpu", "gpu-pcie", touches="pcie", args=GPU)
def pcie_slow(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU's slot gives an older PCIe generation."""
    gpu = one_gpu(state, rng, args)
    gpu.pcie_gen_max = 4
    gpu.pcie_gen_current = min(gpu.pcie_gen_current, 4)


@fault(
    "foreign-process", "gpu", "gpu-idle", touches="processes", applies=lambda s: s.load == "idle", args=GPU
)
def foreign_process(state: HostState, rng: random.Random, args: Args) -> None:
    """Somebody's notebook holds memory of one GPU."""
    gpu = one_gpu(state, rng, args)
    gpu.processes.append(Process(77_001, "/usr/bin/python3", 18_432))
    gpu.memory_used_mib += 18_946


@fault("memory-held", "gpu", "gpu-idle", touches="processes", applies=lambda s: s.load == "idle", args=GPU)
def memory_held(state: HostState, rng: random.Random, args: Args) -> None:
    """Memory of one GPU is in use by no process: what a killed engine left behind."""
    one_gpu(state, rng, args).memory_used_mib += 40_960


_XIDS = {
    48: "pid='<unknown>', name=<unknown>, DBE (double bit error) detected in FBPA",
    63: "pid=2245, name=nvidia-persiste, Row Remapper: New row marked for remapping, reset gpu to activate.",
    74: "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0)",
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    119: "pid=40021, name=VLLM::Worker, Timeout after 6s of waiting for RPC response from GPU0 GSP!",
    13: "pid=40021, name=python3, Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Out Of Range Address",
}


def _xid(state: HostState, rng: random.Random, args: Args, code: int) -> None:
    gpu = one_gpu(state, rng, args)
    state.log(f"NVRM: Xid (PCI:{_bus(gpu.pci_address)}): {code}, {_XIDS[code]}", ago_s=rng.randint(600, 7200))


@fault("xid-79", "gpu", "log-xid", touches="xid", args=GPU)
def xid_79(state: HostState, rng: random.Random, args: Args) -> None:
    """The log of this boot says that a GPU fell off the bus; after a reset it is back."""
    _xid(state, rng, args, 79)


@fault("xid-48", "gpu", "log-xid", touches="xid", args=GPU)
def xid_48(state: HostState, rng: random.Random, args: Args) -> None:
    """A double-bit error was logged."""
    _xid(state, rng, args, 48)


@fault("xid-74", "nvlink", "log-xid", touches="xid", applies=lambda s: s.nvlink, args=GPU)
def xid_74(state: HostState, rng: random.Random, args: Args) -> None:
    """A fatal NVLink error was logged."""
    _xid(state, rng, args, 74)


@fault("xid-119", "gpu", "log-xid", touches="xid", args=GPU)
def xid_119(state: HostState, rng: random.Random, args: Args) -> None:
    """The GPU's system processor did not answer the driver."""
    _xid(state, rng, args, 119)


@fault("xid-13", "gpu", "log-xid", touches="xid", args=GPU)
def xid_13(state: HostState, rng: random.Random, args: Args) -> None:
    """A user's program crashed on the GPU: told as a warning, blocks nothing."""
    _xid(state, rng, args, 13)


@fault("smi-hangs", "host", "*nvidia-smi", alone=True)
def smi_hangs(state: HostState, rng: random.Random, args: Args) -> None:
    """nvidia-smi does not come back."""
    state.tool_faults.append(ToolFault("nvidia-smi", "hangs"))


@fault("smi-floods", "host", "*nvidia-smi", alone=True)
def smi_floods(state: HostState, rng: random.Random, args: Args) -> None:
    """nvidia-smi prints 100 MB."""
    state.tool_faults.append(ToolFault("nvidia-smi", "floods"))


@fault("smi-slow", "host", "host-responsive", touches="smi", alone=True)
def smi_slow(state: HostState, rng: random.Random, args: Args) -> None:
    """nvidia-smi -L takes eleven seconds: the driver starts anew at each call."""
    state.tool_faults.append(ToolFault("nvidia-smi", "slow"))


@fault("vbios-differs", "gpu", "uniform-vbios@pool gpu-firmware", touches="vbios", args=GPU)
def vbios_differs(state: HostState, rng: random.Random, args: Args) -> None:
    """One card came back from repair with another firmware."""
    one_gpu(state, rng, args).vbios = "96.00.A5.00.01"
