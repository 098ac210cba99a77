"""The embedded and the real engine declare the same: type, name, parent, inputs, dependencies and options."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rackwright.plan import load_plan
from stacks.embedded import Registration, run
from stacks.model import Environment
from stacks.program import build
from tests.engine import needs
from tests.golden import REPOSITORY
from tools.engine.env import environment
from tools.engine.stack import Stack

pytestmark = [pytest.mark.engine, needs.engine()]

PROVIDER = "pulumi:providers:kubernetes"
STACK = "pulumi:pulumi:Stack"
PROGRAM = """\
import os
from pathlib import Path
import pulumi_kubernetes as k8s
from rackwright.plan import load_plan
from stacks.model import Environment
from stacks.program import build
plan = load_plan(Path(os.environ["PLAN"]))
nodes = frozenset(node.name for pool in plan.pools for node in pool.nodes)
provider = k8s.Provider("render", render_yaml_to_directory=os.environ["RENDERED"])
build(plan, Environment(joined=nodes), provider)
"""


def project(directory: Path, program: str, **variables: str) -> Stack:
    """A project of one small program, with an engine that sees no cluster."""
    folder = directory / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: rackwright\nruntime: python\n")
    (folder / "__main__.py").write_text(program)
    base = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    env = environment(directory / "pulumi", {**base, "HOME": str(directory), "PYTHONPATH": str(REPOSITORY)})
    stack = Stack("contract", folder, {**env, **variables})
    stack.ensure()
    return stack


@pytest.mark.parametrize(
    "plan",
    sorted(
        p.parent.name
        for p in REPOSITORY.glob("inventory/*/plan.yaml")
        if "target: kubernetes" in p.read_text()
    ),
)
def test_both_engines_declare_the_same(plan: str, tmp_path: Path) -> None:
    path = REPOSITORY / "inventory" / plan / "plan.yaml"
    stack = project(tmp_path, PROGRAM, PLAN=str(path), RENDERED=str(tmp_path / "rendered"))
    shown = stack.pulumi("preview", "--json", timeout_s=240)
    assert shown.returncode == 0, shown.stdout[-3000:] + shown.stderr
    states = [step["newState"] for step in json.loads(shown.stdout)["steps"]]
    real = {_name(s["urn"]): _real(s) for s in states if s["type"] not in {PROVIDER, STACK}}
    sized = load_plan(path)
    nodes = frozenset(node.name for pool in sized.pools for node in pool.nodes)
    embedded = {
        _name(r.urn): _embedded(r)
        for r in run(lambda: build(sized, Environment(joined=nodes)), stack="contract")
        if r.type != STACK
    }
    assert real.keys() == embedded.keys()
    assert {name: declared for name, declared in real.items() if declared != embedded[name]} == {}


def _name(urn: str) -> str:
    return urn.partition("::rackwright::")[2]


def _real(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": state["type"],
        "custom": state["custom"],
        "parent": _name(state.get("parent", "")),
        "inputs": _plain(state.get("inputs") or {}),
        "dependencies": sorted(_name(u) for u in state.get("dependencies") or [] if PROVIDER not in u),
        "property dependencies": _by_property(state.get("propertyDependencies") or {}),
        "protect": bool(state.get("protect")),
        "retain": bool(state.get("retainOnDelete")),
        "ignore": sorted(state.get("ignoreChanges") or ()),
    }


def _by_property(dependencies: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Property to what its value comes from; those that come from nothing are left out."""
    return {key: sorted(map(_name, urns)) for key, urns in dependencies.items() if urns}


def _embedded(registration: Registration) -> dict[str, Any]:
    return {
        "type": registration.type,
        "custom": registration.custom,
        "parent": _name(registration.parent),
        "inputs": _plain(registration.inputs),
        "dependencies": sorted(_name(u) for u in registration.dependencies),
        "property dependencies": _by_property(registration.property_dependencies),
        "protect": registration.protect,
        "retain": registration.retain_on_delete,
        "ignore": sorted(registration.ignore_changes),
    }


def _plain(value: Any) -> Any:
    """Without what the provider notes for itself."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if not key.startswith("__")}
    return [_plain(item) for item in value] if isinstance(value, list) else value


DEPENDENT = """\
import os, pulumi, pulumi_kubernetes as k8s
def build(provider=None):
    options = {"provider": provider} if provider else {}
    space = k8s.core.v1.Namespace("space", metadata={"name": "space"}, opts=pulumi.ResourceOptions(**options))
    k8s.core.v1.ConfigMap(
        "map",
        metadata={"name": "map", "namespace": space.metadata["name"]},
        data={"uid": space.id, "plain": "1"},
        opts=pulumi.ResourceOptions(
            **options, protect=True, retain_on_delete=True, ignore_changes=["data"], depends_on=[space]
        ),
    )
"""


def test_both_engines_record_what_each_property_comes_from(tmp_path: Path) -> None:
    """The plans' own values come from the plan alone; here two properties come from another object."""
    main = 'build(k8s.Provider("render", render_yaml_to_directory=os.environ["RENDERED"]))\n'
    stack = project(tmp_path, DEPENDENT + main, RENDERED=str(tmp_path / "rendered"))
    shown = stack.pulumi("preview", "--json", timeout_s=240)
    assert shown.returncode == 0, shown.stdout[-3000:] + shown.stderr
    (state,) = (s["newState"] for s in json.loads(shown.stdout)["steps"] if s["urn"].endswith("::map"))
    scope: dict[str, Any] = {}
    exec(DEPENDENT, scope)
    (registration,) = (r for r in run(scope["build"], stack="contract") if r.name == "map")
    real, embedded = _real(state), _embedded(registration)
    space = "kubernetes:core/v1:Namespace::space"
    assert real["property dependencies"] == {"data": [space], "metadata": [space]}
    assert real["protect"] and real["retain"] and real["ignore"] == ["data"]
    assert {k: v for k, v in real.items() if k != "inputs"} == {
        k: v for k, v in embedded.items() if k != "inputs"
    }


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import pulumi\nraise pulumi.RunError('told plainly')\n", "error: told plainly"),
        ("1/0\n", "ZeroDivisionError: division by zero"),
        ("import pulumi\npulumi.export('answer', 42)\n", "answer: 42"),
    ],
    ids=["RunError", "exception", "output"],
)
def test_the_language_host_tells_what_the_program_did(program: str, said: str, tmp_path: Path) -> None:
    stack = project(tmp_path, program)
    result = stack.pulumi("up", "--yes", "--skip-preview", timeout_s=120)
    # The progress has a line of it too; the diagnostics tell it whole.
    told = result.stdout[max(result.stdout.find("Diagnostics:"), 0) :]
    assert told.count(said) == 1
    assert "unhandled" not in result.stdout + result.stderr
    assert (result.returncode == 0) == ("answer" in said)
