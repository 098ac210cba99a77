"""``ib_write_bw`` (perftest) and ``ibv_rc_pingpong`` (rdma-core): what one run between two hosts measured.

 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    140256           0.00               391.98               0.046728

8192000 bytes in 0.01 seconds = 6912.34 Mbit/sec
1000 iters in 0.01 seconds = 9.48 usec/iter
"""

from __future__ import annotations

import re

from checks.parsers._core import Facts, Reading, parser
from checks.parsers._errors import nothing_read
from checks.parsers._values import to_number

_COLUMNS = re.compile(r"#\w+|BW \w+\[[^\]]+\]|\w+\[[^\]]+\]|\S+")
_GBPS = {"Gb/sec": 1.0, "MiB/sec": 8 * 2**20 / 1e9, "MB/sec": 8e6 / 1e9}


def _sniff(text: str) -> int:
    return 95 if re.search(r"^\s*#bytes\s+#iterations\s+BW ", text, re.M) else 0


@parser("ib-write-bw", "ib_write_bw", ("ib_write_bw -F --report_gbits",), _sniff, aliases=("ib-read-bw",))
def parse_write_bw(text: str) -> Reading:
    reading = Reading({"rows": None, "average_gbps": None})
    rows: list[Facts] = []
    at, factor, width = -1, 0.0, 0
    for line in text.split("\n"):
        if re.match(r"^\s*#bytes\s+#iterations", line):
            names = _COLUMNS.findall(line.strip())
            width = len(names)
            at = next((n for n, name in enumerate(names) if name.startswith("BW average[")), -1)
            factor = _GBPS.get(names[at][len("BW average[") : -1], 0.0) if at >= 0 else 0.0
            if not factor:
                reading.unknown(line)
        elif factor and re.match(r"^\s*\d+\s+\d+\s", line):
            cells = line.split()
            value = to_number(cells[at]) if len(cells) == width else None
            if not isinstance(value, int | float):
                reading.unknown(line)
            else:
                rows.append({"bytes": int(cells[0]), "average_gbps": value * factor})
    if not width:
        nothing_read(reading, text, "ib_write_bw")
        return reading
    if not rows:
        reading.truncated("no row of results")
    else:
        reading.facts["rows"] = rows
        reading.facts["average_gbps"] = rows[-1]["average_gbps"]
    return reading


MEASURES = {"ib-write": ("ib-write-bw", "average_gbps"), "ib-pingpong": ("ibv-pingpong", "microseconds")}
"""Command key to the kind of its output and the fact that two hosts are compared by."""

_PINGPONG = re.compile(r"^\s*(\d+) iters in ([\d.]+) seconds = ([\d.]+) usec/iter\s*$", re.M)


def _sniff_pingpong(text: str) -> int:
    return 95 if _PINGPONG.search(text) else 0


@parser("ibv-pingpong", "ibv_rc_pingpong", ("ibv_rc_pingpong -d mlx5_0 HOST",), _sniff_pingpong)
def parse_pingpong(text: str) -> Reading:
    reading = Reading({"iterations": None, "microseconds": None, "mbit_s": None})
    found = _PINGPONG.search(text)
    rate = re.search(r"^\s*\d+ bytes in [\d.]+ seconds = ([\d.]+) Mbit/sec\s*$", text, re.M)
    if found is None:
        if rate is None:
            nothing_read(reading, text, "ibv_rc_pingpong")
        else:
            reading.truncated("the time of an iteration is missing")
        return reading
    reading.facts |= {"iterations": int(found.group(1)), "microseconds": float(found.group(3))}
    if rate is not None:
        reading.facts["mbit_s"] = float(rate.group(1))
    return reading
