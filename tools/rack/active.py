"""What active tests measure on a simulated host: rates of its parts, and which part is ill."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rackwright.plan import HostExpectation, NotApplicable


def _planned(value: Any, default: float) -> float:
    return default if value is None or isinstance(value, NotApplicable) else float(value)


@dataclass
class Active:
    """Rates in GB/s, of RDMA writes in Gb/s; ``…_of`` holds those of single parts, by index or device.

    ``cuda``: what CUDA's initialisation gives, 0 where it works. ``cuda_of``: a GPU that refuses, and how.
    ``diag_of``: a test of DCGM and the GPU that fails it. ``cut``: rails that reach nobody.
    """

    memory: float
    host: float
    peer: float
    all_reduce: float
    write: float
    read: float
    cuda: int = 0
    cuda_of: dict[int, str] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    memory_of: dict[int, float] = field(default_factory=dict)
    host_of: dict[int, float] = field(default_factory=dict)
    peer_of: dict[int, float] = field(default_factory=dict)
    read_of: dict[int, float] = field(default_factory=dict)
    diag_of: dict[str, int] = field(default_factory=dict)
    write_of: dict[str, float] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)


def active(expected: HostExpectation) -> Active:
    """A sound host is well above what the plan asks for."""
    gpu, nvlink = expected.gpu, expected.nvlink
    return Active(
        memory=_planned(gpu.memory_bandwidth_min_gb_s, 1000.0) * 1.22,
        host=_planned(gpu.host_bandwidth_min_gb_s, 24.0) * 1.15,
        peer=_planned(nvlink.peer_bandwidth_min_gb_s, 40.0) * 1.15,
        all_reduce=_planned(nvlink.all_reduce_min_gb_s, 20.0) * 1.06,
        write=_planned(expected.rdma.write_min_gbps, 380.0) * 1.03,
        read=_planned(expected.storage.nvme_read_min_gb_s, 1.5) * 3,
    )
