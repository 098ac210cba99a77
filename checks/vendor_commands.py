"""Commands of vendors other than NVIDIA. A host is asked only those of the plan's vendor."""

from __future__ import annotations

from checks.registry import Command

AMD_STATIC = Command("amd-smi-static", "amd-smi static --json", parser="amd-smi-json", timeout_s=45)
AMD_METRIC = Command("amd-smi-metric", "amd-smi metric --json", parser="amd-smi-json", timeout_s=45)
AMD_TOPOLOGY = Command("amd-smi-topology", "amd-smi topology --json", parser="amd-smi-topology", timeout_s=45)
AMD_BAD_PAGES = Command(
    "amd-smi-bad-pages", "amd-smi bad-pages --json", parser="amd-smi-bad-pages", root=True, timeout_s=45
)
ROCM_SMI = Command("rocm-smi", "rocm-smi -a --json", parser="rocm-smi-json", timeout_s=45)
"""Where amd-smi is not there: ROCm before 6, and containers."""

NPU_INFO = Command("npu-smi-info", "npu-smi info", parser="npu-smi", timeout_s=45)
NPU_ECC = Command(
    "npu-smi-ecc",
    "command -v npu-smi >/dev/null || exit 127; "
    "npu-smi info -m | while read -r n c x; do case $n$c in *[!0-9]*|'') continue ;; esac; "
    # A card's management chip (the mapping calls it Mcu) has no HBM.
    'case $x in Mcu*|*[Mm]cu*) continue ;; esac; echo "== $n/$c"; npu-smi info -t ecc -i "$n" -c "$c"; done; '
    'echo "== end"',
    parser="npu-smi-ecc",
    timeout_s=60,
)
NPU_LINKS = Command(
    "hccn-link",
    # The tool lies beside the driver and is on nobody's path.
    'h=/usr/local/Ascend/driver/tools/hccn_tool; [ -x "$h" ] || h=hccn_tool; '
    'command -v "$h" >/dev/null || exit 127; '
    'for d in /dev/davinci[0-9] /dev/davinci[0-9][0-9]; do [ -e "$d" ] || continue; n=${d#/dev/davinci}; '
    'echo "== $n"; "$h" -i "$n" -link -g; "$h" -i "$n" -net_health -g; done; echo "== end"',
    parser="hccn-link",
    root=True,
    timeout_s=60,
)

CNMON = Command("cnmon", "cnmon info", parser="cnmon", timeout_s=45)
MTHREADS = Command("mthreads-gmi", "mthreads-gmi", parser="mthreads-gmi", timeout_s=45)

MAC_HARDWARE = Command(
    "mac-hardware", "system_profiler -json SPHardwareDataType SPDisplaysDataType", parser="system-profiler",
    timeout_s=45,
)  # fmt: skip
MAC_VERSION = Command("mac-version", "sw_vers", parser="sw-vers")
MAC_LIMITS = Command("mac-limits", "sysctl hw.memsize iogpu.wired_limit_mb", parser="mac-sysctl")
MAC_DISK = Command(
    "mac-disk",
    'sw_vers >/dev/null || exit 127; df -P -k -- "$RW_MODEL_DIR"',  # BSD's df has no -B
    parser="df",
    variables=("RW_MODEL_DIR",),
)
MAC_POWER = Command("mac-power", "pmset -g", parser="pmset")
