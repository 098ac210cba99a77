"""Checks of the machine around the GPUs: fans, memory controllers, disks' links, processes, the runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from checks.areas._read import Context, Finding, absent, fault, is_number, paths, sections, unread, verdict
from checks.commands import BMC_SENSORS
from checks.parsers import NA, parse_once
from checks.registry import Command, check
from checks.view import HostView, NotMeasured
from rackwright.errors import listing
from rackwright.verdict import Outcome, Severity

EDAC = Command(
    "edac",
    "cd /sys/devices/system/edac/mc 2>/dev/null && "
    "grep -H . ./mc*/ue_count ./mc*/ce_count 2>/dev/null; echo end",
)
NVME_LINKS = Command(
    "nvme-links",
    "cd /sys/class/nvme 2>/dev/null && grep -H . ./nvme*/device/current_link_speed "
    "./nvme*/device/max_link_speed ./nvme*/device/current_link_width ./nvme*/device/max_link_width "
    "2>/dev/null; echo end",
)
STATES = Command("process-states", "ps -e -o stat=,ppid=,pid=,comm=")
_UNITS = ("containerd", "crio", "docker")
RUNTIMES = Command(
    "container-runtimes",
    "command -v systemctl >/dev/null || exit 127; "
    f"for u in {' '.join(_UNITS)}; do "
    'echo "== $u"; systemctl show "$u" -p LoadState,ActiveState,SubState,LimitMEMLOCK; done; echo "== end"',
)


def _whole(view: HostView, command: Command) -> str:
    text = view.text(command)
    if not text.rstrip().endswith("end"):
        raise NotMeasured(f"the output of `{command.key}` came back incomplete")
    return text


@check(
    id="thermal-fans",
    title="Every fan turns",
    severity=Severity.WARN,
    commands=[BMC_SENSORS],
    expects="power.fans",
    remedy="sudo ipmitool sdr type Fan  # exchange the fan that is named; most can be changed while running",
    reversible=True,
    source="preflight practice (ipmitool); nvidia_gpu_exporter#393",
)
def fans(view: HostView, want: bool) -> Outcome:
    """The others turn faster and hide one that stands still, until the room is warm or the next one fails."""
    if not want:
        raise NotMeasured("the plan says false; it should say why fans do not apply")
    found: list[Finding] = []
    turning: dict[str, float] = {}
    for sensor in view.facts(BMC_SENSORS)["sensors"] or []:
        name, value = str(sensor["name"]), sensor["value"]
        if str(sensor["unit"] or "").upper() != "RPM" or isinstance(value, NA):
            continue
        status = str(sensor["status"] or "").lower()
        if not is_number(value):
            found.append(absent(name, "speed", value))
        elif value <= 0:
            found.append(fault(name, "stands still"))
        elif status in ("cr", "nr", "lcr", "lnr"):
            found.append(fault(name, f"turns at {value:g} RPM, status {status}"))
        else:
            turning[name] = value
    if not turning and not found:
        raise NotMeasured("the BMC shows no fan")
    slowest = f", slowest {min(turning.values()):g} RPM" if turning else ""
    return verdict(found, actual=f"{len(turning)} turn{slowest}", expected="all turn")


@check(
    id="os-edac",
    title="No uncorrected memory error since boot",
    severity=Severity.MAJOR,
    commands=[EDAC],
    expects="os.edac_uncorrected_max",
    remedy="sudo ras-mc-ctl --errors; sudo dmidecode -t 17 | grep -E 'Locator|Size'"
    "  # exchange the module that is named",
    reversible=False,
    source="mej/nhc, gcm: EDAC counters; deployment practice: a module is exchanged at the first one",
)
def edac(view: HostView, want: int) -> Outcome:
    """An uncorrected error has damaged what was in memory: with luck a process died, without it the data
    went on. The controllers count it, even where nobody logged it."""
    counts: dict[tuple[str, str], int] = {}
    for (controller, kind), value in paths(_whole(view, EDAC), r"/(mc\d+)/(ue|ce)_count$"):
        if not value.isdigit():
            raise NotMeasured(f"{controller} {kind}_count reads {value!r}")
        counts[controller, kind] = int(value)
    controllers = sorted({name for name, _ in counts})
    if not controllers:
        raise NotMeasured("the kernel shows no memory controller (is the EDAC driver loaded?)")
    found: list[Finding] = []
    for name in controllers:
        uncorrected = counts.get((name, "ue"))
        if uncorrected is None:
            found.append(absent(name, "count of uncorrected errors", None))
        elif uncorrected > want:
            found.append(fault(name, f"{uncorrected} uncorrected errors"))
    mended = sum(n for (_, kind), n in counts.items() if kind == "ce")
    note = f"{mended:,} corrected errors" if mended else ""
    most = max((n for (_, kind), n in counts.items() if kind == "ue"), default=0)
    return verdict(
        found, actual=f"at most {most} on {len(controllers)} controllers", expected=f"≤ {want}", message=note
    )


@check(
    id="nvme-link",
    title="NVMe disks run at their full link",
    severity=Severity.MAJOR,
    commands=[NVME_LINKS],
    expects="storage.nvme_full_link",
    remedy="sudo lspci -vv -d ::0108 | grep -E '^[0-9a-f]|LnkCap:|LnkSta:'"
    "  # reseat the disk, check the backplane's cable, reboot",
    reversible=False,
    source="gcm (blockdev manifest: PCIe link of every disk)",
)
def nvme_link(view: HostView, want: bool) -> Outcome:
    """A disk on half of its lanes loads the weights in twice the time, at each start of every replica."""
    if not want:
        raise NotMeasured("the plan says false; it should say why the links do not apply")
    disks: dict[str, dict[str, str]] = {}
    pattern = r"/(nvme\d+)/device/(current|max)_link_(speed|width)$"
    for (disk, when, what), value in paths(_whole(view, NVME_LINKS), pattern):
        disks.setdefault(disk, {})[f"{when} {what}"] = value
    if not disks:
        raise NotMeasured("no NVMe disk shows its link")
    found = [finding for disk, link in disks.items() for finding in _link(disk, link)]
    kinds = sorted({f"{d.get('current speed', '?')} x{d.get('current width', '?')}" for d in disks.values()})
    return verdict(found, actual=", ".join(kinds), expected="each at its own maximum")


_SPEED = re.compile(r"^(\d+(?:\.\d+)?) GT/s")


def _link(disk: str, link: Mapping[str, str]) -> list[Finding]:
    found: list[Finding] = []
    for what, unit in (("speed", " GT/s"), ("width", " lanes")):
        values = []
        for when in ("current", "max"):
            text = link.get(f"{when} {what}", "")
            match = _SPEED.match(text) if what == "speed" else re.fullmatch(r"(\d+)", text)
            if match is None or float(match.group(1)) <= 0 or (what == "width" and float(text) > 32):
                found.append(unread(disk, f"{when} link {what} reads {text or 'nothing'}"))
                break
            values.append(float(match.group(1)))
        if len(values) == 2 and values[0] < values[1]:
            found.append(fault(disk, f"{values[0]:g} of {values[1]:g}{unit}"))
    return found


@check(
    id="os-processes",
    title="No process stuck in the kernel",
    severity=Severity.WARN,
    commands=[STATES],
    expects="os.stuck_max",
    remedy="ps -e -o stat,pid,wchan:30,comm | grep '^D'; sudo dmesg -T | grep -i 'blocked for more than'"
    "  # a process that stays needs a reboot",
    reversible=False,
    source="gpud, gcm: processes in uninterruptible sleep",
)
def processes(view: HostView, want: int) -> Outcome:
    """A process that waits for a device that does not answer cannot be killed: its GPU memory stays taken,
    its mount cannot be left, and the shutdown hangs. Kernel threads are not counted."""
    rows = [line.split(None, 3) for line in view.text(STATES).splitlines() if line.strip()]
    if not rows or not all(len(row) == 4 and row[1].isdigit() and row[2].isdigit() for row in rows):
        raise NotMeasured("the list of processes is empty or cannot be read")
    if not any(row[2] == "1" for row in rows):
        raise NotMeasured("the list of processes does not hold process 1: it is incomplete")
    stuck = [row for row in rows if row[0].startswith("D") and "2" not in row[1:3]]
    names = [f"{row[3]} ({row[2]})" for row in stuck]
    found = [fault("", f"in uninterruptible sleep: {listing(names, 6)}")] if len(stuck) > want else []
    return verdict(found, actual=f"{len(stuck)} of {len(rows)}", expected=f"≤ {want}")


def _unit(view: HostView, name: str) -> Mapping[str, Any]:
    text = view.text(RUNTIMES)
    if not text.rstrip().endswith("== end"):
        raise NotMeasured("the units of the container runtimes came back incomplete")
    part = sections(text).get(name)
    if part is None:
        raise NotMeasured(f"systemd was not asked for the unit {name}; known are {', '.join(_UNITS)}")
    parsed = parse_once("systemctl-show", part)
    properties: Mapping[str, Any] = parsed.facts.get("properties") or {}
    if not parsed.understood or not {"LoadState", "ActiveState"} <= set(properties):
        raise NotMeasured(f"systemctl show {name} was not understood")
    return properties


@check(
    id="container-runtime",
    title="Container runtime running",
    severity=Severity.CRITICAL,
    commands=[RUNTIMES],
    expects="os.container_runtime",
    remedy="sudo systemctl enable --now containerd && sudo crictl info",
    reversible=True,
    source="gpud containerd component; nvidia-docker#1523",
)
def container_runtime(view: HostView, want: str) -> Outcome:
    """Without it the node joins no cluster, or joins and starts nothing."""
    unit = _unit(view, want)
    if unit["LoadState"] == "not-found":
        return verdict([fault("", f"{want} is not installed")], actual="not installed", expected="active")
    state = str(unit["ActiveState"])
    found = [] if state == "active" else [fault("", f"{want} is {state}")]
    return verdict(found, actual=f"{want} {state}", expected=f"{want} active")


@check(
    id="os-memlock",
    title="Pods may lock as much memory as they need",
    severity=Severity.MAJOR,
    commands=[RUNTIMES],
    expects="os.memlock",
    remedy="sudo systemctl edit containerd  # add: [Service] LimitMEMLOCK=infinity"
    "; then: sudo systemctl daemon-reload && sudo systemctl restart containerd",
    reversible=True,
    source="awsome-distributed-training (memlock of at least 16 GiB), NCCL's documentation: unlimited",
)
def memlock(view: HostView, want: str, context: Context) -> Outcome:
    """RDMA pins the memory that it moves. Pods inherit the runtime's limit; at the default of 8 MiB the first
    registration fails, and NCCL falls back to sockets or stops."""
    runtime = context.expectations.os.container_runtime
    unit = _unit(view, runtime if isinstance(runtime, str) else "containerd")
    limit = unit.get("LimitMEMLOCK")
    if unit["LoadState"] == "not-found" or not isinstance(limit, str):
        raise NotMeasured("systemd does not say the container runtime's LimitMEMLOCK")
    found = [] if limit == want else [fault("", f"the limit is {limit}")]
    return verdict(found, actual=limit, expected=want)
