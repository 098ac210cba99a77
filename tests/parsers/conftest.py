"""Help for the tests of the parsers: recordings, dotted paths, comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

RECORDINGS = Path(__file__).parent / "recordings"


def _steps(path: str) -> list[str]:
    steps, step, depth = [], "", 0
    for char in path:
        if char == "." and depth == 0:
            steps.append(step)
            step = ""
            continue
        depth += (char == "{") - (char == "}")
        step += char
    return [*steps, step]


def look_up(value: Any, path: str) -> Any:
    """The value at a dotted path: ``gpus.0.product``, ``gpus.len``, ``events.{kind=xid,code=48}.count``."""
    for step in _steps(path):
        if value is None:
            return None
        if step == "len" and isinstance(value, list):
            value = len(value)
        elif step.startswith("{"):
            wanted = dict(pair.split("=", 1) for pair in step[1:-1].split(","))
            found = (item for item in value if all(str(item.get(k)) == v for k, v in wanted.items()))
            value = next(found, None)
        elif isinstance(value, list):
            value = value[int(step)] if int(step) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(step)
        else:
            raise AssertionError(f"{path}: nothing below {value!r}")
    return value


def same(found: Any, wanted: Any) -> bool:
    if wanted == {"na": True}:
        return isinstance(found, dict) and set(found) == {"na"} and isinstance(found["na"], str)
    if wanted is None or isinstance(wanted, bool) or isinstance(found, bool):
        return found is wanted
    if isinstance(wanted, int | float):
        return isinstance(found, int | float) and abs(found - wanted) <= 0.005 * abs(wanted)
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted)


def differences(facts: Any, wanted: dict[str, Any]) -> list[str]:
    return [
        f"{path}: wanted {value!r}, found {look_up(facts, path)!r}"
        for path, value in wanted.items()
        if not same(look_up(facts, path), value)
    ]


@pytest.fixture(scope="session")
def compare() -> Any:
    return differences


@pytest.fixture(scope="session")
def look() -> Any:
    return look_up


@pytest.fixture(scope="session")
def recordings() -> dict[str, dict[str, Any]]:
    """Our own recordings: file name to kind, text and what is right."""
    expected: dict[str, dict[str, Any]] = json.loads(
        (RECORDINGS / "expected.json").read_text(encoding="utf-8")
    )
    for name, entry in expected.items():
        entry["text"] = (RECORDINGS / name).read_text(encoding="utf-8")
    return expected
