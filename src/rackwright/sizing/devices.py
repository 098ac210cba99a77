"""Accelerators of each vendor in a cluster, and what the checklist may expect of those it cannot read."""

from __future__ import annotations

from dataclasses import dataclass

from rackwright.catalog import Accelerator, Machine
from rackwright.plan.base import NotApplicable
from rackwright.plan.expectations import GpuExpectation


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


def unread(machine: Machine, accelerator: Accelerator) -> GpuExpectation:
    """What is expected of accelerators whose tool no check reads: how many there are, and nothing else.

    The check of the count fails there too, since it finds no ``nvidia-smi``: not measured is an error.
    """
    tool = device_of(accelerator).tool
    reason = NotApplicable(not_applicable=f"the checks read nvidia-smi; {accelerator.name} answers to {tool}")
    kept = {"vendor", "count", "product"}
    rest = {name: reason for name in GpuExpectation.model_fields if name not in kept}
    data = {"vendor": accelerator.vendor, "count": int(machine.gpus.value), "product": accelerator.product}
    return GpuExpectation.model_validate({**data, **rest})
