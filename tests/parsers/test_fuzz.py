"""Damaged outputs: no exception, and no bad condition turned into a clean pass."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from checks.parsers import KINDS, Parsed, parse, recognise

EXPECTED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "recordings" / "expected.json").read_text(encoding="utf-8")
)
NOISE = [
    "warning: x",
    "\x1b[31mred\x1b[0m",
    "ERR!",
    "N/A",
    "] [ } {",
    "0,5 W",
    "9" * 60,
    "\t\t|",
    "Traceback",
    ":",
    "é",
]
# Where the bad thing is a line of its own in a list without a count, its loss cannot be noticed.
UNCOUNTED = {
    "dmesg",
    "syslog",
    "fabricmanager-log",
    "ipmitool-sensors",
    "ipmitool-sel",
    "rdma-link",
    "lspci-acs",
    "nvidia-smi-L",
}
# Lists of blocks without a count: a cut between two blocks leaves a whole list.
BLOCKS = {"nvidia-smi-nvlink", "ibstat", "ibstatus", "dcgmi-nvlink"}
# A cut before the last capability leaves a shorter, whole description.
OPEN = {"lspci"}


def mutations(text: str, seed: int, count: int) -> list[str]:
    """Truncations, deleted lines, swapped columns, noise and decimal commas."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        lines = text.split("\n")
        at = chance.randrange(len(lines))
        kind = number % 6
        if kind == 0:
            found.append(text[: chance.randrange(len(text))])
        elif kind == 1:
            found.append("\n".join(lines[:at] + lines[at + chance.randrange(1, 4) :]))
        elif kind == 2:
            words = lines[at].split(" ")
            chance.shuffle(words)
            found.append("\n".join([*lines[:at], " ".join(words), *lines[at + 1 :]]))
        elif kind == 3:
            found.append("\n".join([*lines[:at], chance.choice(NOISE), *lines[at:]]))
        elif kind == 4:
            start = chance.randrange(len(text))
            found.append(text[:start] + chance.choice(NOISE) + text[start + chance.randrange(1, 30) :])
        else:
            found.append("".join("," if char == "." and chance.random() < 0.5 else char for char in text))
    return found


def crashed(parsed: Parsed) -> bool:
    return any("the parser failed" in problem.text for problem in parsed.problems)


@pytest.mark.parametrize("name", EXPECTED)
def test_no_text_crashes_its_parser(name: str, recordings: dict[str, dict[str, Any]]) -> None:
    entry = recordings[name]
    for text in mutations(entry["text"], seed=7, count=90):
        parsed = parse(entry["kind"], text)
        assert not crashed(parsed), (parsed.problems, text)
        assert parsed.understood or parsed.problems
        json.dumps(parsed.as_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_crashes_another_parser(kind: str, recordings: dict[str, dict[str, Any]]) -> None:
    for entry in recordings.values():
        parsed = parse(kind, entry["text"])
        assert not crashed(parsed), parsed.problems
        recognise(entry["text"][:300])


BAD = [
    name
    for name, entry in EXPECTED.items()
    if entry["understood"] and entry["problems"] and entry["kind"] not in UNCOUNTED
]


@pytest.mark.parametrize("name", BAD)
def test_deleting_a_line_never_makes_a_clean_pass(name: str, recordings: dict[str, dict[str, Any]]) -> None:
    entry = recordings[name]
    lines = entry["text"].split("\n")
    for at in range(len(lines)):
        parsed = parse(entry["kind"], "\n".join(lines[:at] + lines[at + 1 :]))
        assert not parsed.understood or parsed.problems, f"without line {at + 1}: {lines[at]!r}"


@pytest.mark.parametrize("name", [name for name in BAD if EXPECTED[name]["kind"] not in BLOCKS | OPEN])
def test_cutting_the_text_never_makes_a_clean_pass(name: str, recordings: dict[str, dict[str, Any]]) -> None:
    entry = recordings[name]
    text = entry["text"]
    step = max(1, len(text) // 150)
    for end in range(0, len(text), step):
        parsed = parse(entry["kind"], text[:end])
        assert not parsed.understood or parsed.problems, text[max(0, end - 120) : end]


@pytest.mark.parametrize("name", [name for name in BAD if EXPECTED[name]["kind"] in BLOCKS])
def test_cutting_a_block_is_noticed(name: str, recordings: dict[str, dict[str, Any]]) -> None:
    """A clean pass after a cut must be of whole blocks: nothing of the bad one is left."""
    entry = recordings[name]
    text = entry["text"]
    for end in range(1, len(text)):
        parsed = parse(entry["kind"], text[:end])
        if parsed.understood and not parsed.problems:
            assert text[end - 1] == "\n" or text[end] == "\n", text[max(0, end - 80) : end]


@pytest.mark.parametrize("name", [name for name in BAD if EXPECTED[name]["kind"].startswith("nvidia-smi-q")])
def test_a_missing_section_is_not_understood(name: str, recordings: dict[str, dict[str, Any]]) -> None:
    """Deleting a run of lines anywhere may not leave a full report that lacks facts."""
    entry = recordings[name]
    lines = entry["text"].split("\n")
    chance = random.Random(3)
    for _ in range(150):
        at = chance.randrange(len(lines) - 2)
        rest = lines[:at] + lines[at + chance.randrange(2, 40) :]
        parsed = parse(entry["kind"], "\n".join(rest))
        assert not parsed.understood or parsed.problems
