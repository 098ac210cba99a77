"""The interface: kinds, values that are not available, texts that are of no kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import checks.parsers
from checks.parsers import CODES, KINDS, NA, Parsed, Problem, parse, recognise
from checks.parsers._core import REGISTRY, Reading, parser


def test_as_dict() -> None:
    parsed = Parsed("thp", {"a": [NA("[N/A]"), None]}, [Problem("acs", "pci", "on")], True)
    assert parsed.as_dict() == {
        "kind": "thp",
        "facts": {"a": [{"na": "[N/A]"}, None]},
        "problems": [{"code": "acs", "where": "pci", "text": "on"}],
        "understood": True,
    }


def test_kinds_say_what_they_are() -> None:
    assert list(KINDS)[:3] == ["nvidia-smi-qx", "nvidia-smi-q", "nvidia-smi-csv"]
    for kind, entry in KINDS.items():
        assert entry.kind == kind
        assert entry.title
        assert entry.commands


def test_a_second_parser_of_a_kind_is_an_error() -> None:
    before = dict(REGISTRY)
    with pytest.raises(ValueError, match="two parsers"):
        parser("kmsg", "taken as another name of dmesg", (), lambda text: 0)(lambda text: Reading({}))
    assert before == REGISTRY


def test_unknown_kind() -> None:
    with pytest.raises(ValueError, match="no parser"):
        parse("nonsense", "")


@pytest.mark.parametrize("text", ["", "\n", "hello world\n", "{}", "[]", "<a/>", "\x00\x1b[4m", "💥" * 100])
def test_text_of_no_kind(text: str) -> None:
    assert recognise(text) is None
    parsed = parse("auto", text)
    assert (parsed.kind, parsed.facts, parsed.understood) == (None, {}, False)
    assert parsed.problems
    for kind in KINDS:
        if text == "[]" and kind in {"rdma-link", "rdma-statistic", "ip-link"}:
            continue  # a host without such devices
        assert not parse(kind, text).understood, kind


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost.  Reboot the system",
            "gpu-lost",
        ),
        ("No devices were found", "gpu-lost"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "gpu-driver"),
        ("Failed to initialize NVML: Driver/library version mismatch", "gpu-driver"),
        ("bash: nvidia-smi: command not found", "output-error"),
    ],
)
def test_an_error_instead_of_the_output(line: str, code: str) -> None:
    for kind in (
        "auto",
        "nvidia-smi-q",
        "nvidia-smi-qx",
        "nvidia-smi-csv",
        "nvidia-smi-L",
        "nvidia-smi-topo",
    ):
        parsed = parse(kind, line + "\n")
        assert not parsed.understood
        assert code in {problem.code for problem in parsed.problems}, kind


def test_entities_are_refused() -> None:
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa">]>\n<nvidia_smi_log>&a;</nvidia_smi_log>'
    parsed = parse("nvidia-smi-qx", bomb)
    assert not parsed.understood
    assert "entities" in parsed.problems[0].text


def test_every_code_in_the_source_is_listed() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in Path(checks.parsers.__path__[0]).glob("*.py")
        if path.name != "codes.py"
    )
    used = set(re.findall(r'\b(?:problem|reject|report)\(\s*"([a-z]+(?:-[a-z]+)*)"', source))
    assert used
    assert used <= set(CODES)


def test_idle_states_by_relative_paths() -> None:
    absolute = (Path(__file__).parent / "recordings" / "cpuidle.good.txt").read_text(encoding="utf-8")
    relative = absolute.replace("/sys/devices/system/cpu/", "./")
    assert recognise(relative) == "cpuidle"
    assert parse("cpuidle", relative).facts == parse("cpuidle", absolute).facts
    assert parse("cpuidle", relative).understood
