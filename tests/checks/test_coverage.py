"""Which lines of the collected practice a check covers, and which none does yet, each with why."""

from __future__ import annotations

import re

import pytest

from checks.registry import load
from tests.golden import SHARED

COVERED: dict[str, set[str]] = {
    "COL-01": {"net-reachable"},
    "COL-02": {"host-privilege"},
    "COL-03": {"host-tools"},
    "COL-04": {"host-responsive"},
    "COL-05": {"time-sync", "time-source"},
    "PWR-01": {"power-rack-budget"},
    "PWR-02": {"gpu-power-limit", "uniform-power-limit"},
    "PWR-03": {"power-psu"},
    "PWR-04": {"bmc-sel"},
    "PWR-05": {"gpu-power-brake"},
    "THM-01": {"thermal-delta"},
    "THM-02": {"gpu-temperature", "gpu-memory-temperature"},
    "THM-03": {"gpu-throttle"},
    "THM-04": {"thermal-fans"},
    "GPU-01": {"gpu-count"},
    "GPU-02": {"gpu-model", "host-accelerators"},
    "GPU-03": {"gpu-driver", "uniform-driver"},
    "GPU-04": {"gpu-cuda"},
    "GPU-05": {"gpu-ecc"},
    "GPU-06": {"gpu-ecc-errors", "gpu-ecc-corrected"},
    "GPU-07": {"gpu-remap"},
    "GPU-08": {"gpu-retired"},
    "GPU-09": {"gpu-persistence"},
    "GPU-10": {"gpu-mig", "gpu-mps", "gpu-compute-mode"},
    "GPU-11": {"gpu-recovery"},
    "GPU-12": {"gpu-throttle", "gpu-power-brake"},
    "GPU-13": {"gpu-clocks", "uniform-clocks"},
    "GPU-14": {"gpu-idle"},
    "GPU-15": {"gpu-firmware", "uniform-vbios"},
    "GPU-16": {"gpu-pcie", "gpu-host-bandwidth"},
    "GPU-17": {"log-xid", "log-hardware"},
    "GPU-18": {"gpu-cuda-init"},
    "GPU-19": {"gpu-diag"},
    "GPU-20": {
        "amd-count", "amd-model", "amd-memory", "amd-driver", "amd-ecc", "amd-bad-pages", "amd-links",
        "amd-temperature", "amd-power-limit", "amd-throttle", "amd-pcie", "amd-partition", "amd-idle",
        "amd-responsive",
    },
    "GPU-21": {
        "npu-count", "npu-model", "npu-health", "npu-memory", "npu-driver", "npu-responsive", "npu-ecc",
        "npu-network", "npu-temperature", "npu-idle",
    },
    "GPU-22": {
        "mlu-count", "mlu-model", "mlu-memory", "mlu-driver", "mlu-temperature", "mlu-idle", "mtt-count",
        "mtt-model", "mtt-memory", "mtt-driver", "mtt-pcie", "mtt-temperature", "mtt-idle",
    },
    "GPU-23": {"mac-model", "mac-memory", "mac-version", "mac-wired-limit", "mac-sleep", "mac-disk"},
    "NVL-01": {"nvlink-topology"},
    "NVL-02": {"nvlink-links"},
    "NVL-03": {"nvlink-errors"},
    "NVL-04": {"nvlink-fabric-state"},
    "NVL-05": {"nvlink-fabric-manager"},
    "NVL-06": {"nvlink-domain"},
    "NVL-07": {"nvlink-imex"},
    "NVL-08": {"nvlink-peer", "nvlink-peer-bandwidth"},
    "NVL-09": {"nvlink-all-reduce"},
    "NVL-10": {"log-sxid"},
    "IB-01": {"ib-link"},
    "IB-02": {"ib-errors"},
    "IB-03": {"ib-flaps"},
    "IB-04": {"ib-sm"},
    "IB-05": {"ib-firmware", "uniform-nic-firmware"},
    "IB-06": {"ib-names"},
    "IB-07": {"ib-devices"},
    "RO-01": {"roce-qos"},
    "RO-02": {"roce-tos", "roce-gid"},
    "RO-03": {"roce-mtu"},
    "NET-01": {"pcie-pairing"},
    "NET-02": {"rdma-gpudirect", "ib-pingpong", "ib-write"},
    "NET-03": {"pcie-acs", "os-iommu"},
    "NET-04": {"net-names"},
    "OS-01": {"uniform-kernel", "uniform-os", "uniform-cmdline"},
    "OS-02": {"os-numa"},
    "OS-03": {"os-thp"},
    "OS-04": {"os-cstates"},
    "OS-05": {"os-governor"},
    "OS-06": {"os-swap"},
    "OS-07": {"os-memlock"},
    "OS-08": {"os-hugepages", "os-shm"},
    "OS-09": {"os-memory", "os-edac"},
    "OS-10": {"os-processes"},
    "OS-11": {"log-hardware"},
    "OS-12": {"os-holds"},
    "NV-01": {"nvme-headroom"},
    "NV-02": {"nvme-health"},
    "NV-03": {"nvme-count", "nvme-link"},
    "NV-04": {"nvme-read", "uniform-nvme-read"},
    "CT-01": {"container-runtime"},
    "CT-02": {"container-kubelet"},
    "CT-03": {"container-config"},
    "UNI-01": {
        "uniform-driver", "uniform-vbios", "uniform-kernel", "uniform-cmdline", "uniform-os", "uniform-bios",
        "uniform-nic-firmware", "uniform-thp", "uniform-governor",
    },
    "UNI-02": {"uniform-power-limit", "uniform-clocks"},
    "UNI-03": {
        "uniform-memory-bandwidth", "uniform-host-bandwidth", "uniform-nvme-read", "uniform-all-reduce",
    },
    "UNI-04": {"uniform-clock"},
    "UNI-05": {"nvlink-domain"},
    "UNI-06": {"ib-names", "roce-gid"},
}  # fmt: skip
MISSING: dict[str, str] = {
    "GPU-24": "plans of DGX Spark and Jetson hosts",
}
_ROW = re.compile(r"^\|\s*((?:COL|PWR|THM|GPU|NVL|IB|RO|NET|OS|NV|CT)-\d\d)\b", re.M)
_UNIFORM = re.compile(r"\b(UNI-\d\d)\b")


def test_every_named_check_exists_and_every_check_covers_a_line() -> None:
    named = {check for ids in COVERED.values() for check in ids}
    assert named - set(load()) == set()
    assert set(load()) - named == {"gpu-cudnn", "gpu-memory-bandwidth"}, "lines of other lists"
    assert not set(COVERED) & set(MISSING)


def test_no_line_is_forgotten() -> None:
    page = SHARED / "reference" / "preflight.md"
    if not page.is_file():
        pytest.skip("the collected practice is not on this machine")
    text = page.read_text(encoding="utf-8")
    part = text[text.index("### B.0 ") : text.index("\n## C.")]
    lines = set(_ROW.findall(part[: part.index("### B.6 ")])) | set(_UNIFORM.findall(part))
    assert len(lines) == 87
    assert lines == set(COVERED) | set(MISSING)
