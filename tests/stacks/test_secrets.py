"""A secret in a plan: found in whatever form it comes, never written, never printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rackwright import render_rules
from rackwright.plan import Plan, save_plan
from stacks.rendering import render
from tests.stacks.objects import objects
from tests.stacks.plans import changed, single
from tests.stacks.test_render import invoke

SECRET = "sk-Zm9vYmFyYmF6cXV4"


def with_args(*words: str) -> Plan:
    args = single().deployments[0].engine.roles[0].args
    return changed(single(), deployments__0__engine__roles__0__args=[*args, *words])


def with_env(name: str, value: str) -> Plan:
    return changed(single(), deployments__0__engine__roles__0__env={name: value})


PLANS = {
    "flag": with_args(f"--api-key={SECRET}"),
    "flag and word": with_args("--api-key", "swordfish"),
    "misspelt flag": with_args(f"--api-kee={SECRET}"),
    "unknown flag": with_args("--registry-password=swordfish"),
    "value of another flag": with_args(f"--served-model-name={SECRET}"),
    "in a command": changed(
        single(),
        deployments__0__engine__roles__0__command=["sh", "-c", "exec vllm serve --api-key swordfish"],
    ),
    "variable": with_env("VLLM_API_KEY", "swordfish"),
    "variable of another name": with_env("HUB", "hf_AbCdEfGhIjKlMnOpQrStUv"),
    "in a rule": changed(single(), routes__0__request_timeout=SECRET),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("present", [False, True])
def test_nothing_is_written_while_a_secret_stands_in_clear(tmp_path: Path, plan: Plan, present: bool) -> None:
    out = tmp_path / "out"
    if present:
        render(single(), out)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    save_plan(plan, tmp_path / "plan.yaml")
    code, text = invoke(str(tmp_path / "plan.yaml"), "-o", str(out))
    assert code == 1
    assert "must not hold a secret" in text
    assert "nothing was written, since secrets stand in clear" in text
    assert "kubectl apply" not in text
    assert not any(word in text for word in (SECRET, "swordfish", "hf_AbC"))
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    assert out.exists() == present


@pytest.mark.parametrize(
    "plan",
    [
        with_args("--api-key=$(VLLM_API_KEY)"),
        with_args("--hf-token", "$(HF_TOKEN)"),
        with_env("HF_TOKEN", "$(OTHER)"),
        with_args("--stop-token=128009"),
    ],
)
def test_a_reference_to_a_secret_is_none(tmp_path: Path, plan: Plan) -> None:
    assert render(plan, tmp_path / "out").exposed == ()


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ({"adminPassword": "swordfish"}, 1),
        ({"ngc": {"apiKey": "swordfish"}, "token": ""}, 1),
        ({"existingSecret": "name", "automountServiceAccountToken": False}, 0),
        ({"env": [{"name": "X", "value": SECRET}]}, 1),
    ],
)
def test_values_of_a_chart_are_looked_through(values: dict[str, Any], count: int) -> None:
    found = list(render_rules.secrets_in("helm/x.yaml", {"chart": "x", "values": values}))
    assert [f.rule for f in found] == ["no-secret"] * count
    assert "swordfish" not in str(found)


def test_a_key_in_any_object_is_found() -> None:
    content = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": f"x {SECRET} y"}}
    found = render_rules.check(single(), [*objects(single()).values(), content])
    assert [(f.rule, f.problem.where) for f in found] == [("no-secret", "ConfigMap c data.a")]
