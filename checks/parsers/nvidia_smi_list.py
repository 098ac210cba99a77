"""``nvidia-smi -L`` and ``nvidia-smi --version``.

``-L`` prints a line per GPU, ``GPU 0: NAME (UUID: GPU-...)``, and under it, indented, a line per MIG
device, ``MIG 3g.40gb     Device  0: (UUID: MIG-...)``.  A GPU that cannot be opened prints an error line
instead.  ``--version`` (since 535) prints four ``name : version`` lines; driver 610 names them KMD and
CUDA UMD version.
"""

from __future__ import annotations

import re

from checks.parsers._core import Facts, Reading, parser
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._nvidia import check_indices, version
from checks.parsers._values import clean

_GPU = re.compile(r"^GPU (\d+):\s+(.*?)\s+\(UUID:\s*([^()\s]+)\)\s*$")
_MIG = re.compile(r"^\s+MIG\s+(\S+)\s+Device\s+(\d+):\s*\(UUID:\s*([^()\s]+)\)\s*$")
_VERSION = re.compile(
    r"^\s*(NVIDIA-SMI|NVML|DRIVER|KMD|CUDA|CUDA UMD|CUDA Driver)\s+version\s*:\s*(.*)$", re.I
)


def _harmless(line: str) -> bool:
    return bool(re.match(r"\s*(?:warning\b|note\b|#)", line, re.I))


def _sniff_list(text: str) -> int:
    lines = [line for line in text.split("\n") if line.strip()]
    hits = sum(bool(_GPU.match(line) or _MIG.match(line)) for line in lines[:200])
    if not hits or any(re.match(r"\s+Link \d+", line) or "nvlink" in line.lower() for line in lines[:100]):
        return 0
    return 80 if hits * 2 >= min(len(lines), 200) else 0


@parser("nvidia-smi-L", "nvidia-smi -L", ("nvidia-smi -L",), _sniff_list)
def parse_nvidia_smi_list(text: str) -> Reading:
    reading = Reading({"gpus": None})
    gpus: list[Facts] = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        gpu, mig, error = _GPU.match(line), _MIG.match(line), error_code(line)
        if gpu:
            gpus.append(
                {"index": int(gpu.group(1)), "product": gpu.group(2), "uuid": gpu.group(3), "mig_devices": []}
            )
        elif mig and gpus:
            if int(mig.group(2)) != len(gpus[-1]["mig_devices"]):
                reading.truncated(
                    f"MIG devices have a gap before: {line.strip()}", f"gpu {gpus[-1]['index']}"
                )
            gpus[-1]["mig_devices"].append(mig.group(1))
        elif error:
            reading.problem(error[0], error[1], line.strip())
        elif not _harmless(line):
            reading.unknown(line)
    if not gpus:
        reading.problems.clear()
        nothing_read(reading, text, "nvidia-smi -L")
        return reading
    reading.facts["gpus"] = gpus
    check_indices(reading, gpus)
    uuids = [gpu["uuid"] for gpu in gpus]
    if len(set(uuids)) != len(uuids) and not all(set(uuid) <= set("GPU-0") for uuid in uuids):
        reading.contradiction("two GPUs have the same UUID")
    return reading


def _sniff_version(text: str) -> int:
    lines = [line for line in text.split("\n")[:40] if line.strip()]
    hits = sum(bool(_VERSION.match(line)) for line in lines)
    return 90 if hits >= 2 and hits * 2 >= len(lines) else 0


@parser("nvidia-smi-version", "nvidia-smi --version", ("nvidia-smi --version",), _sniff_version)
def parse_nvidia_smi_version(text: str) -> Reading:
    reading = Reading({"driver_version": None, "cuda_version": None, "nvml_version": None})
    found: dict[str, str] = {}
    for line in text.split("\n"):
        match = _VERSION.match(line)
        if match:
            name, value = match.group(1).upper(), clean(match.group(2))
            if found.setdefault(name, value) != value:
                reading.contradiction(f"printed twice: {line.strip()}")
            if not value:
                reading.truncated(f"no value: {line.strip()}")
        elif line.strip() and not _harmless(line):
            error = error_code(line)
            if error:
                reading.problem(error[0], error[1], line.strip())
            else:
                reading.unknown(line)
    if not found:
        reading.problems.clear()
        nothing_read(reading, text, "nvidia-smi --version")
        return reading
    facts = reading.facts
    facts["driver_version"] = version(found.get("DRIVER") or found.get("KMD"))
    facts["cuda_version"] = version(found.get("CUDA") or found.get("CUDA UMD") or found.get("CUDA DRIVER"))
    facts["nvml_version"] = version(found.get("NVML"))
    for name, value in facts.items():
        if value is None:
            reading.truncated(f"no {name.replace('_', ' ')}")
    return reading
