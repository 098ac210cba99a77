"""``nvidia-smi -q -x``: the full report as XML (nvsmi_device v10 to v13).

The same facts as ``-q``, a ``gpu`` element each; values carry their units (``69.62 W``).  NVIDIA prints a
plain ``<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">`` or none; a document type with an internal
subset or entities is never NVIDIA's and is refused unread.  A document that is not well formed is cut or
damaged: the GPUs that are whole are still read, but the output is not understood.

Traps: ``clocks_throttle_reasons`` became ``clocks_event_reasons`` (535), ``power_readings`` became
``gpu_power_readings`` with average and instantaneous draw beside memory and module readings;
``*_tlimit_threshold`` elements are thresholds, ``gpu_temp_tlimit`` is the reading; MIG devices hold memory
and error counters of their own; ``remapped_rows`` may be the text N/A.  Read on drivers 418 to 610.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from xml.etree import ElementTree

from checks.parsers._core import NA, Facts, Reading, parser, shorten
from checks.parsers._errors import nothing_read, tool_errors
from checks.parsers._nvidia import (
    MOST_GPUS,
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

_START = re.compile(r"<\?xml|<!DOCTYPE\s+nvidia_smi_log|<nvidia_smi_log\b")
_END = "</nvidia_smi_log>"
_CLOCKS = re.compile(
    r"<supported_clocks>(?:\s*+<supported_mem_clock>\s*+<value>[^<>&]*+</value>"
    r"(?:\s*+<supported_graphics_clock>[^<>&]*+</supported_graphics_clock>)*+\s*+</supported_mem_clock>)++\s*+"
    r"</supported_clocks>"
)
_DOCTYPE = re.compile(r"<!doctype[^>]*")
_GPU_START, _GPU_END = "<gpu id=", "</gpu>"

# Elements that are printed whole where they are printed: their children, one of each tuple.
_WHOLE: dict[str, tuple[tuple[str, ...], ...]] = {
    "mig_mode": (("current_mig",), ("pending_mig",)),
    "ecc_mode": (("current_ecc",), ("pending_ecc",)),
    "ecc_errors": (("volatile",), ("aggregate",)),
    "retired_pages": (
        ("multiple_single_bit_retirement",),
        ("double_bit_retirement",),
        ("pending_retirement", "pending_blacklist"),
    ),
    "remapped_rows": (
        ("remapped_row_corr",),
        ("remapped_row_unc",),
        ("remapped_row_pending",),
        ("remapped_row_failure",),
    ),
    "fb_memory_usage": (("total",), ("used",)),
    "fabric": (("state",), ("status",)),
    "temperature": (("gpu_temp",),),
    "gpu_power_readings": (("power_draw", "average_power_draw", "instant_power_draw"),),
    "power_readings": (("power_draw",), ("power_limit", "current_power_limit")),
    "pci": (("pci_gpu_link_info",),),
}
_REASONS = ("gpu_idle", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
_FULL: tuple[tuple[int, tuple[str, ...]], ...] = (
    (0, ("persistence_mode",)),
    (0, ("pci",)),
    (0, ("fan_speed",)),
    (0, ("clocks_throttle_reasons", "clocks_event_reasons")),
    (0, ("fb_memory_usage",)),
    (0, ("ecc_mode",)),
    (0, ("ecc_errors",)),
    (0, ("retired_pages",)),
    (460, ("remapped_rows",)),
    (0, ("temperature",)),
    (0, ("power_readings", "gpu_power_readings")),
    (530, ("fabric",)),
)


def _sniff(text: str) -> int:
    if "<nvidia_smi_log" in text:
        return 100
    return 60 if "<gpu id=" in text and "<product_name>" in text else 0


class _Gpu:
    def __init__(self, reading: Reading, where: str, element: ElementTree.Element) -> None:
        self.reading = reading
        self.where = where
        self.element = element
        self._at: dict[str, list[ElementTree.Element]] = {}

    def all(self, path: str) -> list[ElementTree.Element]:
        """Every element at ``path``; those above it are looked up once for all that is below them."""
        found = self._at.get(path)
        if found is None:
            above, _, name = path.rpartition("/")
            parents = self.all(above) if above else [self.element]
            found = [element for parent in parents for element in parent.findall(name)]
            self._at[path] = found
        return found

    def first(self, path: str) -> ElementTree.Element | None:
        found = self.all(path)
        return found[0] if found else None

    def value(self, *paths: str) -> str | None:
        """The text at the first of ``paths`` that exists; where an element above it is N/A, that."""
        for path in paths:
            found = self.all(path)
            if len(found) > 1:
                self.reading.contradiction(f"printed twice: {path}", self.where)
            if found:
                return (found[0].text or "").strip()
        for path in paths:
            parts = path.split("/")
            for depth in range(len(parts) - 1, 0, -1):
                above = self.first("/".join(parts[:depth]))
                if above is not None and len(above) == 0 and na(above.text or ""):
                    return (above.text or "").strip()
        return None

    def fact(self, name: str) -> str | None:
        return self.value(*_PLACES[name])

    def _power(self) -> str:
        new = self.first("gpu_power_readings") is not None
        return "gpu_power_readings" if new else "power_readings"

    def power_draws(self) -> Iterable[str | None]:
        names = ("power_draw", "instant_power_draw", "average_power_draw")
        return (self.value(f"{self._power()}/{name}") for name in names)

    def power_limit(self) -> str | None:
        power = self._power()
        section = self.first(power)
        direct = self.value(f"{power}/current_power_limit", f"{power}/power_limit")
        if direct is not None or section is None:
            return direct
        deeper = section.findall(".//current_power_limit")
        if not deeper:
            self.reading.truncated(f"{power} without a power limit", self.where)
            return None
        return (deeper[0].text or "").strip()

    def error_counters(self, scope: str, *, corrected: bool) -> list[Counter] | NA | None:
        section = self.first(f"ecc_errors/{scope}")
        if section is None or len(section) == 0:
            text = self.value(f"ecc_errors/{scope}")
            return na(text) if text else None
        bits = "single_bit" if corrected else "double_bit"
        double = section.find(bits)
        if double is None:
            return [(c.tag, c.text) for c in section if is_counter(c.tag, corrected=corrected)]
        if double.find("total") is None:
            self.reading.truncated(f"{bits} of {scope} without total", self.where)
            return None
        return [(counter.tag, counter.text or "") for counter in double]


_LINK = "pci/pci_gpu_link_info/"
_PLACES: dict[str, tuple[str, ...]] = {
    "product": ("product_name",),
    "uuid": ("uuid",),
    "persistence_mode": ("persistence_mode",),
    "mig_current": ("mig_mode/current_mig",),
    "mig_pending": ("mig_mode/pending_mig",),
    "ecc_current": ("ecc_mode/current_ecc",),
    "ecc_pending": ("ecc_mode/pending_ecc",),
    "remapped_pending": ("remapped_rows/remapped_row_pending",),
    "remap_failure": ("remapped_rows/remapped_row_failure",),
    "remapped_uncorrectable": ("remapped_rows/remapped_row_unc",),
    "retired_pending": ("retired_pages/pending_retirement", "retired_pages/pending_blacklist"),
    "retired_single_bit": ("retired_pages/multiple_single_bit_retirement/retired_count",),
    "retired_double_bit": ("retired_pages/double_bit_retirement/retired_count",),
    "temperature_c": ("temperature/gpu_temp",),
    "temperature_tlimit_c": ("temperature/gpu_temp_tlimit", "temperature/gpu_current_temp_tlimit"),
    "memory_temperature_c": ("temperature/memory_temp",),
    "fan_percent": ("fan_speed",),
    "pcie_gen_current": (f"{_LINK}pcie_gen/current_link_gen",),
    "pcie_gen_max": (f"{_LINK}pcie_gen/max_link_gen",),
    "pcie_gen_device_max": (f"{_LINK}pcie_gen/max_device_link_gen",),
    "pcie_gen_host_max": (f"{_LINK}pcie_gen/max_host_link_gen",),
    "pcie_width_current": (f"{_LINK}link_widths/current_link_width",),
    "pcie_width_max": (f"{_LINK}link_widths/max_link_width",),
    "fabric_state": ("fabric/state",),
    "fabric_status": ("fabric/status",),
    "fabric_clique": ("fabric/cliqueId", "fabric/clique_id"),
    "fabric_health": ("fabric/health/summary",),
    "memory_total_mib": ("fb_memory_usage/total",),
    "memory_used_mib": ("fb_memory_usage/used",),
    "recovery_action": ("gpu_recovery_action",),
    "vbios": ("vbios_version",),
    "gsp_firmware": ("gsp_firmware_version",),
    "compute_mode": ("compute_mode",),
    "fabric_cluster_uuid": ("fabric/clusterUuid", "fabric/cluster_uuid"),
}


def _gpu_facts(gpu: _Gpu) -> Facts:
    address = gpu.element.get("id")
    printed = gpu.value("pci/pci_bus_id")
    if address and printed and address.lower() != printed.lower():
        gpu.reading.contradiction(f"GPU {address} has the pci_bus_id {printed}", gpu.where)
    facts = gpu_facts(gpu, address or printed or None)
    facts["clocks_active_reasons"] = _reasons(gpu)
    facts["processes"] = _processes(gpu)
    return facts


def _processes(gpu: _Gpu) -> list[Facts] | NA | None:
    """Every process with a context on the GPU; ``type`` is C (compute), G (graphics), C+G or M+C (by MPS)."""
    section = gpu.first("processes")
    if section is None:
        return None
    if len(section) == 0:
        return na(section.text or "") or []
    values = Values(gpu.reading, gpu.where)
    found = []
    for info in section.findall("process_info"):
        for tag in ("pid", "type", "process_name", "used_memory"):
            if len(info.findall(tag)) != 1:
                gpu.reading.truncated(f"process_info with {len(info.findall(tag))} {tag}", gpu.where)
        found.append(
            {
                "pid": values.number(info.findtext("pid")),
                "process_type": values.text(info.findtext("type")),
                "process_name": (info.findtext("process_name") or "").strip() or None,
                "used_memory_mib": values.number(info.findtext("used_memory"), ("MiB", "MB")),
            }
        )
    return found


@lru_cache(maxsize=512)
def _reason(tag: str) -> str:
    return re.sub(r"^clocks_(?:event|throttle)_reasons?_", "", tag)


def _reasons(gpu: _Gpu) -> list[str] | NA | None:
    for tag in ("clocks_event_reasons", "clocks_throttle_reasons"):
        section = gpu.first(tag)
        if section is None:
            continue
        if len(section) == 0:
            return na(section.text or "")
        leaves = [leaf for leaf in section.iter() if leaf is not section and len(leaf) == 0]
        names = [_reason(leaf.tag) for leaf in leaves]
        missing = [name for name in _REASONS if name not in names]
        if missing:
            gpu.reading.truncated(f"{tag} without {', '.join(missing)}", gpu.where)
        if len(names) != len(set(names)):
            gpu.reading.contradiction(f"a reason stands twice in {tag}", gpu.where)
        return active_reasons(
            gpu.reading, gpu.where, zip(names, (leaf.text or "" for leaf in leaves), strict=True)
        )
    return None


_LINK_VALUES = (
    "pcie_gen/max_link_gen",
    "pcie_gen/current_link_gen",
    "link_widths/max_link_width",
    "link_widths/current_link_width",
)


def _check_whole(gpu: _Gpu, driver: str) -> None:
    for section in gpu.element:
        if section.tag not in _WHOLE or (len(section) == 0 and na(section.text or "")):
            continue
        for names in _WHOLE[section.tag]:
            if not any(section.find(name) is not None for name in names):
                gpu.reading.truncated(f"{section.tag} without {names[0]}", gpu.where)
    if gpu.first("pci/pci_gpu_link_info") is not None:
        for tag in _LINK_VALUES:
            if gpu.value(f"pci/pci_gpu_link_info/{tag}") is None:
                gpu.reading.truncated(f"pci_gpu_link_info without {tag}", gpu.where)
    for kind in ("multiple_single_bit_retirement", "double_bit_retirement"):
        pages = gpu.first(f"retired_pages/{kind}")
        if pages is not None and pages.find("retired_count") is None:
            gpu.reading.truncated(f"{kind} without retired_count", gpu.where)
    if gpu.first("product_name") is None:
        if gpu.first("product_brand") is not None:
            gpu.reading.truncated("gpu without product_name", gpu.where)
        return
    branch = driver.split(".", maxsplit=1)[0]
    major = int(branch) if branch.isdigit() else 0
    if len(gpu.element) > 3:
        for since, names in _FULL:
            if major >= since and not any(gpu.first(name) is not None for name in names):
                gpu.reading.truncated(f"gpu without {names[0]}", gpu.where)


def _flags(gpu: _Gpu) -> dict[str, str | None]:
    flags = {name: gpu.value(f"fabric/health/{name}") for name in FABRIC_FLAGS}
    flags["sram_threshold_exceeded"] = gpu.value("ecc_errors/aggregate/sram_threshold_exceeded")
    flags |= {name: gpu.value(f"ecc_errors/{name}") for name in REPAIR_FLAGS}
    return flags | {name: gpu.value(f"gpu_reset_status/{name}") for name in RESET_FLAGS}


def _without_clocks(text: str) -> str:
    """``text`` without the lists of clocks that a GPU can be set to: half of a report, and no fact.

    Only a whole list goes, and its lines stay: what is damaged is still told, and where.
    """
    return _CLOCKS.sub(lambda found: "\n" * found.group().count("\n"), text)


def _elements(reading: Reading, text: str) -> tuple[ElementTree.Element | None, list[ElementTree.Element]]:
    """The root, if the document is whole, and the GPU elements that are."""
    low = text.lower()
    if "<!entity" in low or ("<!doctype" in low and any("[" in found for found in _DOCTYPE.findall(low))):
        reading.unknown("a document type with entities or an internal subset is not read")
        return None, []
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 (entities are refused above)
    except (ElementTree.ParseError, ValueError) as error:
        reading.truncated(f"the XML is cut or damaged: {error}")
    else:
        if root.tag == "nvidia_smi_log":
            return root, _not_too_many(reading, root.findall("gpu"))
        reading.unknown(f"the root element is {root.tag}")
        return None, []
    whole: list[ElementTree.Element] = []
    end = 0
    while len(whole) <= MOST_GPUS:
        start = text.find(_GPU_START, end)
        close = text.find(_GPU_END, start) if start >= 0 else -1
        if close < 0:
            break
        end = close + len(_GPU_END)
        try:
            whole.append(ElementTree.fromstring(text[start:end]))  # noqa: S314
        except (ElementTree.ParseError, ValueError):
            continue
    return None, _not_too_many(reading, whole)


def _not_too_many(reading: Reading, elements: list[ElementTree.Element]) -> list[ElementTree.Element]:
    if len(elements) > MOST_GPUS:
        reading.unknown(f"more than {MOST_GPUS} gpu elements; the rest is not read")
    return elements[:MOST_GPUS]


def _head_text(root: ElementTree.Element | None, text: str, tag: str) -> str | None:
    if root is not None:
        return root.findtext(tag)
    match = re.search(rf"<{tag}>([^<]*)</{tag}>", text.split("<gpu ", maxsplit=1)[0])
    return match.group(1) if match else None


@parser("nvidia-smi-qx", "nvidia-smi -q -x (XML)", ("nvidia-smi -q -x",), _sniff, document=True)
def parse_nvidia_smi_qx(text: str) -> Reading:
    reading = Reading(
        {"driver_version": None, "cuda_version": None, "attached_gpus": None, "gpus": None},
    )
    start = _START.search(text)
    if not start or "<nvidia_smi_log" not in text:
        nothing_read(reading, text, "nvidia-smi -q -x")
        return reading
    end = text.find(_END)
    stray = text[: start.start()] + ("\n" + text[end + len(_END) :] if end >= 0 else "")
    stray_lines = text.count("\n", 0, start.start())
    document = text[start.start() : end + len(_END) if end >= 0 else len(text)]
    document = "\n" * stray_lines + re.sub(r"^<\?xml[^>]*\?>", "", document)
    for line in stray.split("\n"):
        if line.strip() and line.lstrip().startswith("<"):
            reading.unknown(line)
    tool_errors(reading, stray)
    root, elements = _elements(reading, _without_clocks(document))
    values = Values(reading, "output")
    facts = reading.facts

    def head(*tags: str) -> str | None:
        return next((found for tag in tags if (found := _head_text(root, document, tag)) is not None), None)

    facts["driver_version"] = version(head("driver_version", "kmd_version"))
    facts["cuda_version"] = version(head("cuda_version", "cuda_umd_version"))
    facts["attached_gpus"] = values.number(head("attached_gpus"))
    driver = facts["driver_version"] if isinstance(facts["driver_version"], str) else ""
    gpus: list[Facts] = []
    for position, element in enumerate(elements):
        gpu = _Gpu(reading, f"gpu {position}", element)
        gpus.append(_gpu_facts(gpu))
        _check_whole(gpu, driver)
        gpu_problems(reading, gpu.where, gpus[-1])
        flag_problems(reading, gpu.where, _flags(gpu))
        if position and gpus[0]["product"] == gpus[-1]["product"]:
            differ = {child.tag for child in elements[0]} ^ {child.tag for child in element}
            if differ:
                names = shorten(", ".join(sorted(differ)), 80)
                reading.truncated(f"gpu 0 and {gpu.where} differ in elements: {names}", gpu.where)
    facts["gpus"] = gpus
    if facts["attached_gpus"] is None:
        reading.truncated("attached_gpus is missing")
    elif facts["attached_gpus"] != len(gpus):
        reading.contradiction(f"{facts['attached_gpus']} GPUs attached, {len(gpus)} whole gpu elements")
    check_repeats(reading, gpus)
    return reading
