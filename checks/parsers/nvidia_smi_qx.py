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
from xml.etree import ElementTree

from checks.parsers._core import NA, Facts, Reading, parser, shorten
from checks.parsers._errors import nothing_read, tool_errors
from checks.parsers._nvidia import (
    MOST_GPUS,
    Values,
    active_reasons,
    check_repeats,
    first_number,
    flag_problems,
    gpu_problems,
    new_gpu,
    number_sum,
    version,
)
from checks.parsers._values import na

_START = re.compile(r"<\?xml|<!DOCTYPE\s+nvidia_smi_log|<nvidia_smi_log\b")
_END = "</nvidia_smi_log>"
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

    def value(self, *paths: str) -> str | None:
        """The text at the first of ``paths`` that exists; where an element above it is N/A, that."""
        for path in paths:
            found = self.element.findall(path)
            if len(found) > 1:
                self.reading.contradiction(f"printed twice: {path}", self.where)
            if found:
                return (found[0].text or "").strip()
        for path in paths:
            parts = path.split("/")
            for depth in range(len(parts) - 1, 0, -1):
                above = self.element.find("/".join(parts[:depth]))
                if above is not None and len(above) == 0 and na(above.text or ""):
                    return (above.text or "").strip()
        return None


def _ecc_counters(gpu: _Gpu, scope: str) -> int | float | NA | None:
    values = Values(gpu.reading, gpu.where)
    section = gpu.element.find(f"ecc_errors/{scope}")
    if section is None or len(section) == 0:
        text = gpu.value(f"ecc_errors/{scope}")
        return na(text) if text else None
    double = section.find("double_bit")
    if double is not None:
        total = double.findtext("total")
        if total is None:
            gpu.reading.truncated(f"double_bit of {scope} without total", gpu.where)
            return None
        printed = values.number(total)
        if isinstance(printed, NA):
            parts = [values.number(part.text or "") for part in double if part.tag != "total"]
            return first_number([number_sum(parts), printed])
        return printed
    names = [counter.tag for counter in section if "uncorrectable" in counter.tag]
    if len(names) != len(set(names)):
        gpu.reading.contradiction(f"{scope} counters stand twice", gpu.where)
    split = any("parity" in name or "secded" in name for name in names)
    wanted = {"dram_uncorrectable"} | (
        {"sram_uncorrectable_parity", "sram_uncorrectable_secded"} if split else {"sram_uncorrectable"}
    )
    if not wanted <= set(names):
        missing = ", ".join(sorted(wanted - set(names)))
        gpu.reading.truncated(f"{scope} ECC errors without {missing}", gpu.where)
    return number_sum(values.number(section.findtext(name)) for name in names)


def _gpu_facts(gpu: _Gpu) -> Facts:
    facts = new_gpu()
    values = Values(gpu.reading, gpu.where)
    address = gpu.element.get("id")
    printed = gpu.value("pci/pci_bus_id")
    if address and printed and address.lower() != printed.lower():
        gpu.reading.contradiction(f"GPU {address} has the pci_bus_id {printed}", gpu.where)
    facts["pci_bus_id"] = address or printed or None
    facts["product"] = values.text(gpu.value("product_name"))
    facts["uuid"] = values.text(gpu.value("uuid"))
    facts["persistence_mode"] = values.boolean(gpu.value("persistence_mode"))
    for mode in ("mig", "ecc"):
        for state in ("current", "pending"):
            facts[f"{mode}_{state}"] = values.boolean(gpu.value(f"{mode}_mode/{state}_{mode}"))
    facts["ecc_uncorrected_volatile"] = _ecc_counters(gpu, "volatile")
    facts["ecc_uncorrected_aggregate"] = _ecc_counters(gpu, "aggregate")
    facts["remapped_pending"] = values.boolean(gpu.value("remapped_rows/remapped_row_pending"))
    facts["remap_failure"] = values.boolean(gpu.value("remapped_rows/remapped_row_failure"))
    facts["remapped_uncorrectable"] = values.number(gpu.value("remapped_rows/remapped_row_unc"))
    retired = "retired_pages/"
    facts["retired_pending"] = values.boolean(
        gpu.value(f"{retired}pending_retirement", f"{retired}pending_blacklist")
    )
    facts["retired_single_bit"] = values.number(
        gpu.value(f"{retired}multiple_single_bit_retirement/retired_count")
    )
    facts["retired_double_bit"] = values.number(gpu.value(f"{retired}double_bit_retirement/retired_count"))
    facts["temperature_c"] = values.number(gpu.value("temperature/gpu_temp"), ("C",))
    margin = gpu.value("temperature/gpu_temp_tlimit", "temperature/gpu_current_temp_tlimit")
    facts["temperature_tlimit_c"] = values.number(margin, ("C",))
    facts["memory_temperature_c"] = values.number(gpu.value("temperature/memory_temp"), ("C",))
    facts["fan_percent"] = values.number(gpu.value("fan_speed"), ("%",))
    power = "gpu_power_readings" if gpu.element.find("gpu_power_readings") is not None else "power_readings"
    facts["power_draw_w"] = first_number(
        values.number(gpu.value(f"{power}/{name}"), ("W",))
        for name in ("power_draw", "instant_power_draw", "average_power_draw")
    )
    facts["power_limit_w"] = values.number(_power_limit(gpu, power), ("W",))
    link = "pci/pci_gpu_link_info/"
    for fact, name in (
        ("current", "current_link_gen"),
        ("max", "max_link_gen"),
        ("device_max", "max_device_link_gen"),
        ("host_max", "max_host_link_gen"),
    ):
        facts[f"pcie_gen_{fact}"] = values.number(gpu.value(f"{link}pcie_gen/{name}"))
    for name in ("current", "max"):
        facts[f"pcie_width_{name}"] = values.width(gpu.value(f"{link}link_widths/{name}_link_width"))
    facts["clocks_active_reasons"] = _reasons(gpu)
    facts["fabric_state"] = values.text(gpu.value("fabric/state"))
    facts["fabric_status"] = values.text(gpu.value("fabric/status"))
    facts["fabric_clique"] = values.number(gpu.value("fabric/cliqueId", "fabric/clique_id"))
    facts["fabric_health"] = values.text(gpu.value("fabric/health/summary"))
    facts["memory_total_mib"] = values.number(gpu.value("fb_memory_usage/total"), ("MiB", "MB"))
    facts["memory_used_mib"] = values.number(gpu.value("fb_memory_usage/used"), ("MiB", "MB"))
    facts["recovery_action"] = values.text(gpu.value("gpu_recovery_action"))
    return facts


def _power_limit(gpu: _Gpu, power: str) -> str | None:
    section = gpu.element.find(power)
    direct = gpu.value(f"{power}/current_power_limit", f"{power}/power_limit")
    if direct is not None or section is None:
        return direct
    deeper = section.findall(".//current_power_limit")
    if not deeper:
        gpu.reading.truncated(f"{power} without a power limit", gpu.where)
        return None
    return (deeper[0].text or "").strip()


def _reasons(gpu: _Gpu) -> list[str] | NA | None:
    for tag in ("clocks_event_reasons", "clocks_throttle_reasons"):
        section = gpu.element.find(tag)
        if section is None:
            continue
        if len(section) == 0:
            return na(section.text or "")
        leaves = [leaf for leaf in section.iter() if leaf is not section and len(leaf) == 0]
        names = [re.sub(r"^clocks_(?:event|throttle)_reasons?_", "", leaf.tag) for leaf in leaves]
        missing = [name for name in _REASONS if name not in names]
        if missing:
            gpu.reading.truncated(f"{tag} without {', '.join(missing)}", gpu.where)
        if len(names) != len(set(names)):
            gpu.reading.contradiction(f"a reason stands twice in {tag}", gpu.where)
        return active_reasons(
            gpu.reading, gpu.where, zip(names, (leaf.text or "" for leaf in leaves), strict=True)
        )
    return None


def _check_whole(gpu: _Gpu, driver: str) -> None:
    for section in gpu.element:
        if section.tag not in _WHOLE or (len(section) == 0 and na(section.text or "")):
            continue
        for names in _WHOLE[section.tag]:
            if not any(section.find(name) is not None for name in names):
                gpu.reading.truncated(f"{section.tag} without {names[0]}", gpu.where)
    for tag in ("pcie_gen/max_link_gen", "pcie_gen/current_link_gen"):
        if (
            gpu.element.find("pci/pci_gpu_link_info") is not None
            and gpu.value(f"pci/pci_gpu_link_info/{tag}") is None
        ):
            gpu.reading.truncated(f"pci_gpu_link_info without {tag}", gpu.where)
    for tag in ("link_widths/max_link_width", "link_widths/current_link_width"):
        if (
            gpu.element.find("pci/pci_gpu_link_info") is not None
            and gpu.value(f"pci/pci_gpu_link_info/{tag}") is None
        ):
            gpu.reading.truncated(f"pci_gpu_link_info without {tag}", gpu.where)
    for kind in ("multiple_single_bit_retirement", "double_bit_retirement"):
        pages = gpu.element.find(f"retired_pages/{kind}")
        if pages is not None and pages.find("retired_count") is None:
            gpu.reading.truncated(f"{kind} without retired_count", gpu.where)
    if gpu.element.find("product_name") is None:
        if gpu.element.find("product_brand") is not None:
            gpu.reading.truncated("gpu without product_name", gpu.where)
        return
    branch = driver.split(".", maxsplit=1)[0]
    major = int(branch) if branch.isdigit() else 0
    if len(gpu.element) > 3:
        for since, names in _FULL:
            if major >= since and not any(gpu.element.find(name) is not None for name in names):
                gpu.reading.truncated(f"gpu without {names[0]}", gpu.where)


def _flags(gpu: _Gpu) -> dict[str, str | None]:
    flags = {
        name: gpu.value(f"fabric/health/{name}")
        for name in (
            "bandwidth",
            "route_recovery_in_progress",
            "route_unhealthy",
            "access_timeout_recovery",
            "incorrect_configuration",
        )
    }
    flags["sram_threshold_exceeded"] = gpu.value("ecc_errors/aggregate/sram_threshold_exceeded")
    for name in ("channel_repair_pending", "tpc_repair_pending", "unrepairable_memory"):
        flags[name] = gpu.value(f"ecc_errors/{name}")
    for name in ("reset_required", "drain_and_reset_recommended"):
        flags[name] = gpu.value(f"gpu_reset_status/{name}")
    return flags


def _elements(reading: Reading, text: str) -> tuple[ElementTree.Element | None, list[ElementTree.Element]]:
    """The root, if the document is whole, and the GPU elements that are."""
    lowered = text.lower()
    subset = any("[" in part[part.find("<!doctype") :] for part in lowered.split(">") if "<!doctype" in part)
    if "<!entity" in lowered or subset:
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
    document = text[start.start() : end + len(_END) if end >= 0 else len(text)]
    document = re.sub(r"^<\?xml[^>]*\?>\s*", "", document)
    for line in stray.split("\n"):
        if line.strip() and line.lstrip().startswith("<"):
            reading.unknown(line)
    tool_errors(reading, stray)
    root, elements = _elements(reading, document)
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
