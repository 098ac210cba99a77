"""The runbook: out of the plan and the registry, complete, and safe to paste from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from checks.report.runbook import STAGES, runbook, show, stages
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


def _owned_by(owner: str) -> Any:
    sized = multi()
    assert sized.platform is not None
    return sized.model_copy(update={"platform": sized.platform.model_copy(update={"driver_owner": owner})})


@pytest.mark.parametrize(
    ("owner", "order"),
    [
        ("host", ["os", "driver", "fabric", "storage", "preflight", "cluster", "stand-up", "go-live"]),
        (
            "gpu-operator",
            ["os", "cluster", "driver", "fabric", "storage", "preflight", "stand-up", "go-live"],
        ),
    ],
)
def test_an_operator_that_owns_the_driver_comes_before_it(owner: str, order: list[str]) -> None:
    sized = _owned_by(owner)
    assert [s.key for s in stages(sized)] == ["rack", "bmc", *order]
    text = runbook(sized, REGISTRY)
    titles = {s.key: s.title for s in STAGES}
    heads = [f"## Step {n}: {titles[key]}" for n, key in enumerate(["rack", "bmc", *order], 1)]
    assert [line for line in text.splitlines() if line.startswith("## Step ")] == heads
    assert "| Platform (steps 3 to 9) |" in text and "| Service owner (step 10) |" in text
    assert ("driver.enabled=false" in text) is (owner == "host")


def test_standing_up_has_everything_that_pods_wait_for() -> None:
    sized = multi()
    text = runbook(sized, REGISTRY, plan_file="plan.yaml")
    assert sized.platform is not None
    space = sized.platform.namespace
    up = text.partition(": Stand up\n")[2].partition("<a id=")[0]
    cluster = text.partition(": Cluster and operators\n")[2].partition("<a id=")[0]
    for operator in sized.platform.operators:
        assert f"`{operator.name}` {operator.version} in namespace `{operator.namespace}`" in cluster
    assert "get namespace kube-system -o jsonpath='{.metadata.uid}'" in cluster
    assert "pulumi config set rackwright:identity <uid>" in cluster
    assert f"-n {space} create secret generic engine-api-key --from-file=token=" in up
    assert f"-n {space} create secret tls gateway-tls --cert=" in up
    for volume in sized.volumes:
        weights = sized.deployment(volume.deployment).weights
        assert f"claimName: {volume.name}" in up and f"mountPath: {volume.mount_path}" in up
        assert weights.source.removeprefix("hf://") in up and weights.manifest_path in up
    assert sized.volumes
    assert "rackwright render plan.yaml -o rendered" in up and "apply --server-side -k rendered" in up
    assert "pulumi up --stack <env>" in up and "pulumi refresh --stack <env>" in up


def test_remedies_hold_the_plans_values() -> None:
    text = runbook(plan(), REGISTRY)
    assert not re.search(r"\b(?:WATTS|BRANCH|MODEL_DIR)\b", text)


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
