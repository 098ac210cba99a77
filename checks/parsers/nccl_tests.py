"""``all_reduce_perf`` and its sisters of nccl-tests and rccl-tests: a row a size, out of and in place.

#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw …
  1073741824     268435456     float     sum      -1   3902.1  275.17  481.55      0   3898.4 …
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 480.9
"""

from __future__ import annotations

import re

from checks.parsers._core import Facts, Reading, parser
from checks.parsers._errors import nothing_read
from checks.parsers._values import to_number

_HEADER = re.compile(r"^#\s+size\s+count\b.*\bbusbw\b", re.M)
_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*(\S+)\s*$", re.M)


def _sniff(text: str) -> int:
    return 95 if _HEADER.search(text) else 60 if _AVERAGE.search(text) else 0


@parser("nccl-tests", "nccl-tests", ("all_reduce_perf -b 1G -e 8G -f 2 -g 8",), _sniff)
def parse_nccl_tests(text: str) -> Reading:
    reading = Reading({"rows": None, "average_gb_s": None, "out_of_bounds": None})
    rows: list[Facts] = []
    columns: list[str] = []
    for line in text.split("\n"):
        if _HEADER.match(line):
            columns = line.lstrip("#").split()
        elif columns and re.match(r"^\s*\d+\s", line):
            _row(reading, columns, line, rows)
    if not columns:
        nothing_read(reading, text, "nccl-tests")
        return reading
    average = _AVERAGE.search(text)
    value = to_number(average.group(1)) if average else None
    if not isinstance(value, int | float):
        reading.truncated("the average at the end is missing")
    else:
        reading.facts["average_gb_s"] = float(value)
    bounds = re.search(r"^#\s*Out of bounds values\s*:\s*(\d+)\s+(\w+)", text, re.M)
    if bounds:
        reading.facts["out_of_bounds"] = int(bounds.group(1))
    if not rows:
        reading.truncated("no row of results")
    reading.facts["rows"] = rows
    return reading


def _row(reading: Reading, columns: list[str], line: str, rows: list[Facts]) -> None:
    cells = line.split()
    if len(cells) != len(columns):
        reading.truncated(f"{len(cells)} cells under {len(columns)} columns: {line.strip()[:100]}")
        return
    values = [cell for name, cell in zip(columns, cells, strict=True) if name == "busbw"]
    wrong = [cell for name, cell in zip(columns, cells, strict=True) if name in ("#wrong", "wrong")]
    rates = [to_number(cell) for cell in values]
    if not all(isinstance(rate, int | float) for rate in rates) or not rates:
        reading.unknown(line)
        return
    counts = [int(cell) for cell in wrong if cell.isdigit()]
    rows.append(
        {
            "size": int(cells[columns.index("size")]),
            "busbw_gb_s": float(rates[0]),  # type: ignore[arg-type]
            "in_place_busbw_gb_s": float(rates[-1]),  # type: ignore[arg-type]
            "wrong": sum(counts) if counts else None,
        }
    )
