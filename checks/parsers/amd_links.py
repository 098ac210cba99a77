"""``amd-smi topology --json`` and ``amd-smi bad-pages --json``: the links between GPUs, and lost memory.

A topology lists, for every GPU, one link to each GPU, itself included (``SELF``); the type is XGMI or PCIE.
Bad pages are a list, or a sentence where there are none.
"""

from __future__ import annotations

import re
from typing import Any

from checks.parsers._core import NA, Facts, Reading, parser
from checks.parsers._errors import nothing_read
from checks.parsers._json import integer, load, peek
from checks.parsers._values import clean, na, to_number

_NONE_FOUND = re.compile(r"^no (?:bad|retired|pending|unreservable|reserved)?\s*\w*\s*pages? found", re.I)


def _entries(value: Any, part: str) -> list[dict[str, Any]] | None:
    if isinstance(value, dict):
        value = value.get("gpu_data")
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        return None
    return value if all("gpu" in item and part in item for item in value) else None


def _sniff_topology(text: str) -> int:
    return 92 if '"links"' in text and _entries(peek(text), "links") is not None else 0


@parser("amd-smi-topology", "amd-smi topology --json", ("amd-smi topology --json",), _sniff_topology,
        document=True)  # fmt: skip
def parse_topology(text: str) -> Reading:
    """``gpus[]``: index, pci_bus_id, links[]: gpu, type, enabled, hops. Every GPU must list every other."""
    reading = Reading({"gpus": None})
    listed = _entries(load(reading, text), "links")
    if listed is None:
        if reading.understood:
            nothing_read(reading, text, "amd-smi topology --json")
        return reading
    gpus = [_gpu(reading, item) for item in listed]
    indices = [gpu["index"] for gpu in gpus]
    if None not in indices:
        if sorted(indices) != list(range(len(indices))):
            reading.truncated(f"GPU indices have a gap or repeat: {indices}")
        for gpu in gpus:
            to = [link["gpu"] for link in gpu["links"]]
            if sorted(n for n in to if n is not None) != sorted(indices):
                reading.truncated(f"links to {to} of {len(indices)} GPUs", f"gpu {gpu['index']}")
    reading.facts["gpus"] = gpus
    return reading


def _gpu(reading: Reading, item: dict[str, Any]) -> Facts:
    index = integer(item["gpu"])
    if index is None:
        reading.unknown(f"gpu: {item['gpu']}")
    where = f"gpu {index}"
    links: list[Facts] = []
    raw = item["links"]
    for link in raw if isinstance(raw, list) else ():
        if not isinstance(link, dict) or integer(link.get("gpu")) is None:
            reading.unknown(f"link: {link}", where)
            continue
        kind, status = str(link.get("link_type", "")).upper(), str(link.get("link_status", "")).upper()
        if kind not in {"SELF", "XGMI", "PCIE", "UNKNOWN", "INTERNAL", "N/A"}:
            reading.unknown(f"link_type: {kind}", where)
        if status not in {"ENABLED", "DISABLED", "ERROR", "N/A"}:
            reading.unknown(f"link_status: {status}", where)
        hops = integer(link.get("num_hops"))
        links.append({"gpu": link["gpu"], "type": kind, "enabled": status == "ENABLED", "hops": hops})
        if kind == "XGMI" and status in {"DISABLED", "ERROR"}:
            reading.problem("amd-links", where, f"the link to GPU {link['gpu']} is {status}")
    if not isinstance(raw, list):
        reading.unknown(f"links: {raw}", where)
    address = item.get("bdf")
    return {"index": index, "pci_bus_id": address if isinstance(address, str) else None, "links": links}


_STATES = ("retired", "pending", "unreservable", "un_res", "reserved")


def _sniff_bad_pages(text: str) -> int:
    if '"gpu"' not in text or not any(f'"{state}"' in text for state in _STATES):
        return 0
    return 91 if _bad_pages(peek(text)) is not None else 0


def _bad_pages(value: Any) -> list[dict[str, Any]] | None:
    for part in _STATES:
        found = _entries(value, part)
        if found is not None:
            return found
    return None


@parser("amd-smi-bad-pages", "amd-smi bad-pages --json", ("amd-smi bad-pages --json",), _sniff_bad_pages,
        document=True)  # fmt: skip
def parse_bad_pages(text: str) -> Reading:
    """``gpus[]``: index, retired, pending, unreservable: numbers of pages, na where the tool has none."""
    reading = Reading({"gpus": None})
    listed = _bad_pages(load(reading, text))
    if listed is None:
        if reading.understood:
            nothing_read(reading, text, "amd-smi bad-pages --json")
        return reading
    gpus = []
    for item in listed:
        index = integer(item["gpu"])
        if index is None:
            reading.unknown(f"gpu: {item['gpu']}")
        where = f"gpu {index}"
        gpu: Facts = {"index": index}
        for name, keys in {
            "retired": ("retired", "reserved"), "pending": ("pending",),
            "unreservable": ("unreservable", "un_res"),
        }.items():  # fmt: skip
            key = next((k for k in keys if k in item), None)
            gpu[name] = None if key is None else _pages(reading, where, key, item[key])
        gpus.append(gpu)
        for name in ("pending", "unreservable"):
            if isinstance(gpu[name], int) and gpu[name] > 0:
                reading.problem("amd-bad-pages", where, f"{where}: {gpu[name]} pages {name}")
    indices = [gpu["index"] for gpu in gpus]
    if None not in indices and sorted(indices) != list(range(len(indices))):
        reading.truncated(f"GPU indices have a gap or repeat: {indices}")
    reading.facts["gpus"] = gpus
    return reading


def _pages(reading: Reading, where: str, key: str, value: Any) -> int | NA | None:
    if isinstance(value, list):
        return len(value)
    text = clean(str(value))
    if _NONE_FOUND.match(text):
        return 0
    absent = na(text)
    if absent:
        return absent
    number = to_number(text)
    if isinstance(number, int):
        return number
    reading.unknown(f"{key}: {text}", where)
    return None
