"""Checks of local storage: room for the models, and the health and number of NVMe disks."""

from __future__ import annotations

from checks.areas._read import (
    Context,
    Finding,
    Range,
    applies,
    fault,
    is_number,
    leaf,
    notice,
    reading,
    sections,
    unread,
    verdict,
)
from checks.commands import LSBLK, MODEL_DIR, NVME_SMART
from checks.parsers import parse_once
from checks.registry import check
from checks.view import HostView, NotMeasured
from rackwright.verdict import Outcome, Severity

_NO_DISK = ("overlay", "tmpfs", "ramfs", "devtmpfs", "none", "shm", "udev")


def _gb(count: float) -> str:
    return f"{count / 1e9:.0f} GB"


@check(
    id="nvme-headroom",
    title="Room for twice the weights where the models lie",
    severity=Severity.CRITICAL,
    commands=[MODEL_DIR],
    expects="storage.headroom_bytes",
    remedy="df -h; sudo du -xh --max-depth=1 MODEL_DIR | sort -h | tail"
    "  # remove old versions, or mount the planned NVMe file system there",
    reversible=False,
    source="deployment checklist, hardware: NVMe free > 2 × all model weights",
    ids=["H6"],
)
def headroom(view: HostView, want: int, context: Context) -> Outcome:
    """A new version of the weights is fetched beside the old one; without room the roll-out stops half-way,
    and a full disk takes the host's logs with it."""
    found: list[Finding] = []
    systems = view.facts(MODEL_DIR)["filesystems"] or []
    if len(systems) != 1:
        raise NotMeasured(f"df shows {len(systems)} file systems for one directory")
    fs = systems[0]
    source, mount, free = str(fs["source"]), str(fs["mountpoint"]), fs["available_bytes"]
    directory = leaf(context, "storage.model_dir")
    if source in _NO_DISK:
        found.append(
            fault("", f"{directory if applies(directory) else mount} lies on {source}, not on a disk")
        )
    size = fs["size_bytes"]
    most = Range(0, size if is_number(size) else float("inf"), "bytes")
    if odd := reading("", "free space", free, most):
        found += odd
    elif free <= want:
        found.append(fault("", f"{_gb(free)} free at {mount} ({source})"))
    shown = f"{_gb(free)} free" if is_number(free) else "unknown"
    return verdict(found, actual=f"{shown}, {source} on {mount}", expected=f"> {_gb(want)} free")


@check(
    id="nvme-health",
    title="NVMe disks healthy",
    severity=Severity.MAJOR,
    commands=[NVME_SMART],
    expects="storage.nvme_wear_max_percent",
    remedy="sudo nvme smart-log /dev/nvme0  # the disk that is named; move its data away and exchange it",
    reversible=False,
    source="gcm, smartctl_exporter",
)
def health(view: HostView, want: int) -> Outcome:
    """A worn or failing disk serves damaged weights, or takes minutes for a load that should take seconds."""
    text = view.text(NVME_SMART)
    if not text.rstrip().endswith("== end"):
        raise NotMeasured("the health logs came back incomplete")
    disks = {name: part for name, part in sections(text).items() if name != "end"}
    if not disks:
        raise NotMeasured("no NVMe disk was found")
    found = [finding for name, part in disks.items() for finding in _disk(name, part, want)]
    bad = len({f.where for f in found})
    return verdict(
        found,
        actual=f"{len(disks) - bad} of {len(disks)} healthy",
        expected=f"no warning, no media error, wear < {want} %, spare above its threshold",
    )


_SMART = {
    "critical_warning": Range(0, 255),
    "media_errors": Range(0, float("inf")),
    "percentage_used": Range(0, 255, "%"),
    "available_spare": Range(0, 100, "%"),
    "available_spare_threshold": Range(0, 100, "%"),
}
"""What the health log can hold (NVM Express base specification, SMART / Health Information)."""


def _disk(name: str, text: str, wear: int) -> list[Finding]:
    parsed = parse_once("nvme-smart-json", text)
    if not parsed.understood:
        reason = parsed.problems[0].text if parsed.problems else "nothing was read"
        return [unread(name, f"health log not understood: {reason}")]
    facts = parsed.facts
    found = [
        odd
        for fact, possible in _SMART.items()
        for odd in reading(name, fact.replace("_", " "), facts[fact], possible)
    ]
    if found:
        return found
    if facts["critical_warning"]:
        found.append(fault(name, f"critical warning {facts['critical_warning']:#x}"))
    if facts["media_errors"]:
        found.append(fault(name, f"{facts['media_errors']} media errors"))
    if facts["percentage_used"] >= wear:
        found.append(fault(name, f"{facts['percentage_used']} % of its life used"))
    threshold = facts["available_spare_threshold"]
    if facts["available_spare"] <= threshold:
        found.append(fault(name, f"spare {facts['available_spare']} %, its threshold is {threshold} %"))
    return found


@check(
    id="nvme-count",
    title="All NVMe disks present",
    severity=Severity.MAJOR,
    commands=[LSBLK],
    expects="storage.nvme_count",
    remedy="sudo nvme list; sudo dmesg -T | grep -i nvme  # reseat the missing disk; power-cycle (reboot)",
    reversible=False,
    source="azurehpc NHC (NVMe count), gcm",
)
def count(view: HostView, want: int) -> Outcome:
    """A disk that dropped out takes part of the models with it; a striped volume does not come up."""
    disks = [
        d["name"]
        for d in view.facts(LSBLK)["devices"] or []
        if d["type"] == "disk" and str(d["name"]).removeprefix("/dev/").startswith("nvme")
    ]
    found = []
    if len(disks) < want:
        found.append(fault("", f"{len(disks)} NVMe disks instead of {want}"))
    elif len(disks) > want:
        found.append(notice("", f"{len(disks)} NVMe disks, the plan knows {want}"))
    return verdict(found, actual=f"{len(disks)}", expected=f"{want}")
