"""Faults that only show under use: no list, counter or log tells of them."""

from __future__ import annotations

import random

from tools.rack.faults.base import GPU, PORT, Args, fault, has_nvlink, has_rdma, one_gpu, one_port
from tools.rack.state import HostState


def has_disks(state: HostState) -> bool:
    return bool(state.disks)


def has_diag(state: HostState) -> bool:
    return bool(state.diag_level)


_UNREAD = "gpu-memory-bandwidth gpu-host-bandwidth uniform-memory-bandwidth@pool uniform-host-bandwidth@pool"
"""What cannot be measured where a GPU cannot be used."""


@fault(
    "cuda-dead", "active", f"gpu-cuda-init nvlink-peer-bandwidth {_UNREAD}", touches="cuda memory host",
    alone=True,
)  # fmt: skip
def cuda_dead(state: HostState, rng: random.Random, args: Args) -> None:
    """CUDA does not start, though every tool is content: the fabric manager has not set up NVLink."""
    state.active.cuda = 802


@fault(
    "gpu-refuses", "active", f"gpu-cuda-init {_UNREAD}", touches="cuda memory host", args=GPU, alone=True
)  # fmt: skip
def gpu_refuses(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU refuses a context: an uncorrectable error that was not counted."""
    state.active.cuda_of[one_gpu(state, rng, args).index] = "context 214"


@fault("bytes-change", "active", "gpu-cuda-init", touches="cuda", args=GPU)
def bytes_change(state: HostState, rng: random.Random, args: Args) -> None:
    """Bytes come back from one GPU changed."""
    state.active.damaged.add(one_gpu(state, rng, args).index)


@fault(
    "memory-slow", "active", "gpu-memory-bandwidth uniform-memory-bandwidth@pool", touches="memory", args=GPU
)
def memory_slow(state: HostState, rng: random.Random, args: Args) -> None:
    """The memory of one GPU runs at half its rate."""
    state.active.memory_of[one_gpu(state, rng, args).index] = state.active.memory / 2


@fault("memory-a-bit-slow", "active", "uniform-memory-bandwidth@pool", touches="memory", args=GPU)
def memory_a_bit_slow(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU's memory is a tenth slower than all others: enough for the plan, and out of line."""
    state.active.memory_of[one_gpu(state, rng, args).index] = state.active.memory * 0.9


@fault("host-link-slow", "active", "gpu-host-bandwidth uniform-host-bandwidth@pool", touches="host", args=GPU)
def host_link_slow(state: HostState, rng: random.Random, args: Args) -> None:
    """Copies between the host and one GPU run at half their rate."""
    state.active.host_of[one_gpu(state, rng, args).index] = state.active.host / 2


@fault("peer-copy-slow", "active", "nvlink-peer-bandwidth", touches="peer-rate", applies=has_nvlink, args=GPU)
def peer_copy_slow(state: HostState, rng: random.Random, args: Args) -> None:
    """Copies from and to one GPU go through the host."""
    state.active.peer_of[one_gpu(state, rng, args).index] = 24.0


@fault("disk-slow", "active", "nvme-read uniform-nvme-read@pool", touches="read", applies=has_disks)
def disk_slow(state: HostState, rng: random.Random, args: Args) -> None:
    """One disk reads at the speed of a spinning one."""
    state.active.read_of[rng.choice(state.disks).index] = 0.21


@fault("diag-fails", "active", "gpu-diag", touches="diag", applies=has_diag, args=GPU)
def diag_fails(state: HostState, rng: random.Random, args: Args) -> None:
    """One GPU fails DCGM's memory test."""
    state.active.diag_of["memory"] = one_gpu(state, rng, args).index


@fault(
    "all-reduce-slow", "active", "nvlink-all-reduce uniform-all-reduce@pool", touches="all-reduce",
    applies=has_nvlink,
)  # fmt: skip
def all_reduce_slow(state: HostState, rng: random.Random, args: Args) -> None:
    """An all-reduce goes through the hosts' memory."""
    state.active.all_reduce = 38.0


@fault("rail-cut", "active", "ib-pingpong ib-write", touches="rail", applies=has_rdma, args=PORT)
def rail_cut(state: HostState, rng: random.Random, args: Args) -> None:
    """One rail is up and reaches nobody: its cable ends in another leaf."""
    state.active.cut.add(one_port(state, rng, args).device)


@fault("rail-slow", "active", "ib-write", touches="rail", applies=has_rdma, args=PORT)
def rail_slow(state: HostState, rng: random.Random, args: Args) -> None:
    """One rail carries half of its rate."""
    port = one_port(state, rng, args)
    state.active.write_of[port.device] = state.active.write / 2
