"""``nvidia-smi nvlink -s``: a line per GPU and, indented, a line per NVLink with its speed.

Speeds are GB/s per link and direction (25 on A100, 26.562 on H100, 53.125 on B200), without decimals
where there are none.  A link that is down prints ``<inactive>``.

Traps: a board without NVLink prints a sentence (``Device does not have or support Nvlink``), one with all
links down ``Unable to retrieve NVLink information as all links are inActive`` (several spellings), one in
MIG mode or without permission refuses the query: then nothing is known about its links.
"""

from __future__ import annotations

import re

from checks.parsers._core import NA, Facts, Reading, parser
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._nvidia import check_indices
from checks.parsers._values import is_fault, na, to_number

_GPU = re.compile(r"^GPU (\d+):\s+(.*?)\s*\(UUID:\s*([^()\s]+)\)\s*$")
_LINK = re.compile(r"^\s+Link (\d+):\s*(.*?)\s*$")
_SPEED = re.compile(r"^(\d+(?:[.,]\d+)?)\s*GB/s$")
_INACTIVE = re.compile(r"^<?\s*inactive\s*>?$", re.I)
_ALL_INACTIVE = re.compile(r"all links are in-?active", re.I)
_UNSUPPORTED = re.compile(
    r"does(?: not|n't) (?:have or )?support nvlink|nvlink is not supported|no nvlinks?\b"
    r"|does not have(?: or support)? nvlink|nvlink not supported",
    re.I,
)
_REFUSED = re.compile(
    r"not supported for devices in mig mode|insufficient permissions?|no permission|not permitted"
    r"|mig mode|permission denied",
    re.I,
)


def _sniff(text: str) -> int:
    if not re.search(r"^GPU \d+:", text, re.M):
        return 0
    if re.search(r"^\s+Link \d+:\s*(?:\d+(?:[.,]\d+)?\s*GB/s|<?inactive>?)", text, re.M | re.I):
        return 95
    return 85 if re.search(r"nvlink", text, re.I) or re.search(r"^\s+Link \d+:", text, re.M) else 0


def _new(index: int) -> Facts:
    return {
        "index": index,
        "links_total": None,
        "links_active": None,
        "links_inactive": None,
        "speed_gb_s": None,
        "supported": None,
    }


@parser("nvidia-smi-nvlink", "nvidia-smi nvlink -s", ("nvidia-smi nvlink -s",), _sniff)
def parse_nvidia_smi_nvlink(text: str) -> Reading:
    reading = Reading({"gpus": None})
    gpus: list[Facts] = []
    products: list[str] = []
    links: list[dict[int, int | float | NA | None]] = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        gpu = _GPU.match(line)
        if gpu:
            gpus.append(_new(int(gpu.group(1))))
            products.append(gpu.group(2))
            links.append({})
        elif not gpus:
            error = error_code(line)
            if error:
                reading.problem(error[0], error[1], line.strip())
            elif not re.match(r"\s*(?:warning\b|note\b|#)", line, re.I):
                reading.unknown(line)
        else:
            _read_line(reading, gpus[-1], links[-1], line)
    if not gpus:
        reading.problems.clear()
        nothing_read(reading, text, "nvidia-smi nvlink -s")
        return reading
    last = text.rsplit("\n", 1)[-1]
    if last and not last.strip():
        reading.truncated("the last line is cut")
    for gpu_facts, found in zip(gpus, links, strict=True):
        _finish(reading, gpu_facts, found)
    reading.facts["gpus"] = gpus
    check_indices(reading, gpus)
    for product in set(products):
        totals = {
            gpu["links_total"]
            for gpu, name in zip(gpus, products, strict=True)
            if name == product and gpu["links_total"] is not None
        }
        if len(totals) > 1:
            reading.contradiction(f"GPUs {product} with {' and '.join(map(str, sorted(totals)))} links")
    return reading


def _read_line(reading: Reading, gpu: Facts, found: dict[int, int | float | NA | None], line: str) -> None:
    where = f"gpu {gpu['index']}"
    link = _LINK.match(line)
    if link:
        number, value = int(link.group(1)), link.group(2)
        if number in found:
            reading.contradiction(f"link {number} stands twice", where)
        speed = _SPEED.match(value)
        absent = na(value)
        if speed:
            found[number] = to_number(speed.group(1))
        elif _INACTIVE.match(value):
            found[number] = None
        elif absent:
            found[number] = absent
            if is_fault(absent):
                reading.problem("nvlink-links", where, f"{where}: {line.strip()}")
        else:
            reading.unknown(line, where)
    elif _ALL_INACTIVE.search(line):
        gpu["supported"], gpu["links_active"] = True, 0
        reading.problem("nvlink-links", where, f"{where}: {line.strip()}")
    elif _REFUSED.search(line):
        gpu["supported"] = NA(line.strip())
    elif _UNSUPPORTED.search(line):
        gpu["supported"] = False
    elif error_code(line):
        code, at = error_code(line) or ("output-error", where)
        reading.reject(code, at, line.strip())
    elif not re.match(r"\s*(?:warning\b|note\b|#)", line, re.I):
        reading.unknown(line, where)


def _finish(reading: Reading, gpu: Facts, found: dict[int, int | float | NA | None]) -> None:
    where = f"gpu {gpu['index']}"
    if not found:
        if gpu["supported"] is None:
            reading.truncated(f"GPU {gpu['index']} without a line about its links", where)
        return
    if gpu["supported"] is not None:
        reading.contradiction("links are listed and denied", where)
    numbers = sorted(found)
    if numbers != list(range(len(numbers))):
        reading.truncated(f"links have a gap: {numbers}", where)
    elif len(numbers) > 1 and len(numbers) % 2:
        reading.truncated(f"{len(numbers)} links: NVLinks come in even numbers", where)
    speeds = [found[number] for number in numbers]
    down = [number for number in numbers if found[number] is None]
    gpu["supported"] = True
    gpu["links_total"] = len(speeds)
    gpu["links_active"] = sum(speed is not None and not isinstance(speed, NA) for speed in speeds)
    gpu["links_inactive"] = len(down)
    gpu["speed_gb_s"] = speeds
    if down:
        reading.problem("nvlink-links", where, f"{where}: inactive links {', '.join(map(str, down))}")
