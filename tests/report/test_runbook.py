"""The runbook: out of the plan and the registry, complete, and safe to paste from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from checks.report.runbook import STAGES, runbook, show
from rackwright.errors import InputErrors
from tests.golden import assert_golden
from tests.report.build import REGISTRY, plan
from tests.stacks.plans import multi

GOLDEN = Path(__file__).parent / "golden"


def test_golden() -> None:
    assert_golden(GOLDEN / "rack-bring-up.md", runbook(plan(), REGISTRY))


def test_every_check_stands_in_it_once() -> None:
    text = runbook(plan(), REGISTRY)
    for name in REGISTRY:
        assert text.count(f"### `{name}`:") + text.count(f"- `{name}`: ") == 1


def test_every_step_and_rack_stands_in_it() -> None:
    text = runbook(plan(3, 2), REGISTRY)
    assert [text.count(f"## Step {n}: {s.title}\n") for n, s in enumerate(STAGES, 1)] == [1] * len(STAGES)
    assert [text.count(f"## Rack r0{n} (dc1)") for n in (1, 2, 3)] == [1, 1, 1]


def test_a_rack_over_its_rating_is_not_switched_on() -> None:
    sized = plan()
    site = sized.sites[0]
    racks = tuple(r.model_copy(update={"rating_w": 12_000.0}) for r in site.racks)
    over = sized.model_copy(update={"sites": (site.model_copy(update={"racks": racks}),)})
    text = runbook(over, REGISTRY)
    assert "Do not switch on r\\[01,02\\]" in text
    assert text.count("**over the rating by 3.6 kW: do not switch on**") == 2


def test_what_the_plan_lacks_is_said() -> None:
    sized = plan()
    hot = sized.expectations["hot"]
    without = hot.model_copy(update={"os": hot.os.model_copy(update={"thp": None})})
    text = runbook(sized.model_copy(update={"expectations": {"hot": without}}), REGISTRY)
    assert "**missing in the plan**" in text.partition("### `os-thp`")[2].partition("###")[0]


def test_not_applicable_is_listed_with_its_reason() -> None:
    assert "- `ib-link`: no InfiniBand in this plan" in runbook(plan(), REGISTRY)


SECTIONS: dict[str, Any] = {
    "sites": (), "pools": (), "deployments": (), "routes": (), "expectations": {}, "fabric": None,
    "platform": None,
}  # fmt: skip


@pytest.mark.parametrize(("section", "empty"), SECTIONS.items())
def test_a_plan_without_a_section_is_a_runbook_or_a_clear_error(section: str, empty: Any) -> None:
    without = multi().model_copy(update={section: empty})
    if section == "deployments":
        with pytest.raises(InputErrors, match="must name a deployment of the plan"):
            runbook(without, REGISTRY)
    else:
        assert runbook(without, REGISTRY).startswith("#")


def test_all_routes_that_lead_nowhere_are_said_at_once() -> None:
    routes = tuple(r.model_copy(update={"deployment": n}) for r in multi().routes for n in ("chta", "y"))
    with pytest.raises(InputErrors, match='did you mean "chat"') as caught:
        runbook(multi().model_copy(update={"routes": routes}), REGISTRY)
    assert [p.where for p in caught.value.problems] == ["routes[0].deployment", "routes[1].deployment"]


def test_plan_paths_are_quoted() -> None:
    assert "rackwright check 'my plan.yaml'" in runbook(plan(), REGISTRY, plan_file="my plan.yaml")


def test_values_carry_unit_and_direction() -> None:
    assert show("temperature_max_c", 85.0) == "at most 85 °C"
    assert show("headroom_bytes", 1_400_000_000_000) == "more than 1.40 TB"
    assert show("driver_min", "570.86.15") == "at least 570.86.15"
    assert show("pfc", (False, True)) == "0,1"
    assert show("thp", ("never", "madvise")) == "never, madvise"
    assert show("uniform", ()) == "none"


def test_every_command_of_ours_exists() -> None:
    """A runbook that names a command nobody wrote stops somebody at night."""
    from rackwright.cli import group

    named = set(re.findall(r"^\s*rackwright ([a-z-]+)", runbook(plan(), REGISTRY), re.M))
    assert "preflight" in named
    assert named <= set(group.list_commands(click.Context(group)))


def test_values_that_must_not_be_found_are_said_so() -> None:
    from checks import registry

    sized = multi()
    (name, hot), *_ = sized.expectations.items()
    found = {
        "gpu": hot.gpu.model_copy(update={"xid_fatal": (48, 62)}),
        "os": hot.os.model_copy(update={"kernel_faults": ("mce",)}),
    }
    expectations = {name: hot.model_copy(update=found)}
    text = runbook(sized.model_copy(update={"expectations": expectations}), registry.load())
    for name in ("log-xid", "log-hardware"):
        assert "| none of `" in text.partition(f"### `{name}`")[2].partition("###")[0]
