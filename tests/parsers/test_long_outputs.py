"""Long and damaged outputs are read in a time that grows with their length, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable

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
}


@pytest.mark.parametrize("name", LONG)
def test_two_megabytes_are_read_in_seconds(name: str) -> None:
    kind, text = LONG[name]
    output = text()
    assert len(output) > SIZE * 0.9
    begin = time.monotonic()
    parse(kind, output)
    assert time.monotonic() - begin < LIMIT_S


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
