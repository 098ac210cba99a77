"""Whatever raises a simulated rack is run by one process, and the longest parts are there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.golden import REPOSITORY
from tests.sharing import FIRST, RACKS, part, rank

RAISES = re.compile(r"Rack\.temporary\(|-m\W+tools\.(rack|demo)\b")


def test_whatever_raises_a_rack_is_one_part() -> None:
    files = {*(REPOSITORY / "tests").rglob("test_*.py")} - {Path(__file__)}
    names = [str(p.relative_to(REPOSITORY)) for p in files if RAISES.search(p.read_text())]
    assert {"tests/rack/test_acceptance.py", "tests/test_demo.py"} <= set(names)
    assert [name for name in names if part(f"{name}::test_one") != "racks"] == []


def test_pages_are_of_that_part_as_their_sessions_raise_racks() -> None:
    assert "python -m tools.rack up" in (REPOSITORY / "README.md").read_text()
    assert part("tests/test_docs.py::test_sessions_print_what_the_page_says[README.md]") == "racks"


def test_the_parts_named_are_there_and_are_started_first() -> None:
    assert [name for name in (*FIRST, *RACKS) if name != "racks" and not (REPOSITORY / name).exists()] == []
    nodes = ["tests/cli/test_files.py::a", "tests/lab/test_guards.py::b", "tests/rack/test_rack.py::c"]
    assert sorted(nodes, key=rank) == [nodes[2], nodes[1], nodes[0]]
