"""Each recording is read right, recognised, and its problems (and no others) are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checks.parsers import CODES, KINDS, parse, recognise

EXPECTED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "recordings" / "expected.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", EXPECTED)
def test_recording(name: str, recordings: dict[str, dict[str, Any]], compare: Any) -> None:
    entry = recordings[name]
    parsed = parse(entry["kind"], entry["text"]).as_dict()
    assert parsed["understood"] is entry["understood"], parsed["problems"]
    assert not compare(parsed["facts"], entry["facts"])
    codes = {problem["code"] for problem in parsed["problems"]}
    assert codes == set(entry["problems"]), parsed["problems"]
    assert codes <= set(CODES)
    assert recognise(entry["text"]) == entry["kind"]
    assert json.loads(json.dumps(parsed)) == parsed
    assert parse("auto", entry["text"]).as_dict() == parsed


@pytest.mark.parametrize("name", EXPECTED)
def test_line_ends_and_byte_order_mark_change_nothing(
    name: str, recordings: dict[str, dict[str, Any]]
) -> None:
    entry = recordings[name]
    windows = "\ufeff" + entry["text"].replace("\n", "\r\n")
    assert parse(entry["kind"], windows) == parse(entry["kind"], entry["text"])


def test_every_kind_has_a_recording(recordings: dict[str, dict[str, Any]]) -> None:
    assert {entry["kind"] for entry in recordings.values()} == set(KINDS)


def test_every_recording_is_listed() -> None:
    folder = Path(__file__).parent / "recordings"
    assert {path.name for path in folder.iterdir()} == {*EXPECTED, "expected.json"}
