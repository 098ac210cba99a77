"""The comment on a pull request: what a reviewer reads of a preview, as golden files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rackwright.plan import Plan
from stacks.pull_request import MARKER, SIZE_LIMIT, comment
from stacks.rendering import manifests_of
from tests.golden import REPOSITORY, assert_golden
from tests.stacks.plans import changed, multi, single

GOLDEN = REPOSITORY / "tests" / "golden" / "pull_request"
SECRET = "hf_AbCdEfGhIjKlMnOpQrStUv"


def declared(plan: Plan | None) -> dict[str, Mapping[str, Any]]:
    if plan is None:
        return {}
    return {
        f"urn:pulumi:prod::rackwright::{m.registration.type}::{m.registration.name}": m.content
        for m in manifests_of(plan)
    }


def state(urn: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"urn": urn, "type": urn.split("::")[2], "custom": True, "inputs": content}


def preview(old: Plan | None, new: Plan | None) -> dict[str, Any]:
    """As `pulumi preview --json` tells it: unchanged objects are counted only."""
    before, after = declared(old), declared(new)
    steps, same = [], 0
    for urn in before.keys() | after.keys():
        was, will = before.get(urn), after.get(urn)
        if was == will:
            same += 1
            continue
        step: dict[str, Any] = {
            "op": "update" if was and will else "create" if will else "delete",
            "urn": urn,
        }
        step |= {"oldState": state(urn, was)} if was else {}
        step |= {"newState": state(urn, will)} if will else {}
        steps.append(step)
    steps.sort(key=lambda s: str(s["urn"]))
    stack = "urn:pulumi:prod::rackwright::pulumi:pulumi:Stack::rackwright-prod"
    own = {"urn": stack, "type": "pulumi:pulumi:Stack", "custom": False}
    steps.insert(0, {"op": "same", "urn": stack, "oldState": own, "newState": own})
    return {"steps": steps, "changeSummary": {"same": same}}


def replaced(found: dict[str, Any], kind: str, *reasons: str) -> dict[str, Any]:
    """The update of ``kind`` as a replacement: three steps of one object."""
    (step,) = (s for s in found["steps"] if s["urn"].split("::")[2].endswith(f":{kind}"))
    place = found["steps"].index(step)
    step |= {"op": "replace", "replaceReasons": list(reasons)}
    parts = [
        {"op": "create-replacement", "urn": step["urn"], "newState": step["newState"]},
        {"op": "delete-replaced", "urn": step["urn"], "oldState": step["oldState"]},
    ]
    found["steps"][place:place] = parts[:1]
    found["steps"].insert(place + 2, parts[1])
    return found


def rolled() -> Plan:
    """A flag more, a changed secret in clear, two GPUs fewer CPUs: all in the engine's pods."""
    args = multi().deployments[0].engine.roles[0].args
    return changed(
        multi(),
        deployments__0__engine__roles__0__args=[*args, "--enable-log-requests", f"--api-key={SECRET}"],
        deployments__0__engine__roles__0__env={"HF_TOKEN": SECRET},
        deployments__0__resources__cpus=40,
    )


CASES = {
    "first": (preview(None, single()), single()),
    "roll": (preview(multi(), rolled()), rolled()),
    "replace": (
        replaced(
            preview(single(), changed(single(), deployments__0__resources__cpus=4)),
            "Deployment",
            "spec.selector",
        ),
        single(),
    ),
    "gone": (preview(single(), None), single()),
    "nothing": (preview(single(), single()), single()),
    "failed": (
        {
            "steps": [],
            "diagnostics": [
                {"severity": "warning", "message": "using pulumi-language-python from $PATH"},
                {"severity": "error", "message": f"the server refused --token={SECRET}\nnext: log in"},
            ],
        },
        single(),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_comment(case: str) -> None:
    found, plan = CASES[case]
    text = comment(found, plan, "prod")
    assert SECRET not in text
    assert text.startswith(f"{MARKER}\n### Preview of `prod`: ")
    assert_golden(GOLDEN / f"{case}.md", text)


def test_what_restarts_is_what_diff_says() -> None:
    text = comment(*CASES["roll"], "prod")
    deployment = multi().deployments[0]
    kept = deployment.layout.replicas - deployment.rollout.max_unavailable
    assert f"at least **{kept}** of {deployment.layout.replicas} |" in text
    assert "+ `--enable-log-requests`" in text
    assert "**Nothing restarts.**" in comment(*CASES["first"], "prod")
    assert "**Nothing restarts.**" not in comment(*CASES["gone"], "prod")


def test_a_replaced_workload_serves_nothing_meanwhile_and_counts_once() -> None:
    text = comment(*CASES["replace"], "prod")
    layout = single().deployments[0].layout
    assert (
        f"| Deployment `chat` | all its pods | replaced: **0** of {layout.replicas} | `spec.selector` |"
        in text
    )
    assert "1 to replace" in text.splitlines()[1]


def test_a_comment_is_never_longer_than_a_host_takes() -> None:
    urn = "urn:pulumi:prod::rackwright::kubernetes:core/v1:NodePatch::n"
    content = {"kind": "Node", "metadata": {"name": "x" * 100}}
    steps = [{"op": "create", "urn": f"{urn}{i}", "newState": state(urn, content)} for i in range(2000)]
    text = comment({"steps": steps}, single(), "prod")
    assert SIZE_LIMIT - 200 < len(text) < 65_536
    assert "more: `make preview` shows them" in text
    assert text.endswith("</details>\n")


def test_a_value_ends_no_table_and_no_code() -> None:
    urn = "urn:pulumi:prod::rackwright::kubernetes:core/v1:ConfigMap::c"
    old, new = (
        {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": v}} for v in ("a|b", "`<x>\ny")
    )
    step = {"op": "update", "urn": urn, "oldState": state(urn, old), "newState": state(urn, new)}
    assert "  - `data.k`: `a¦b` → `'<x> y`" in comment({"steps": [step]}, single(), "prod").splitlines()
