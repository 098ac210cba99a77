"""Checks of the kernel log of this boot: GPU errors, NVSwitch errors, hardware faults."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from checks.areas._read import Finding, fault, notice, unread, verdict
from checks.commands import KERNEL_LOG
from checks.registry import Command, check
from checks.view import HostView, NotMeasured
from rackwright.verdict import Outcome, Severity

KERNEL_JOURNAL = Command(
    "kernel-journal",
    "dmesg | head -n 60 | grep -q 'Linux version ' || journalctl -k -b -o short-iso --no-pager",
    parser="dmesg",
    root=True,
    timeout_s=45,
    cap_bytes=8_000_000,
)
"""The journal's copy, asked for only where the kernel's own buffer has lost its beginning."""
LOG = (KERNEL_LOG, KERNEL_JOURNAL)
_BOOT = re.compile(r"\bLinux version \d|\bBooting Linux on physical CPU\b")
_STAMP = re.compile(r"^\[([^\]]{5,40})\]")
_HEAD = 20_000


def log_of_boot(view: HostView) -> tuple[Command, list[Finding]]:
    """Which log to read, and a finding where neither reaches back to the boot: "this boot" is then unproven.

    Raises:
        NotMeasured: the log cannot be read, or is empty: somebody cleared it.
    """
    text = view.text(KERNEL_LOG)
    if not text.strip():
        raise NotMeasured("the kernel log is empty")
    if _BOOT.search(text[:_HEAD]):
        return KERNEL_LOG, []
    try:
        kept = view.text(KERNEL_JOURNAL)
    except NotMeasured:
        kept = ""
    if _BOOT.search(kept[:_HEAD]):
        return KERNEL_JOURNAL, []
    first = next((line for line in text.split("\n") if line.strip()), "")
    stamp = _STAMP.match(first)
    since = stamp.group(1).strip() if stamp else "an unknown time"
    why = "the kernel's buffer has wrapped or was cleared, and the journal does not hold it either"
    return KERNEL_LOG, [unread("", f"the log begins at {since}, not at the boot: {why}")]


def events(view: HostView, *kinds: str) -> list[dict[str, Any]]:
    """The log's events of these kinds, in as much of the log as there is (see :func:`log_of_boot`).

    Raises:
        NotMeasured: as :func:`log_of_boot`.
    """
    source, _ = log_of_boot(view)
    return [e for e in view.facts(source)["events"] if e["kind"] in kinds]


def _times(event: dict[str, Any]) -> str:
    last = f", last {event['last']}" if event["last"] else ""
    return f"{event['count']} time{'s' if event['count'] != 1 else ''}{last}"


_ACTION = re.compile(
    r"Xid\s*\((?:PCI:)?([0-9A-Fa-f:.]+)\)\s*:?\s*154\b.*?to\s+0x[0-9a-fA-F]+\s*\(([^)]*)\)", re.I
)


@check(
    id="log-xid",
    title="No fatal GPU error (Xid) this boot",
    severity=Severity.CRITICAL,
    commands=LOG,
    expects="gpu.xid_fatal",
    remedy="sudo dmesg -T | grep -i xid  # drain the node and reboot; an Xid that returns: exchange the card",
    reversible=False,
    source="awsome-distributed-training Xid table; NVSentinel#911, #1357, #1748 (false alarms); dra#982",
)
def xid(view: HostView, want: tuple[int, ...]) -> Outcome:
    """After a fatal Xid the card gives wrong results or none until it is reset. Other Xids mostly mean that a
    job crashed or was killed: they are told, and do not block."""
    source, unproven = log_of_boot(view)
    actions = dict(_ACTION.findall(view.text(source)))

    def judge(event: dict[str, Any]) -> Iterable[Finding]:
        code, device = event["code"], event["device"]
        text = f"Xid {code}, {_times(event)}"
        if code == 154:
            action = actions.get(str(device), "")
            asks = f"{text}: the driver asks for {action or 'an action it does not name'}"
            yield notice(f"gpu {device}", asks) if action.lower() == "none" else fault(f"gpu {device}", asks)
        elif code in want and event["severity"] != "nonfatal":
            yield fault(f"gpu {device}", text)
        else:
            yield notice(f"gpu {device}", text)

    found = [finding for event in events(view, "xid") for finding in judge(event)]
    lost = [fault(f"gpu {e['device'] or 'unknown'}", "fell off the bus") for e in events(view, "gpu-lost")]
    codes = sorted({e["code"] for e in events(view, "xid")})
    actual = ", ".join(f"Xid {c}" for c in codes) or ("GPU lost" if lost else "none")
    return verdict(found + lost + unproven, actual=actual, expected="no fatal Xid")


@check(
    id="log-sxid",
    title="No fatal NVSwitch error (SXid) this boot",
    severity=Severity.CRITICAL,
    commands=LOG,
    expects="nvlink.fabric_manager",
    remedy="sudo dmesg -T | grep -i sxid; sudo nvidia-bug-report.sh"
    "  # drain the node, then reboot or power-cycle it",
    reversible=False,
    source="awsome-distributed-training (SXid together with Xid 74); NVIDIA fabric manager's fatal SXids",
)
def sxid(view: HostView, _want: bool) -> Outcome:
    """A fatal NVSwitch error takes the NVLink fabric of the whole host down; jobs hang in their first
    collective."""
    found = log_of_boot(view)[1]
    for event in events(view, "sxid"):
        text = f"NVSwitch error {event['code']}, {_times(event)}"
        where = f"nvswitch {event['device'] or 'unknown'}"
        found.append(notice(where, text) if event["severity"] == "nonfatal" else fault(where, text))
    codes = sorted({e["code"] for e in events(view, "sxid")})
    return verdict(found, actual=", ".join(f"SXid {c}" for c in codes) or "none", expected="no fatal SXid")


_NAMES = {
    "mce": "machine check", "aer": "PCIe error", "oom": "processes killed for lack of memory",
    "nvrm-assert": "NVIDIA driver assertion", "nvrm-init": "NVIDIA driver could not start a GPU",
    "gpu-lost": "GPU fell off the bus", "nic-health": "network adapter unhealthy", "disk": "disk error",
    "filesystem": "file system error", "soft-lockup": "CPU locked up", "hung-task": "hung task",
    "rcu-stall": "CPU stalled",
}  # fmt: skip


@check(
    id="log-hardware",
    title="No hardware fault in the kernel log of this boot",
    severity=Severity.MAJOR,
    commands=LOG,
    expects="os.kernel_faults",
    remedy="sudo dmesg -T --level=emerg,alert,crit,err; sudo ras-mc-ctl --summary"
    "  # exchange the part that the log names, reboot",
    reversible=False,
    source="dra-driver-nvidia-gpu#982 (a dead GPU with a driver assertion and no Xid); imbue's log lists",
)
def hardware(view: HostView, want: tuple[str, ...]) -> Outcome:
    """Machine checks, PCIe errors and driver assertions come days before the outage, and no other check sees
    them. Corrected PCIe errors are told and do not block."""
    found = log_of_boot(view)[1]
    for event in events(view, *want):
        text = f"{_NAMES.get(event['kind'], event['kind'])}, {_times(event)}"
        corrected = event["kind"] == "aer" and event["severity"] is None
        where = str(event["device"] or "")
        found.append(notice(where, f"corrected {text}") if corrected else fault(where, text))
    kinds = sorted({e["kind"] for e in events(view, *want)})
    return verdict(found, actual=", ".join(kinds) or "none", expected=f"no {', '.join(want)}")
