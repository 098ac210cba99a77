"""Kernel logs (``dmesg`` in every time format, ``/dev/kmsg``), syslog and the fabric manager's log.

Each line is taken apart into time and message; messages that matter become events, one per kind, code and
device with a count of the lines, the first and last time as printed, and the severity where the text says
one.  Times known: seconds since boot, ``dmesg -T``, ISO with a comma or point in the seconds (``dmesg
--time-format iso``, with or without ``-x``), kmsg records (microseconds), syslog with or without a year,
the fabric manager's ``[Feb 25 2025 13:59:45]``.

Xids are NVIDIA's GPU errors, SXids those of an NVSwitch (which the fabric manager's log calls NVSwitch
fatal or non-fatal error).  Traps: ``Nonfatal`` contains ``fatal``; ``link becomes ready`` of a container's
interface is no flap; an out-of-memory kill logs a dozen lines of which only the kill counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from checks.parsers._core import Facts, Reading, parser, shorten
from checks.parsers._errors import error_code, nothing_read

_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_TIMES: tuple[re.Pattern[str], ...] = (
    # kmsg: level,sequence,microseconds,flags;message
    re.compile(r"^\d+,\d+,(?P<time>\d+),[^;]{0,40};(?P<rest>.*)$"),
    # fabric manager: [Feb 25 2025 13:59:45] [INFO] [tid 1803] message
    re.compile(rf"^\[(?P<time>{_MONTH} +\d+ \d{{4}} \d\d:\d\d:\d\d)\] *(?P<rest>.*)$"),
    # dmesg -T, dmesg, with or without -x in front and a raw priority
    re.compile(
        r"^(?:<\d+>)?(?:\w+ *:\w+ *: *)?\[ *(?P<time>(?:\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4})|\d+\.\d+|"
        + _ISO
        + r")\] ?(?P<rest>.*)$"
    ),
    # dmesg -H, --time-format reltime or delta
    re.compile(
        rf"^(?:\w+ *:\w+ *: *)?\[ *(?P<time>{_MONTH} ?\d+ \d\d:\d\d|[+<] *\d+\.\d+>?)\] ?(?P<rest>.*)$"
    ),
    # journalctl -o short-full and short-unix
    re.compile(r"^(?P<time>(?:\w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+|\d{9,10}\.\d+)) +(?P<rest>.*)$"),
    # dmesg --time-format iso, with or without -x
    re.compile(rf"^(?:<\d+>)?(?:\w+ *:\w+ *: *)?(?P<time>{_ISO}):? +(?P<rest>.*)$"),
    # syslog, journalctl (with or without a year)
    re.compile(rf"^(?:<\d+>)?(?P<time>{_MONTH} +\d+ (?:\d{{4}} )?\d\d:\d\d:\d\d(?:[.,]\d+)?) +(?P<rest>.*)$"),
)
_LEVELLED = re.compile(r"^(?:kern|user|daemon|syslog|auth|mail|lpr|news) *:\w+ *: +(?P<rest>.*)$")

_PCI = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?"
_XID = re.compile(rf"\bXid\s*\((?:PCI:)?({_PCI})\)\s*:?\s*(\d+)", re.I)
_SXID = re.compile(rf"\bSXid\s*\((?:PCI:)?({_PCI})\)\s*:?\s*(\d+)", re.I)
_FM_ERROR = re.compile(r"NVSwitch\s+(non-?fatal|fatal)\s+error\s+(\d+)\b(.*)", re.I)
_FM_ADDRESS = re.compile(rf"pci bus id\s*:?\s*({_PCI})", re.I)
_VIRTUAL = re.compile(
    r"^(?:veth|cali|docker|br-|cni|flannel|lxc|virbr|tap|tun|lo$|vnet|vxlan|nodelocaldns|kube|dummy)"
)

# Xids after which the GPU needs a reset, a reboot or an exchange (NVIDIA's catalogue; 154's text decides).
_FATAL_XIDS = {48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 121, 136, 140, 142, 143}
_XID_NAMES = {
    8: "GPU stopped processing",
    13: "graphics engine exception, usually the application",
    31: "GPU memory page fault, usually the application",
    32: "invalid or corrupted push buffer",
    43: "GPU stopped processing, the application was killed",
    45: "preemptive cleanup after earlier errors or a killed job",
    48: "double-bit ECC error",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    63: "row remapping or page retirement recorded, a reset is needed",
    64: "row remapping or page retirement failed",
    68: "NVDEC0 exception",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained ECC error",
    95: "uncontained ECC error",
    109: "context switch timeout",
    119: "GSP RPC timeout",
    120: "GSP error",
    121: "C2C link corrected error",
    140: "unrecovered ECC error",
    154: "GPU recovery action changed",
}


@dataclass
class _Event:
    kind: str
    code: int | None
    device: str | None
    count: int = 0
    first: str | None = None
    last: str | None = None
    severity: str | None = None
    line: str = ""

    def facts(self) -> Facts:
        names = ("kind", "code", "device", "count", "first", "last", "severity")
        return {name: getattr(self, name) for name in names}


@dataclass
class _Log:
    events: dict[tuple[str, int | None, str | None], _Event] = field(default_factory=dict)

    def add(self, kind: str, code: int | None, device: str | None, time: str | None, line: str) -> _Event:
        event = self.events.setdefault((kind, code, device), _Event(kind, code, device, line=line))
        event.count += 1
        if event.first is None:
            event.first = time
        event.last = time if time is not None else event.last
        severity = _severity(line)
        if severity == "fatal" or event.severity is None:
            event.severity = severity or event.severity
        return event


def _severity(text: str) -> str | None:
    if re.search(r"\bnon-?\s?fatal\b", text, re.I):
        rest = re.sub(r"\bnon-?\s?fatal\b", "", text, flags=re.I)
        return "fatal" if re.search(r"\bfatal\b", rest, re.I) else "nonfatal"
    return "fatal" if re.search(r"\bfatal\b", text, re.I) else None


def split_time(line: str) -> tuple[str | None, str, bool]:
    """(time, message, whether the line has the shape of a log line)."""
    for pattern in _TIMES:
        match = pattern.match(line)
        if match:
            rest = match.group("rest")
            return match.group("time"), rest, True
    match = _LEVELLED.match(line)
    if match:
        return None, match.group("rest"), True
    # the second line of a kmsg record, and journalctl's marks
    if re.match(r"^ (?:SUBSYSTEM|DEVICE)=|^-- .* --$|^-- Logs begin at", line):
        return None, line, True
    return None, line, False


# (kind, pattern, whether group 1 is the device); each line makes at most one of these events.
_SIMPLE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("gpu-lost", re.compile(rf"NVRM:.*?(?:GPU (?:at PCI:)?({_PCI}).*)?has fallen off the bus", re.I)),
    ("nvrm-mismatch", re.compile(r"NVRM: API mismatch()", re.I)),
    ("nvrm-init", re.compile(rf"NVRM:.*?(?:({_PCI}).*)?\b(?:RmInitAdapter|rm_init_adapter) failed", re.I)),
    (
        "nvrm-assert",
        re.compile(r"NVRM:(?:.*?\b(GPU\d+)\b)?.*(?:nvAssert|Assertion failed|NV_ERR_RESET_REQUIRED)", re.I),
    ),
    ("peermem", re.compile(r"(?:nvidia[-_]peermem|nv_peer_mem)\b().*\berror\b", re.I)),
    (
        "nic-health",
        re.compile(
            rf"mlx5_core ({_PCI}).*(?:health (?:compromised|poll failed)|fatal error|firmware hang)", re.I
        ),
    ),
    ("soft-lockup", re.compile(r"BUG: soft lockup()|hard LOCKUP", re.I)),
    ("rcu-stall", re.compile(r"rcu\w*(?:: INFO)?:.*(?:detected|self-detected)()\b.*stall", re.I)),
    ("hung-task", re.compile(r"INFO: task \S+()\s?blocked for more than \d+ seconds", re.I)),
    (
        "disk",
        re.compile(
            r"(?:I/O error, dev (\w+)|nvme (nvme\d+): (?:I/O .*timeout|controller is down|Device not ready))"
        ),
    ),
    (
        "filesystem",
        re.compile(
            r"(?:EXT4-fs|XFS|BTRFS)(?: error)? \(?(?:device )?(\w+)\)?:.*\b(?:error|corruption|shutdown)",
            re.I,
        ),
    ),
    ("amdgpu-ras", re.compile(rf"amdgpu ({_PCI}).*\b[1-9]\d* uncorrectable hardware errors", re.I)),
    (
        "amdgpu-reset",
        re.compile(rf"amdgpu ({_PCI}).*(?:GPU reset begin|GPU reset\(\d+\) failed|ring \S+ timeout)", re.I),
    ),
)
_KINDS_AS_PROBLEMS: dict[str, tuple[str, str]] = {
    "gpu-lost": ("gpu-lost", "a GPU has fallen off the bus"),
    "nvrm-mismatch": ("gpu-driver", "driver and library do not match"),
    "nvrm-init": ("gpu-driver", "the driver could not start a GPU"),
    "nvrm-assert": ("log-nvrm", "the NVIDIA driver logged an assertion"),
    "nic-health": ("ib-link", "a network adapter is unhealthy"),
    "soft-lockup": ("log-lockup", "a CPU was locked up"),
    "rcu-stall": ("log-lockup", "a CPU stalled"),
    "hung-task": ("log-lockup", "a task hung"),
    "disk": ("log-disk", "a disk failed to answer"),
    "filesystem": ("log-disk", "a file system error"),
    "amdgpu-ras": ("log-gpu", "uncorrectable memory errors of an AMD GPU"),
    "amdgpu-reset": ("log-gpu", "an AMD GPU hung or was reset"),
    "oom": ("log-oom", "processes were killed for lack of memory"),
    "link-flap": ("log-link", "a network link was lost"),
    "sxid": ("log-sxid", "NVSwitch error"),
    "xid": ("log-xid", "GPU error"),
    "fabric-manager": ("fabric-manager", "the fabric manager failed"),
}
_LINK_DOWN = (
    re.compile(r"\b([A-Za-z][\w.-]*(?:@\w+)?): (?:NIC )?Link (?:is )?Down\b", re.I),
    re.compile(r"\b([A-Za-z][\w.-]*): Lost carrier\b", re.I),
    re.compile(r"\(slave ([\w.-]+)\): link status definitely down", re.I),
    re.compile(r"link status definitely down for interface ([\w.-]+)", re.I),
    re.compile(r"device \(([\w.-]+)\): carrier: link (?:disconnected|lost)", re.I),
    re.compile(r"\b([A-Za-z][\w.-]*): carrier lost\b", re.I),
)
_AER_BUS = re.compile(rf"({_PCI}): (?:AER: )?PCIe Bus Error: severity=(.+?)(?:,|$)", re.I)
_AER_RECEIVED = re.compile(
    r"AER: (?:Multiple )?(Corrected|Correctable|Uncorrect(?:ed|able) \((?:Non-)?Fatal\))"
    rf" error (?:message )?received(?: from|:)?\s*({_PCI})?",
    re.I,
)
_MCE_CPU = re.compile(r"\[Hardware Error\]:\s*CPU (\d+): Machine Check", re.I)
_MCE_OTHER = re.compile(
    r"\[Hardware Error\]:\s*(?:Machine check events logged|event severity: (?:fatal|recoverable)|Uncorrected)"
    r"|EDAC .*\b[1-9]\d* UE\b|Kernel panic - not syncing:.*machine check",
    re.I,
)
_OOM_KILL = re.compile(
    r"\bout of memory\b.*?\bkill(?:ed)? process\b|\bKilled process \d+ .*\btotal-vm:", re.I
)
_OOM_OTHER = re.compile(r"invoked oom-killer|\boom-kill:constraint=", re.I)


def _read(text: str) -> tuple[_Log, list[tuple[str | None, str, bool]]]:
    lines = [split_time(line) for line in text.split("\n") if line.strip()]
    log, spare = _Log(), _Log()  # spare: announcements that count where nothing better is logged
    for time, message, _shaped in lines:
        _event(log, spare, time, message[:1500])
    better = list(log.events.values())
    for key, event in spare.events.items():
        known = [found for found in better if found.kind == event.kind]
        if event.device is not None:
            known = [found for found in known if found.device == event.device]
        if not any(found.severity == "fatal" or event.severity != "fatal" for found in known):
            log.events[key] = event
    return log, lines


_INTERESTING = re.compile(
    r"xid|nvswitch|nvrm|peermem|peer_mem|mlx5|lockup|rcu|blocked|i/o|nvme|ext4|xfs|btrfs|amdgpu|link|carrier"
    r"|aer|bus error|hardware error|edac|panic|memory|oom|kill",
    re.I,
)


def _event(log: _Log, spare: _Log, time: str | None, message: str) -> None:
    if not _INTERESTING.search(message):
        return
    sxid = _SXID.search(message)
    if sxid:
        log.add("sxid", int(sxid.group(2)[:9]), sxid.group(1), time, message)
        return
    xid = _XID.search(message)
    if xid:
        log.add("xid", int(xid.group(2)[:9]), xid.group(1), time, message)
        return
    switch = _FM_ERROR.search(message)
    if switch:
        address = _FM_ADDRESS.search(switch.group(3))
        log.add("sxid", int(switch.group(2)[:9]), address.group(1) if address else None, time, message)
        return
    for kind, pattern in _SIMPLE:
        match = pattern.search(message)
        if match:
            device = next((group for group in match.groups() if group), None)
            log.add(kind, None, device, time, message)
            return
    for pattern in _LINK_DOWN:
        match = pattern.search(message)
        if match:
            if not _VIRTUAL.match(match.group(1)):
                log.add("link-flap", None, match.group(1), time, message)
            return
    bus = _AER_BUS.search(message)
    if bus:
        log.add("aer", None, bus.group(1), time, bus.group(2))
        return
    aer = _AER_RECEIVED.search(message)
    if aer:
        spare.add("aer", None, aer.group(2), time, aer.group(1))
        return
    cpu = _MCE_CPU.search(message)
    if cpu:
        log.add("mce", None, f"cpu {cpu.group(1)}", time, message)
    elif _MCE_OTHER.search(message):
        spare.add("mce", None, None, time, message)
    elif _OOM_KILL.search(message):
        log.add("oom", None, None, time, message)
    elif _OOM_OTHER.search(message):
        spare.add("oom", None, None, time, message)


def _report(reading: Reading, event: _Event) -> None:
    where = event.device or "log"
    times = f"{event.count} time{'s' if event.count != 1 else ''}"
    if event.kind == "xid" and event.code is not None:
        name = _XID_NAMES.get(event.code, "")
        grave = event.severity == "fatal" or (event.code in _FATAL_XIDS and event.severity != "nonfatal")
        kind = f"Xid {event.code}{f' ({name})' if name else ''}{', fatal' if grave else ''}"
        reading.problem("log-xid", where, f"{kind} on {where}, {times}: {shorten(event.line, 120)}")
    elif event.kind == "sxid":
        severity = f" {event.severity}" if event.severity else ""
        reading.problem("log-sxid", where, f"NVSwitch{severity} error {event.code} on {where}, {times}")
    elif event.kind == "aer":
        if re.search(r"uncorrect", event.line, re.I) or event.severity:
            reading.problem("log-aer", where, f"PCIe error ({event.line}) of {where}, {times}")
    elif event.kind == "mce":
        reading.problem("log-mce", where, f"machine check, {times}: {shorten(event.line, 120)}")
    elif event.kind in _KINDS_AS_PROBLEMS:
        code, text = _KINDS_AS_PROBLEMS[event.kind]
        reading.problem(code, where, f"{text}, {times}: {shorten(event.line, 120)}")


def _finish(
    text: str, what: str, extra: Callable[[Reading, list[tuple[str | None, str, bool]]], None]
) -> Reading:
    reading = Reading({"events": None})
    log, lines = _read(text)
    shaped = sum(line[2] for line in lines)
    if not lines or (shaped * 2 < len(lines) and not log.events):
        nothing_read(reading, text, what)
        return reading
    for _time, message, is_shaped in lines:
        if (
            not is_shaped
            and error_code(message)
            and re.match(r"(?:dmesg|journalctl|cat|tail|sudo|bash|sh):", message)
        ):
            reading.reject("output-error", "output", shorten(message))
    reading.facts["events"] = [event.facts() for event in log.events.values()]
    for event in log.events.values():
        _report(reading, event)
    extra(reading, lines)
    return reading


_MISMATCH = re.compile(
    r"(?:interface )?version \S+ (?:don'?t|does(?: not|n't)) match with driver version \S+", re.I
)
_FM_FAILED = re.compile(
    r"fabricmanager\.service: (?:Failed with result|Control process exited|Main process exited)"
    r"|Failed to start .*fabric ?manager|fabric ?manager.*\b(?:abort|exiting|terminat)\w*",
    re.I,
)


def _fabric_manager(reading: Reading, lines: list[tuple[str | None, str, bool]]) -> None:
    seen: set[str] = set()
    for _time, message, _shaped in lines:
        bad = (
            _MISMATCH.search(message)
            or _FM_FAILED.search(message)
            or re.match(r"\[(?:ERROR|FATAL)\]", message)
        )
        if not bad or _FM_ERROR.search(message):
            continue
        if re.search(r"exited, code=exited, status=0/SUCCESS", message):
            continue
        plain = re.sub(r"\d+", "#", message)
        if plain not in seen and len(seen) < 10:
            seen.add(plain)
            reading.problem("fabric-manager", "fabric manager", shorten(message))


def _shape_counts(text: str) -> tuple[int, int, int, int]:
    """(lines, shaped lines, syslog lines, syslog lines of the kernel) among the first."""
    lines = [line for line in text.split("\n")[:300] if line.strip()]
    syslog = [
        line
        for line in lines
        if re.match(
            rf"^(?:<\d+>)?(?:{_MONTH} +\d+ (?:\d{{4}} )?\d\d:\d\d:\d\d|{_ISO}) \S+ [\w./@()-]+(?:\[\d+\])?: ",
            line,
        )
        and not re.match(rf"^{_ISO} (?:NVRM|nvidia|mlx5)", line)
    ]
    kernel = sum(bool(re.search(r" kernel: ", line)) for line in syslog)
    return len(lines), sum(split_time(line)[2] for line in lines), len(syslog), kernel


def _sniff_fm(text: str) -> int:
    lines = [line for line in text.split("\n")[:300] if line.strip()]
    about = sum(bool(re.search(r"fabric ?manager", line, re.I)) and split_time(line)[2] for line in lines)
    if about and about * 2 >= len(lines):
        return 88
    head = "\n".join(text.split("\n")[:40])
    shape = rf"^\[{_MONTH} +\d+ \d{{4}} \d\d:\d\d:\d\d\] \[\w+\] \[tid \d+\]"
    if re.search(shape, head, re.M) or re.search(
        r"NVSwitch (?:non-)?fatal error \d+ on fid", text[:200_000], re.I
    ):
        return 88
    return 0


def _sniff_syslog(text: str) -> int:
    total, _shaped, syslog, kernel = _shape_counts(text)
    return 70 if total and syslog * 2 >= total and kernel < syslog else 0


def _sniff_dmesg(text: str) -> int:
    total, shaped, syslog, kernel = _shape_counts(text)
    if total and shaped * 2 >= total:
        return 72 if kernel and kernel == syslog else 60
    return 55 if _XID.search(text) else 0


@parser("dmesg", "kernel log", ("dmesg", "journalctl -k", "cat /dev/kmsg"), _sniff_dmesg, aliases=("kmsg",))
def parse_dmesg(text: str) -> Reading:
    return _finish(text, "kernel log", lambda reading, lines: None)


@parser("syslog", "system log", ("journalctl -b", "cat /var/log/syslog"), _sniff_syslog, aliases=("journal",))
def parse_syslog(text: str) -> Reading:
    return _finish(text, "system log", _fabric_manager)


@parser(
    "fabricmanager-log",
    "fabric manager's log",
    ("cat /var/log/fabricmanager.log", "journalctl -u nvidia-fabricmanager"),
    _sniff_fm,
)
def parse_fabricmanager_log(text: str) -> Reading:
    return _finish(text, "fabric manager log", _fabric_manager)
