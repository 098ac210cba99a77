"""``rackwright render``: the files, their order, their safety, and that a plan gives the same bytes."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from rackwright.cli import main
from rackwright.cli.cmd_render import command
from rackwright.crds import load_schemas
from rackwright.errors import CannotRun, InputErrors, RackwrightError
from rackwright.plan import Plan, load_plan, save_plan
from stacks import manifests as writer
from stacks.embedded import Registration
from stacks.program import PHASES
from stacks.rendering import manifests_of, render, staged_nodes
from tests.golden import REPOSITORY, SHARED, assert_golden
from tests.stacks.objects import EXAMPLES, manifests
from tests.stacks.plans import changed, multi, single

GOLDEN = REPOSITORY / "tests" / "golden" / "render"


def example(name: str) -> Plan:
    return load_plan(REPOSITORY / "inventory" / name / "plan.yaml")


def texts(plan: Plan) -> dict[str, str]:
    staged = staged_nodes(plan, ())
    return writer.files(manifests(plan), plan=plan.header.name, digest=plan.digest, staged=staged)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_render_as_reviewed(name: str) -> None:
    """Every object but the nodes', which differ in name and rack only: of those the first, and the hash of
    each in the index."""
    plan = example(name)
    first = plan.pools[0].nodes[0].name
    kept = {
        file: text
        for file, text in texts(plan).items()
        if not file.startswith("nodes/") or file.startswith(f"nodes/{first}.")
    }
    if os.environ.get("RACKWRIGHT_GOLDEN") == "write":
        shutil.rmtree(GOLDEN / name, ignore_errors=True)  # an object that is gone leaves no file behind
    for file, text in kept.items():
        assert_golden(GOLDEN / name / file, text)
    present = {p.relative_to(GOLDEN / name).as_posix() for p in (GOLDEN / name).rglob("*") if p.is_file()}
    assert present == set(kept)


@pytest.mark.skipif(not (SHARED / "crds").is_dir(), reason="no real schemas beside the checkout")
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_custom_resource_of_the_examples_fits_its_schema(name: str, tmp_path: Path) -> None:
    rendered = render(example(name), tmp_path / "out", schemas=load_schemas(SHARED / "crds"))
    assert [str(f) for f in rendered.findings if f.severity == "error"] == []
    assert rendered.unvalidated == ()
    assert len(rendered.validated) >= 8


@pytest.mark.skipif(not (SHARED / "crds").is_dir(), reason="no real schemas beside the checkout")
@pytest.mark.parametrize("plan", [single(), multi()], ids=["single", "multi"])
def test_every_custom_resource_of_the_small_plans_fits_its_schema(plan: Plan, tmp_path: Path) -> None:
    rendered = render(plan, tmp_path / "out", schemas=load_schemas(SHARED / "crds"))
    assert (rendered.findings, rendered.unvalidated) == ((), ())


def test_two_processes_render_the_same_bytes(tmp_path: Path) -> None:
    save_plan(multi(), tmp_path / "plan.yaml")
    program = (
        "import sys; from pathlib import Path; from rackwright.plan import load_plan; "
        "from stacks.rendering import render; "
        "render(load_plan(Path(sys.argv[1])), Path(sys.argv[2]))"
    )
    found = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "plan.yaml"), str(out)],
            check=True,
            cwd=REPOSITORY,
            timeout=120,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"},
        )
        found.append({p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()})
    assert found[0] == found[1]
    assert len(found[0]) > 30


@pytest.mark.parametrize(
    "text", ["123456e78901", "1e5", "0o17", "y", "N", "1_000", "007", "true", "null", "1.5"]
)
def test_text_stays_text_for_every_reader_of_yaml(text: str) -> None:
    """A digest such as 123456e78901 would reach the API server as a number and be refused as a label."""
    assert writer.dump({"a": text}) == f"a: '{text}'\n"
    assert writer.dump({"a": "3f9f16b79c2c"}) == "a: 3f9f16b79c2c\n"


def test_nothing_tells_when_it_was_rendered() -> None:
    for file, text in texts(multi()).items():
        assert not re.search(r"\b20\d\d-\d\d-\d\dT", text), file


def test_the_index_lists_every_object_in_order_of_application() -> None:
    found = texts(multi())
    index = yaml.safe_load(found["index.yaml"])
    assert index["digest"] == multi().digest
    assert set(index["files"]) == set(found)
    order = [PHASES.index(entry["phase"]) for entry in index["objects"]]
    assert order == sorted(order)
    for entry in index["objects"]:
        assert hashlib.sha256(found[entry["file"]].encode()).hexdigest() == entry["sha256"]
    protected = [e["object"] for e in index["objects"] if e.get("protect")]
    assert protected == ["v1 Namespace llm", "v1 PersistentVolumeClaim llm/chat-weights"]
    assert len(index["staged-nodes"]) == 4


def test_nodes_are_never_applied_with_the_rest() -> None:
    """Applying a node that has not joined would create an empty one."""
    found = texts(multi())
    applied = yaml.safe_load(found["kustomization.yaml"])["resources"]
    assert not any(file.startswith(("nodes/", "index", "helm/")) for file in applied)
    assert set(applied) <= set(found)
    node = yaml.safe_load(found["nodes/gpu-001.yaml"])
    assert node["metadata"]["name"] == "gpu-001"
    assert set(node["metadata"]) == {"name", "labels", "annotations"}
    assert set(node["metadata"]["annotations"]) == {"rackwright.dev/applied"}


def test_instructions_to_the_engine_are_not_rendered() -> None:
    assert not any("pulumi.com/" in text for text in texts(multi()).values())


def test_a_secret_never_reaches_a_file() -> None:
    secret = Registration(
        "kubernetes:core/v1:Secret",
        "s",
        "urn::s",
        "urn::p",
        True,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "namespace": "llm"},
            "data": {"k": "[secret]"},
        },
        secret_paths=(("data", "k"),),
    )
    parent = Registration("rackwright:stacks:Platform", "platform", "urn::p", "", False, {})
    found = writer.files(writer.manifests([parent, secret], PHASES), plan="p", digest="d")
    assert yaml.safe_load(found["10-platform/secret-llm-s.yaml"])["data"] == {"k": "[secret]"}
    assert yaml.safe_load(found["index.yaml"])["objects"][0]["redacted"] == ["data.k"]


RECORD = "90-record/configmap-llm-big-plan.yaml"


@pytest.mark.parametrize(
    ("change", "touched"),
    [
        ({"volumes__0__size_gib": 300}, {"40-storage/persistentvolumeclaim-llm-chat-weights.yaml"}),
        ({"scaling__0__max_replicas": 3}, {"70-autoscaling/scaledobject-llm-chat.yaml"}),
        ({"routes__0__request_timeout": "90s"}, {"60-gateway/httproute-llm-chat.yaml"}),
        ({"deployments__0__layout__replicas": 1}, set()),  # the scaler owns the number
        ({"deployments__0__resources__cpus": 40}, {"50-serving/leaderworkerset-llm-chat.yaml"}),
        ({"pools__0__nodes__0__rack": "r9"}, {"nodes/gpu-001.yaml"}),
        ({"disruption": None}, set()),
        (
            {"fabric__qos__dscp": 26, "fabric__qos__tos": 104},
            {"30-fabric/nicconfigurationtemplate-nvidia-network-operator-h100-nics.yaml"},
        ),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_a_change_of_the_plan_touches_what_depends_on_it(change: dict[str, Any], touched: set[str]) -> None:
    """Labels included; the record names the plan as a whole."""
    if "disruption" in change:
        change = {"header__generated_by": "another version"}
    before, after = texts(multi()), texts(changed(multi(), **change))
    assert before.keys() == after.keys()
    found = {file for file in before if before[file] != after[file]}
    assert found - {"index.yaml"} == {*touched, RECORD}


def test_a_second_render_replaces_the_first_and_leaves_other_files_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    render(multi(), out)
    (out / "README.md").write_text("ours")
    (out / "50-serving" / "extra.yaml").write_text("ours too")
    render(single(), out)
    present = {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}
    assert present == {*texts(single()), "README.md", "50-serving/extra.yaml"}
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("file", "text"),
    [("notes.txt", "mine"), ("index.yaml", "written-by: somebody else\n"), ("index.yaml", "- 1\n")],
)
def test_a_directory_of_somebody_else_is_refused_untouched(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(CannotRun, match="must be empty, new, or written by an earlier render"):
        render(single(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [file]


def test_a_file_of_somebody_else_in_the_way_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    render(single(), out)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    (out / "30-fabric").mkdir()
    (out / "30-fabric" / "hostdevicenetwork-rail-0.yaml").write_text("mine")
    with pytest.raises(CannotRun, match="hostdevicenetwork-rail-0"):
        render(multi(), out)
    assert {p: p.read_bytes() for p in before} == before


def test_a_file_is_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(CannotRun):
        render(single(), tmp_path / "out")


def test_two_objects_never_share_a_file() -> None:
    def thing(namespace: str, name: str) -> Registration:
        content = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
        }
        return Registration("kubernetes:core/v1:ConfigMap", name, f"urn::{name}", "urn::p", True, content)

    parent = Registration("rackwright:stacks:Platform", "platform", "urn::p", "", False, {})
    with pytest.raises(CannotRun, match="must hold one object"):
        writer.manifests([parent, thing("a-b", "c"), thing("a", "b-c")], PHASES)


def test_a_joined_node_must_be_in_the_plan(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match='did you mean "gpu-001"'):
        render(single(), tmp_path / "out", joined=["gpu-01"])
    assert staged_nodes(single(), ["gpu-002"]) == ("gpu-001", "gpu-003")


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, arguments)
    if isinstance(result.exception, RackwrightError):
        return result.exception.exit_code, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_the_command_renders_a_plan_and_says_what_comes_next(tmp_path: Path) -> None:
    save_plan(multi(), tmp_path / "plan.yaml")
    code, text = invoke(str(tmp_path / "plan.yaml"), "-o", str(tmp_path / "out"), "--joined", "gpu-001")
    assert code == 0
    assert re.search(r"^fabric +5  NicConfigurationTemplate, CIDRPool ×2, HostDeviceNetwork ×2$", text, re.M)
    assert "not validated  15 custom resources (no schemas given: --crds DIR): NicClusterPolicy, " in text
    assert "staged nodes   3: gpu-002, gpu-003, gpu-004" in text
    assert "make the Secret llm/engine-api-key (key token)" in text
    assert f"kubectl apply --server-side -k {tmp_path / 'out'}" in text


def test_the_command_sizes_a_workload_first(tmp_path: Path) -> None:
    workload = REPOSITORY / "inventory" / "dev-1k" / "workload.yaml"
    code, _ = invoke(str(workload), "-o", str(tmp_path / "out"))
    assert code == 0
    index = yaml.safe_load((tmp_path / "out" / "index.yaml").read_text())
    assert index["digest"] == example("dev-1k").digest


def test_a_workload_needs_no_schema_line(tmp_path: Path) -> None:
    text = (REPOSITORY / "inventory" / "dev-1k" / "workload.yaml").read_text()
    (tmp_path / "w.yaml").write_text(text.replace("schema: rackwright/workload/v1\n", ""))
    assert invoke(str(tmp_path / "w.yaml"), "-o", str(tmp_path / "out"))[0] == 0


def test_a_plan_edited_by_hand_is_not_rendered(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(multi().to_yaml().replace("max_replicas: 2", "max_replicas: 9"))
    code, text = invoke(str(tmp_path / "plan.yaml"), "-o", str(tmp_path / "out"))
    assert code == 2
    assert "must be the digest of the plan's content" in text
    assert not (tmp_path / "out").exists()


def test_a_cluster_s_plan_that_is_said_to_be_for_hosts_is_exit_status_2(tmp_path: Path) -> None:
    save_plan(changed(single(), sites__0__target="hosts"), tmp_path / "plan.yaml")
    code, text = invoke(str(tmp_path / "plan.yaml"), "-o", str(tmp_path / "out"))
    assert (code, 'must be "host" where there is no Kubernetes' in text) == (2, True)


def test_a_finding_is_exit_status_1(tmp_path: Path) -> None:
    image = {"deployments__0__engine__image": "vllm/vllm-openai:latest"}
    save_plan(changed(single(), **image), tmp_path / "plan.yaml")
    code, text = invoke(str(tmp_path / "plan.yaml"), "-o", str(tmp_path / "out"))
    assert code == 1
    assert "must be pinned by digest · found vllm/vllm-openai:latest" in text


def test_an_object_that_breaks_its_schema_is_exit_status_1(tmp_path: Path) -> None:
    definition = {
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "keda.sh",
            "scope": "Namespaced",
            "names": {"kind": "ScaledObject"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "properties": {"x": {}}}},
                        }
                    },
                }
            ],
        },
    }
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "keda.yaml").write_text(yaml.safe_dump(definition))
    save_plan(multi(), tmp_path / "plan.yaml")
    out, crds = str(tmp_path / "out"), str(tmp_path / "crds")
    code, text = invoke(str(tmp_path / "plan.yaml"), "-o", out, "--crds", crds)
    assert code == 1
    assert "validated      1 custom resources against their schema" in text
    assert (
        "not validated  14 custom resources of kinds without a schema: NicClusterPolicy, ClusterPolicy, "
    ) in text
    assert "CIDRPool ×2" in text.partition("not validated")[2].partition("\n")[0]
    assert 'must be a known field · found "scaleTargetRef"' in text


def test_what_is_wrong_with_a_workload_is_said_with_its_line(tmp_path: Path) -> None:
    text = (REPOSITORY / "inventory" / "dev-1k" / "workload.yaml").read_text()
    file = tmp_path / "w.yaml"
    file.write_text(re.sub(r"dau: .*", "dau: 900000000", text))
    code, said = invoke(str(file), "-o", str(tmp_path / "out"))
    line = next(n for n, t in enumerate(text.splitlines(), 1) if "nodes:" in t)
    assert (code, said.startswith(f"{file}:{line} hardware.nodes · ")) == (1, True)
    assert not (tmp_path / "out").exists()


def test_a_value_cannot_drive_the_terminal(tmp_path: Path) -> None:
    image = {"deployments__0__engine__image": "vllm\x1b[2J\x9b31m\u202eopenai:latest\r\x07"}
    save_plan(changed(single(), **image), tmp_path / "plan.yaml")
    code, text = invoke(str(tmp_path / "plan.yaml"), "-o", str(tmp_path / "out"))
    assert code == 1
    assert r"found vllm\x1b[2J\x9b31m\u202eopenai:latest\r\x07" in text


def test_errors_cannot_drive_the_terminal_either(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["render", "no\x1b[31msuch\u2028file.yaml", "-o", "out"])
    assert caught.value.code == 2
    assert r"no\x1b[31msuch\u2028file.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "", "just text", "a: 1\n", "schema: rackwright/workload/v1\n"])
def test_bad_input_is_exit_status_2(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "input.yaml"
    if content is not None:
        file.write_text(content)
    code, text = invoke(str(file), "-o", str(tmp_path / "out"))
    assert code == 2
    assert "next" in text
    assert not (tmp_path / "out").exists()


def test_examples_are_rendered_in_seconds() -> None:
    manifests_of(single())  # imports
    import time

    begun = time.monotonic()
    manifests_of(example("roce-100k"))
    assert time.monotonic() - begun < 10
