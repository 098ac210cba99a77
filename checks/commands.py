"""Commands that more than one check reads. A command used by a single check stands beside that check."""

from __future__ import annotations

from checks.registry import Command

SMI_XML = Command("nvidia-smi-qx", "nvidia-smi -q -x", parser="nvidia-smi-qx", timeout_s=45)
SMI_LIST = Command("nvidia-smi-L", "nvidia-smi -L", parser="nvidia-smi-L", timeout_s=30)
SMI_LOAD = Command(
    "nvidia-smi-load",
    "nvidia-smi --query-gpu=index,utilization.gpu,power.draw,temperature.gpu --format=csv",
    parser="nvidia-smi-csv",
    timeout_s=30,
)
SMI_TOPO = Command("nvidia-smi-topo", "nvidia-smi topo -m", parser="nvidia-smi-topo", timeout_s=30)
SMI_NVLINK = Command("nvidia-smi-nvlink", "nvidia-smi nvlink -s", parser="nvidia-smi-nvlink", timeout_s=30)
IB_SYSFS = Command(
    "infiniband-sysfs",
    "grep -H . /sys/class/infiniband/*/ports/*/state /sys/class/infiniband/*/ports/*/phys_state "
    "/sys/class/infiniband/*/ports/*/rate /sys/class/infiniband/*/ports/*/link_layer "
    "/sys/class/infiniband/*/ports/*/lid /sys/class/infiniband/*/ports/*/sm_lid "
    "/sys/class/infiniband/*/ports/*/gid_attrs/ndevs/0 2>/dev/null",
    parser="infiniband-sysfs",
    ok_rcs=(0, 2),
)
IP_LINK = Command("ip-link", "ip -d link show", parser="ip-link")
KERNEL_LOG = Command("dmesg", "dmesg -T", parser="dmesg", root=True, cap_bytes=8_000_000)
BMC_POWER = Command(
    "ipmitool-dcmi", "ipmitool dcmi power reading", parser="ipmitool-dcmi", root=True, timeout_s=30
)
BMC_SENSORS = Command(
    "ipmitool-sdr", "ipmitool sdr list full", parser="ipmitool-sensors", root=True, timeout_s=45
)
CMDLINE = Command("cmdline", "cat /proc/cmdline", parser="cmdline")
MEMINFO = Command("meminfo", "cat /proc/meminfo", parser="meminfo")
LSCPU = Command("lscpu", "lscpu", parser="lscpu")
