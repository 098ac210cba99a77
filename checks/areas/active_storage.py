"""Active check of local disks: how fast each reads, alone and in order."""

from __future__ import annotations

import re

from checks.areas._read import Finding, fault, sections, unread, verdict
from checks.registry import Command, check
from checks.view import HostView, NotMeasured
from rackwright.verdict import Outcome, Severity

NVME_READ = Command(
    "nvme-read",
    'n=0; for d in /dev/nvme[0-9]n1 /dev/nvme[0-9][0-9]n1; do [ -e "$d" ] || continue; n=$((n + 1)); '
    'echo "== ${d#/dev/}"; timeout 20 dd if="$d" of=/dev/null bs=16M count=128 iflag=direct 2>&1 || '
    'echo "status $?"; done; echo "== end $n"',
    root=True,
    timeout_s=240,
    shown="dd if=/dev/nvme0n1 of=/dev/null bs=16M count=128 iflag=direct",
)
READS = "reads the first 2 GiB of every NVMe disk past the cache, one disk after another; writes nothing"
_RATE = re.compile(r"^(\d+) bytes.*?copied, ([\d.]+(?:e-?\d+)?) s(?:econds)?\b", re.M)


def read_rates(view: HostView) -> tuple[dict[str, float], list[Finding]]:
    """GB/s a disk, and what was wrong with one.

    Raises:
        NotMeasured: the output came back incomplete, or shows no disk.
    """
    parts = sections(view.text(NVME_READ))
    last = (list(parts) or [""])[-1]
    if last != f"end {len(parts) - 1}":
        raise NotMeasured("the rates of the disks came back incomplete")
    del parts[last]
    if not parts:
        raise NotMeasured("no NVMe disk was found")
    rates: dict[str, float] = {}
    found: list[Finding] = []
    for name, part in parts.items():
        status = re.search(r"^status (\d+)$", part, re.M)
        match = _RATE.search(part)
        if status:
            late = status.group(1) in ("124", "137")
            text = "did not read 2 GiB in 20 s" if late else (part.strip().splitlines() or ["?"])[0][:120]
            found.append(fault(name, text))
        elif match is None or float(match.group(2)) <= 0:
            found.append(unread(name, "dd did not say how long it took"))
        elif int(match.group(1)) < 128 << 24:
            found.append(unread(name, f"only {int(match.group(1)):,} bytes were read"))
        else:
            rates[name] = int(match.group(1)) / float(match.group(2)) / 1e9
    return rates, found


@check(
    id="nvme-read",
    title="Every NVMe disk reads as fast as planned",
    severity=Severity.WARN,
    commands=[NVME_READ],
    expects="storage.nvme_read_min_gb_s",
    tier=1,
    active=READS,
    remedy="sudo nvme smart-log /dev/nvme0; cat /sys/class/nvme/nvme*/device/current_link_speed"
    "  # a hot or worn disk throttles: airflow, then exchange",
    reversible=True,
    source="oci-hpc (fio reads), preflight practice; the rate is read with dd, which every host has",
)
def nvme_read(view: HostView, want: float) -> Outcome:
    """A start reads all weights once: one slow disk under a stripe is the speed of the stripe, and a roll-out
    takes that much longer."""
    rates, found = read_rates(view)
    found += [
        fault(name, f"{value:.2f} GB/s instead of {want:g}") for name, value in rates.items() if value < want
    ]
    slowest = f"slowest {min(rates.values()):.2f} GB/s" if rates else "nothing read"
    return verdict(found, actual=f"{len(rates)} disks, {slowest}", expected=f"≥ {want:g} GB/s each")
