"""``nvidia-smi topo -p2p r``: which GPUs may read (w: write, a: atomics, n: NVLink) each other's memory.

A header of GPU names, a row per GPU, cells ``X`` (itself), ``OK``, or why not: ``CNS`` (chipset not
supported), ``GNS`` (GPU not supported), ``TNS`` (topology not supported), ``NS``, ``DR`` (disabled by a
registry key), ``U`` (unknown).  The header carries ANSI underline from driver 590 on.
"""

from __future__ import annotations

import re

from checks.parsers._core import Reading, parser
from checks.parsers._errors import error_code, nothing_read

_CELLS = {"X", "OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}
_ROW = re.compile(r"^\s*GPU(\d+)\s+(\S.*)$")


def _sniff(text: str) -> int:
    row = re.search(r"^\s*GPU\d+(?:\s+(?:X|OK|CNS|GNS|TNS|NS|DR|U))+\s*$", text, re.M)
    return 97 if row and re.search(r"=\s*Status Ok\b", text) else 0


@parser(
    "nvidia-smi-p2p", "nvidia-smi topo -p2p", ("nvidia-smi topo -p2p r", "nvidia-smi topo -p2p w"), _sniff
)
def parse_nvidia_smi_p2p(text: str) -> Reading:
    reading = Reading({"gpus": None, "peers": None})
    names: list[str] = []
    rows: list[list[str]] = []
    for line in text.split("\n"):
        words = line.split()
        if not words or re.match(r"^\s*Legend\b", line) or re.match(r"^\s*[A-Z]+\s+=\s", line):
            continue
        if not names and all(re.fullmatch(r"GPU\d+", word) for word in words):
            names = words
            continue
        row = _ROW.match(line)
        if row and names:
            cells = row.group(2).split()
            if int(row.group(1)) != len(rows) or len(cells) != len(names) or set(cells) - _CELLS:
                reading.unknown(line)
            rows.append(cells)
            continue
        error = error_code(line)
        if error:
            reading.reject(error[0], error[1], line.strip())
        else:
            reading.unknown(line)
    if not names:
        reading.problems.clear()
        nothing_read(reading, text, "nvidia-smi topo -p2p")
        return reading
    if len(rows) != len(names):
        reading.truncated(f"{len(rows)} rows under {len(names)} GPUs")
    elif names != [f"GPU{n}" for n in range(len(names))]:
        reading.unknown(" ".join(names))
    elif reading.understood and any(row[at] != "X" for at, row in enumerate(rows)):
        reading.contradiction("a GPU is not X to itself")
    if not re.search(r"=\s*Status Ok\b", text):
        reading.truncated("the legend is missing")
    reading.facts.update(gpus=len(names), peers=rows)
    return reading
