"""Accelerators of each vendor in a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from rackwright.catalog import Accelerator


@dataclass(frozen=True)
class Device:
    """How a vendor's device plugin advertises accelerators.

    Attributes:
        resource: the extended resource that a pod asks for; empty: no cluster runs on such machines.
        taint: key of the taint that keeps other pods off the nodes.
        operator: the operator of the platform entry that brings driver and plugin; None: somebody else does.
        tool: what prints the devices on a host.
    """

    resource: str
    taint: str
    operator: str | None
    tool: str


DEVICES = {
    "nvidia": Device("nvidia.com/gpu", "nvidia.com/gpu", "gpu-operator", "nvidia-smi"),
    "amd": Device("amd.com/gpu", "amd.com/gpu", None, "amd-smi"),
    "apple": Device("", "", None, "system_profiler"),
    "huawei": Device("huawei.com/Ascend910", "huawei.com/Ascend910", None, "npu-smi"),
    "intel": Device("gpu.intel.com/xe", "gpu.intel.com/xe", None, "xpu-smi"),
}
"""Sources: device plugins of NVIDIA, of ROCm, of Intel (driver xe) and of Ascend, which names all 910s so."""


def device_of(accelerator: Accelerator) -> Device:
    """Raises KeyError: of a vendor for whom nothing can be launched, which `plannable` refuses before."""
    return DEVICES[accelerator.vendor]
