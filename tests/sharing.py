"""How the tests are shared between processes: a file stays whole, and whatever raises racks is one part.

Simulated racks would disturb each other: they use the same addresses, and the ports that are free on them. A
lab has ports and a directory of its own, so two may run at once. Parts that take minutes are started first,
as the last one to end decides when the run ends.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

RACKS = ("tests/rack/", "tests/preflight/test_pairs.py", "tests/test_demo.py", "tests/test_docs.py")
FIRST = (
    "tests/lab/test_stack.py",
    "racks",
    "tests/lab/test_environments.py",
    "tests/lab/test_guards.py",
    "tests/engine/test_contract.py",
)
"""Parts that take longest, longest first; they would decide when a run ends if they were started last."""


def part(nodeid: str) -> str:
    """What is run by one process, in the order of its tests: `racks`, or the file of the test."""
    file = nodeid.partition("::")[0]
    return "racks" if file.startswith(RACKS) else file


def rank(nodeid: str) -> int:
    """Parts are started by this, and else in the order in which pytest finds them."""
    name = part(nodeid)
    return FIRST.index(name) if name in FIRST else len(FIRST)


class Parts(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return part(nodeid)


def scheduler(config: pytest.Config, log: object) -> Parts | None:
    """For `--dist loadfile`. By xdist's own order, the number of tests, the longest parts would come last."""
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return Parts(config, log)
