"""``check`` names what was edited, ``explain`` says where numbers are from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright.catalog import load_catalog
from rackwright.errors import HandEditedPlan, InputErrors
from rackwright.plan import Plan, load_plan
from rackwright.sizing.check import check, differences, load_for_check
from rackwright.sizing.lookup import find, value_at
from tests.golden import REPOSITORY

CATALOG = load_catalog()
PLAN = REPOSITORY / "inventory" / "roce-100k" / "plan.yaml"


def test_a_plan_as_written_has_no_findings() -> None:
    assert check(load_plan(PLAN), CATALOG) == []


def edited(tmp_path: Path, change: Any) -> Path:
    data = yaml.safe_load(PLAN.read_text(encoding="utf-8"))
    change(data)
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def test_a_hand_edit_is_named_with_both_values(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["deployments"][0]["layout"]["replicas"] = 3

    path = edited(tmp_path, change)
    with pytest.raises(HandEditedPlan):
        load_plan(path)
    found = check(load_for_check(path), CATALOG)
    assert [p.where for p in found] == ["deployments[0].layout.replicas"]
    assert "must be 40" in found[0].rule
    assert found[0].found == "3"


def test_an_edit_that_crosses_red_line_one_is_named_twice(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["deployments"][0]["memory"]["kv_gib"] = 79.0

    found = check(load_for_check(edited(tmp_path, change)), CATALOG)
    assert any("red line 1" in p.rule for p in found)


def test_a_dead_flag_is_named(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["deployments"][0]["engine"]["roles"][0]["args"].append("--swap-space=4")

    found = check(load_for_check(edited(tmp_path, change)), CATALOG)
    assert any("--swap-space" in str(p) and "engine" in p.where for p in found)


def test_differences_by_leaf() -> None:
    assert list(differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}], "c": 4})) == [
        ("a[1].b", 2, 3),
        ("c", ..., 4),
    ]


NUMBERS = ("load", "deployments", "cost", "pools", "sites")
NOT_DERIVED = re.compile(r"\.slo\.|\.engine\.port$|nodes\[\d+\]|rating_w|power_factor")


def leaves(node: Any, path: str) -> list[str]:
    if isinstance(node, dict):
        return [p for key, value in node.items() for p in leaves(value, f"{path}.{key}")]
    if isinstance(node, list):
        return [p for i, value in enumerate(node) for p in leaves(value, f"{path}[{i}]")]
    return [path] if isinstance(node, (int, float)) and not isinstance(node, bool) else []


@pytest.mark.parametrize("name", ["dev-1k", "h200-10k", "roce-100k"])
def test_every_derived_number_is_explained(name: str) -> None:
    plan: Plan = load_plan(REPOSITORY / "inventory" / name / "plan.yaml")
    body = plan.as_dict()
    for section in NUMBERS:
        for path in leaves(body[section], section):
            if not NOT_DERIVED.search(path):
                assert find(plan, path), path


def test_explained_values_are_the_plans_values() -> None:
    plan = load_plan(PLAN)
    for entry in plan.explanations:
        value = value_at(plan, entry.path)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and "formula" not in entry.value:
            assert float(entry.value) == pytest.approx(float(value), rel=1e-9), entry.path


def test_explain_suggests_the_nearest_path() -> None:
    with pytest.raises(InputErrors, match=r'did you mean "layout"'):
        find(load_plan(PLAN), "deployments[0].layot")


@pytest.mark.parametrize("name", ["workload", "plan", "results"])
def test_published_schemas_are_current(name: str) -> None:
    from rackwright.cli.cmd_schema import schema_text
    from tests.golden import assert_golden

    text = schema_text(name)
    json.loads(text)
    assert_golden(REPOSITORY / "docs" / "schemas" / f"{name}.schema.json", text)
