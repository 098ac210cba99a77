"""Plans whose parts do not fit together: one clear error, never an exception of the machinery below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rackwright.errors import CannotRun, InputErrors
from stacks import rendering
from stacks.rendering import render
from tests.stacks.plans import changed, multi, single

BROKEN: dict[str, dict[str, Any]] = {
    "sites · must be given": {"sites": []},
    "pools · must be given": {"pools": []},
    "platform · must be given": {"platform": None},
    "deployments[0].pool · must name a pool": {"deployments__0__pool": "h10"},
    "pools[0].site · must name a site": {"pools__0__site": "dc2"},
    "routes[0].deployment · must name a deployment": {"routes__0__deployment": "chit"},
    "volumes[0].deployment · must name a deployment": {"deployments": []},
    "nodes_per_replica · must be at least 1": {"deployments__0__layout__nodes_per_replica": 0},
    "engine.roles · must hold the command line": {"deployments__0__engine__roles": []},
    "rail_addresses[0] · must be an IP address": {"pools__0__nodes__0__rail_addresses": ["10.0.0.300/31"]},
}


@pytest.mark.parametrize("plan", [single(), multi()], ids=["single", "multi"])
@pytest.mark.parametrize(("text", "change"), BROKEN.items(), ids=BROKEN)
def test_a_broken_plan_is_one_clear_error(
    tmp_path: Path, plan: Any, text: str, change: dict[str, Any]
) -> None:
    with pytest.raises(InputErrors) as caught:
        render(changed(plan, **change), tmp_path / "out")
    assert text in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    plan = changed(
        multi(), pools__0__site="dc2", deployments__0__pool="x", scaling__0__deployment="y", platform=None
    )
    with pytest.raises(InputErrors) as caught:
        render(plan, tmp_path / "out")
    assert len(caught.value.problems) == 4
    assert 'did you mean "dc1"' in str(caught.value)


@pytest.mark.parametrize("error", [ValueError("x\ny"), KeyError("k"), RuntimeError("coroutine raised")])
def test_what_no_object_can_carry_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def failing(_: Any) -> Any:
        raise error

    monkeypatch.setattr(rendering, "run", failing)
    with pytest.raises(CannotRun, match=type(error).__name__):
        render(single(), tmp_path / "out")
