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
    "cd /sys/class/infiniband && grep -H . ./*/ports/*/state ./*/ports/*/phys_state ./*/ports/*/rate "
    "./*/ports/*/link_layer ./*/ports/*/lid ./*/ports/*/sm_lid ./*/ports/*/gid_attrs/ndevs/0 2>/dev/null",
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
THP = Command("thp", "cat /sys/kernel/mm/transparent_hugepage/enabled", parser="thp")
SWAPS = Command("proc-swaps", "cat /proc/swaps", parser="proc-swaps")
CPUIDLE = Command(
    "cpuidle",
    # Relative paths: hundreds of CPUs with four states each are read and sent a third faster.
    "cd /sys/devices/system/cpu && grep -H . ./cpuidle/current_driver ./cpu*/cpuidle/state*/name "
    "./cpu*/cpuidle/state*/disable 2>/dev/null",
    parser="cpuidle",
    ok_rcs=(0, 2),
)
GOVERNORS = Command(
    "governors",
    "cd /sys/devices/system/cpu && grep -H . ./cpu*/cpufreq/scaling_driver ./cpu*/cpufreq/scaling_governor "
    "./cpu*/cpufreq/energy_performance_preference 2>/dev/null; echo end",
)
NUMA_BALANCING = Command("numa-balancing", "cat /proc/sys/kernel/numa_balancing 2>/dev/null || echo absent")
KERNEL_RELEASE = Command("uname", "uname -r")
OS_RELEASE = Command("os-release", "cat /etc/os-release", parser="os-release")
FIRMWARE = Command("dmi", "grep -H . /sys/class/dmi/id/bios_vendor /sys/class/dmi/id/bios_version")
PROCESSES = Command("processes", "ps -e -o pid=,comm=")
MODULES = Command("modules", "cat /proc/modules")

PRIVILEGE = Command("privilege", "id -u", root=True)
TOOLS = Command(
    "tools",
    'for t in $RW_TOOLS; do if command -v "$t" >/dev/null 2>&1; then echo "$t yes"; else echo "$t no"; fi; '
    "done; echo end",
    variables=("RW_TOOLS",),
)
CHRONY = Command("chronyc-tracking", "chronyc -c -n tracking", parser="chronyc-tracking")
TIMEDATE = Command("timedatectl-show", "timedatectl show", parser="timedatectl-show")
TIMESYNC = Command("timesync-status", "timedatectl timesync-status")

LSPCI = Command("lspci", "lspci -D -nn", parser="lspci")
LSPCI_ACS = Command(
    "lspci-acs", "lspci -D -nn -vvv", parser="lspci-acs", root=True, timeout_s=45, cap_bytes=8_000_000
)
PCI_PATHS = Command(
    "pci-paths",
    'n=0; k=; set --; for d in /sys/bus/pci/devices/*; do read -r v <"$d/vendor"; read -r c <"$d/class"; '
    'case "$v $c" in "0x10de 0x03"*) n=$((n + 1)); k="${k}gpu/${d##*/} "; set -- "$@" "$d";; esac; done; '
    'for d in /sys/class/infiniband/*; do [ -e "$d" ] || continue; n=$((n + 1)); '
    'k="${k}hca/${d##*/} "; set -- "$@" "$d/device"; done; '
    # One process resolves them all: a fork a device costs more than everything else here.
    '[ $# = 0 ] || for p in $(readlink -f "$@"); do e=${k%% *}; k=${k#* }; echo "${e%%/*} ${e#*/} $p"; done; '
    'echo "end $n"',
)
DRIVER_LOADED = Command("driver-loaded", "cat /proc/driver/nvidia/version")
CUDNN = Command(
    "cudnn",
    "ldconfig -p | sed -n 's/.*libcudnn\\.so[.0-9]* .*=> //p' | "
    'while read -r f; do readlink -f "$f"; done | sort -u; echo end',
)
SMI_IDENTITY = Command(
    "nvidia-smi-identity",
    "nvidia-smi --query-gpu=index,name,pci.bus_id,driver_version,vbios_version,power.limit,clocks.max.sm "
    "--format=csv",
    parser="nvidia-smi-csv",
    timeout_s=30,
)
PERSISTENCED = Command(
    "systemctl-persistenced",
    "systemctl show nvidia-persistenced -p LoadState,ActiveState,SubState",
    parser="systemctl-show",
)
FABRIC_MANAGER = Command(
    "systemctl-fabricmanager",
    "systemctl show nvidia-fabricmanager -p LoadState,ActiveState,SubState",
    parser="systemctl-show",
)
FABRIC_MANAGER_VERSION = Command(
    "fabricmanager-version",
    "nv-fabricmanager --version 2>/dev/null || { "
    "p=$(ps -e -o pid=,comm= | awk '$2 ~ /^nv-fabricmanage/ {print $1; exit}'); "
    '[ -n "$p" ] && chroot "/proc/$p/root" nv-fabricmanager --version; }',
    root=True,
)

RDMA_LINK = Command("rdma-link", "rdma link show", parser="rdma-link")
IBV_DEVINFO = Command("ibv-devinfo", "ibv_devinfo")
QOS = Command(
    "mlnx-qos",
    "command -v mlnx_qos >/dev/null || exit 127; "
    'for n in /sys/class/infiniband/*/device/net/*; do [ -e "$n" ] || continue; '
    'echo "== ${n##*/}"; mlnx_qos -i "${n##*/}"; done; echo "== end"',
    root=True,
    timeout_s=45,
)
TRAFFIC_CLASS = Command(
    "traffic-class",
    "grep -H . /sys/class/infiniband/*/tc/1/traffic_class 2>/dev/null; echo end",
    root=True,
)
NIC_FIRMWARE = Command("nic-firmware", "grep -H . /sys/class/infiniband/*/fw_ver 2>/dev/null", ok_rcs=(0, 2))

MODEL_DIR = Command("df-model-dir", 'df -P -B1 -- "$RW_MODEL_DIR"', parser="df", variables=("RW_MODEL_DIR",))
LSBLK = Command("lsblk", "lsblk -J -b -o NAME,TYPE,SIZE,MOUNTPOINT", parser="lsblk")
NVME_SMART = Command(
    "nvme-smart",
    "command -v nvme >/dev/null || exit 127; "
    'for d in /dev/nvme[0-9] /dev/nvme[0-9][0-9]; do [ -e "$d" ] || continue; '
    'echo "== ${d#/dev/}"; nvme smart-log -o json "$d"; done; echo "== end"',
    root=True,
    timeout_s=45,
)

BMC_PSU = Command(
    "ipmitool-psu",
    "ipmitool sdr type 'Power Supply'",
    parser="ipmitool-sensors",
    root=True,
    timeout_s=45,
)
BMC_SEL = Command(
    "ipmitool-sel", "ipmitool sel elist last 200", parser="ipmitool-sel", root=True, timeout_s=45
)
