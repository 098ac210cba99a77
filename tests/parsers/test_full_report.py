"""The full report as XML: what is passed over on the way is not passed over where it is damaged."""

from __future__ import annotations

import pytest

import checks.parsers
from checks.hidden import DROPPED, without_secrets
from checks.parsers import KINDS, parse
from tests.checks.build import smi_xml

CLOCKS = """<supported_clocks>
<supported_mem_clock>
<value>3201 MHz</value>
<supported_graphics_clock>1980 MHz</supported_graphics_clock>
<supported_graphics_clock>1965 MHz</supported_graphics_clock>
</supported_mem_clock>
</supported_clocks>
"""


def _with_clocks(clocks: str) -> str:
    return smi_xml().replace("</gpu>", f"{clocks}</gpu>")


def test_lists_of_clocks_change_no_fact() -> None:
    plain, listed = parse("nvidia-smi-qx", smi_xml()), parse("nvidia-smi-qx", _with_clocks(CLOCKS))
    assert listed.understood and listed.facts == plain.facts


@pytest.mark.parametrize("lost", range(7))
def test_a_line_lost_in_a_list_of_clocks_is_damage(lost: int) -> None:
    lines = CLOCKS.splitlines(keepends=True)
    broken = "".join(lines[:lost] + lines[lost + 1 :])
    parsed = parse("nvidia-smi-qx", _with_clocks(broken))
    whole = lines[lost].startswith("<supported_graphics") or lines[lost].startswith("<value>")
    assert parsed.understood is whole


def test_a_damage_is_told_at_its_line_below_the_lists() -> None:
    damaged = _with_clocks(CLOCKS).replace("</nvidia_smi_log>", "</nvidia_smi_lag>\n</nvidia_smi_log>")
    line = damaged.splitlines().index("</nvidia_smi_lag>") + 1
    told = parse("nvidia-smi-qx", damaged).problems[0].text
    assert told == f"the XML is cut or damaged: mismatched tag: line {line}, column 2"


def test_every_process_is_a_fact_with_its_kind() -> None:
    process = (
        "<process_info>\n<pid>4711</pid>\n<type>M+C</type>\n<process_name>python3</process_name>\n"
        "<used_memory>300 MiB</used_memory>\n</process_info>\n"
    )
    gpus = parse("nvidia-smi-qx", smi_xml({3: {"processes": process}})).facts["gpus"]
    assert gpus[0]["processes"] == []
    assert gpus[3]["processes"] == [
        {"pid": 4711, "process_type": "M+C", "process_name": "python3", "used_memory_mib": 300}
    ]


def test_each_kind_is_found_in_its_module_without_the_others() -> None:
    assert checks.parsers._module_of() == {
        kind: entry.function.__module__.rpartition(".")[2] for kind, entry in KINDS.items()
    }


def test_a_secret_among_lines_that_are_known_to_hold_none_is_dropped() -> None:
    usual = "\n".join(f"line {number}" for number in range(50))
    assert without_secrets(usual) == usual
    assert without_secrets(f"{usual}\npassword: hunter2") == f"{usual}\npassword: {DROPPED}"
    assert without_secrets(f"{usual}\npassword: hunter2") == f"{usual}\npassword: {DROPPED}"
