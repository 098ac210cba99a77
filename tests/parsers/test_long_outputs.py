"""Long and damaged outputs are read in a time that grows with their length, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.parsers import Parsed, parse

SIZE = 2_000_000
LIMIT_S = 5.0


def _repeated(line: str) -> str:
    return line * (SIZE // len(line))


def _numbered(line: str) -> str:
    return "".join(line.format(number) for number in range(SIZE // len(line)))


LONG: dict[str, tuple[str, Callable[[], str]]] = {
    "gpu-never-closed": ("nvidia-smi-qx", lambda: "<nvidia_smi_log>" + _repeated('<gpu id="0">')),
    "gpu-closed-cut": ("nvidia-smi-qx", lambda: "<nvidia_smi_log>" + _numbered('<gpu id="{}"></gpu>')),
    "gpu-closed-whole": (
        "nvidia-smi-qx",
        lambda: "<nvidia_smi_log>" + _numbered('<gpu id="{}"></gpu>') + "</nvidia_smi_log>",
    ),
    "doctype-never-closed": ("nvidia-smi-qx", lambda: "<nvidia_smi_log>" + _repeated("<!doctype ")),
    "sensor-repeated": ("ipmitool-sensors", lambda: _repeated("FAN1 | 4200 RPM | ok\n")),
    "sensor-bad-repeated": ("ipmitool-sensors", lambda: _repeated("PSU1 | Redundancy Lost | ok\n")),
    "sensor-bad-numbered": ("ipmitool-sensors", lambda: _numbered("FAN{} | 0 RPM | cr\n")),
    "sensor-remark-numbered": ("ipmitool-sensors", lambda: _numbered("P{} | Redundancy Lost | ok\n")),
    "sensor-wide-cell": ("ipmitool-sensors", lambda: _repeated(f"FAN1 | 5 a{' ' * 3900}! | ok\n")),
    "dcmi-blanks": (
        "ipmitool-dcmi",
        lambda: _repeated(f"Instantaneous power reading: {' ' * 19_900}x\n"),
    ),
    "dcmi-repeated": ("ipmitool-dcmi", lambda: _repeated("Instantaneous power reading: 5 Watts\n")),
    "log-a-problem-a-line": (
        "dmesg",
        lambda: _numbered("[    5.000000] mlx5_core 0000:1a:00.0 eth{}: Link down\n"),
    ),
    "csv-rows": ("nvidia-smi-csv", lambda: "index, name, temperature.gpu\n" + _numbered("{}, H200, 34\n")),
    "csv-rows-auto": ("auto", lambda: "index, name, temperature.gpu\n" + _numbered("{}, H200, 34\n")),
    "csv-errors": ("nvidia-smi-csv", lambda: "index, name\n" + _numbered("Unable to read GPU {}\n")),
}


@pytest.mark.parametrize("name", LONG)
def test_two_megabytes_are_read_in_seconds(name: str) -> None:
    kind, text = LONG[name]
    output = text()
    assert len(output) > SIZE * 0.9
    begin = time.process_time()
    parse(kind, output)
    assert time.process_time() - begin < LIMIT_S


RECORDINGS = sorted(p for p in (Path(__file__).parent / "recordings").iterdir() if p.name != "expected.json")


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.name)
def test_eight_times_the_length_costs_no_more_than_that(path: Path) -> None:
    """Every recording, repeated with other numbers in each copy: 40 KB, then 320 KB."""
    text = path.read_text(encoding="utf-8")

    def seconds(size: int) -> float:
        copies = max(1, size // (len(text) + 1))
        output = "\n".join(text.replace("0", str(number), 3) for number in range(copies))
        begin = time.process_time()
        parse("auto", output)
        return time.process_time() - begin

    assert seconds(320_000) < 8 * 3 * seconds(40_000) + 0.3


def test_more_rows_than_any_host_has_gpus_are_not_understood() -> None:
    def rows(count: int) -> Parsed:
        return parse("nvidia-smi-csv", "index, name\n" + "".join(f"{n}, H200\n" for n in range(count)))

    assert rows(256).understood and len(rows(256).facts["gpus"]) == 256
    assert not rows(257).understood and "more than 256" in rows(257).problems[0].text


def test_a_problem_stands_once_however_often_it_is_seen() -> None:
    log = "[    5.000000] mlx5_core 0000:1a:00.0 eth0: Link down\n" * 3
    assert [p.where for p in parse("dmesg", log).problems] == ["eth0"]


def test_joined_lines_of_a_power_reading_are_read_apart() -> None:
    text = (
        "    Instantaneous power reading:                   412 Watts    Minimum during sampling period: "
        "300 Watts\n    Maximum during sampling period:  900 Watts\n    Average power reading over sample "
        "period: 410 Watts    IPMI timestamp: Mon\n    Power reading state is:  activated\n"
    )
    facts = parse("ipmitool-dcmi", text).facts
    assert [facts[n] for n in ("power_w", "min_w", "max_w", "avg_w")] == [412, 300, 900, 410]


def _qx(count: int, end: str) -> Parsed:
    gpus = "".join(f'<gpu id="{number}"><uuid>u{number}</uuid></gpu>' for number in range(count))
    head = f"<driver_version>550.1</driver_version><attached_gpus>{count}</attached_gpus>"
    return parse("nvidia-smi-qx", f"<nvidia_smi_log>{head}{gpus}{end}")


@pytest.mark.parametrize("end", ["</nvidia_smi_log>", '<gpu id="cut">'])
def test_more_gpus_than_any_host_holds_are_not_understood(end: str) -> None:
    full, over = _qx(256, end), _qx(257, end)
    assert len(full.facts["gpus"]) == len(over.facts["gpus"]) == 256
    assert not any("more than 256" in problem.text for problem in full.problems)
    assert not over.understood and any("more than 256" in problem.text for problem in over.problems)


def test_a_document_type_with_a_subset_is_still_refused() -> None:
    subset = '<!DOCTYPE nvidia_smi_log [<!ELEMENT a ANY>]><nvidia_smi_log><gpu id="0"></gpu></nvidia_smi_log>'
    assert not parse("nvidia-smi-qx", subset).facts["gpus"]


def test_the_first_bad_line_that_begins_with_the_name_is_the_remark() -> None:
    text = "PS | 0x01 | ok\nPS1 | Power Supply AC lost | ok\nPS | Redundancy Lost | ok\nFAN | 5 RPM | ok\n"
    found = [(problem.where, problem.text) for problem in parse("ipmitool-sensors", text).problems]
    assert found == [
        ("PS", "PS1 | Power Supply AC lost | ok"),
        ("PS1", "PS1 | Power Supply AC lost | ok"),
    ]
