"""Every edit of a plan is named; broken links, secrets and paths that are none are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rackwright.catalog import load_catalog
from rackwright.errors import HandEditedPlan, InputErrors
from rackwright.plan import Plan, load_plan
from rackwright.sizing.check import check, notes, read_for_check
from rackwright.sizing.lookup import find
from rackwright.sizing.size import size
from rackwright.units import MILLISECONDS, parse_quantity
from rackwright.workload import Objectives, Users
from tests.golden import REPOSITORY

from .build import workload

CATALOG = load_catalog()
PLAN = REPOSITORY / "inventory" / "roce-100k" / "plan.yaml"
TEXT = PLAN.read_text(encoding="utf-8")


def edited(tmp_path: Path, path: str, value: Any, *, sealed: bool = False) -> Path:
    """The example plan with ``value`` at ``path``; ``...`` removes it; ``sealed`` states the new digest."""
    data = yaml.load(TEXT, Loader=yaml.CSafeLoader)
    node = data
    *above, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    for part in above:
        node = node[part]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    if sealed:
        data["digest"] = Plan.model_validate({k: v for k, v in data.items() if k != "digest"}).digest
    target = tmp_path / "plan.yaml"
    target.write_text(yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False), encoding="utf-8")
    return target


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("digest", "0" * 64, "digest"),
        ("digest", None, "digest"),
        ("digest", ..., "digest"),
        ("explanations.0.formula", "because", "explanations[0].formula"),
        ("explanations.0", ..., "explanations"),
        ("header.name", "other", "header.name"),
        ("deployments.0.engine.version", "9.9.9", "deployments[0].engine.version"),
        ("header.generated_by", "me", "header.generated_by"),
        ("header.workload_digest", "0" * 64, "header.workload_digest"),
        ("header.catalog_digest", "0" * 64, "digest"),
    ],
)
def test_check_names_what_load_refuses(path: str, value: Any, named: str, tmp_path: Path) -> None:
    target = edited(tmp_path, path, value)
    with pytest.raises(HandEditedPlan):
        load_plan(target)
    plan, digest = read_for_check(target)
    assert digest
    assert any(named in p.where for p in (*check(plan, CATALOG), *digest))


def test_another_catalog_is_a_note_and_no_finding(tmp_path: Path) -> None:
    plan, digest = read_for_check(edited(tmp_path, "header.catalog_digest", "0" * 64, sealed=True))
    assert check(plan, CATALOG) == []
    assert not digest
    assert "catalog" in next(notes(plan, CATALOG))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("deployments.0.engine.roles.0.env.HF_TOKEN", "hunter2"),
        ("deployments.0.engine.roles.0.env.DB_PASSWORD", "hunter2"),
        ("deployments.0.engine.roles.0.args.1", "--api-key=hunter2"),
        ("workload.overrides.engine_flags", {"api-key": "hunter2"}),
        ("workload.overrides.engine_flags", {"hf_token": "hunter2"}),
    ],
)
def test_a_secret_is_never_printed(path: str, value: Any, tmp_path: Path) -> None:
    plan, digest = read_for_check(edited(tmp_path, path, value))
    found = [*check(plan, CATALOG), *digest]
    assert found
    assert "hunter2" not in "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("deployments.0.pool", "h20", "deployments[0].pool · must name a pool of the plan (did you mean"),
        ("pools.0.site", "moon", "pools[0].site"),
        ("pools", [], "pools · must have an entry"),
        ("deployments.0.layout.nodes_per_replica", 0, "layout.nodes_per_replica · must be at least 1"),
        ("deployments.0.layout.replicas", -1, "layout.replicas"),
        ("deployments.0.engine.roles", [], "engine.roles"),
        ("pools.0.nodes.0.rail_addresses.0", "10.0.0.300/31", "rail_addresses[0]"),
        ("pools.0.nodes.0.rail_addresses", [], "rail_addresses"),
        ("pools.0.nodes.0.rack", "dc1-r999", "nodes[0].rack"),
        ("pools.0.nodes.0.name", "h200-02", "must have names that differ"),
        ("sites.0.racks.0.nodes.0", "ghost", "racks[0].nodes[0]"),
        ("volumes.0.deployment", "ghost", "volumes[0].deployment"),
        ("fabric.rails.0.subnet", "10.0.0.0/99", "fabric.rails[0].subnet"),
    ],
)
def test_a_link_that_leads_nowhere_is_refused(path: str, value: Any, named: str, tmp_path: Path) -> None:
    target = edited(tmp_path, path, value, sealed=True)
    with pytest.raises(InputErrors) as caught:
        load_plan(target)
    assert not isinstance(caught.value, HandEditedPlan)
    assert named in str(caught.value)
    plan, _ = read_for_check(target)
    assert any(named.split(" ", maxsplit=1)[0] in p.where for p in check(plan, CATALOG)) or "differ" in named


@pytest.mark.parametrize(
    "path",
    [
        "load.", ".", "header..name", "load[", "deployments[0].layout.replicas[", "]", " ", "", "[0]",
        "a]b", "deployments[" + "9" * 5000 + "]", "deployments.x", "load[0]", "sites[99999]",
        "deployments." + "9" * 5000,
    ],
)  # fmt: skip
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(InputErrors):
        find(load_plan(PLAN), path)


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="load.[]0 -x", max_size=12))
def test_any_path_is_found_or_refused(path: str) -> None:
    plan = _plan()
    try:
        find(plan, path)
    except InputErrors:
        return


_PLANS: list[Plan] = []


def _plan() -> Plan:
    if not _PLANS:
        _PLANS.append(load_plan(PLAN))
    return _PLANS[0]


def test_an_index_may_be_written_with_a_dot() -> None:
    assert find(_plan(), "deployments.0.layout.replicas") == find(_plan(), "deployments[0].layout.replicas")


@settings(deadline=None)
@given(st.floats(min_value=1e-3, max_value=86400e3))
def test_times_read_back_exactly(value: float) -> None:
    shown = Objectives(ttft_p95=f"{value!r} ms").model_dump(mode="json")["ttft_p95"]  # type: ignore[arg-type]
    assert parse_quantity(shown, MILLISECONDS, example="") == value


@settings(deadline=None)
@given(st.floats(min_value=0.02, max_value=99.9))
def test_shares_read_back_exactly(value: float) -> None:
    once = Users(dau=1, peak_hour=f"{value!r} %")  # type: ignore[arg-type]
    again = Users(dau=1, peak_hour=once.model_dump(mode="json")["peak_hour"])
    assert again.peak_hour == once.peak_hour


def test_a_plan_of_odd_numbers_is_as_its_workload_gives_it(tmp_path: Path) -> None:
    asked = workload(slo__tpot_p50="33.333333333333336 ms", users__peak_hour="15.123456789012 %")
    (tmp_path / "p.yaml").write_text(size(asked, CATALOG).to_yaml(), encoding="utf-8")
    assert check(load_plan(tmp_path / "p.yaml"), CATALOG) == []


def test_a_copy_with_another_value_has_another_digest() -> None:
    plan = load_plan(PLAN)
    stated = plan.digest
    other = plan.model_copy(update={"cautions": ()})
    assert plan.cautions and other.digest != stated and plan.digest == stated
    assert other.model_copy(update={"cautions": plan.cautions}).digest == stated
