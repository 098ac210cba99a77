"""The quick way of reading and writing YAML gives what PyYAML's own gives, or leaves it to the long way."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright import yaml_events, yamlio
from rackwright.errors import InputErrors
from stacks import manifests

ROOT = Path(__file__).resolve().parent.parent
PIECES = [
    "a", "b", "~", "null", "yes", "y", "0x1F", "1_000", "1:30", "-", "? ", "- a", ": ", " #x", "#", "'", '"',
    "\n", "\t", " ", "é", "\u2028", "\u0085", "=", "<<", "*a", "&a", "!t", "{}", "[1]", "%", "@", "`", "|",
    ">", "1e3", ".5", "0o17", "08", "2020-01-01", "\x07", "𝄞", "true", "1.0", "long " * 30,
]  # fmt: skip
STRUCTURE = ["\n  ", "\n", "a: ", "b: ", "- ", "[", "]", ",", "{", "}"]
NUMBERS = [1, True, False, None, 0.0, -0.0, 1.0, 1e17, 1e-7, float("inf"), float("nan"), -5, 10**30]
WRITERS = [
    pytest.param(yamlio.dump_yaml, yamlio._Dumper, id="files"),
    pytest.param(manifests.dump, manifests._Dumper, id="manifests"),
]


def the_long_way(data: Any, dumper: Any) -> str:
    return str(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110))


def text_of(chance: random.Random) -> str:
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(0, 4)))


def value_of(chance: random.Random, depth: int = 0) -> Any:
    draw = chance.random()
    if depth > 4 or draw < 0.45:
        return chance.choice([text_of(chance), text_of(chance), *NUMBERS])
    size = chance.randint(0, 4)
    if draw < 0.75:
        keys = [chance.choice([text_of(chance), text_of(chance), 3, True, None, 1.5]) for _ in range(size)]
        return {key: value_of(chance, depth + 1) for key in keys}
    return [value_of(chance, depth + 1) for _ in range(size)]


@pytest.mark.parametrize(("write", "dumper"), WRITERS)
def test_any_value_is_written_to_the_same_bytes(write: Any, dumper: Any) -> None:
    chance = random.Random(7)
    for _ in range(800):
        data = value_of(chance)
        assert write(data) == the_long_way(data, dumper), repr(data)


@pytest.mark.parametrize(("write", "dumper"), WRITERS)
def test_plans_are_written_to_the_same_bytes(write: Any, dumper: Any) -> None:
    for path in sorted(ROOT.glob("inventory/*/plan.yaml")):
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=yamlio._SafeLoader)
        assert write(data) == the_long_way(data, dumper), path


def test_equal_numbers_of_different_types_stay_apart() -> None:
    data = [1, True, 1.0, 0, False, 0.0, -0.0]
    assert yaml_events.write(data, lambda text: None) == (
        "- 1\n- true\n- 1.0\n- 0\n- false\n- 0.0\n- -0.0\n"
    )  # fmt: skip


def test_a_type_of_its_own_is_left_to_the_long_way() -> None:
    assert yaml_events.write({"path": Path("/")}, lambda text: None) is None


def test_texts_that_are_yaml_by_accident_are_read_alike_or_not_at_all() -> None:
    chance, read = random.Random(11), 0
    for _ in range(6000):
        text = "".join(chance.choice([*PIECES, *STRUCTURE]) for _ in range(chance.randint(1, 9)))
        quick = yaml_events.read(text, yamlio.DEEPEST)
        if quick is not None:
            read += 1
            assert repr(quick[0]) == repr(yaml.load(text, Loader=yamlio._SafeLoader)), repr(text)
    assert read > 500


def test_plans_and_catalog_are_read_the_quick_way() -> None:
    files = [*ROOT.glob("inventory/*/plan.yaml"), *ROOT.glob("src/rackwright/catalog/**/*.yaml")]
    for path in files:
        text = path.read_text(encoding="utf-8")
        quick = yaml_events.read(text, yamlio.DEEPEST)
        assert quick is not None, path
        assert quick[0] == yaml.load(text, Loader=yamlio._SafeLoader), path


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\n",
        "a: &x 1\nb: *x\n",
        "a: !t 1\n",
        "a: 2020-01-01\n",
        "<<: {a: 1}\n",
        "a: 1\na: 2\n",
        "[1]: 2\n",
        "a: 1\n---\nb: 2\n",
        "",
        "a: [\n",
        "a: " + "9" * 5000,
        "[" * 65 + "]" * 65,
    ],
)
def test_anything_out_of_the_ordinary_is_left_to_the_long_way(text: str) -> None:
    assert yaml_events.read(text, 64) is None


def test_sixty_four_levels_are_read_and_one_more_is_refused() -> None:
    assert yamlio.parse_yaml("[" * 64 + "]" * 64, "x").data is not None
    with pytest.raises(InputErrors, match="at most 64 levels"):
        yamlio.parse_yaml("[" * 65 + "]" * 65, "x")


def test_places_are_found_when_a_message_needs_one() -> None:
    document = yamlio.parse_yaml("a:\n  b:\n  - 1\n  - 2\n", "f.yaml")
    assert document.place(("a", "b", 1)) == "f.yaml:4 a.b[1]"
    assert document.holding({"c": 1}).place(("a",)) == "f.yaml:1 a"
