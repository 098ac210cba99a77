"""Remedies that the program may apply, and those that need a reboot: see :class:`checks.registry.Fix`.

A remedy stands here only if it takes effect at once, disturbs nothing that runs, and can be taken back. It
lasts until the next reboot; what makes it lasting is in the check's remedy, for whoever builds the image.
"""

from __future__ import annotations

from checks.registry import Fix

_WRITE_BACK = (
    "printf '%s\\n' {was} | while IFS=: read -r f v; do [ -n \"$f\" ] || continue; "
    'printf \'%s\\n\' "$v" | tee "$f" >/dev/null; done'
)
"""Restores files from the lines that ``grep -H .`` printed of them."""

_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
THP = Fix(
    commands=(f"echo {{thp}} | tee {_HUGE_PAGES} >/dev/null",),
    before=f"sed 's/.*\\[\\([a-z]*\\)\\].*/\\1/' {_HUGE_PAGES}",
    inverse=f"echo {{was}} | tee {_HUGE_PAGES} >/dev/null",
    values=(("thp", "os.thp"),),
)

_GOVERNOR_FILES = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
GOVERNOR = Fix(
    commands=(f"echo {{governor}} | tee {_GOVERNOR_FILES} >/dev/null",),
    before=f"grep -H . {_GOVERNOR_FILES}",
    inverse=_WRITE_BACK,
    values=(("governor", "os.governor"),),
)

IDLE_STATES = Fix(
    commands=(
        'for d in /sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*; do read -r n <"$d/name"; '
        'case " "{cstates}" " in *" $n "*) ;; *) echo 1 | tee "$d/disable" >/dev/null ;; esac; done',
    ),
    before="grep -H . /sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*/disable",
    inverse=_WRITE_BACK,
    values=(("cstates", "*os.cstates_allowed"),),
)

SWAP = Fix(
    commands=(
        "awk '/^MemAvailable:/ {a = $2} /^SwapTotal:/ {t = $2} /^SwapFree:/ {f = $2} "
        "END {exit !(t - f < a / 2)}' /proc/meminfo || "
        "{ echo 'what is swapped out does not fit into half of the available memory' >&2; exit 3; }",
        "swapoff -a",
    ),
    before="awk 'NR > 1 {print $1}' /proc/swaps",
    inverse="printf '%s\\n' {was} | while read -r area; do swapon \"$area\"; done",
    only=("os.swap", False),
)

NUMA_BALANCING = Fix(
    commands=("echo 0 | tee /proc/sys/kernel/numa_balancing >/dev/null",),
    before="cat /proc/sys/kernel/numa_balancing",
    inverse="echo {was} | tee /proc/sys/kernel/numa_balancing >/dev/null",
    only=("os.numa_balancing", False),
)

PERSISTENCE = Fix(
    commands=("systemctl start nvidia-persistenced", "nvidia-smi -pm 1"),
    before='echo "unit, $(systemctl is-active nvidia-persistenced)"; '
    "nvidia-smi --query-gpu=index,persistence_mode --format=csv,noheader",
    inverse="printf '%s\\n' {was} | while IFS=', ' read -r g m; do case \"$g $m\" in "
    "'unit active') ;; unit*) systemctl stop nvidia-persistenced ;; "
    '*Disabled) nvidia-smi -i "$g" -pm 0 ;; esac; done',
    only=("gpu.persistence", True),
)

POWER_LIMIT = Fix(
    commands=("nvidia-smi -pl {watts}",),
    before="nvidia-smi --query-gpu=index,power.limit --format=csv,noheader,nounits",
    inverse="printf '%s\\n' {was} | while IFS=', ' read -r g w; do nvidia-smi -i \"$g\" -pl \"$w\"; done",
    values=(("watts", "gpu.power_limit_w"),),
)

REBOOT = Fix(reboot=True)
"""A person mends it, with the host out of service: ECC, driver, kernel command line, BIOS."""
