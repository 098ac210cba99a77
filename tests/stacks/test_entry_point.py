"""The program as ``pulumi up`` runs it: configuration, the cluster's identity, and the same objects."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from rackwright.errors import CannotRun, InputErrors
from rackwright.plan import load_plan
from stacks import cluster_guard, settings
from stacks.cluster_guard import Expected
from stacks.embedded import run
from stacks.model import Environment, SecretRef
from tests.golden import REPOSITORY
from tests.stacks.fake_cluster import UID, ready_for, served
from tests.stacks.objects import EXAMPLES, registrations

CONFIG = {
    "rackwright:plan": "inventory/dev-1k/plan.yaml",
    "rackwright:context": "dev",
    "rackwright:identity": UID,
}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Leads to a cluster that is ready for the plan of CONFIG."""
    plan = load_plan(REPOSITORY / CONFIG["rackwright:plan"])
    with served(ready_for(plan), tmp_path) as path:
        yield path


def up(config: dict[str, str], kubeconfig: Path = Path("/nowhere"), uid: str = UID) -> dict[str, Any]:
    """What the entry point registers against the SDK's mocks, or the error it ends with. ``uid``: what the
    provider finds, which may be led elsewhere."""
    script = REPOSITORY / "tests" / "stacks" / "mocked_up.py"
    done = subprocess.run(
        [sys.executable, str(script), str(REPOSITORY), json.dumps(config), uid],
        capture_output=True, text=True, timeout=120, check=True, cwd=REPOSITORY / "stacks",
        env={"PYTHONPATH": str(REPOSITORY / "src"), "KUBECONFIG": str(kubeconfig)},
    )  # fmt: skip
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def whole(value: Any) -> Any:
    """Mocks hand numbers over as doubles."""
    if isinstance(value, dict):
        return {k: whole(v) for k, v in value.items()}
    if isinstance(value, list):
        return [whole(v) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def test_the_real_entry_point_registers_what_the_embedded_engine_records(kubeconfig: Path) -> None:
    result = up({**CONFIG, "rackwright:joined": '["pro6000-01"]'}, kubeconfig)
    assert "error" not in result
    real = {
        (r["type"], r["name"]): whole(r["inputs"])
        for r in result["seen"]
        if r["type"].startswith("kubernetes:") and r["name"] != "kube-system"
    }
    plan = load_plan(REPOSITORY / CONFIG["rackwright:plan"])
    found = registrations(plan, Environment(joined=frozenset({"pro6000-01"})))
    assert real == {(r.type, r.name): r.inputs for r in found if r.custom}
    through = {r["provider"].rpartition("::")[2] for r in result["seen"] if r["name"] in ("chat", "dev-1k")}
    assert through == {"cluster"}


def test_nothing_is_declared_in_another_cluster(kubeconfig: Path) -> None:
    result = up({**CONFIG, "rackwright:identity": "another"}, kubeconfig)
    assert "must be the kube-system UID of the cluster behind context dev" in result["error"]
    assert result["seen"] == []


def test_nothing_is_declared_where_the_provider_is_led_elsewhere(kubeconfig: Path) -> None:
    result = up(CONFIG, kubeconfig, uid="of-another-cluster")
    assert "must be the kube-system UID of the cluster behind context dev" in result["error"]
    assert [r["name"] for r in result["seen"]] == ["identity", "kube-system"]


def test_nothing_is_declared_where_the_cluster_is_not_ready_for_it(tmp_path: Path) -> None:
    cluster = ready_for(load_plan(REPOSITORY / CONFIG["rackwright:plan"]))
    cluster.denied = {("create", "namespaces", "")}
    with served(cluster, tmp_path) as path:
        result = up(CONFIG, path)
    assert "permission on namespaces · must be given: create · found it refused" in result["error"]
    assert result["seen"] == []


def test_nothing_is_declared_before_the_cluster_is_named() -> None:
    result = up({"rackwright:plan": CONFIG["rackwright:plan"]})
    assert "rackwright:context · must be the cluster's name in the kubeconfig" in result["error"]
    assert "rackwright:identity · must be the cluster's kube-system UID" in result["error"]
    assert result["seen"] == []


def test_identity_is_compared_as_it_is() -> None:
    expected = Expected("prod", "prod", UID)
    cluster_guard.refuse_other(expected, UID)
    for other in (None, "", UID.upper(), UID[:-1]):
        with pytest.raises(InputErrors, match="it is another cluster"):
            cluster_guard.refuse_other(expected, other)


def _read(values: dict[str, str], root: Path = REPOSITORY) -> Environment:
    found: list[Environment] = []
    full = {f"rackwright:{key}": value for key, value in values.items()}
    run(lambda: found.append(settings.environment(pulumi.Config("rackwright"), root)), config=full)
    return found[0]


def test_the_environment_is_read_from_configuration(tmp_path: Path) -> None:
    definition = {"kind": "CustomResourceDefinition", "metadata": {"name": "a.b"}, "spec": {}}
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump_all([definition, {"kind": "Other"}]))
    found = _read(
        {
            "joined": '["a", "b"]',
            "protect": "false",
            "apiKeySecret": '{"name": "n", "key": "k"}',
            "certificateSecret": "cert",
            "crds": ".",
        },
        tmp_path,
    )
    assert found == Environment(
        joined=frozenset({"a", "b"}),
        protect=False,
        api_key=SecretRef("n", "k"),
        certificate="cert",
        crds=(definition,),
    )
    assert _read({}) == Environment()


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ({"joined": '"gpu-1"'}, InputErrors, "must be a list of node names"),
        ({"apiKeySecret": '{"value": "sk-1"}'}, InputErrors, "never its value"),
        ({"crds": "no-such-folder"}, CannotRun, "must hold CustomResourceDefinitions"),
    ],
)
def test_a_wrong_value_is_refused(values: dict[str, str], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        _read(values)


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_has_a_stack_that_names_its_plan_and_no_secret(name: str) -> None:
    config = yaml.safe_load((REPOSITORY / f"Pulumi.{name}.yaml").read_text())["config"]
    assert (REPOSITORY / config["rackwright:plan"]).is_file()
    assert config["rackwright:identity"] == cluster_guard.UNSET
    assert set(config["rackwright:apiKeySecret"]) == {"name", "key"}
    known = {"plan", "context", "identity", "joined", "protect", "apiKeySecret", "certificateSecret", "crds"}
    assert {key.partition(":")[2] for key in config} <= known | {"adopt", "operators"}


def test_what_is_meant_of_the_cluster_is_read_from_configuration() -> None:
    found: list[Expected] = []
    values = {
        "context": "c",
        "identity": "i",
        "adopt": "true",
        "operators": '{"keda": "any", "gateway": "1.8.0"}',
    }
    run(
        lambda: found.append(settings.expected_cluster(pulumi.Config("rackwright"), "prod")),
        config={f"rackwright:{key}": value for key, value in values.items()},
    )
    assert found == [Expected("prod", "c", "i", True, {"keda": "any", "gateway": "1.8.0"})]


@pytest.mark.parametrize("value", ['{"kedda": "any"}', '{"keda": "latest"}', '["keda"]'])
def test_an_unknown_operator_or_version_is_refused(value: str) -> None:
    with pytest.raises(InputErrors, match="rackwright:operators · must be a version, or any, for each of"):
        run(
            lambda: settings.expected_cluster(pulumi.Config("rackwright"), "prod"),
            config={"rackwright:operators": value},
        )


def test_the_programs_folder_does_not_hide_the_standard_library(kubeconfig: Path) -> None:
    """With stacks/ on the path, ``import platform`` anywhere would find the program's own file."""
    path = up(CONFIG, kubeconfig)["path"]
    assert str(REPOSITORY / "stacks") not in path
    assert path[0] == str(REPOSITORY)
