"""The management controller: ``ipmitool dcmi power reading``, sensors, system event log.

Sensors come in four shapes: ``ipmitool sdr`` (name | reading | status), ``sdr elist`` (name | id | status |
entity | reading), ``ipmitool sensor`` (name | value | unit | status | six thresholds) and FreeIPMI's
``ipmi-sensors`` (ID, Name, Type, [State,] Reading, Units, Event; comma or pipe separated, a header or none).

Traps: dcmi says 0 Watts and deactivated where there is no reading, but OpenBMC says deactivated with a real
one; lines may be joined; ``ns`` and No Reading are absences, 0 Amps is a value; two sensors may have one
name; ``110 Watts, Presence detected`` is a number with a remark; a deasserted event is over.
"""

from __future__ import annotations

import csv
import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from checks.parsers._core import NA, Facts, Problem, Reading, parser, shorten
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._values import na, to_number

_DCMI = {
    "power_w": "Instantaneous power reading",
    "min_w": "Minimum during sampling period",
    "max_w": "Maximum during sampling period",
    "avg_w": "Average power reading over sample period",
}
# What begins a value's line, or, where lines were joined, ends the value before it.
_DCMI_LABEL = re.compile(
    r"(?P<name>Instantaneous power reading|Minimum during sampling period|Maximum during sampling period"
    r"|Average power reading over sample period|IPMI timestamp|Sampling period)[ \t]{0,80}:"
)
_LONGEST_VALUE = 100
_STATE = re.compile(r"Power reading state is\s*:\s*([A-Za-z]+)")


def _sniff_dcmi(text: str) -> int:
    return 95 if re.search(r"Instantaneous power reading\s*:|Power reading state is\s*:", text) else 0


def _dcmi_values(text: str) -> dict[str, list[str]]:
    """Label to what stands behind it on its line, up to the next label."""
    values: dict[str, list[str]] = {}
    for line in text.split("\n"):
        marks = list(_DCMI_LABEL.finditer(line))
        for mark, end in zip(marks, [*(m.start() for m in marks[1:]), len(line)], strict=False):
            value = line[mark.end() : end].strip()
            values.setdefault(mark["name"], []).append(value[:_LONGEST_VALUE])
    return values


@parser("ipmitool-dcmi", "ipmitool dcmi power reading", ("ipmitool dcmi power reading",), _sniff_dcmi)
def parse_dcmi(text: str) -> Reading:
    reading = Reading({"power_w": None, "min_w": None, "max_w": None, "avg_w": None, "state": None})
    if not _sniff_dcmi(text):
        nothing_read(reading, text, "ipmitool dcmi power reading")
        return reading
    facts = reading.facts
    printed = _dcmi_values(text)
    for fact, label in _DCMI.items():
        found = printed.get(label)
        if not found:
            reading.truncated(f"no line {label}")
            continue
        if len(set(found)) > 1:
            reading.contradiction(f"printed twice: {', '.join(found[:4])}")
        value = found[0]
        match = re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*(?:Watts|W)", value)
        if match:
            facts[fact] = to_number(match.group(1))
        elif na(value):
            facts[fact] = na(value)
        else:
            reading.truncated(f"no watts: {value or '(nothing)'}")
    state = _STATE.search(text)
    if state is None:
        reading.truncated("no line Power reading state")
    else:
        facts["state"] = state.group(1)
        if facts["state"].lower() not in {"activated", "deactivated"}:
            reading.unknown(f"Power reading state is: {facts['state']}")
    if facts["power_w"] == 0:
        if state is not None and facts["state"].lower() == "deactivated":
            facts["power_w"] = None
        reading.problem("bmc-power", "bmc", f"0 Watts is no reading (state {facts['state']})")
    for line in text.split("\n"):
        error = error_code(line)
        if error:
            reading.problem(error[0], "bmc", line.strip())
    return reading


# --- sensors ------------------------------------------------------------------------------------------------

_DATE = re.compile(r"^(?:\d{1,2}/\d{1,2}/\d{2,4}|\d{4}-\d\d-\d\d|Pre-Init.*)$", re.I)
_READING = re.compile(r"^(-?\d+(?:[.,]\d+)?)\s*(%|percent|[A-Za-z][A-Za-z /]*?)?\s*(?:,\s*(.*))?$")
_LONGEST_CELL = 200
_ABSENT = {"no reading", "na", "n/a", "not readable", "disabled", "not available", "unspecified", "ns"}
_BAD_STATUS = {"cr", "nr", "lcr", "ucr", "lnr", "unr", "critical", "failed", "non-recoverable"}
_BAD_TEXT = re.compile(
    r"redundancy lost|redundancy degraded|failure detected|predictive failure|\bac lost\b|input lost"
    r"|non-?recoverable|(?<!non-)(?<!non )\bcritical\b|thermal trip|\bdrive fault\b|configuration error"
    r"|transition to (?:critical|non-recoverable)",
    re.I,
)


def _absent(text: str) -> NA | None:
    return NA(text.strip()) if text.strip().lower() in _ABSENT else None


def _measured(text: str) -> tuple[Any, str | None]:
    """(value, unit) of a cell like ``110 Watts, Presence detected``."""
    text = text.strip()
    if not text:
        return None, None
    absent = _absent(text)
    if absent:
        return absent, None
    match = _READING.match(text) if len(text) <= _LONGEST_CELL else None
    if match:
        return to_number(match.group(1)), (match.group(2) or "").strip() or None
    return text, None


def _sensor(name: str, value: Any, unit: str | None, status: str | None) -> Facts:
    return {"name": name, "value": value, "unit": unit, "status": status or None}


def _pipe_row(cells: list[str]) -> Facts | None:
    if len(cells) == 3:
        value, unit = _measured(cells[1])
        return _sensor(cells[0], value, unit, cells[2])
    if len(cells) == 5 and re.fullmatch(r"[0-9A-Fa-f]{2}h", cells[1]):
        value, unit = _measured(cells[4])
        return _sensor(cells[0], value, unit, cells[2])
    if len(cells) == 10:
        absent = _absent(cells[1])
        number = to_number(cells[1]) if cells[2].lower() != "discrete" else None
        shown: Any = absent or (cells[1] or None if number is None else number)
        return _sensor(cells[0], shown, cells[2] or None, cells[3])
    return None


_FREEIPMI_HEADER = {"id", "name", "type", "reading", "units", "event"}
_DEFAULT_COLUMNS = {
    6: ["id", "name", "type", "reading", "units", "event"],
    7: ["id", "name", "type", "state", "reading", "units", "event"],
}


def _events(text: str) -> str:
    quoted = re.findall(r"'([^']*)'", text)
    return ", ".join(quoted) if quoted else text.strip()


def _freeipmi_row(cells: list[str], columns: list[str]) -> Facts:
    row = dict(zip(columns, cells, strict=False))
    printed = row.get("reading", "")
    absent = _absent(printed)
    number = to_number(printed)
    value: Any = absent or (printed or None if number is None else number)
    units = row.get("units", "")
    return _sensor(
        row.get("name", ""), value, None if _absent(units) else units or None, _events(row.get("event", ""))
    )


def _split(line: str) -> list[str]:
    if len(line) > 4000:
        return [line]
    if "|" in line:
        return [cell.strip() for cell in line.split("|")]
    return [cell.strip() for cell in next(csv.reader([line]), [])]


def _is_freeipmi(line: str) -> bool:
    cells = _split(line)
    if len(cells) not in _DEFAULT_COLUMNS or not cells[0].isdigit():
        return False
    return not re.fullmatch(r"[0-9A-Fa-f]{2}h", cells[1]) and not _DATE.match(cells[1])


def _sniff_sensors(text: str) -> int:
    lines = [line for line in text.split("\n")[:300] if line.strip()]
    if not lines:
        return 0
    good = 0
    for line in lines:
        cells = _split(line)
        if "|" in line and re.match(r"^\s*[0-9a-f]+\s*\|\s*(?:\d\d/\d\d/\d{2,4}|Pre-Init)", line, re.I):
            return 0
        if (
            ("|" in line and len(cells) in {5, 10} and _pipe_row(cells))
            or (
                "|" in line
                and len(cells) == 3
                and re.fullmatch(r"ok|ns|nc|cr|nr|na|lnc|unc|lcr|ucr", cells[2], re.I)
            )
            or _is_freeipmi(line)
            or {cell.lower() for cell in cells} >= _FREEIPMI_HEADER
        ):
            good += 1
    return 80 if good * 2 > len(lines) else 0


@parser(
    "ipmitool-sensors",
    "BMC sensors (ipmitool sdr, ipmitool sensor, ipmi-sensors)",
    ("ipmitool sdr elist", "ipmitool sensor", "ipmi-sensors --comma-separated-output"),
    _sniff_sensors,
    aliases=("ipmi-sensors",),
)
def parse_sensors(text: str) -> Reading:
    reading = Reading({"sensors": None})
    sensors: list[Facts] = []
    types: list[str] = []
    columns: list[str] | None = None
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        cells = _split(line)
        lowered = [cell.lower() for cell in cells]
        row: Facts | None = None
        if set(lowered) >= _FREEIPMI_HEADER:
            columns = lowered
            continue
        if columns is not None or _is_freeipmi(line):
            use = columns or _DEFAULT_COLUMNS[len(cells)]
            if len(cells) == len(use):
                row = _freeipmi_row(cells, use)
                types.append(dict(zip(use, cells, strict=True)).get("type", ""))
        elif "|" in line and not (len(cells) > 1 and _DATE.match(cells[1])):
            row = _pipe_row(cells)
            types.append("")
        if row is not None and row["name"]:
            if number == len(lines) - 1 and not row["status"]:
                reading.truncated(f"the last line is cut: {line.strip()}")
            sensors.append(row)
            continue
        error = error_code(line)
        if error:
            reading.problem("output-error", "bmc", shorten(line))
        else:
            reading.unknown(line)
    if not sensors:
        reading.problems.clear()
        nothing_read(reading, text, "BMC sensors")
        return reading
    reading.facts["sensors"] = sensors
    remarks = _remarks({sensor["name"] for sensor in sensors}, lines)
    found = {
        problem: None
        for sensor, kind in zip(sensors, types, strict=False)
        if (problem := _sensor_problem(sensor, kind, remarks.get(sensor["name"], "")))
    }
    reading.problems.update(found)
    return reading


def _remarks(names: Iterable[str], lines: list[str]) -> dict[str, str]:
    """The first line that begins with a name and says something bad, of each name that has one.

    Sorted, the lines that begin with a name stand together: none is looked at for a name it is not of.
    """
    bad = sorted((line, number) for number, line in enumerate(lines) if _BAD_TEXT.search(line))
    found: dict[str, str] = {}
    for name in names:
        first = len(lines)
        for at in range(bisect_left(bad, (name, -1)), len(bad)):
            if not bad[at][0].startswith(name):
                break
            first = min(first, bad[at][1])
        if first < len(lines):
            found[name] = lines[first]
    return found


def _sensor_problem(sensor: Facts, kind: str, remark: str) -> Problem | None:
    status = str(sensor["status"] or "")
    words = [status, sensor["value"] if isinstance(sensor["value"], str) else ""]
    bad = status.lower() in _BAD_STATUS or any(_BAD_TEXT.search(word) for word in words) or remark
    if kind == "Power Supply" and set(status.split(", ")) - {
        "OK",
        "Presence detected",
        "Fully Redundant",
        "N/A",
        "",
    }:
        bad = True
    if not bad:
        return None
    value = sensor["value"].reason if isinstance(sensor["value"], NA) else sensor["value"]
    text = remark.strip() or f"{sensor['name']}: {value} {sensor['unit'] or ''} status {status}"
    return Problem("bmc-sensors", sensor["name"], shorten(text))


# --- system event log ---------------------------------------------------------------------------------------

_SEL_LINE = re.compile(r"^\s*[0-9a-fA-F]+\s*\|")
_WARN = re.compile(
    r"non-?critical|correctable|corrected|predictive|degraded|limit exceeded|\bfan\b.*fail|lost|warning",
    re.I,
)
_CRITICAL = re.compile(
    r"uncorrectable|uncorrected|\bfatal\b|non-?recoverable|(?<!non-)(?<!non )\bcritical\b|thermal trip|ierr"
    r"|failure detected|\bac lost\b|redundancy lost|machine check|bus (?:fatal|uncorrectable)|drive fault"
    r"|processor .*fail|failure\b|run-time critical stop|configuration error",
    re.I,
)


def _sel_severity(text: str, asserted: bool | None) -> str:
    if asserted is False:
        return "ok"
    if re.search(r"non-?critical", text, re.I):
        return "warn"
    if re.search(r"\bcorrectable|\bcorrected", text, re.I) and not re.search(r"uncorrect", text, re.I):
        return "warn"
    if re.search(r"non-?fatal|predictive failure", text, re.I):
        return "warn"
    if _CRITICAL.search(text):
        return "critical"
    return "warn" if _WARN.search(text) else "ok"


def _sniff_sel(text: str) -> int:
    if re.search(r"^SEL has no entries", text.strip()):
        return 90
    lines = [line for line in text.split("\n")[:200] if line.strip()]
    hits = sum(
        bool(_SEL_LINE.match(line)) and bool(_DATE.match(_split(line)[1])) for line in lines if "|" in line
    )
    return 92 if hits and hits * 2 >= len(lines) else 0


@parser("ipmitool-sel", "BMC event log", ("ipmitool sel elist", "ipmitool sel list"), _sniff_sel)
def parse_sel(text: str) -> Reading:
    reading = Reading({"events": None})
    events: list[Facts] = []
    if re.search(r"SEL has no entries", text):
        reading.facts["events"] = []
        return reading
    for line in text.split("\n"):
        if not line.strip():
            continue
        cells = _split(line) if "|" in line else []
        if not _SEL_LINE.match(line) or len(cells) < 3:
            error = error_code(line)
            if error:
                reading.reject("output-error", "bmc", shorten(line))
            else:
                reading.unknown(line)
            continue
        events.append(_sel_event(reading, cells, line))
    if not events:
        reading.problems.clear()
        nothing_read(reading, text, "ipmitool sel list")
        return reading
    reading.facts["events"] = events
    last: dict[tuple[Any, Any], Facts] = {}
    for event in events:
        last[(event["sensor"], event["text"])] = event
    for event in last.values():
        if event["severity"] == "critical":
            where = str(event["sensor"])
            reading.problem("bmc-sel", where, f"{where}: {event['text']} ({event['time']})")
    return reading


def _sel_event(reading: Reading, cells: list[str], line: str) -> Facts:
    rest = cells[1:]
    time: str | None = None
    if _DATE.match(rest[0]):
        time, rest = rest[0], rest[1:]
        if (rest and re.match(r"^\d{1,2}:\d\d:\d\d", rest[0])) or (rest and re.fullmatch(r"\d{6,}", rest[0])):
            time, rest = f"{time} {rest[0]}", rest[1:]
    asserted: bool | None = None
    remains: list[str] = []
    for cell in rest:
        if cell.lower() in {"asserted", "deasserted"} and asserted is None:
            asserted = cell.lower() == "asserted"
        elif cell:
            remains.append(cell)
    if asserted is None and not re.search(r"\bOEM\b", line):
        reading.truncated(f"neither asserted nor deasserted: {line.strip()}")
    sensor = remains[0] if remains else None
    text = remains[1] if len(remains) > 1 else None
    if text is None and sensor is not None and asserted is not None:
        reading.truncated(f"an event without text: {line.strip()}")
    return {
        "time": time,
        "sensor": sensor,
        "text": text,
        "asserted": asserted,
        "severity": _sel_severity(
            f"{sensor or ''} {text or ''}".replace("Critical Interrupt", "Interrupt"), asserted
        ),
    }
