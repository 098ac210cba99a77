"""Every check on every host, pool and rack of the inventory: see ``conftest.py``."""

from __future__ import annotations

import pytest

from checks.conftest import SESSION
from checks.explain import explain
from rackwright.verdict import Result, Status


def test_check(verdict: Result, request: pytest.FixtureRequest) -> None:
    if verdict.status is Status.FAIL:
        check = request.config.stash[SESSION].registry[verdict.check]
        pytest.fail(explain(verdict, check), pytrace=False)
