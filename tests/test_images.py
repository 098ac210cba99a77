"""Images of a site without the internet: every one from its registry, and how they get there."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rackwright.catalog import load_catalog
from rackwright.cli.cmd_images import command
from rackwright.errors import InputErrors
from rackwright.images import host_of, mirrored
from rackwright.plan import Plan, save_plan
from rackwright.sizing.size import size
from rackwright.workload import Workload, load_workload
from stacks.manifests import Manifest
from stacks.rendering import manifests_of, render
from tests.golden import REPOSITORY

MIRROR = "registry.dc1.internal:5000/outside"
ZEROS = "sha256:" + "0" * 64


def workload(**registry: str) -> Workload:
    asked = load_workload(REPOSITORY / "inventory" / "roce-100k" / "workload.yaml").as_dict()
    asked["site"]["registry"] = {"mirror": MIRROR, **registry}
    return Workload.model_validate(asked)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return size(workload(pull_secret="mirror-reader"), load_catalog())


@pytest.fixture(scope="module")
def objects(plan: Plan) -> dict[str, Manifest]:
    return {f"{m.kind} {m.name}": m for m in manifests_of(plan)}


@pytest.mark.parametrize(
    ("image", "host", "kept"),
    [
        ("docker.io/vllm/vllm-openai", "docker.io", "m/docker.io/vllm/vllm-openai"),
        ("vllm/vllm-openai", "docker.io", "m/docker.io/vllm/vllm-openai"),
        ("nvcr.io/nvidia", "nvcr.io", "m/nvcr.io/nvidia"),
        ("localhost/x", "localhost", "m/localhost/x"),
        ("reg:5000/x/y", "reg:5000", "m/reg:5000/x/y"),
    ],
)
def test_a_mirror_keeps_the_makers_registry_in_the_path(image: str, host: str, kept: str) -> None:
    assert host_of(image) == host
    assert mirrored(image, "m") == kept
    assert mirrored(image, None) == image


def test_every_image_is_the_mirrors(plan: Plan, objects: dict[str, Manifest], tmp_path: Path) -> None:
    pods = objects["LeaderWorkerSet kimi-k2-instruct"].content["spec"]["leaderWorkerTemplate"]
    for role in ("leaderTemplate", "workerTemplate"):
        spec = pods[role]["spec"]
        assert spec["containers"][0]["image"] == f"{MIRROR}/docker.io/vllm/vllm-openai@{ZEROS}"
        assert spec["imagePullSecrets"] == [{"name": "mirror-reader"}]
    driver = objects["ClusterPolicy cluster-policy"].content["spec"]["driver"]
    assert driver["repository"] == f"{MIRROR}/nvcr.io/nvidia"
    assert driver["imagePullSecrets"] == ["mirror-reader"]
    nics = objects["NicClusterPolicy nic-cluster-policy"].content["spec"]["global"]
    assert nics["repository"] == f"{MIRROR}/nvcr.io/nvidia/mellanox"
    rendered = render(plan, tmp_path / "out")
    assert [str(f) for f in rendered.findings if f.severity == "error"] == []
    assert [name for name in rendered.secrets if "mirror-reader" in name] == [
        "<its operator's namespace>/mirror-reader (a registry's login)",
        "roce-100k/mirror-reader (a registry's login)",
    ]
    assert plan.expectations["h200"].os.names == (
        "ntp1.dc1.internal", "ntp2.dc1.internal", "registry.dc1.internal",
    )  # fmt: skip


def test_an_image_from_elsewhere_is_an_error(plan: Plan, tmp_path: Path) -> None:
    route = plan.routes[0].model_copy(update={"picker_image": f"ghcr.io/llm-d/picker@{ZEROS}"})
    rendered = render(plan.model_copy(update={"routes": (route,)}), tmp_path / "out")
    (found,) = [f for f in rendered.findings if f.rule == "image-from-mirror"]
    assert found.severity == "error"
    assert found.problem.found == f"ghcr.io/llm-d/picker@{ZEROS}"


def test_without_a_registry_nothing_changes() -> None:
    asked = load_workload(REPOSITORY / "inventory" / "roce-100k" / "workload.yaml")
    plain = size(asked, load_catalog())
    assert "registry" not in asked.as_dict()["site"]
    assert plain.platform is not None
    assert plain.platform.registry is None
    assert plain.deployments[0].engine.image == f"docker.io/vllm/vllm-openai@{ZEROS}"
    assert "imagePullSecrets" not in str([m.content for m in manifests_of(plain)])


def test_commands_that_fill_the_mirror(plan: Plan, tmp_path: Path) -> None:
    save_plan(plan, tmp_path / "plan.yaml")
    listed = CliRunner().invoke(command, [str(tmp_path / "plan.yaml")], catch_exceptions=False)
    assert listed.output.splitlines()[0] == (
        f"{MIRROR}/docker.io/vllm/vllm-openai@{ZEROS}  (engine of kimi-k2-instruct)"
    )
    copied = CliRunner().invoke(command, [str(tmp_path / "plan.yaml"), "--copy", "crane"])
    assert copied.output.splitlines() == [
        f"crane copy docker.io/vllm/vllm-openai@{ZEROS} {MIRROR}/docker.io/vllm/vllm-openai@{ZEROS}",
        f"crane copy ghcr.io/llm-d/llm-d-router-endpoint-picker@{ZEROS} "
        f"{MIRROR}/ghcr.io/llm-d/llm-d-router-endpoint-picker@{ZEROS}",
    ]
    save_plan(
        size(load_workload(REPOSITORY / "inventory/dev-1k/workload.yaml"), load_catalog()), tmp_path / "p"
    )
    with pytest.raises(InputErrors, match=r"name the site's in the workload: site\.registry\.mirror"):
        CliRunner().invoke(command, [str(tmp_path / "p"), "--copy", "crane"], catch_exceptions=False)


@pytest.mark.parametrize(
    "mirror", ["https://registry", "registry/UPPER", "registry/", "a b", "reg:port/x", ""]
)
def test_a_mirror_is_a_host_and_a_path(mirror: str) -> None:
    with pytest.raises(ValueError, match="mirror"):
        workload(mirror=mirror)
