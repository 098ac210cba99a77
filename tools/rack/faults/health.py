"""Faults that no list or mode shows: what the driver asks for, counters, addresses, units, wear."""

from __future__ import annotations

import random

from tools.rack.faults.base import (
    GPU,
    PORT,
    Args,
    fault,
    has_bmc,
    has_nvlink,
    has_rdma,
    has_roce,
    one_gpu,
    one_port,
)
from tools.rack.state import HostState, Process


@fault("recovery-reset", "gpu", "gpu-recovery", touches="recovery", args=GPU)
def recovery_reset(state: HostState, rng: random.Random, args: Args) -> None:
    """The driver asks for a reset of one GPU."""
    one_gpu(state, rng, args).recovery_action = "Reset"


@fault("compute-exclusive", "gpu", "gpu-compute-mode", touches="compute-mode", args=GPU)
def compute_exclusive(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU admits a single process only."""
    one_gpu(state, rng, args).compute_mode = "Exclusive_Process"


@fault("gsp-old", "gpu", "gpu-firmware", touches="gsp driver", args=GPU)
def gsp_old(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU runs the GSP firmware of the driver before."""
    one_gpu(state, rng, args).gsp_firmware = "580.65.06"


@fault(
    "ecc-corrected-many", "gpu", "gpu-ecc-corrected", touches="ecc",
    applies=lambda s: bool(s.gpus[0].ecc_current), args=GPU,
)  # fmt: skip
def ecc_corrected_many(state: HostState, rng: random.Random, args: Args) -> None:
    """ECC has mended millions of bits of one GPU since the last reset."""
    one_gpu(state, rng, args).corrected_volatile = rng.randint(21_000_000, 90_000_000)


@fault("peer-refused", "nvlink", "nvlink-peer", touches="peer", applies=has_nvlink, args=GPU)
def peer_refused(state: HostState, rng: random.Random, args: Args) -> None:
    """The driver refuses peer access to one GPU, though its links are up."""
    one_gpu(state, rng, args).peer_access = False


@fault("nvlink-replays", "nvlink", "nvlink-errors", touches="nvlink-errors", applies=has_nvlink, args=GPU)
def nvlink_replays(state: HostState, rng: random.Random, args: Args) -> None:
    """One link of one GPU repeats what it sends."""
    one_gpu(state, rng, args).link_replays = rng.randint(100, 90_000)


@fault(
    "nic-in-other-slot", "rdma", "pcie-pairing", touches="pairing", applies=lambda s: len(s.ports) > 1,
    args=PORT,
)  # fmt: skip
def nic_in_other_slot(state: HostState, rng: random.Random, args: Args) -> None:
    """One NIC sits in a slot below another host bridge than its GPU."""
    one_port(state, rng, args).beside_gpu = False


@fault("symbol-errors", "rdma", "ib-errors", touches="symbol-errors", applies=has_rdma, args=PORT)
def symbol_errors(state: HostState, rng: random.Random, args: Args) -> None:
    """One port counts symbol errors: a dirty fibre."""
    one_port(state, rng, args).symbol_errors = rng.randint(40, 9000)


@fault("rail-without-address", "rdma", "roce-gid", touches="gid", applies=has_roce, args=PORT)
def rail_without_address(state: HostState, rng: random.Random, args: Args) -> None:
    """One rail's interface has no IPv4 address, so its NIC has no routable one."""
    one_port(state, rng, args).gid_address = False


@fault("edac-uncorrected", "os", "os-edac", touches="edac")
def edac_uncorrected(state: HostState, rng: random.Random, args: Args) -> None:
    """A memory controller counted an uncorrected error, and nothing logged it."""
    state.system.edac_ue = 1


@fault("nvme-half-link", "storage", "nvme-link", touches="nvme-link", applies=lambda s: bool(s.disks))
def nvme_half_link(state: HostState, rng: random.Random, args: Args) -> None:
    """One NVMe device trained on half of its lanes."""
    rng.choice(state.disks).link_width = 2


@fault("nvme-old-link", "storage", "nvme-link", touches="nvme-link", applies=lambda s: bool(s.disks))
def nvme_old_link(state: HostState, rng: random.Random, args: Args) -> None:
    """One NVMe device trained at an older PCIe generation."""
    rng.choice(state.disks).link_gen = 3


@fault("process-stuck", "os", "os-processes", touches="stuck")
def process_stuck(state: HostState, rng: random.Random, args: Args) -> None:
    """A process hangs in the kernel and cannot be killed."""
    state.stuck.append(Process(50_501, "python3", 0))


@fault("runtime-dead", "os", "container-runtime", touches="runtime")
def runtime_dead(state: HostState, rng: random.Random, args: Args) -> None:
    """containerd failed and was not started again."""
    state.services["containerd"] = "failed"


@fault("memlock-default", "os", "os-memlock", touches="memlock", applies=has_rdma)
def memlock_default(state: HostState, rng: random.Random, args: Args) -> None:
    """The container runtime has the default limit of locked memory: 8 MiB."""
    state.system.memlock = "8388608"


@fault("time-server-other", "os", "time-source", touches="time-server")
def time_server_other(state: HostState, rng: random.Random, args: Args) -> None:
    """The clock follows the distribution's pool instead of the planned server."""
    state.system.ntp_server = "185.125.190.56"


@fault(
    "log-wrapped",
    "os",
    "log-xid log-sxid log-hardware ib-flaps",
    touches="kernel-log xid sxid flap",
    alone=True,
)
def log_wrapped(state: HostState, rng: random.Random, args: Args) -> None:
    """The kernel's buffer has wrapped, and the journal was not kept: what happened at boot is unknown."""
    state.log_wrapped = True


@fault("fan-unlogged", "thermal", "thermal-fans", touches="sel", applies=has_bmc)
def fan_unlogged(state: HostState, rng: random.Random, args: Args) -> None:
    """One fan stands still, and the event log says nothing."""
    assert state.bmc is not None
    fan = rng.choice([s for s in state.bmc.sensors if s.unit == "RPM"])
    fan.value, fan.status = 0, "cr"
