"""``nvidia-smi topo -m`` (and ``-mp``): how GPUs and NICs are connected.

A header of GPU and NIC names with CPU and NUMA affinity, a tab-separated row per device, a legend of the
connections and, where NICs are called NIC0, NIC1, ..., a NIC legend with their device names.  Cells are
``X`` (itself), ``NV#`` (# bonded NVLinks), ``PIX``, ``PXB``, ``PHB``, ``NODE``, ``SYS`` (``SOC`` and ``PSB``
on old drivers).

Traps: the header is wrapped in ANSI underline from driver 590 on, may begin with blanks, be wrapped over
two lines or have names glued together (``NIC11NIC12``, ``NIC11CPU Affinity``); before 525 the header names
the devices themselves (``mlx5_0``); the row's NUMA cell is followed by an empty one; NUMA affinity may be
N/A or a range; rows of NICs have no affinity; NIC0 need not be mlx5_0.
"""

from __future__ import annotations

import re
from typing import Any

from checks.parsers._core import NA, Reading, parser
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._values import na, to_number

_AFFINITY = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_TOKEN = re.compile(
    r"CPU Affinity|NUMA Affinity|GPU NUMA ID|GPU\d+|NIC\d+(?=NIC|GPU|CPU|NUMA|\s|$)"
    r"|(?:mlx\d|bnxt_re|irdma|efa|hfi\d|ionic|roce|ibp)\w*?(?=mlx\d_|NIC\d|CPU Aff|NUMA Aff|GPU NUMA|\s|$)"
    r"|\S+?(?=(?:CPU|NUMA) Affinity|GPU NUMA ID|\s|$)"
)
_CELL = re.compile(r"^(?:X|SYS|NODE|PHB|PXB|PIX|PSB|SOC|NV\d+|C2C|CPX|N/A)$")
_ROW = re.compile(r"^\s*(GPU\d+|NIC\d+|[A-Za-z]\w*)\s+(\S.*)$")
_NIC_LEGEND = re.compile(r"^\s+(NIC\d+)\s*:\s*(\S+)\s*$")


def _header_tokens(line: str) -> list[str]:
    return [token.strip() for token in _TOKEN.findall(line) if token.strip()]


def _is_header(tokens: list[str]) -> bool:
    """GPU names counting up from GPU0, nothing that is a cell or a sentence."""
    gpus = [token for token in tokens if re.fullmatch(r"GPU\d+", token)]
    if not gpus or gpus != [f"GPU{number}" for number in range(len(gpus))]:
        return False
    if any(_CELL.match(token) or not re.fullmatch(r"[\w.:-]+(?: \w+)*", token) for token in tokens):
        return False
    return tokens[0] == "GPU0" and (
        len(gpus) == len(tokens) or any(t in _AFFINITY for t in tokens) or len(tokens) > 1
    )


def _sniff(text: str) -> int:
    lines = text.split("\n")[:60]
    rows = [
        line
        for line in lines
        if re.match(r"^\s*GPU\d+\s+(?:X|NV\d+|SYS|NODE|PHB|PXB|PIX|PSB|SOC)\s", line + " ")
    ]
    if not rows:  # what Windows prints instead of a matrix
        return 20 if re.match(r"\s*ERROR: Option -m is missing its value\b", text) else 0
    return 95 if any(_is_header(_header_tokens(line)) for line in lines if "GPU0" in line) else 60


def _split_row(line: str) -> tuple[str, list[str]] | None:
    """(name, cells) of a row; tabs separate where there are any, else blanks."""
    match = _ROW.match(line)
    if not match:
        return None
    rest = line[line.index(match.group(1)) + len(match.group(1)) :]
    if "\t" in rest:
        cells = [cell.strip() for cell in rest.split("\t")]
        if cells and not cells[0]:
            cells = cells[1:]
        if any(" " in cell for cell in cells):
            cells = [word for cell in cells for word in (cell.split() or [""])]
    else:
        cells = rest.split()
    return match.group(1), cells


def _affinity(cell: str | None) -> Any:
    if cell is None or not cell:
        return None
    return na(cell) or cell


def _numa(cell: str | None) -> Any:
    value = _affinity(cell)
    if isinstance(value, str):
        number = to_number(value)
        return value if number is None else number
    return value


@parser("nvidia-smi-topo", "nvidia-smi topo -m", ("nvidia-smi topo -m",), _sniff)
def parse_nvidia_smi_topo(text: str) -> Reading:
    names = ("gpus", "nics", "nic_names", "links", "gpu_nic", "cpu_affinity", "numa_affinity")
    reading = Reading(dict.fromkeys(names))
    lines = text.split("\n")
    columns, start = _find_header(lines)
    if columns is None:
        nothing_read(reading, text, "nvidia-smi topo -m")
        return reading
    devices = [name for name in columns if name not in _AFFINITY]
    gpu_names = [name for name in devices if re.fullmatch(r"GPU\d+", name)]
    nic_names = [name for name in devices if name not in gpu_names]
    if len(set(columns)) != len(columns):
        reading.contradiction("a column stands twice in the header")
    rows: dict[str, list[str]] = {}
    legend: dict[str, str] = {}
    legend_seen = False
    for line in lines[start:]:
        stripped = line.strip()
        if not stripped:
            continue
        if re.match(r"^\s*NIC Legend\s*:", line):
            legend_seen = True
            continue
        entry = _NIC_LEGEND.match(line)
        if entry:
            legend[entry.group(1)] = entry.group(2)
            continue
        if stripped == "Legend:" or re.match(r"^\s*(?:X|SYS|NODE|PHB|PXB|PIX|PSB|SOC|NV#|C2C)\s+=", line):
            continue
        row = _split_row(line)
        if row and row[0] in devices:
            if row[0] in rows:
                reading.contradiction(f"two rows for {row[0]}")
            rows[row[0]] = row[1]
            _check_cells(reading, row[0], row[1], devices)
            continue
        error = error_code(line)
        if error:
            reading.reject(error[0], error[1], stripped)
        elif not re.match(r"\s*(?:warning\b|note\b|#|\*)", line, re.I):
            reading.unknown(line)
    _fill(reading, columns, gpu_names, nic_names, rows)
    missing = [name for name in nic_names if name not in rows]
    if missing and len(missing) < len(nic_names):
        reading.truncated(f"rows missing: {', '.join(missing)}")
    if legend_seen or legend:
        reading.facts["nic_names"] = legend
        if set(legend) != {name for name in nic_names if name.startswith("NIC")}:
            reading.truncated(f"the NIC legend names {len(legend)} of {len(nic_names)} NICs")
    return reading


def _find_header(lines: list[str]) -> tuple[list[str] | None, int]:
    for number, line in enumerate(lines):
        if "GPU0" not in line or len(line) > 20_000:
            continue
        tokens = _header_tokens(line)
        after = number + 1
        if (
            tokens == ["GPU0"]
            and after < len(lines)
            and re.match(r"^\s*(?:GPU1|NIC0|\w+_\d+)\s", lines[after] + " ")
        ):
            more = _header_tokens(lines[after])
            if more and not any(_CELL.match(token) for token in more):
                tokens, after = tokens + more, after + 1
        if _is_header(tokens):
            return tokens, after
    return None, 0


def _check_cells(reading: Reading, name: str, cells: list[str], devices: list[str]) -> None:
    matrix = cells[: len(devices)]
    if len(matrix) < len(devices) or not matrix[-1]:
        reading.truncated(
            f"row {name} has {len([c for c in matrix if c])} cells for {len(devices)} devices", name
        )
    for cell in matrix:
        if cell and not _CELL.match(cell):
            reading.unknown(f"cell {cell!r} in row {name}", name)


def _fill(
    reading: Reading,
    columns: list[str],
    gpu_names: list[str],
    nic_names: list[str],
    rows: dict[str, list[str]],
) -> None:
    devices = [name for name in columns if name not in _AFFINITY]
    missing = [name for name in gpu_names if name not in rows]
    if missing:
        reading.truncated(f"rows missing: {', '.join(missing)}")
    if any(name in _AFFINITY for name in columns) and columns.index(devices[-1]) != len(devices) - 1:
        reading.contradiction("an affinity column stands among the devices")
    extra = columns[len(devices) :]
    at = {name: number for number, name in enumerate(devices)}

    def cell(row: str, column: str) -> str | None:
        cells = rows.get(row, [])
        return cells[at[column]] if at[column] < len(cells) and cells[at[column]] else None

    links = [[cell(row, column) for column in gpu_names] for row in gpu_names]
    facts = reading.facts
    facts["gpus"], facts["nics"] = len(gpu_names), len(nic_names)
    facts["links"] = links
    facts["gpu_nic"] = [[cell(row, column) for column in nic_names] for row in gpu_names]
    tails = [rows.get(name, [])[len(devices) :] for name in gpu_names]

    def tail(position: int) -> list[str | None]:
        return [cells[position] if position < len(cells) else None for cells in tails]

    if "CPU Affinity" in extra:
        facts["cpu_affinity"] = [_affinity(cell) for cell in tail(extra.index("CPU Affinity"))]
        if any(value is None for value in facts["cpu_affinity"]):
            reading.truncated("a GPU's row has no CPU affinity")
    if "NUMA Affinity" in extra:
        facts["numa_affinity"] = [_numa(cell) for cell in tail(extra.index("NUMA Affinity"))]
        if any(value is None for value in facts["numa_affinity"]):
            reading.truncated("a GPU's row has no NUMA affinity")
        for value in facts["numa_affinity"]:
            if not isinstance(value, int | NA | None) and not re.fullmatch(r"\d+(?:[-,]\d+)*", str(value)):
                reading.unknown(f"NUMA affinity {value!r}")
    _check_links(reading, gpu_names, links)
    for row in [*gpu_names, *nic_names]:
        for column in devices:
            there, back = cell(row, column), cell(column, row)
            if there and back and there != back:
                reading.contradiction(f"{row}-{column} is {there}, the other way {back}")


def _check_links(reading: Reading, names: list[str], links: list[list[str | None]]) -> None:
    for a, name in enumerate(names):
        for b, value in enumerate(links[a]):
            if value is None:
                continue
            if (a == b) != (value == "X"):
                reading.contradiction(f"{name}-{names[b]} is {value}")
    if len(names) < 4:
        return
    bonded = [{b for b, value in enumerate(row) if value and value.startswith("NV")} for row in links]
    for a, name in enumerate(names):
        others = set(range(len(names))) - {a}
        if not bonded[a] and all(bonded[b] >= others - {b} for b in others):
            reading.problem("nvlink-links", f"gpu {a}", f"{name} has no NVLink to any GPU, all others have")
