"""The operating system: command line, lscpu, huge pages, memory, swap, disks, clock, units, idle states.

Files of /proc and /sys are read as printed by cat, sysctl and ``systemctl show`` as ``name = value`` lines,
cpuidle as printed by ``grep -H .``.  Sizes of ``/proc`` are KiB, of ``df -P -B1`` and ``lsblk -b`` bytes.
lscpu's labels are English only under ``LC_ALL=C``; other languages are refused.
"""

from __future__ import annotations

import re
from typing import Any

from checks.parsers._core import NA, Facts, Reading, parser, shorten
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._json import load
from checks.parsers._values import clean, na, to_number


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _bad_line(reading: Reading, line: str) -> None:
    error = error_code(line)
    if error:
        reading.reject(error[0], error[1], shorten(line))
    else:
        reading.unknown(line)


# --- kernel command line ------------------------------------------------------------------------------------

_PARAMETER = re.compile(r"^[\w.\-/]+(?:=.*)?$", re.S)
_GRUB = re.compile(r"^GRUB_CMDLINE_LINUX\w*=([\"'])(.*)\1$")


def _tokens(line: str) -> list[str] | None:
    """The words of a command line; blanks inside double quotes do not separate.  None if a quote is open."""
    words: list[str] = []
    word, quoted, started = "", False, False
    for char in line:
        if char == '"':
            quoted, started = not quoted, True
        elif char.isspace() and not quoted:
            if word or started:
                words.append(word)
            word, started = "", False
        else:
            word += char
    if quoted:
        return None
    return [*words, word] if word or started else words


def _sniff_cmdline(text: str) -> int:
    lines = _lines(text)
    if len(lines) != 1 or len(lines[0]) > 8192:
        return 0
    grub = _GRUB.match(lines[0].strip())
    words = _tokens(grub.group(2) if grub else lines[0])
    if not words or not all(_PARAMETER.match(word) for word in words):
        return 0
    if words[0].startswith("BOOT_IMAGE=") or any(word.startswith("root=") for word in words) or grub:
        return 90
    return 45 if len(words) > 1 and sum("=" in word for word in words) * 2 >= len(words) else 0


@parser("cmdline", "kernel command line", ("cat /proc/cmdline",), _sniff_cmdline)
def parse_cmdline(text: str) -> Reading:
    reading = Reading({"parameters": None})
    lines = _lines(text)
    if len(lines) != 1:
        if lines:
            reading.unknown(lines[1])
        nothing_read(reading, text, "kernel command line")
        return reading
    grub = _GRUB.match(lines[0].strip())
    words = _tokens(grub.group(2) if grub else lines[0])
    if words is None:
        reading.truncated(f"a quote is not closed: {shorten(lines[0])}")
        return reading
    if error_code(lines[0]) or not words or not all(_PARAMETER.match(word) for word in words):
        nothing_read(reading, text, "kernel command line")
        return reading
    if not any("=" in word or word in {"ro", "rw", "quiet", "splash"} for word in words):
        nothing_read(reading, text, "kernel command line")
        return reading
    parameters: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        item: Any = value if equals else True
        if name not in parameters:
            parameters[name] = item
        elif isinstance(parameters[name], list):
            parameters[name].append(item)
        else:
            parameters[name] = [parameters[name], item]
    reading.facts["parameters"] = parameters
    return reading


# --- lscpu --------------------------------------------------------------------------------------------------

_FIELD = re.compile(r"^\s*([A-Za-z][^:]*?):\s*(.*?)\s*$")


_LSCPU_ONCE = {"CPU(s)", "Socket(s)", "Core(s) per socket", "NUMA node(s)", "Vendor ID"}


def _sniff_lscpu(text: str) -> int:
    if re.search(r"^Architecture:|^CPU op-mode\(s\):", text, re.M) and re.search(
        r"^\s*CPU\(s\):", text, re.M
    ):
        return 92
    if text.lstrip()[:1] == "{" and '"lscpu"' in text[:200]:
        return 92
    return 60 if re.search(r"^\s*Socket\(s\):", text, re.M) else 0


def _flatten(fields: Any) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for item in fields if isinstance(fields, list) else []:
        if isinstance(item, dict) and isinstance(item.get("field"), str):
            data = item.get("data")
            pairs.append((item["field"].rstrip(":").strip(), data if isinstance(data, str) else ""))
            pairs.extend(_flatten(item.get("children")))
    return pairs


@parser("lscpu", "lscpu", ("LC_ALL=C lscpu",), _sniff_lscpu, document=True)
def parse_lscpu(text: str) -> Reading:
    reading = Reading(dict.fromkeys(("cpus", "sockets", "cores", "numa_nodes", "vendor")))
    pairs: list[tuple[str, str]] = []
    if text.lstrip()[:1] == "{":
        value = load(reading, text)
        pairs = _flatten(value.get("lscpu")) if isinstance(value, dict) else []
    else:
        for line in text.split("\n"):
            if line.startswith("#"):
                break
            match = _FIELD.match(line)
            if match:
                pairs.append((match.group(1), match.group(2)))
            elif line.strip() and not re.match(r"^\d+(?:,\d*)+$", line.strip()):
                _bad_line(reading, line)
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in _LSCPU_ONCE and fields.get(name, value) != value:
            reading.contradiction(f"printed twice: {name}")
        fields.setdefault(name, value)
    if "CPU(s)" not in fields and "Socket(s)" not in fields:
        if reading.understood:
            nothing_read(reading, text, "lscpu")
        return reading
    facts = reading.facts

    def number(name: str) -> int | NA | None:
        printed = fields.get(name)
        if not printed:
            return None
        found = to_number(printed)
        if isinstance(found, int):
            return found
        absent = na(printed)
        if absent is None:
            reading.unknown(f"{name}: {printed}")
        return absent

    facts["cpus"], facts["sockets"] = number("CPU(s)"), number("Socket(s)")
    per_socket = number("Core(s) per socket")
    facts["cores"] = per_socket
    if isinstance(per_socket, int) and isinstance(facts["sockets"], int):
        facts["cores"] = per_socket * facts["sockets"]
    elif isinstance(facts["sockets"], NA):
        facts["cores"] = facts["sockets"]
    facts["numa_nodes"] = number("NUMA node(s)")
    facts["vendor"] = fields.get("Vendor ID") or None
    for name in ("cpus", "sockets", "cores"):
        if facts[name] is None:
            reading.truncated(f"no {name}")
    listed = sum(bool(re.fullmatch(r"NUMA node\d+ CPU\(s\)", name)) for name, _ in pairs)
    if listed != (facts["numa_nodes"] if isinstance(facts["numa_nodes"], int) else 0):
        reading.truncated(f"{facts['numa_nodes']} NUMA nodes, the CPUs of {listed} are listed")
    return reading


# --- transparent huge pages ---------------------------------------------------------------------------------

_THP = re.compile(r"^(?:\S+:\s*)?((?:\[?(?:always|madvise|never|defer|defer\+madvise|inherit)\]?\s*){2,})$")


def _sniff_thp(text: str) -> int:
    lines = _lines(text)
    return 95 if len(lines) == 1 and _THP.match(lines[0].strip()) else 0


@parser("thp", "transparent huge pages", ("cat /sys/kernel/mm/transparent_hugepage/enabled",), _sniff_thp)
def parse_thp(text: str) -> Reading:
    reading = Reading({"selected": None})
    lines = _lines(text)
    if len(lines) != 1 or not _THP.match(lines[0].strip()):
        nothing_read(reading, text, "transparent_hugepage")
        return reading
    chosen = re.findall(r"\[([^\]]*)\]", lines[0])
    if len(chosen) == 1:
        reading.facts["selected"] = chosen[0]
    else:
        reading.contradiction(f"{len(chosen)} words in brackets: {lines[0].strip()}")
    return reading


# --- lsblk --------------------------------------------------------------------------------------------------

_UNITS = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_PAIRS = re.compile(r'([A-Z:_%-]+)="((?:[^"\\]|\\.)*)"')
_TREE = re.compile(r"^([\s│|├└─`-]*)(.*)$")


def _size(reading: Reading, value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str) or not value.strip():
        return None
    match = re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*([BKMGTP]?)(?:iB)?", value.strip())
    if not match:
        reading.unknown(f"size {value}")
        return None
    number = to_number(match.group(1))
    return None if number is None else int(number * _UNITS[match.group(2)])


def _mount(item: dict[str, Any]) -> str | None:
    value = item.get("mountpoint")
    if value is None and isinstance(item.get("mountpoints"), list):
        value = next((mount for mount in item["mountpoints"] if mount), None)
    elif value is None:
        value = item.get("mountpoints")
    return value.strip() or None if isinstance(value, str) else None


def _sniff_lsblk(text: str) -> int:
    if '"blockdevices"' in text[:300]:
        return 95
    if re.search(r'^NAME="[^"]*" .*(?:TYPE|SIZE)="', text, re.M):
        return 95
    return 85 if re.match(r"^\s*NAME\s+(?:.*\s)?(?:MAJ:MIN|SIZE)\s.*TYPE", text) else 0


def _json_devices(
    reading: Reading, items: Any, parent: str | None, devices: list[Facts], depth: int = 0
) -> None:
    for item in items if isinstance(items, list) and depth < 50 else []:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            reading.unknown(str(item)[:200])
            continue
        kind = item.get("type")
        over = item.get("pkname") if isinstance(item.get("pkname"), str) else None
        devices.append(
            {
                "name": item["name"],
                "type": kind if isinstance(kind, str) else None,
                "size_bytes": _size(reading, item.get("size")),
                "mountpoint": _mount(item),
                "parent": parent or over or None,
            }
        )
        _json_devices(reading, item.get("children"), item["name"], devices, depth + 1)


@parser("lsblk", "lsblk", ("lsblk -J -b -o NAME,TYPE,SIZE,MOUNTPOINT,PKNAME",), _sniff_lsblk, document=True)
def parse_lsblk(text: str) -> Reading:
    reading = Reading({"devices": None})
    devices: list[Facts] = []
    if text.lstrip()[:1] == "{":
        value = load(reading, text)
        if isinstance(value, dict) and isinstance(value.get("blockdevices"), list):
            _json_devices(reading, value["blockdevices"], None, devices)
        elif reading.understood:
            nothing_read(reading, text, "lsblk")
            return reading
    elif re.search(r'^NAME="', text, re.M):
        for line in _lines(text):
            row = dict(_PAIRS.findall(line))
            rest = _PAIRS.sub("", line).strip()
            if not row.get("NAME") or rest:
                _bad_line(reading, line)
            if row.get("NAME"):
                devices.append(
                    {
                        "name": row["NAME"],
                        "type": row.get("TYPE") or None,
                        "size_bytes": _size(reading, row.get("SIZE")),
                        "mountpoint": (row.get("MOUNTPOINT") or row.get("MOUNTPOINTS") or "").split("\\x0a")[
                            0
                        ]
                        or None,
                        "parent": row.get("PKNAME") or None,
                    }
                )
        columns = {tuple(key for key, _ in _PAIRS.findall(line)) for line in _lines(text)}
        if len(columns) > 1:
            reading.truncated("the lines have different columns")
    else:
        _lsblk_table(reading, text, devices)
        if reading.facts["devices"] is None and not devices:
            if reading.understood:
                nothing_read(reading, text, "lsblk")
            return reading
    reading.facts["devices"] = devices
    return reading


def _lsblk_table(reading: Reading, text: str, devices: list[Facts]) -> None:
    lines = _lines(text)
    if not lines or not _sniff_lsblk(lines[0] + "\n"):
        return
    header = lines[0].split()
    stack: list[tuple[int, str]] = []
    for line in lines[1:]:
        prefix, rest = _TREE.match(line).groups() if _TREE.match(line) else ("", line)  # type: ignore[union-attr]
        cells = rest.split()
        at = {name: position for position, name in enumerate(header)}
        last = max(at.get("TYPE", 0), at.get("SIZE", 0))
        if len(cells) <= last:
            _bad_line(reading, line)
            continue
        while stack and stack[-1][0] >= len(prefix):
            stack.pop()
        mount_at = at.get("MOUNTPOINT", at.get("MOUNTPOINTS"))
        mount = cells[mount_at] if mount_at is not None and mount_at < len(cells) else None
        devices.append(
            {
                "name": cells[0],
                "type": cells[at["TYPE"]] if "TYPE" in at else None,
                "size_bytes": _size(reading, cells[at["SIZE"]]) if "SIZE" in at else None,
                "mountpoint": mount,
                "parent": stack[-1][1] if stack and prefix else None,
            }
        )
        stack.append((len(prefix), cells[0]))


# --- memory and swap ----------------------------------------------------------------------------------------


def _sniff_meminfo(text: str) -> int:
    return 95 if re.search(r"^MemTotal:\s+\d+ kB", text, re.M) else 0


@parser("meminfo", "/proc/meminfo", ("cat /proc/meminfo",), _sniff_meminfo)
def parse_meminfo(text: str) -> Reading:
    reading = Reading(
        {"mem_total_kib": None, "mem_available_kib": None, "hugepages_total": None, "swap_total_kib": None},
    )
    names = {
        "MemTotal": "mem_total_kib",
        "MemAvailable": "mem_available_kib",
        "HugePages_Total": "hugepages_total",
        "SwapTotal": "swap_total_kib",
    }
    found = 0
    for line in _lines(text):
        match = re.match(r"^(\S+):\s+(\d{1,18})( kB)?\s*$", line)
        if not match:
            _bad_line(reading, line)
            continue
        found += 1
        fact = names.get(match.group(1))
        if fact and fact.endswith("_kib") and not match.group(3):
            reading.truncated(f"unit missing: {line.strip()}")
        elif fact:
            if reading.facts[fact] not in (None, int(match.group(2))):
                reading.contradiction(f"printed twice: {line.strip()}")
            reading.facts[fact] = int(match.group(2))
    if not found:
        reading.problems.clear()
        nothing_read(reading, text, "/proc/meminfo")
    elif reading.facts["mem_total_kib"] is None:
        reading.truncated("no MemTotal")
    return reading


def _sniff_swaps(text: str) -> int:
    return 95 if re.match(r"^\s*Filename\s+Type\s+Size\s+Used\s+Priority", text) else 0


@parser("proc-swaps", "/proc/swaps", ("cat /proc/swaps",), _sniff_swaps)
def parse_swaps(text: str) -> Reading:
    reading = Reading({"swaps": None})
    lines = _lines(text)
    if not lines or not _sniff_swaps(lines[0]):
        nothing_read(reading, text, "/proc/swaps")
        return reading
    swaps: list[Facts] = []
    for line in lines[1:]:
        match = re.match(r"^(\S.*?)\s+(partition|file)\s+(\d{1,18})\s+(\d{1,18})\s+(-?\d+)\s*$", line)
        if match:
            name = match.group(1).replace("\\040", " ")
            swaps.append({"name": name, "type": match.group(2), "size_kib": int(match.group(3))})
        else:
            _bad_line(reading, line)
    reading.facts["swaps"] = swaps
    return reading


# --- df -----------------------------------------------------------------------------------------------------

_DF_HEAD = re.compile(
    r"^Filesystem\s+(\d+)([KMG]?)B?-blocks\s+Used\s+Avail(?:able)?\s+(?:Use%|Capacity)\s+Mounted on"
)
_DF_ROW = re.compile(r"^(\S.*?)\s+(\d{1,20}|-)\s+(-?\d{1,20}|-)\s+(-?\d{1,20}|-)\s+(\d+%|-)\s+(/.*|\S+)$")


def _sniff_df(text: str) -> int:
    return 95 if _DF_HEAD.match(text.lstrip()) else 0


@parser("df", "df -P -B1", ("df -P -B1",), _sniff_df)
def parse_df(text: str) -> Reading:
    reading = Reading({"filesystems": None})
    lines = _lines(text)
    while lines and re.match(r"^df: ", lines[0]):
        _bad_line(reading, lines.pop(0))
    head = _DF_HEAD.match(lines[0].strip()) if lines else None
    if head is None:
        nothing_read(reading, text, "df -P -B1")
        return reading
    unit = int(head.group(1)[:9]) * _UNITS[head.group(2)]

    def size(cell: str) -> int | NA:
        return NA(cell) if cell == "-" else int(cell) * unit

    filesystems: list[Facts] = []
    for line in lines[1:]:
        row = _DF_ROW.match(line.rstrip())
        if not row:
            _bad_line(reading, line)
            continue
        filesystems.append(
            {
                "source": row.group(1),
                "size_bytes": size(row.group(2)),
                "used_bytes": size(row.group(3)),
                "available_bytes": size(row.group(4)),
                "mountpoint": row.group(6),
            }
        )
    if not filesystems:
        reading.truncated("a header without file systems")
    reading.facts["filesystems"] = filesystems
    return reading


# --- clock --------------------------------------------------------------------------------------------------


def _pairs(reading: Reading, text: str) -> dict[str, str]:
    """``name=value`` lines; a name that stands twice with different values is a contradiction."""
    found: dict[str, str] = {}
    for line in _lines(text):
        match = re.match(r"^([A-Za-z_][\w.-]*)=(.*)$", line)
        if not match:
            _bad_line(reading, line)
        elif found.setdefault(match.group(1), match.group(2)) != match.group(2):
            found[match.group(1)] += "\n" + match.group(2)
    return found


def _sniff_timedatectl(text: str) -> int:
    return 95 if re.search(r"^NTPSynchronized=", text, re.M) and re.search(r"^Timezone=", text, re.M) else 0


@parser("timedatectl-show", "timedatectl show", ("timedatectl show",), _sniff_timedatectl)
def parse_timedatectl(text: str) -> Reading:
    reading = Reading({"ntp_synchronized": None, "timezone": None})
    found = _pairs(reading, text)
    if "NTPSynchronized" not in found and "Timezone" not in found:
        reading.problems.clear()
        nothing_read(reading, text, "timedatectl show")
        return reading
    synchronized = found.get("NTPSynchronized")
    if synchronized in {"yes", "no"}:
        reading.facts["ntp_synchronized"] = synchronized == "yes"
    elif synchronized is None:
        reading.truncated("no NTPSynchronized")
    else:
        reading.unknown(f"NTPSynchronized={synchronized}")
    reading.facts["timezone"] = found.get("Timezone") or None
    if synchronized == "no":
        reading.problem("os-clock", "clock", "the clock is not synchronised")
    return reading


_CHRONY_FIELDS = 14


def _sniff_chronyc(text: str) -> int:
    lines = _lines(text)
    if len(lines) != 1:
        return 0
    cells = lines[0].strip().split(",")
    return 90 if len(cells) == _CHRONY_FIELDS and re.fullmatch(r"[0-9A-F]{8}", cells[0]) else 0


@parser("chronyc-tracking", "chronyc -c tracking", ("chronyc -c tracking",), _sniff_chronyc)
def parse_chronyc(text: str) -> Reading:
    reading = Reading({"reference": None, "stratum": None, "offset_s": None, "leap": None})
    lines = _lines(text)
    cells = lines[-1].strip().split(",") if lines else []
    if len(cells) < 3 or not re.fullmatch(r"[0-9A-F]{8}", cells[0]):
        nothing_read(reading, text, "chronyc -c tracking")
        return reading
    for line in lines[:-1]:
        _bad_line(reading, line)
    if len(cells) != _CHRONY_FIELDS:
        reading.truncated(f"{len(cells)} of {_CHRONY_FIELDS} fields: {lines[-1]}")
        return reading
    offset, stratum = to_number(cells[4]), to_number(cells[2])
    if offset is None or not isinstance(stratum, int):
        reading.unknown(lines[-1])
    reading.facts.update(
        reference=cells[1] or None, stratum=stratum, offset_s=offset, leap=cells[13].strip() or None
    )
    if cells[13].strip() == "Not synchronised" or cells[0] == "00000000":
        reading.problem("os-clock", "clock", "the clock is not synchronised")
    return reading


# --- os-release, systemctl show, sysctl, cpuidle ------------------------------------------------------------


def _sniff_os_release(text: str) -> int:
    return (
        90 if re.search(r"^(?:PRETTY_NAME|VERSION_ID)=", text, re.M) and re.search(r"^ID=", text, re.M) else 0
    )


@parser("os-release", "/etc/os-release", ("cat /etc/os-release",), _sniff_os_release)
def parse_os_release(text: str) -> Reading:
    reading = Reading({"id": None, "version_id": None, "pretty_name": None})
    found = _pairs(reading, "\n".join(line for line in text.split("\n") if not line.startswith("#")))
    if "ID" not in found and "PRETTY_NAME" not in found:
        reading.problems.clear()
        nothing_read(reading, text, "/etc/os-release")
        return reading
    for fact, name in (("id", "ID"), ("version_id", "VERSION_ID"), ("pretty_name", "PRETTY_NAME")):
        value = found.get(name)
        if value is not None and value[:1] in "\"'" and (len(value) < 2 or value[-1] != value[0]):
            reading.truncated(f"a quote is not closed: {name}={value}")
        reading.facts[fact] = clean(value) or None if value is not None else None
    if reading.facts["id"] is None:
        reading.truncated("no ID")
    return reading


_UNIT_PROPERTIES = {
    "ActiveState",
    "LoadState",
    "SubState",
    "UnitFileState",
    "LimitMEMLOCK",
    "LimitNOFILE",
    "Id",
}


def _sniff_systemctl(text: str) -> int:
    lines = _lines(text)
    names = {line.partition("=")[0] for line in lines[:400]}
    plain = all(re.match(r"^[A-Z]\w*=", line) for line in lines[:50])
    return 85 if lines and plain and names & _UNIT_PROPERTIES else 0


@parser("systemctl-show", "systemctl show", ("systemctl show UNIT",), _sniff_systemctl)
def parse_systemctl_show(text: str) -> Reading:
    reading = Reading({"properties": None})
    found = _pairs(reading, text)
    if not found or not all(re.match(r"[A-Z]\w*[a-z]", name) for name in found):
        reading.problems.clear()
        nothing_read(reading, text, "systemctl show")
        return reading
    reading.facts["properties"] = found
    return reading


_SYSCTL = re.compile(r"^([\w][\w./*:@-]*) =(?: (.*))?$")


def _sniff_sysctl(text: str) -> int:
    lines = _lines(text)[:100]
    hits = sum(bool(re.match(r"^[a-z][\w-]*(?:\.[\w-]+)+ = ", line + " ")) for line in lines)
    return 85 if hits and hits * 2 > len(lines) else 0


@parser("sysctl", "sysctl", ("sysctl NAME ...",), _sniff_sysctl)
def parse_sysctl(text: str) -> Reading:
    reading = Reading({})
    for line in _lines(text):
        match = _SYSCTL.match(line)
        if not match or "." not in match.group(1):
            if re.match(r"^sysctl: (?:cannot stat|permission denied|reading key)", line):
                reading.problem("output-error", "sysctl", line.strip())
            else:
                _bad_line(reading, line)
            continue
        name, value = match.group(1), (match.group(2) or "").strip()
        if reading.facts.setdefault(name, value) != value:
            reading.contradiction(f"printed twice: {name}")
    if not reading.facts:
        nothing_read(reading, text, "sysctl")
    return reading


_IDLE = re.compile(r"^(\.?/(?:\S*/)?cpuidle/\S+?):(.*)$")


def _sniff_cpuidle(text: str) -> int:
    return 95 if re.search(r"^(?:/sys/devices/system/cpu|\.)/(?:cpu\d+/)?cpuidle/", text, re.M) else 0


@parser(
    "cpuidle",
    "idle states of the CPU",
    (
        "grep -H . /sys/devices/system/cpu/cpuidle/current_driver"
        " /sys/devices/system/cpu/cpu0/cpuidle/state*/name"
        " /sys/devices/system/cpu/cpu0/cpuidle/state*/disable",
    ),
    _sniff_cpuidle,
)
def parse_cpuidle(text: str) -> Reading:
    reading = Reading({"driver": None, "states": None})
    states: dict[tuple[str, int], dict[str, str]] = {}
    for line in _lines(text):
        match = _IDLE.match(line)
        if not match:
            if not re.match(r"^grep: .*No such file or directory", line):
                _bad_line(reading, line)
            continue
        path, value = match.group(1), match.group(2).strip()
        state = re.search(r"/(cpu\d+)/cpuidle/state(\d+)/(\w+)$", path)
        if state:
            states.setdefault((state.group(1), int(state.group(2)[:4])), {})[state.group(3)] = value
        elif path.endswith("/current_driver"):
            reading.facts["driver"] = value or None
    if not states and reading.facts["driver"] is None:
        reading.problems.clear()
        nothing_read(reading, text, "cpuidle")
        return reading
    listed: list[Facts] = []
    for (cpu, number), values in sorted(states.items()):
        disabled = {"0": False, "1": True}.get(values.get("disable", ""))
        name = values.get("name") or None
        if name is None or disabled is None:
            reading.truncated(f"{cpu} state{number} without name or disable")
        listed.append({"name": name, "disabled": disabled})
    for cpu in {cpu for cpu, _ in states}:
        numbers = sorted(number for name, number in states if name == cpu)
        if numbers != list(range(len(numbers))):
            reading.truncated(f"{cpu} has a gap in its states: {numbers}")
    reading.facts["states"] = listed
    return reading
