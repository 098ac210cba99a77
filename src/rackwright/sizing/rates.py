"""What the active checks must measure at least, derived from the catalog's figures.

A measured rate is compared with a share of the data sheet's. Each share says where it was read; a share that
nobody published is assumed, on the low side: it finds what is broken, not what is slow by a few per cent.
Slow by a few per cent shows in the comparison of a pool's hosts (``OUTLIER_MAX``).
"""

from __future__ import annotations

from rackwright.catalog import Accelerator
from rackwright.catalog.hardware_entries import NvLink
from rackwright.plan.base import NotApplicable
from rackwright.plan.fabric import Fabric

OUTLIER_MAX = 0.05
"""Below the pool's median (oci-hpc takes 2 % for disks, SuperBench 5 % for what GPUs measure)."""
DIAG_LEVEL = 2
"""Of ``dcgmi diag``: minutes; level 3 belongs to a soak (awsome-distributed-training, DCGM#247)."""
NVME_READ_GB_S = 1.5
"""One disk, read alone in order: half of what data centre disks on PCIe 3.0 x4 do (assumed)."""

MEMORY_SHARE = 0.70
"""Of the data sheet's bandwidth, for a copy within one GPU (assumed: sound HBM and GDDR cards reach 0.8)."""
HOST_SHARE = 0.75
"""Of PCIe's rate one way: azurehpc-health-checks demands 48 GB/s of an H100's 64."""
PEER_SHARE = 0.74
"""Of NVLink's rate one way: azurehpc-health-checks demands 335 GB/s of an H100's 450."""
ALL_REDUCE_SHARE = {"ampere": 185 / 300, "hopper": 440 / 450, "blackwell": 800 / 900}
"""Bus bandwidth of an all-reduce over the GPUs of one host, by NVLink's rate one way: oci-hpc's
active_healthcheck demands 185 GB/s of A100, 440 of H100 and H200, 800 of B200 and GB200. Switches that add up
in the network let Hopper's come near the links' own rate."""
WRITE_SHARE = 0.95
"""Of the port's rate, for RDMA writes: azurehpc-health-checks demands 380 Gb/s of 400."""


def memory(accelerator: Accelerator) -> float:
    """GB/s, read plus written."""
    return _round(accelerator.bandwidth.value * MEMORY_SHARE)


def host(accelerator: Accelerator) -> float | NotApplicable:
    """GB/s between host and GPU, each way."""
    if not accelerator.pcie.value:
        return NotApplicable(not_applicable=f"{accelerator.name} shares the host's memory")
    return _round(accelerator.pcie.value * HOST_SHARE)


def peer(link: NvLink) -> float:
    """GB/s from one GPU of a host to another."""
    return _round(link.unidirectional.value * PEER_SHARE)


def all_reduce(accelerator: Accelerator, link: NvLink, gpus: int) -> float | NotApplicable:
    """GB/s of bus bandwidth, all GPUs of a host together."""
    if gpus < 2:
        return NotApplicable(not_applicable="one GPU a host: there is nothing to reduce")
    share = ALL_REDUCE_SHARE.get(accelerator.architecture)
    if share is None:
        return NotApplicable(not_applicable=f"no rate of an all-reduce on {accelerator.name} is published")
    return _round(link.unidirectional.value * share)


def write(fabric: Fabric) -> float:
    """Gb/s of RDMA writes on each rail."""
    return _round(fabric.rate_gbps * WRITE_SHARE)


def _round(value: float) -> float:
    return float(f"{value:.4g}")
