"""A pytest plugin (``-p tests.preflight.fake_checks``) and a registry for tests: one check a table line.

``RACKWRIGHT_FAKE_CHECKS`` holds the lines as JSON; real areas are not loaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import checks.areas.reach  # noqa: F401 - importing is registering
from checks import registry
from checks.registry import CHECKS, Check
from checks.view import NotMeasured
from rackwright.verdict import Load, Outcome, Severity, Status
from tests.preflight.shells import a_check

ENVIRONMENT = "RACKWRIGHT_FAKE_CHECKS"


def fake(name: str, says: str, severity: str, read_at: str = "-") -> Check:
    """A check whose judge gives what the table's first columns say."""

    def judge(_view: Any, _want: Any) -> Outcome:
        if says == "raises":
            raise KeyError("gpus")
        if says == "not measured":
            raise NotMeasured("`tool` is not installed on the host")
        return Outcome(
            status=Status(says),
            expected="five",
            actual="four",
            message="as the table says",
            load=None if read_at == "-" else Load(read_at),
        )

    expects = {"no expectation": "os.governor", "not applicable by plan": "os.swap"}.get(says, "")
    return a_check(name, severity=Severity(severity), judge=judge, expects=expects)


def install(lines: list[tuple[str, str, str, str]]) -> Mapping[str, Check]:
    found = {"net-reachable": CHECKS["net-reachable"]}
    for name, says, severity, read_at in lines:
        found[name] = fake(name, says, severity, read_at)
    return found


if os.environ.get(ENVIRONMENT):
    _REGISTRY = install([tuple(line) for line in json.loads(os.environ[ENVIRONMENT])])
    registry.load = lambda: _REGISTRY
