"""Error messages that tools print instead of, or between, their output."""

from __future__ import annotations

import re

from checks.parsers._core import Reading, shorten

_HANDLE = re.compile(
    r"Unable to determine the device handle for\s+(?:gpu)?\s*([0-9A-Fa-f:.]+)\s*:\s*(.*)", re.I
)
_INFOROM = re.compile(r"infoROM is corrupted at gpu\s+(\S+)", re.I)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bGPU(?: \S+)? is lost\b", re.I), "gpu-lost"),
    (re.compile(r"has fallen off the bus", re.I), "gpu-lost"),
    (re.compile(r"^\W*No (?:devices|GPUs?) (?:were |was )?found", re.I), "gpu-lost"),
    (re.compile(r"\bGPU requires reset\b", re.I), "gpu-recovery"),
    (re.compile(r"couldn't communicate with the NVIDIA driver", re.I), "gpu-driver"),
    (re.compile(r"Failed to initialize NVML", re.I), "gpu-driver"),
    (re.compile(r"Driver/library version mismatch", re.I), "gpu-driver"),
    (re.compile(r"Failed to properly shut down NVML", re.I), "gpu-driver"),
    (re.compile(r"(?:libnvidia-ml|NVML).*(?:not found|could not be (?:found|loaded))", re.I), "gpu-driver"),
    (re.compile(r"^\s*(?:Unable|Failed) to (?:\w+)\b", re.I), "output-error"),
    (
        re.compile(r"command not found|: not found$|No such file or directory|Permission denied", re.I),
        "output-error",
    ),
    (re.compile(r"^\s*ERROR\b[ :]", re.I), "output-error"),
    (re.compile(r"^\s*(?:ibpanic|ibwarn):", re.I), "output-error"),
    (re.compile(r"^\s*Traceback \(most recent call last\)"), "output-error"),
    (re.compile(r"Segmentation fault|core dumped|Operation not permitted", re.I), "output-error"),
    (re.compile(r"^\s*(?:Could not|Cannot) (?:open|connect)\b", re.I), "output-error"),
    (re.compile(r"^\s*(?:timeout|Terminated|Killed)\s*:?\s*$", re.I), "output-error"),
)


_HINT = re.compile(
    r"unable|lost|bus|found|reset|nvml|nvidia driver|mismatch|fail|error|permi|directory|panic"
    r"|warn|trace|fault|core|could|cannot|time|kill|termin|inforom",
    re.I,
)


def error_code(line: str) -> tuple[str, str] | None:
    """(code, where) if ``line`` is an error message of a tool, else None."""
    if not _HINT.search(line):
        return None
    handle = _HANDLE.search(line)
    if handle:
        return "gpu-lost", f"gpu {handle.group(1).rstrip(':.')}"
    inforom = _INFOROM.search(line)
    if inforom:
        return "gpu-inforom", f"gpu {inforom.group(1)}"
    for pattern, code in _RULES:
        if pattern.search(line):
            address = re.search(r"\b(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]\b", line)
            return code, f"gpu {address.group(0)}" if address and code.startswith("gpu") else "output"
    return None


def tool_errors(reading: Reading, text: str, limit: int = 20) -> int:
    """Report the error messages in ``text``; how many lines were errors."""
    count = 0
    for line in text.split("\n"):
        if len(line) > 2000:
            continue
        found = error_code(line)
        if found:
            count += 1
            if count <= limit:
                reading.problem(found[0], found[1], shorten(line))
    return count


def nothing_read(reading: Reading, text: str, kind: str) -> None:
    """Reject an output in which nothing of its kind was found, naming the error it holds instead."""
    before = len(reading.problems)
    tool_errors(reading, text)
    reading.understood = False
    if len(reading.problems) == before:
        lines = [line for line in text.split("\n") if line.strip()]
        first = f"no {kind} output; first line: {shorten(lines[0])}" if lines else "the output is empty"
        reading.problem("output-unknown", "output", first)
