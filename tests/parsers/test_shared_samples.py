"""Real outputs, where they lie beside the repository: every stated value, and no exception for any kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checks.parsers import KINDS, parse, recognise

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "reference" / "samples"
HERE = (SAMPLES / "expected.json").is_file()
EXPECTED: dict[str, Any] = json.loads((SAMPLES / "expected.json").read_text(encoding="utf-8")) if HERE else {}
FILES = (
    sorted(p.name for p in SAMPLES.iterdir() if p.name not in {"INDEX.md", "expected.json"}) if HERE else []
)
# Outputs longer than this are tried only for their own kind.
LONG = 40_000

pytestmark = pytest.mark.skipif(not HERE, reason="the shared samples are not beside this repository")


def text_of(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8", errors="replace")


def read_or_declined(parsed: dict[str, Any], path: str, look: Any) -> bool:
    """A fragment may be declined; what it then leaves unread is no mistake."""
    return not parsed["understood"] and look(parsed["facts"], path) is None


@pytest.mark.parametrize("name", EXPECTED)
def test_expected(name: str, compare: Any, look: Any) -> None:
    entry = EXPECTED[name]
    text = text_of(name)
    kinds = entry["kind"].split("|") if entry["kind"] else [None]
    assert recognise(text) in kinds
    kind = recognise(text)
    parsed = parse(kind or "auto", text).as_dict()
    assert parsed["kind"] == kind
    if "understood" in entry:
        assert parsed["understood"] is entry["understood"], parsed["problems"]
    wanted = entry["facts"]
    if "understood" not in entry:
        wanted = {path: value for path, value in wanted.items() if not read_or_declined(parsed, path, look)}
    assert not compare(parsed["facts"], wanted)
    if "problems" in entry:
        assert bool(parsed["problems"]) is bool(entry["problems"]), parsed["problems"]


@pytest.mark.parametrize("name", FILES)
def test_no_sample_crashes_a_parser(name: str) -> None:
    text = text_of(name)
    found = recognise(text)
    for kind in KINDS if len(text) < LONG else [found or "auto"]:
        parsed = parse(kind, text)
        assert not any("the parser failed" in problem.text for problem in parsed.problems), kind
        json.dumps(parsed.as_dict())
    assert found is None or found in KINDS
    if found and name in EXPECTED and EXPECTED[name]["kind"]:
        assert found in EXPECTED[name]["kind"].split("|")
