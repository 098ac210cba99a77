"""Faults of accelerators of other vendors than NVIDIA, and of hosts that hold another's than planned."""

from __future__ import annotations

import random
from collections.abc import Callable

from tools.rack.devices import Accelerator, Mac
from tools.rack.faults.base import Args, NotThere, fault
from tools.rack.state import HostState, ToolFault

DEVICE = {"device": "index of the device"}


def of(*vendors: str) -> Callable[[HostState], bool]:
    return lambda state: state.vendor in vendors


amd, ascend, apple = of("amd"), of("huawei"), of("apple")


def one(state: HostState, rng: random.Random, args: Args) -> Accelerator:
    wanted = args.get("device")
    if wanted is None:
        return rng.choice(state.devices)
    for device in state.devices:
        if str(device.index) == str(wanted):
            return device
    raise NotThere("device", wanted, [str(d.index) for d in state.devices])


def the_mac(state: HostState) -> Mac:
    assert state.mac is not None
    return state.mac


# --- AMD ----------------------------------------------------------------------------------------------------


@fault("amd-gpu-missing", "amd", "amd-count amd-links", touches="devices", applies=amd)
def amd_gpu_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """A card fell off the bus: neither the driver nor lspci shows it."""
    lost = state.devices.pop(rng.randrange(1, len(state.devices)))
    for number, device in enumerate(state.devices):
        device.index = number
        device.links = {other: True for other in range(len(state.devices)) if other != number}
    state.log(f"amdgpu {lost.pci_address}: amdgpu: device lost from bus!")


@fault("amd-gpu-not-started", "amd", "amd-count amd-links", touches="devices", applies=amd)
def amd_gpu_not_started(state: HostState, rng: random.Random, args: Args) -> None:
    """The driver could not start a card that the bus shows."""
    dead = state.devices[-1]
    dead.listed = False
    state.log(f"amdgpu {dead.pci_address}: amdgpu: Fatal error during GPU init")


@fault("amd-uncorrectable", "amd", "amd-ecc", touches="amd-ecc", applies=amd, args=DEVICE)
def amd_uncorrectable(state: HostState, rng: random.Random, args: Args) -> None:
    """Uncorrectable errors were counted in a card's HBM."""
    one(state, rng, args).uncorrected = 2


@fault("amd-deferred", "amd", "amd-ecc", touches="amd-ecc", applies=amd, args=DEVICE)
def amd_deferred(state: HostState, rng: random.Random, args: Args) -> None:
    """Poisoned memory that nothing has read yet: deferred errors, none uncorrectable."""
    one(state, rng, args).deferred = 1


@fault("amd-page-pending", "amd", "amd-bad-pages", touches="amd-pages", applies=amd, args=DEVICE)
def amd_page_pending(state: HostState, rng: random.Random, args: Args) -> None:
    """Bad pages wait for a reboot to be retired."""
    one(state, rng, args).pages_pending = 3


@fault("amd-xgmi-down", "amd", "amd-links", touches="amd-links", applies=amd, args=DEVICE)
def amd_xgmi_down(state: HostState, rng: random.Random, args: Args) -> None:
    """The link between two cards is down."""
    first = one(state, rng, args)
    second = next(d for d in state.devices if d is not first)
    first.links[second.index] = second.links[first.index] = False


@fault("amd-hot", "amd", "amd-temperature", touches="amd-heat", applies=amd, args=DEVICE)
def amd_hot(state: HostState, rng: random.Random, args: Args) -> None:
    """A card's junction is at 96 °C."""
    one(state, rng, args).temperature_c = 96


@fault("amd-memory-hot", "amd", "amd-temperature", touches="amd-heat", applies=amd, args=DEVICE)
def amd_memory_hot(state: HostState, rng: random.Random, args: Args) -> None:
    """A card's HBM is at 99 °C while its junction is cool."""
    one(state, rng, args).memory_temperature_c = 99


@fault("amd-power-capped", "amd", "amd-power-limit", touches="amd-cap", applies=amd, args=DEVICE)
def amd_power_capped(state: HostState, rng: random.Random, args: Args) -> None:
    """Somebody capped a card at 500 W."""
    one(state, rng, args).power_limit_w = 500.0


@fault("amd-throttled", "amd", "amd-throttle", touches="amd-throttle", applies=amd, args=DEVICE)
def amd_throttled(state: HostState, rng: random.Random, args: Args) -> None:
    """A card holds its clocks down."""
    one(state, rng, args).throttled = True


@fault("amd-pcie-narrow", "amd", "amd-pcie", touches="amd-pcie", applies=amd, args=DEVICE)
def amd_pcie_narrow(state: HostState, rng: random.Random, args: Args) -> None:
    """A card's link trained with 8 lanes."""
    one(state, rng, args).pcie_width = 8


@fault("amd-cpx", "amd", "amd-partition", touches="amd-partition", applies=amd)
def amd_cpx(state: HostState, rng: random.Random, args: Args) -> None:
    """The cards are left in CPX with four memory domains from another tenant."""
    for device in state.devices:
        device.compute_partition, device.memory_partition = "CPX", "NPS4"


@fault("amd-wrong-model", "amd", "amd-model amd-count", touches="devices", applies=amd, args=DEVICE)
def amd_wrong_model(state: HostState, rng: random.Random, args: Args) -> None:
    """One card is an MI325X."""
    card = one(state, rng, args)
    card.name, card.pci_id, card.memory_total_mib = "AMD Instinct MI325X", "1002:74a5", 262_128


@fault("amd-small-memory", "amd", "amd-memory", touches="amd-memory", applies=amd, args=DEVICE)
def amd_small_memory(state: HostState, rng: random.Random, args: Args) -> None:
    """A card shows an eighth less memory: a stack of HBM is off."""
    card = one(state, rng, args)
    card.memory_total_mib = card.memory_total_mib * 7 // 8
    card.memory_used_mib = min(card.memory_used_mib, card.memory_total_mib)


@fault(
    "amd-memory-held", "amd", "amd-idle", touches="amd-memory", args=DEVICE,
    applies=lambda state: state.vendor == "amd" and state.load == "idle",
)  # fmt: skip
def amd_memory_held(state: HostState, rng: random.Random, args: Args) -> None:
    """A forgotten process holds 60 GB of an idle card."""
    one(state, rng, args).memory_used_mib = 61_440


@fault("amd-driver-old", "amd", "amd-driver", touches="amd-driver", applies=amd)
def amd_driver_old(state: HostState, rng: random.Random, args: Args) -> None:
    """The kernel's own driver of ROCm 5.7 is loaded."""
    state.driver = "6.2.4"


@fault("amd-smi-hangs", "amd", "amd-responsive *amd-smi", alone=True, applies=amd)
def amd_smi_hangs(state: HostState, rng: random.Random, args: Args) -> None:
    """amd-smi does not come back."""
    state.tool_faults.append(ToolFault("amd-smi", "hangs"))


# --- another vendor's card ----------------------------------------------------------------------------------


@fault("foreign-accelerator", "accelerator", "host-accelerators", touches="foreign",
       applies=lambda state: state.vendor not in ("huawei", "apple"))  # fmt: skip
def foreign_accelerator(state: HostState, rng: random.Random, args: Args) -> None:
    """The host also holds an Ascend 910B that the plan does not know."""
    title = "Processing accelerators [1200]: Huawei Technologies Co., Ltd. Device"
    state.foreign.append(("0000:f1:00.0", title, "19e5:d802"))


# --- Ascend -------------------------------------------------------------------------------------------------


@fault("npu-missing", "ascend", "npu-count npu-ecc", touches="devices", applies=ascend)
def npu_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """The driver could not start a card that the bus shows."""
    state.devices[-1].listed = False


@fault("npu-alarm", "ascend", "npu-health", touches="npu-health", applies=ascend, args=DEVICE)
def npu_alarm(state: HostState, rng: random.Random, args: Args) -> None:
    """A card raises an alarm."""
    one(state, rng, args).health = "Alarm"


@fault("npu-warning", "ascend", "npu-health", touches="npu-health", applies=ascend, args=DEVICE)
def npu_warning(state: HostState, rng: random.Random, args: Args) -> None:
    """A card warns of itself."""
    one(state, rng, args).health = "Warning"


@fault("npu-double-bit", "ascend", "npu-ecc", touches="npu-ecc", applies=ascend, args=DEVICE)
def npu_double_bit(state: HostState, rng: random.Random, args: Args) -> None:
    """A double bit error was counted in a chip's HBM."""
    one(state, rng, args).uncorrected = 1


@fault("npu-port-down", "ascend", "npu-network", touches="npu-network", applies=ascend, args=DEVICE)
def npu_port_down(state: HostState, rng: random.Random, args: Args) -> None:
    """The network port of a card is down."""
    one(state, rng, args).network_up = False


@fault("npu-net-unhealthy", "ascend", "npu-network", touches="npu-network", applies=ascend, args=DEVICE)
def npu_net_unhealthy(state: HostState, rng: random.Random, args: Args) -> None:
    """The port of a card is up, and nothing answers behind it."""
    one(state, rng, args).network_health = "Socket fail"


@fault("npu-hot", "ascend", "npu-temperature", touches="npu-heat", applies=ascend, args=DEVICE)
def npu_hot(state: HostState, rng: random.Random, args: Args) -> None:
    """A chip is at 91 °C."""
    one(state, rng, args).temperature_c = 91


@fault("npu-wrong-model", "ascend", "npu-model", touches="devices", applies=ascend, args=DEVICE)
def npu_wrong_model(state: HostState, rng: random.Random, args: Args) -> None:
    """One card is a 910B4 of the same size."""
    one(state, rng, args).name = "910B4-1"


@fault("npu-small-memory", "ascend", "npu-memory", touches="npu-memory", applies=ascend, args=DEVICE)
def npu_small_memory(state: HostState, rng: random.Random, args: Args) -> None:
    """A chip shows half of its HBM."""
    chip = one(state, rng, args)
    chip.memory_total_mib //= 2
    chip.memory_used_mib = min(chip.memory_used_mib, chip.memory_total_mib)


@fault("npu-driver-old", "ascend", "npu-driver", touches="npu-driver", applies=ascend)
def npu_driver_old(state: HostState, rng: random.Random, args: Args) -> None:
    """A driver of 2022 is loaded."""
    state.driver = "22.0.3.1"


@fault(
    "npu-memory-held", "ascend", "npu-idle", touches="npu-memory", args=DEVICE,
    applies=lambda state: state.vendor == "huawei" and state.load == "idle",
)  # fmt: skip
def npu_memory_held(state: HostState, rng: random.Random, args: Args) -> None:
    """A forgotten process holds 40 GB of an idle chip."""
    one(state, rng, args).memory_used_mib = 40_960


@fault("npu-smi-hangs", "ascend", "npu-responsive *npu-smi", alone=True, applies=ascend)
def npu_smi_hangs(state: HostState, rng: random.Random, args: Args) -> None:
    """npu-smi does not come back."""
    state.tool_faults.append(ToolFault("npu-smi", "hangs"))


# --- Apple --------------------------------------------------------------------------------------------------


@fault("mac-sleeps", "apple", "mac-sleep", touches="mac-sleep", applies=apple)
def mac_sleeps(state: HostState, rng: random.Random, args: Args) -> None:
    """The machine goes to sleep after ten minutes."""
    the_mac(state).sleep_minutes = 10


@fault("mac-wired-low", "apple", "mac-wired-limit", touches="mac-wired", applies=apple)
def mac_wired_low(state: HostState, rng: random.Random, args: Args) -> None:
    """Somebody lets the GPU wire 96 GB only."""
    the_mac(state).wired_limit_mib = 98_304


@fault("mac-other-chip", "apple", "mac-model", touches="mac-model", applies=apple)
def mac_other_chip(state: HostState, rng: random.Random, args: Args) -> None:
    """A Max stands where an Ultra was planned."""
    the_mac(state).chip = "Apple M4 Max"


@fault("mac-small-memory", "apple", "mac-memory", touches="mac-memory", applies=apple)
def mac_small_memory(state: HostState, rng: random.Random, args: Args) -> None:
    """The machine was bought with 96 GB."""
    the_mac(state).memory_mib = 98_304


@fault("mac-old-system", "apple", "mac-version", touches="mac-version", applies=apple)
def mac_old_system(state: HostState, rng: random.Random, args: Args) -> None:
    """macOS 13 is installed."""
    the_mac(state).version = "13.6.9"


@fault("mac-disk-full", "apple", "mac-disk", touches="disk", applies=apple)
def mac_disk_full(state: HostState, rng: random.Random, args: Args) -> None:
    """The disk has 40 GB left."""
    state.model_bytes_free = 40_000_000_000


# --- Cambricon, Moore Threads -------------------------------------------------------------------------------

mlu, mtt = of("cambricon"), of("moore-threads")


@fault("mlu-missing", "cambricon", "mlu-count", touches="devices", applies=mlu)
def mlu_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """The driver does not show the last chip."""
    state.devices[-1].listed = False


@fault("mlu-hot", "cambricon", "mlu-temperature", touches="heat", applies=mlu, args=DEVICE)
def mlu_hot(state: HostState, rng: random.Random, args: Args) -> None:
    """A chip is at 93 °C."""
    one(state, rng, args).temperature_c = 93


@fault("mlu-wrong-model", "cambricon", "mlu-model", touches="devices", applies=mlu, args=DEVICE)
def mlu_wrong_model(state: HostState, rng: random.Random, args: Args) -> None:
    """One card is an MLU370-X4."""
    one(state, rng, args).name = "MLU370-X4"


@fault("mlu-small-memory", "cambricon", "mlu-memory", touches="memory", applies=mlu, args=DEVICE)
def mlu_small_memory(state: HostState, rng: random.Random, args: Args) -> None:
    """A chip shows half of its memory."""
    one(state, rng, args).memory_total_mib //= 2


@fault("mlu-memory-held", "cambricon", "mlu-idle", touches="memory", args=DEVICE,
       applies=lambda state: state.vendor == "cambricon" and state.load == "idle")  # fmt: skip
def mlu_memory_held(state: HostState, rng: random.Random, args: Args) -> None:
    """A forgotten process holds 20 GB of an idle chip."""
    one(state, rng, args).memory_used_mib = 20_480


@fault("mlu-driver-old", "cambricon", "mlu-driver", touches="driver", applies=mlu)
def mlu_driver_old(state: HostState, rng: random.Random, args: Args) -> None:
    """A driver of 2021 is loaded."""
    state.driver = "4.20.18"


@fault("mtt-missing", "moore-threads", "mtt-count", touches="devices", applies=mtt)
def mtt_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """The driver does not show the last card."""
    state.devices[-1].listed = False


@fault("mtt-hot", "moore-threads", "mtt-temperature", touches="heat", applies=mtt, args=DEVICE)
def mtt_hot(state: HostState, rng: random.Random, args: Args) -> None:
    """A card is at 93 °C."""
    one(state, rng, args).temperature_c = 93


@fault("mtt-pcie-narrow", "moore-threads", "mtt-pcie", touches="pcie", applies=mtt, args=DEVICE)
def mtt_pcie_narrow(state: HostState, rng: random.Random, args: Args) -> None:
    """A card's link trained with 4 lanes."""
    one(state, rng, args).pcie_width = 4


@fault("mtt-wrong-model", "moore-threads", "mtt-model", touches="devices", applies=mtt, args=DEVICE)
def mtt_wrong_model(state: HostState, rng: random.Random, args: Args) -> None:
    """One card is an S4000."""
    one(state, rng, args).name = "MTT S4000"


@fault("mtt-small-memory", "moore-threads", "mtt-memory", touches="memory", applies=mtt, args=DEVICE)
def mtt_small_memory(state: HostState, rng: random.Random, args: Args) -> None:
    """A card shows 48 GB."""
    one(state, rng, args).memory_total_mib = 49_152


@fault("mtt-memory-held", "moore-threads", "mtt-idle", touches="memory", args=DEVICE,
       applies=lambda state: state.vendor == "moore-threads" and state.load == "idle")  # fmt: skip
def mtt_memory_held(state: HostState, rng: random.Random, args: Args) -> None:
    """A forgotten process holds 40 GB of an idle card."""
    one(state, rng, args).memory_used_mib = 40_960


@fault("mtt-driver-old", "moore-threads", "mtt-driver", touches="driver", applies=mtt)
def mtt_driver_old(state: HostState, rng: random.Random, args: Args) -> None:
    """A driver of 2023 is loaded."""
    state.driver = "1.14.0"
