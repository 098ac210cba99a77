"""``dcgmi diag`` (JSON of DCGM 3 and 4, and the table) and ``dcgmi nvlink`` (status and error counts).

DCGM 3 heads its JSON "DCGM GPU Diagnostic" with a result per group of GPUs, DCGM 4 "DCGM Diagnostic" with a
result per entity and a summary.  One result per test and status is given, the worst first.  Skip is not
Pass.  ``nvlink -s`` prints U (up), D (down), X (disabled) and _ (not supported, no link) per link.
"""

from __future__ import annotations

import re
from typing import Any

from checks.parsers._core import Facts, Reading, parser, shorten
from checks.parsers._errors import error_code, nothing_read
from checks.parsers._json import load, peek
from checks.parsers._values import to_number

_RANK = {"fail": 0, "error": 1, "warn": 2, "not run": 3, "skip": 4, "pass": 5}


def _rank(status: str) -> int:
    return _RANK.get(status.lower(), 3)


def _categories(value: Any) -> list[Any] | None:
    if not isinstance(value, dict):
        return None
    for name, part in value.items():
        if (
            "diagnostic" in str(name).lower()
            and isinstance(part, dict)
            and isinstance(part.get("test_categories"), list)
        ):
            found: list[Any] = part["test_categories"]
            return found
    direct = value.get("test_categories")
    return direct if isinstance(direct, list) else None


def _sniff_diag(text: str) -> int:
    if '"DCGM' in text or '"test_categories"' in text:
        value = peek(text)
        if _categories(value) is not None:
            return 95
        if value is None and re.search(r'"DCGM (?:GPU )?Diagnostic"', text):
            return 90
    return 90 if re.search(r"^\|\s*Diagnostic\s*\|\s*Result\s*\|", text, re.M) else 0


@parser("dcgmi-diag", "dcgmi diag", ("dcgmi diag -r 2 -j",), _sniff_diag, document=True)
def parse_dcgmi_diag(text: str) -> Reading:
    reading = Reading({"results": None})
    results: list[Facts] = []
    if re.search(r"^\|\s*Diagnostic\s*\|\s*Result\s*\|", text, re.M):
        _diag_table(reading, text, results)
    else:
        value = load(reading, text)
        categories = _categories(value)
        if categories is None:
            if reading.understood:
                nothing_read(reading, text, "dcgmi diag")
            return reading
        for category in categories:
            tests = category.get("tests") if isinstance(category, dict) else None
            if not isinstance(tests, list):
                reading.unknown(f"a category without tests: {str(category)[:120]}")
                continue
            for test in tests:
                _diag_test(reading, test, results)
        error = value.get("runtime_error") if isinstance(value, dict) else None
        if isinstance(error, str) and error:
            reading.problem("gpu-diag", "dcgmi", shorten(error))
    if not results:
        reading.truncated("no test results")
    reading.facts["results"] = results
    for result in results:
        if _rank(str(result["status"])) < 2:
            gpus = f" on GPU {', '.join(map(str, result['gpus']))}" if result["gpus"] else ""
            why = f": {'; '.join(result['warnings'])}" if result["warnings"] else ""
            reading.problem(
                "gpu-diag", str(result["test"]), shorten(f"{result['test']}: {result['status']}{gpus}{why}")
            )
    return reading


def _gpus_of(result: dict[str, Any]) -> list[int]:
    for name in ("gpu_ids", "gpu_id", "entity_id"):
        value = result.get(name)
        if name == "entity_id" and str(result.get("entity_group", "GPU")).upper() != "GPU":
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            return [value]
        if isinstance(value, str):
            return [int(word) for word in re.findall(r"\d+", value) if len(word) < 9]
        if isinstance(value, list):
            return [item for item in value if isinstance(item, int) and not isinstance(item, bool)]
    return []


def _warnings_of(result: dict[str, Any]) -> list[str]:
    found: list[str] = []
    value = result.get("warnings", result.get("warning"))
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str) and item.strip():
            found.append(item.strip())
        elif isinstance(item, dict) and isinstance(item.get("warning"), str):
            found.append(item["warning"].strip())
    return found


def _diag_test(reading: Reading, test: Any, results: list[Facts]) -> None:
    name = test.get("name") if isinstance(test, dict) else None
    listed = test.get("results") if isinstance(test, dict) else None
    if not isinstance(name, str) or not isinstance(listed, list):
        reading.unknown(f"a test without name or results: {str(test)[:120]}")
        return
    grouped: dict[str, Facts] = {}
    for result in listed:
        status = result.get("status") if isinstance(result, dict) else None
        if not isinstance(status, str):
            reading.truncated(f"a result of {name} without status", name)
            continue
        entry = grouped.setdefault(status, {"test": name, "status": status, "gpus": [], "warnings": []})
        entry["gpus"] += [gpu for gpu in _gpus_of(result) if gpu not in entry["gpus"]]
        entry["warnings"] += [text for text in _warnings_of(result) if text not in entry["warnings"]]
    summary = test.get("test_summary")
    status = summary.get("status") if isinstance(summary, dict) else None
    if isinstance(status, str) and isinstance(summary, dict):
        worst = min((_rank(found) for found in grouped), default=9)
        if not grouped or _rank(status) < worst:
            grouped[status] = {"test": name, "status": status, "gpus": [], "warnings": _warnings_of(summary)}
    if not grouped:
        reading.truncated(f"the test {name} has no result", name)
    results.extend(sorted(grouped.values(), key=lambda entry: _rank(str(entry["status"]))))


def _diag_table(reading: Reading, text: str, results: list[Facts]) -> None:
    current: str | None = None
    for line in text.split("\n"):
        stripped = line.strip()
        row = re.match(r"^\|\s*(.*?)\s*\|\s*(.*?)\s*\|$", stripped)
        if not row:
            if stripped and not re.match(r"^[+|][-=+ ]|^\|-----|^Successfully", stripped):
                error = error_code(line)
                if error:
                    reading.problem(error[0], "dcgmi", stripped)
                else:
                    reading.unknown(line)
            continue
        name, cell = row.groups()
        status = re.match(r"^(Pass|Fail|Warn|Skip|Not Run|Error)\b(?:\s*-\s*(.*))?$", cell, re.I)
        entity = re.match(r"^(?:GPU\s*:?\s*)(\d+)\s*:\s*(Pass|Fail|Warn|Skip|Not Run|Error)\b", cell, re.I)
        if name.startswith("-----") or (name == "Diagnostic" and cell == "Result"):
            continue
        if re.match(r"^(?:Warning|Error|Info)\b", name) and results:
            results[-1]["warnings"].append(cell)
        elif entity and current:
            _table_entity(results, current, int(entity.group(1)), entity.group(2))
        elif status and name:
            current = name
            gpus = [int(number) for number in re.findall(r"\d+", status.group(2) or "") if len(number) < 9]
            results.append({"test": name, "status": status.group(1), "gpus": gpus, "warnings": []})
        elif not name and results and cell:
            results[-1]["warnings"].append(cell)
    if not re.search(r"^\+[-=+]+\+\s*$", text.rstrip().rsplit("\n", 1)[-1]):
        reading.truncated("the table's last line is missing")


def _table_entity(results: list[Facts], test: str, gpu: int, status: str) -> None:
    for result in results:
        if result["test"] == test and result["status"].lower() == status.lower():
            result["gpus"].append(gpu)
            return
    results.append({"test": test, "status": status, "gpus": [gpu], "warnings": []})


# --- dcgmi nvlink -------------------------------------------------------------------------------------------

_LETTERS = re.compile(r"^\s*(?:[UDX_NP]\s+)*[UDX_NP]\s*$")
_COUNTS = {
    "crc data error": "crc_data",
    "crc flit error": "crc_flit",
    "replay error": "replay",
    "recovery error": "recovery",
}


def _sniff_nvlink(text: str) -> int:
    if re.search(r"^\s*gpuId \d+:\s*$", text, re.M):
        return 95
    if re.search(r"NVLINK Error Counts", text):
        return 95
    return 0


@parser(
    "dcgmi-nvlink",
    "dcgmi nvlink",
    ("dcgmi nvlink -s", "dcgmi nvlink -e -g 0 -j"),
    _sniff_nvlink,
    document=True,
)
def parse_dcgmi_nvlink(text: str) -> Reading:
    if "NVLINK Error Counts" in text or re.search(r"^[ \t|]*Link \d+ *\|", text, re.M):
        return _nvlink_errors(text)
    reading = Reading({"gpus": None, "links": None})
    gpus: list[Facts] = []
    owner: tuple[str, int] | None = None
    for line in text.split("\n"):
        head = re.match(r"^\s*(gpuId|physicalId|nvSwitchId)\s+(\d{1,6}):\s*$", line)
        if head:
            if owner is not None and owner[0]:
                reading.truncated(f"{owner[0]} {owner[1]} without links", f"{owner[0]} {owner[1]}")
            owner = ("gpu" if head.group(1) == "gpuId" else "nvswitch", int(head.group(2)))
        elif owner and _LETTERS.match(line) and line.strip():
            _link_row(reading, gpus, owner, line.split())
            owner = ("", 0) if owner[0] else owner
        elif line.strip() and not re.match(r"^\s*(?:[+|]|GPUs:|NvSwitches:|Key:|No NvSwitches|Up=U)", line):
            error = error_code(line)
            if error:
                reading.reject(error[0], error[1], line.strip())
            else:
                reading.unknown(line)
    if owner is not None and owner[0]:
        reading.truncated(f"{owner[0]} {owner[1]} without links")
    if not gpus:
        reading.problems.clear()
        nothing_read(reading, text, "dcgmi nvlink")
        return reading
    totals = {gpu["links_total"] for gpu in gpus}
    if len(totals) > 1:
        reading.contradiction(f"GPUs with {' and '.join(map(str, sorted(totals)))} links")
    indices = [gpu["index"] for gpu in gpus]
    if len(indices) > 1 and indices != list(range(len(indices))):
        reading.truncated(f"GPU indices have a gap: {indices}")
    reading.facts["gpus"] = gpus
    return reading


def _link_row(reading: Reading, gpus: list[Facts], owner: tuple[str, int], letters: list[str]) -> None:
    where = f"{owner[0]} {owner[1]}"
    if not owner[0]:
        reading.unknown(" ".join(letters))
        return
    down = [number for number, letter in enumerate(letters) if letter == "D"]
    if down:
        reading.problem("nvlink-links", where, f"{where}: links down: {', '.join(map(str, down))}")
    if len(letters) % 6:  # 6, 12 or 18 links of a generation, those a board lacks as _
        reading.truncated(f"{len(letters)} links: {' '.join(letters)}", where)
    if owner[0] != "gpu":
        return
    gpus.append(
        {
            "index": owner[1],
            "links_total": sum(letter in "UDX" for letter in letters),
            "links_active": letters.count("U"),
            "links_inactive": len(down),
            "links_disabled": letters.count("X"),
        }
    )


def _nvlink_errors(text: str) -> Reading:
    reading = Reading({"gpus": None, "links": None})
    links: list[Facts] = []
    if text.lstrip()[:1] in "{[":
        value = load(reading, text)
        for part in value if isinstance(value, list) else [value]:
            _error_json(reading, part, links)
    else:
        _error_table(reading, text, links)
    if not links:
        if reading.understood:
            nothing_read(reading, text, "dcgmi nvlink -e")
        return reading
    for link in links:
        missing = [name for name in _COUNTS.values() if link[name] is None]
        where = f"gpu {link['gpu']} link {link['link']}"
        if missing:
            reading.truncated(f"{where} without {', '.join(missing)}", where)
        counted = [f"{name} {link[name]}" for name in _COUNTS.values() if link[name]]
        if counted:
            reading.problem("nvlink-errors", where, f"{where}: {', '.join(counted)}")
    for gpu in {link["gpu"] for link in links}:
        numbers = sorted(link["link"] for link in links if link["gpu"] == gpu)
        if numbers != list(range(len(numbers))):
            reading.truncated(f"links of GPU {gpu} have a gap: {numbers}")
    reading.facts["links"] = links
    return reading


def _new_link(gpu: int | None, link: int) -> Facts:
    return {"gpu": gpu, "link": link, **dict.fromkeys(_COUNTS.values())}


def _error_json(reading: Reading, part: Any, links: list[Facts]) -> None:
    body = part.get("body") if isinstance(part, dict) else None
    if not isinstance(body, dict):
        return
    header = " ".join(str(item) for item in part.get("header", []) if isinstance(item, str))
    named = re.search(r"GPU\s*(\d{1,6})", header)
    gpu = int(named.group(1)) if named else None
    if gpu is None:
        reading.truncated("the header names no GPU")
    for name, item in body.items():
        match = re.fullmatch(r"Link (\d{1,6})", str(name))
        children = item.get("children") if isinstance(item, dict) else None
        if not match or not isinstance(children, dict):
            reading.unknown(f"{name}: {str(item)[:100]}")
            continue
        link = _new_link(gpu, int(match.group(1)))
        for label, holder in children.items():
            fact = _COUNTS.get(str(label).lower())
            value = holder.get("value") if isinstance(holder, dict) else holder
            if fact:
                link[fact] = to_number(str(value))
        links.append(link)


def _error_table(reading: Reading, text: str, links: list[Facts]) -> None:
    gpu: int | None = None
    for line in text.split("\n"):
        stripped = line.strip().strip("|").strip()
        named = re.fullmatch(r"GPU\s*(\d{1,6})", stripped)
        link = re.match(r"^Link (\d{1,6})\s*\|?\s*$", stripped)
        count = re.match(r"^(?:->)?\s*((?:CRC|Replay|Recovery)[A-Za-z ]*Error)\s*\|\s*(\S*)$", stripped, re.I)
        if named:
            gpu = int(named.group(1))
        elif link:
            links.append(_new_link(gpu, int(link.group(1))))
        elif count and links:
            fact = _COUNTS.get(count.group(1).lower())
            if fact:
                links[-1][fact] = to_number(count.group(2))
        elif stripped and not re.match(r"^[+=-]|NVLINK Error Counts", stripped):
            reading.unknown(line)
