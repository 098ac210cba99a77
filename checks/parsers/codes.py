"""Every problem code that a parser may report, with its meaning.

The codes are ids of checks, so that a problem found while reading an output can be filed under the check
which would have found it.  A parser reports only what is wrong whatever the plan says; what depends on the
plan (ECC off, persistence off, a link narrower than planned) is a fact, and the checks judge it.
"""

from __future__ import annotations

CODES: dict[str, str] = {
    "output-unknown": "the output is not of the kind asked for, or has a line that cannot be read",
    "output-truncated": "the output is cut: a part that must be there is missing",
    "output-contradiction": "the output says two different things",
    "output-error": "the tool printed an error instead of, or besides, its output",
    "gpu-lost": "a GPU fell off the bus, does not answer, or none was found",
    "gpu-driver": "the driver does not answer, or driver and library do not match",
    "gpu-ecc": "an ECC mode change waits for a reboot",
    "gpu-ecc-errors": "uncorrectable memory errors were counted",
    "gpu-remap": "row remapping is pending or failed, or a memory repair is pending or impossible",
    "gpu-retired": "page retirement is pending",
    "gpu-mig": "a MIG mode change waits for a reset",
    "gpu-throttle": "clocks are held down by power brake, hardware slowdown or temperature",
    "gpu-temperature": "no margin left to the temperature limit",
    "gpu-sensor": "a sensor of the GPU reads an error",
    "gpu-recovery": "the driver asks for a reset, reboot or drain of the GPU",
    "gpu-inforom": "the GPU's inforom is corrupted",
    "gpu-fabric": "the GPU is not (or not soundly) registered in the NVLink fabric",
    "gpu-health": "the vendor's tool calls the device unhealthy",
    "amd-links": "an XGMI link between two GPUs is down",
    "amd-bad-pages": "bad memory pages wait to be retired, or could not be",
    "npu-ecc": "double bit errors were counted in an NPU's HBM",
    "npu-network": "the network port of an NPU is down",
    "gpu-diag": "a diagnostic test failed",
    "nvlink-links": "NVLinks are inactive or down",
    "nvlink-errors": "NVLink error counters are not zero",
    "ib-link": "a port of an RDMA device is not active",
    "ib-sm": "an InfiniBand port has no subnet manager",
    "ib-errors": "port error counters are not zero",
    "net-link": "a network link is down although it is switched on",
    "log-xid": "the NVIDIA driver logged an Xid",
    "log-sxid": "an NVSwitch error (SXid) was logged",
    "log-aer": "a PCIe error was logged",
    "log-mce": "a machine check was logged",
    "log-oom": "the kernel killed processes for lack of memory",
    "log-nvrm": "the NVIDIA driver logged an assertion or failure without an Xid",
    "log-gpu": "the kernel driver of a GPU logged a hardware error",
    "log-link": "a network link went down",
    "log-disk": "a disk or file system error was logged",
    "log-lockup": "the kernel logged a lockup or hung task",
    "fabric-manager": "the fabric manager failed or does not match the driver",
    "bmc-power": "the BMC gives no power reading",
    "bmc-sensors": "a BMC sensor is in a failed, critical or non-recoverable state",
    "bmc-sel": "the system event log holds an asserted critical event",
    "nvme-health": "a disk reports failing health",
    "pcie-link": "a PCIe link works below what the device can do and the tool marks it",
    "acs": "ACS redirection is switched on, peer-to-peer traffic goes through the root complex",
    "os-clock": "the clock is not synchronised",
}
