"""Disk health: ``smartctl --json`` and ``nvme smart-log -o json``.

smartctl holds the NVMe log under ``nvme_smart_health_information_log`` with the temperature in Celsius;
SATA and SAS disks have none, so those facts are null.  ``nvme smart-log`` prints the temperature in Kelvin,
128-bit counters as numbers or strings, and, since nvme-cli 2, the critical warning as an object.
"""

from __future__ import annotations

from typing import Any

from checks.parsers._core import Facts, Reading, is_number, parser
from checks.parsers._errors import nothing_read
from checks.parsers._json import load, number, peek
from checks.parsers._values import to_number

_NAMES = (
    "model",
    "passed",
    "critical_warning",
    "percentage_used",
    "media_errors",
    "available_spare",
    "available_spare_threshold",
    "temperature_c",
)


def _sniff_smartctl(text: str) -> int:
    if '"smartctl"' not in text or '"json_format_version"' not in text:
        return 0
    return 95


def _count(value: Any) -> int | float | None:
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str):
        return to_number(value.replace(",", ""))
    return number(value)


def _health(reading: Reading, facts: Facts) -> None:
    def report(text: str) -> None:
        reading.problem("nvme-health", str(facts["model"] or "disk"), text)

    if facts["passed"] is False:
        report("the disk's self-assessment failed")
    if is_number(facts["critical_warning"]) and facts["critical_warning"] != 0:
        report(f"critical warning {facts['critical_warning']}")
    if is_number(facts["media_errors"]) and facts["media_errors"] > 0:
        report(f"{facts['media_errors']} media errors")
    spare, threshold = facts["available_spare"], facts["available_spare_threshold"]
    if is_number(spare) and is_number(threshold) and spare < threshold:
        report(f"available spare {spare} % is below the threshold of {threshold} %")
    if is_number(facts["percentage_used"]) and facts["percentage_used"] >= 100:
        report(f"{facts['percentage_used']} % of the rated life is used")


@parser("smartctl-json", "smartctl --json", ("smartctl --json -a DEVICE",), _sniff_smartctl, document=True)
def parse_smartctl(text: str) -> Reading:
    reading = Reading(dict.fromkeys(_NAMES))
    value = load(reading, text)
    if not isinstance(value, dict) or not isinstance(value.get("smartctl"), dict):
        if reading.understood:
            nothing_read(reading, text, "smartctl --json")
        return reading
    facts = reading.facts
    model = value.get("model_name") or value.get("scsi_model_name") or value.get("product")
    facts["model"] = model if isinstance(model, str) else None
    status = value.get("smart_status")
    if isinstance(status, dict) and isinstance(status.get("passed"), bool):
        facts["passed"] = status["passed"]
    log = value.get("nvme_smart_health_information_log")
    if isinstance(log, dict):
        for name in ("critical_warning", "percentage_used", "media_errors", "available_spare"):
            facts[name] = _count(log.get(name))
            if facts[name] is None:
                reading.truncated(f"the NVMe log has no {name}")
        facts["available_spare_threshold"] = _count(log.get("available_spare_threshold"))
    temperature = value.get("temperature")
    current = temperature.get("current") if isinstance(temperature, dict) else None
    facts["temperature_c"] = _count(current)
    if facts["temperature_c"] is None and isinstance(log, dict):
        facts["temperature_c"] = _count(log.get("temperature"))
    device = value.get("device")
    protocol = device.get("protocol") if isinstance(device, dict) else None
    if protocol == "NVMe" and not isinstance(log, dict) and facts["passed"] is not None:
        reading.truncated("an NVMe disk without its health log")
    messages = value["smartctl"].get("messages")
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict) and message.get("severity") == "error":
            reading.problem("output-error", str(facts["model"] or "disk"), str(message.get("string")))
    if facts["passed"] is None and not isinstance(log, dict):
        reading.truncated("neither a self-assessment nor a health log")
    _health(reading, facts)
    return reading


_NVME_KEYS = {"critical_warning", "temperature", "media_errors"}


def _sniff_nvme(text: str) -> int:
    value = peek(text) if '"critical_warning"' in text and '"smartctl"' not in text else None
    return 92 if isinstance(value, dict) and len(_NVME_KEYS & set(value)) >= 2 else 0


@parser(
    "nvme-smart-json",
    "nvme smart-log -o json",
    ("nvme smart-log -o json DEVICE",),
    _sniff_nvme,
    document=True,
)
def parse_nvme_smart(text: str) -> Reading:
    reading = Reading(dict.fromkeys(_NAMES))
    value = load(reading, text)
    if not isinstance(value, dict) or len(_NVME_KEYS & set(value)) < 2:
        if reading.understood:
            nothing_read(reading, text, "nvme smart-log")
        return reading
    facts = reading.facts

    def first(*names: str) -> int | float | None:
        return next((_count(value[name]) for name in names if name in value), None)

    facts["critical_warning"] = first("critical_warning")
    facts["percentage_used"] = first("percent_used", "percentage_used")
    facts["media_errors"] = first("media_errors")
    facts["available_spare"] = first("avail_spare", "available_spare")
    facts["available_spare_threshold"] = first("spare_thresh", "available_spare_threshold")
    kelvin = first("temperature")
    if kelvin is not None:
        facts["temperature_c"] = kelvin - 273 if kelvin > 200 else kelvin
    model = value.get("model_number") or value.get("ModelNumber")
    facts["model"] = model.strip() if isinstance(model, str) else None
    for name in ("critical_warning", "percentage_used", "media_errors", "available_spare"):
        if facts[name] is None:
            reading.truncated(f"no {name}")
    _health(reading, facts)
    return reading
