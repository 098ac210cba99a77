"""An environment for every row of the hardware guide's table: sized, rendered, and named on its page."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
import yaml

from rackwright.catalog import load_catalog
from rackwright.hosts import decide
from rackwright.plan import Plan, load_plan
from rackwright.sizing.joint import plan_of
from rackwright.workload import load_workload
from rackwright.yamlio import dump_yaml
from stacks.hosts.rendering import texts_of
from stacks.rendering import render
from tests.golden import REPOSITORY, assert_golden

PAGE = REPOSITORY / "docs" / "environments.md"
EVERY = sorted(path.parent.name for path in REPOSITORY.glob("inventory/*/plan.yaml"))
REVIEWED = {"adapters", "campus", "dev-1k", "h200-10k", "nvl72", "pro6000-hosts", "roce-100k", "tenants"}
"""Environments whose files are goldens one by one, in tests of their target."""
WALL = [name for name in EVERY if name not in REVIEWED]


def committed(name: str) -> Plan:
    return load_plan(REPOSITORY / "inventory" / name / "plan.yaml")


@pytest.mark.parametrize("name", WALL)
def test_committed_plans_are_what_sizing_gives(name: str) -> None:
    folder = REPOSITORY / "inventory" / name
    assert_golden(
        folder / "plan.yaml", plan_of(load_workload(folder / "workload.yaml"), load_catalog()).to_yaml()
    )
    assert committed(name).header.name == name


@pytest.mark.parametrize("name", WALL)
def test_what_it_renders_to(name: str, tmp_path: Path) -> None:
    """Names of all files, and the digest of each, so that no change of one goes unseen."""
    plan = committed(name)
    if plan.sites[0].target == "hosts":
        assert [host.host for host in decide(plan)] == [n.name for pool in plan.pools for n in pool.nodes]
        files = {path: text.encode() for path, text in texts_of(plan).items()}
    else:
        rendered = render(plan, tmp_path / "out")
        assert [str(f) for f in rendered.findings if f.severity == "error"] == []
        out = tmp_path / "out"
        files = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*.yaml")}
        index = yaml.safe_load(files.pop("index.yaml"))
        assert index["digest"] == plan.digest
        assert len([f for f in files if f.startswith("nodes/")]) == len(plan.pools[0].nodes)
        files.pop("kustomization.yaml")
    short = {path: hashlib.sha256(body).hexdigest()[:12] for path, body in sorted(files.items())}
    assert_golden(REPOSITORY / "tests/golden/environments" / f"{name}.yaml", dump_yaml(short))


@pytest.mark.parametrize("name", EVERY)
def test_each_has_a_stack_of_its_own(name: str) -> None:
    stack = yaml.safe_load((REPOSITORY / f"Pulumi.{name}.yaml").read_text(encoding="utf-8"))["config"]
    assert stack["rackwright:plan"] == f"inventory/{name}/plan.yaml"
    assert ("rackwright:inventory" in stack) == (committed(name).sites[0].target == "hosts")


def row(plan: Plan) -> str:
    """What the page says of a plan: replicas and layout, machines, and what they cost to buy."""
    deployment, pool, cost = plan.deployments[0], plan.pools[0], plan.cost
    assert cost is not None
    capex, model = cost.capex.amount, f"{deployment.model} {deployment.weights.quantisation}"
    price = f"{capex / 1e6:,.2f}M" if capex >= 1e6 else f"{capex / 1e3:,.0f}k"
    cells = (
        f"{len(pool.nodes)} × {pool.machine}",
        f"{model}, {deployment.layout.replicas} × {deployment.layout.words}",
        deployment.engine.name,
        f"{price} {cost.currency}",
    )
    return " | ".join(cells)


def test_the_page_says_what_the_plans_say() -> None:
    found = {
        m[1]: m[2] for m in re.finditer(r"^\| `([\w-]+)` \| [^|]+ \| (.+) \|$", PAGE.read_text("utf-8"), re.M)
    }
    single = [name for name in EVERY if not committed(name).workload.also]
    assert found == {name: row(committed(name)) for name in single}
