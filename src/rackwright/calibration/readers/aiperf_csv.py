"""``profile_export_aiperf.csv`` of aiperf: a table of statistics a request, then one of single values.

Written by aiperf's metrics_csv_exporter: ``Metric,avg,min,max,…`` and, after an empty line, ``Metric,Value``;
a name carries its unit, ``Time to First Token (ms)``. The load is not in it.
"""

from __future__ import annotations

import csv
import io

from rackwright.calibration.measurement import Content, Fields, Measurement
from rackwright.errors import InputErrors

NAME = "aiperf CSV"
SHAPE = "profile_export_aiperf.csv: Metric,avg,min,max,…"
WHY = "it is what the estimate is compared with"
INPUT, OUTPUT = "Input Sequence Length (tokens)", "Output Sequence Length (tokens)"
TTFT, ITL, LATENCY = "Time to First Token (ms)", "Inter Token Latency (ms)", "Request Latency (ms)"
TOKENS, REQUESTS = "Output Token Throughput (tokens/sec)", "Request Throughput (requests/sec)"
COUNT, ERRORS = "Request Count", "Error Request Count"


def recognises(content: Content) -> bool:
    head = content.text.lstrip("\ufeff \r\n").partition("\n")[0].strip()
    return content.data is None and head.startswith("Metric,avg,")


def read(content: Content) -> Measurement:
    table: dict[str, object] = {}
    for row in csv.reader(io.StringIO(content.text)):
        if len(row) >= 2 and row[0] and row[0] != "Metric":
            table.setdefault(row[0], _value(row[1]))
    fields = Fields(Content(content.where, content.text, table, content.sha256), WHY)
    errors = fields.optional(ERRORS)
    measurement = Measurement(
        tool="aiperf",
        where=content.where,
        sha256=content.sha256,
        date="",
        model="",
        completed=fields.count(COUNT),
        failed=int(errors or 0),
        input_tokens=fields.positive(INPUT),
        output_tokens=fields.positive(OUTPUT),
        requests_per_s=fields.positive(REQUESTS),
        output_tok_s=fields.positive(TOKENS),
        ttft_ms=fields.positive(TTFT),
        tpot_ms=fields.positive(ITL),
        latency_ms=fields.positive(LATENCY),
    )
    if fields.problems:
        raise InputErrors(fields.problems)
    return measurement


def _value(cell: str) -> object:
    """A number, or the text that should have been one."""
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return cell or None
