"""``nvidia-smi -q``: the full report (or the sections chosen with ``-d``) as indented text.

A banner, timestamp, versions and the number of GPUs, then a block per GPU headed by its PCI address.
Within a block, indentation makes the tree.  Units are printed and required (``41 C``, ``69.62 W``,
``81559 MiB``, ``16x``), so that a value cut in the middle is noticed.

Traps: with MIG on, MIG Device blocks come before the GPU's own sections and use the same names; driver 535
renamed Clocks Throttle Reasons and Power Readings, 580 dropped Power Draw for average and instantaneous;
610 appends ``[Deprecated; ...]`` to versions and prints KMD Version beside them; the SRAM counters were
split in parity and SEC-DED; old boards have single and double bit counters with a total; GPU Memory and
Module Power Readings hold lines of the same names as the GPU's.  Read on drivers 418 to 610.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from checks.parsers._core import NA, Facts, Reading, parser
from checks.parsers._errors import nothing_read, tool_errors
from checks.parsers._nvidia import (
    Values,
    active_reasons,
    check_repeats,
    flag_problems,
    gpu_problems,
    version,
)
from checks.parsers._nvidia_report import (
    FABRIC_FLAGS,
    REPAIR_FLAGS,
    RESET_FLAGS,
    Counter,
    gpu_facts,
    is_counter,
)
from checks.parsers._values import na

_LINE = re.compile(r"^(\s*)(\S.*?)\s*(?:\s:(?:\s(.*))?)?$")
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_BANNER = "NVSMI LOG"


@dataclass
class Node:
    key: str
    value: str | None
    indent: int
    line: str
    children: list[Node] = field(default_factory=list)

    def all(self, *keys: str) -> list[Node]:
        return [child for child in self.children if child.key.lower() in {key.lower() for key in keys}]

    def get(self, *keys: str) -> Node | None:
        found = self.all(*keys)
        return found[0] if found else None


class Block:
    """One GPU's tree, with look-ups that notice keys which stand twice where they may stand once."""

    def __init__(self, reading: Reading, where: str, root: Node) -> None:
        self.reading = reading
        self.where = where
        self.root = root

    def find(self, *path: str | tuple[str, ...]) -> Node | None:
        node: Node | None = self.root
        for step in path:
            keys = (step,) if isinstance(step, str) else step
            if node is None:
                return None
            found = node.all(*keys)
            if len(found) > 1:
                self.reading.contradiction(f"printed twice: {found[1].line.strip()}", self.where)
            node = found[0] if found else None
        return node

    def value(self, *path: str | tuple[str, ...]) -> str | None:
        """The value at ``path``; where a section on the way has a value (N/A) instead of lines, that."""
        node: Node | None = self.root
        for depth in range(1, len(path) + 1):
            node = self.find(*path[:depth])
            if node is None:
                return None
            if depth < len(path) and not node.children and node.value is not None:
                return node.value if na(node.value) else None
        return node.value if node else None

    def fact(self, name: str) -> str | None:
        return self.value(*_PLACES[name])

    def power_draws(self) -> Iterable[str | None]:
        names = ("power draw", "instantaneous power draw", "average power draw")
        return (self.value(_POWER, name) for name in names)

    def power_limit(self) -> str | None:
        limit = ("current power limit", "power limit")
        return self.value(_POWER, "gpu ceiling power limit", limit) or self.value(_POWER, limit)

    def error_counters(self, scope: str, *, corrected: bool) -> list[Counter] | NA | None:
        section = self.find("ecc errors", scope)
        if section is None:
            outer = self.find("ecc errors")
            return na(outer.value) if outer is not None and outer.value is not None else None
        if not section.children:
            return na(section.value) if section.value is not None else None
        bits = "Single Bit" if corrected else "Double Bit"
        double = section.get(bits)
        if double is None:
            named = [n for n in section.children if is_counter(n.key.lower(), corrected=corrected)]
            return [(re.sub(r"\W+", "_", node.key.lower().replace("-", "")), node.value) for node in named]
        if double.value is not None and not double.children:
            return [("total", double.value)]
        if double.get("total") is None:
            self.reading.truncated(f"{bits} of {scope} without Total", self.where)
            return None
        return [(node.key.lower(), node.value) for node in double.children]


_POWER = ("gpu power readings", "power readings")
_LINK = ("pci", "gpu link info")
_PLACES: dict[str, tuple[str | tuple[str, ...], ...]] = {
    "product": ("product name",),
    "uuid": ("gpu uuid",),
    "persistence_mode": ("persistence mode",),
    "mig_current": ("mig mode", "current"),
    "mig_pending": ("mig mode", "pending"),
    "ecc_current": ("ecc mode", "current"),
    "ecc_pending": ("ecc mode", "pending"),
    "remapped_pending": ("remapped rows", "pending"),
    "remap_failure": ("remapped rows", "remapping failure occurred"),
    "remapped_uncorrectable": ("remapped rows", "uncorrectable error"),
    "retired_pending": ("retired pages", ("pending", "pending page blacklist")),
    "retired_single_bit": ("retired pages", "single bit ecc"),
    "retired_double_bit": ("retired pages", "double bit ecc"),
    "temperature_c": ("temperature", ("gpu current temp", "gpu")),
    "temperature_tlimit_c": ("temperature", ("gpu t.limit temp", "gpu current t.limit temp")),
    "memory_temperature_c": ("temperature", "memory current temp"),
    "fan_percent": ("fan speed",),
    "pcie_gen_current": (*_LINK, "pcie generation", "current"),
    "pcie_gen_max": (*_LINK, "pcie generation", "max"),
    "pcie_gen_device_max": (*_LINK, "pcie generation", "device max"),
    "pcie_gen_host_max": (*_LINK, "pcie generation", "host max"),
    "pcie_width_current": (*_LINK, "link width", "current"),
    "pcie_width_max": (*_LINK, "link width", "max"),
    "fabric_state": ("fabric", "state"),
    "fabric_status": ("fabric", "status"),
    "fabric_clique": ("fabric", ("cliqueid", "clique id")),
    "fabric_health": ("fabric", "health", "summary"),
    "memory_total_mib": ("fb memory usage", "total"),
    "memory_used_mib": ("fb memory usage", "used"),
    "recovery_action": ("gpu recovery action",),
    "vbios": ("vbios version",),
    "gsp_firmware": ("gsp firmware version",),
    "compute_mode": ("compute mode",),
    "fabric_cluster_uuid": ("fabric", ("clusteruuid", "cluster uuid")),
}


def _tree(reading: Reading, lines: list[str], where: str) -> Node:
    root = Node("", None, -1, "")
    stack = [root]
    for line in lines:
        if not line.strip():
            continue
        match = _LINE.match(line.expandtabs(4))
        if not match:
            reading.unknown(line, where)
            continue
        indent, key, value = len(match.group(1)), match.group(2), match.group(3)
        if value is None and re.search(r"\s:\s*$", line):
            value = ""
        node = Node(key.rstrip(), value, indent, line)
        while stack[-1].indent >= indent:
            stack.pop()
        stack[-1].children.append(node)
        stack.append(node)
    return root


# A section that is printed at all is printed whole: what must be in it, by its names.
_WHOLE: dict[str, tuple[tuple[str, ...], ...]] = {
    "mig mode": (("current",), ("pending",)),
    "ecc mode": (("current",), ("pending",)),
    "ecc errors": (("volatile",), ("aggregate",)),
    "retired pages": (("single bit ecc",), ("double bit ecc",), ("pending", "pending page blacklist")),
    "remapped rows": (
        ("correctable error",),
        ("uncorrectable error",),
        ("pending",),
        ("remapping failure occurred",),
    ),
    "fb memory usage": (("total",), ("used",)),
    "fabric": (("state",), ("status",)),
    "clocks event reasons": (("idle",), ("sw power cap",), ("hw slowdown",), ("sw thermal slowdown",)),
    "clocks throttle reasons": (("idle",), ("sw power cap",), ("hw slowdown",)),
    "temperature": (("gpu current temp", "gpu"),),
    "gpu power readings": (
        ("power draw", "average power draw", "instantaneous power draw"),
        ("current power limit", "power limit", "gpu ceiling power limit"),
    ),
    "power readings": (("power draw",), ("power limit", "current power limit")),
}
# Sections of a full report, with the driver branch from which on every GPU has them.
_FULL: tuple[tuple[int, tuple[str, ...]], ...] = (
    (0, ("persistence mode",)),
    (0, ("pci",)),
    (0, ("fan speed",)),
    (0, ("clocks throttle reasons", "clocks event reasons")),
    (0, ("fb memory usage",)),
    (0, ("ecc mode",)),
    (0, ("ecc errors",)),
    (0, ("retired pages",)),
    (460, ("remapped rows",)),
    (0, ("temperature",)),
    (0, ("power readings", "gpu power readings")),
    (530, ("fabric",)),
    (0, ("processes",)),
)


def _check_whole(block: Block, driver: str) -> None:
    root, reading, where = block.root, block.reading, block.where
    for section in root.children:
        required = _WHOLE.get(section.key.lower())
        if required is None:
            if not section.children and section.value is None:
                reading.truncated(f"section without lines: {section.line.strip()}", where)
            continue
        if section.value is not None and not section.children:
            if not na(section.value) and section.value.strip():
                reading.unknown(section.line, where)
            continue
        for names in required:
            if not section.all(*names):
                reading.truncated(f"{section.key} without {names[0].title()}", where)
    for section in root.all("clocks event reasons", "clocks throttle reasons"):
        slow = section.get("hw slowdown")
        if (
            slow
            and slow.children
            and not (slow.get("hw thermal slowdown") and slow.get("hw power brake slowdown"))
        ):
            reading.truncated("HW Slowdown without its reasons", where)
        if slow and not slow.children and section.key.lower() == "clocks event reasons":
            reading.truncated("HW Slowdown without its reasons", where)
    link = block.find("pci", "gpu link info")
    pci = block.find("pci")
    if pci is not None and pci.children:
        for path in (("pcie generation", "max"), ("pcie generation", "current")):
            if link is None or block.value("pci", "gpu link info", *path) is None:
                reading.truncated(f"GPU Link Info without PCIe Generation {path[-1].title()}", where)
        for name in ("max", "current"):
            if link is not None and block.value("pci", "gpu link info", "link width", name) is None:
                reading.truncated(f"GPU Link Info without Link Width {name.title()}", where)
    major = int(driver.split(".", maxsplit=1)[0]) if driver.split(".", maxsplit=1)[0].isdigit() else 0
    if root.get("product name") and len(root.children) > 3:
        for since, names in _FULL:
            if major >= since and not root.all(*names):
                reading.truncated(f"no section {names[0].title()}", where)
    elif root.get("product brand") or root.get("product architecture"):
        reading.truncated("no Product Name", where)


def _gpu_facts(block: Block, address: str) -> Facts:
    printed = block.value("pci", "bus id")
    if printed and printed.strip().lower() != address.lower():
        block.reading.contradiction(f"GPU {address} has the Bus Id {printed.strip()}", block.where)
    gpu = gpu_facts(block, address)
    gpu["clocks_active_reasons"] = _clock_reasons(block)
    return gpu


def _clock_reasons(block: Block) -> list[str] | NA | None:
    section = block.find(("clocks event reasons", "clocks throttle reasons"))
    if section is None:
        return None
    if not section.children:
        return na(section.value or "")
    nodes = [node for child in section.children for node in (child, *child.children)]
    keys = [node.key.lower() for node in nodes]
    if len(keys) != len(set(keys)):
        block.reading.contradiction("a clocks reason stands twice", block.where)
    return active_reasons(block.reading, block.where, [(node.key, node.value or "") for node in nodes])


def _flags(block: Block) -> dict[str, str | None]:
    def words(name: str) -> str:
        return name.replace("_", " ")

    flags = {name: block.value("fabric", "health", words(name)) for name in FABRIC_FLAGS}
    flags["sram_threshold_exceeded"] = block.value("ecc errors", "aggregate", "sram threshold exceeded")
    flags |= {name: block.value("ecc errors", words(name)) for name in REPAIR_FLAGS}
    return flags | {name: block.value("gpu reset status", words(name)) for name in RESET_FLAGS}


def _fragment(lines: list[str]) -> bool:
    """Whether the lines are a piece of a GPU's block: a section's name with indented lines under it."""
    names = {line.strip().lower() for line in lines if line.strip() and " :" not in line}
    return bool(names & set(_WHOLE))


def _sniff(text: str) -> int:
    if _BANNER in text:
        return 95
    if "<" in text[:200]:
        return 0
    if re.search(r"^Attached GPUs\s+:", text, re.M):
        return 90
    lines = text.split("\n")[:400]
    return 40 if _fragment(lines) and re.search(r"^\s{4,}\S.*\s:\s", text, re.M) else 0


@parser(
    "nvidia-smi-q",
    "nvidia-smi -q (text)",
    ("nvidia-smi -q", "nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER"),
    _sniff,
)
def parse_nvidia_smi_q(text: str) -> Reading:
    reading = Reading(
        {"driver_version": None, "cuda_version": None, "attached_gpus": None, "gpus": None},
    )
    header: list[str] = []
    blocks: list[tuple[str | None, list[str]]] = []
    for line in text.split("\n"):
        match = _GPU.match(line)
        if match:
            blocks.append((match.group(1), []))
        elif blocks:
            blocks[-1][1].append(line)
        else:
            header.append(line)
    head = Block(
        reading, "output", _tree(Reading({}), [line for line in header if not line.startswith("=")], "output")
    )
    if not blocks and _fragment(header):
        start = next(i for i, line in enumerate(header) if line[:1] == " ")
        blocks.append((None, header[start:]))
        reading.truncated("a piece of the report: neither banner nor GPU address")
    elif not blocks and head.value("attached gpus") is None:
        nothing_read(reading, text, "nvidia-smi -q")
        return reading
    tool_errors(reading, "\n".join(line for line in text.split("\n") if " : " not in line))
    _read_head(reading, head)
    driver = reading.facts["driver_version"]
    gpus: list[Facts] = []
    for position, (address, printed) in enumerate(blocks):
        where = f"gpu {position}"
        for line in printed:
            if line.strip() and not line[0].isspace() and not _warning(line):
                reading.unknown(line, where)
        lines = [line for line in printed if line.strip() and line[0].isspace()]
        block = Block(reading, where, _tree(reading, lines, where))
        if lines and (" :" not in lines[-1] or lines[-1].rstrip().endswith(" :")):
            reading.truncated(f"ends with: {lines[-1].strip()}", where)
        if not block.root.children:
            reading.truncated(f"GPU {address} has no lines", where)
        gpu = _gpu_facts(block, address or "")
        if address is None:
            gpu["pci_bus_id"] = None
        _check_whole(block, driver if isinstance(driver, str) else "")
        gpu_problems(reading, where, gpu)
        flag_problems(reading, where, _flags(block))
        gpus.append(gpu)
        _same_sections(reading, where, gpus, blocks, position)
    reading.facts["gpus"] = gpus
    attached = reading.facts["attached_gpus"]
    if blocks and blocks[0][0] is not None:
        if attached is None:
            reading.truncated("the line Attached GPUs is missing")
        elif attached != len(gpus):
            reading.contradiction(f"{attached} GPUs attached, {len(gpus)} printed")
    elif not blocks:
        reading.contradiction(f"{attached} GPUs attached, none printed") if attached else None
    check_repeats(reading, gpus)
    return reading


def _warning(line: str) -> bool:
    return bool(re.match(r"\s*(?:warning|note|info)\b", line, re.I)) or line.startswith("#")


def _read_head(reading: Reading, head: Block) -> None:
    values = Values(reading, "output")
    facts = reading.facts
    facts["driver_version"] = version(head.value("driver version") or head.value("kmd version"))
    facts["cuda_version"] = version(head.value("cuda version") or head.value("cuda umd version"))
    facts["attached_gpus"] = values.number(head.value("attached gpus"))


def _same_sections(
    reading: Reading,
    where: str,
    gpus: list[Facts],
    blocks: list[tuple[str | None, list[str]]],
    position: int,
) -> None:
    """GPUs of one product print the same sections; one that lacks some was cut."""
    if position == 0 or gpus[0]["product"] != gpus[position]["product"]:
        return

    def names(lines: list[str]) -> set[str]:
        return {
            line.split(" :")[0].strip()
            for line in lines
            if line.strip() and len(line) - len(line.lstrip()) == 4 and "MIG Device" not in line
        }

    missing = names(blocks[0][1]) ^ names(blocks[position][1])
    if missing:
        reading.truncated(f"GPU 0 and {where} differ in sections: {', '.join(sorted(missing)[:5])}", where)
