"""The embedded engine records what a program declares, and refuses what only a real engine could answer."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s
import pytest

from rackwright.errors import CannotRun
from stacks.embedded import REDACTED, Registration, ordered, run


class Pair(pulumi.ComponentResource):
    """A namespace, a secret-bearing ConfigMap in it, and a custom resource after both."""

    def __init__(self, name: str) -> None:
        super().__init__("test:stacks:Pair", name)
        here = pulumi.ResourceOptions(parent=self)
        space = k8s.core.v1.Namespace(
            "space", metadata={"name": "space"}, opts=pulumi.ResourceOptions(parent=self, protect=True)
        )
        bag = k8s.core.v1.ConfigMap(
            "bag",
            metadata={"name": "bag", "namespace": space.metadata.name},
            data={"word": pulumi.Output.secret("swordfish"), "plain": "seen"},
            opts=here,
        )
        k8s.apiextensions.CustomResource(
            "thing",
            api_version="example.dev/v1",
            kind="Thing",
            metadata={"name": "thing"},
            spec={
                "pod": k8s.core.v1.PodSpecArgs(
                    containers=[k8s.core.v1.ContainerArgs(name="c", image_pull_policy="Never")],
                    termination_grace_period_seconds=30,
                ),
                "share": 0.5,
            },
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=[bag], ignore_changes=["spec.share"], retain_on_delete=True
            ),
        )
        self.register_outputs({})


def recorded() -> dict[str, Registration]:
    return {r.name: r for r in run(lambda: Pair("pair"), project="demo", stack="s")}


def test_urns_carry_the_parents_type() -> None:
    found = recorded()
    assert found["pair"].urn == "urn:pulumi:s::demo::test:stacks:Pair::pair"
    assert found["space"].urn == "urn:pulumi:s::demo::test:stacks:Pair$kubernetes:core/v1:Namespace::space"
    assert found["space"].parent == found["pair"].urn
    assert found["pair"].component
    assert not found["space"].component


def test_options_and_dependencies_are_recorded() -> None:
    found = recorded()
    assert found["space"].protect
    assert not found["bag"].protect
    assert found["thing"].retain_on_delete
    assert found["thing"].ignore_changes == ("spec.share",)
    assert found["bag"].property_dependencies == {"metadata": (found["space"].urn,)}
    assert found["thing"].dependencies == (found["bag"].urn,)


def test_typed_arguments_become_wire_names_and_whole_numbers_integers() -> None:
    spec = recorded()["thing"].inputs["spec"]
    assert spec["pod"]["containers"] == [{"name": "c", "imagePullPolicy": "Never"}]
    seconds = spec["pod"]["terminationGracePeriodSeconds"]
    assert (seconds, type(seconds)) == (30, int)
    assert spec["share"] == 0.5


def test_secrets_are_redacted_when_they_are_recorded() -> None:
    found = recorded()
    assert found["bag"].inputs["data"] == {"word": REDACTED, "plain": "seen"}
    assert found["bag"].secret_paths == (("data", "word"),)
    assert "swordfish" not in repr(found)


def test_the_order_is_the_same_each_time_and_respects_dependencies() -> None:
    names = [r.name for r in run(lambda: Pair("pair"))]
    assert names == [r.name for r in run(lambda: Pair("pair"))]
    assert names.index("pair") < names.index("space") < names.index("bag") < names.index("thing")


def test_order_among_free_resources_is_by_urn() -> None:
    def plain(urn: str, *needs: str) -> Registration:
        return Registration("t", urn, urn, "", True, {}, dependencies=needs)

    given = [plain("c"), plain("a", "c"), plain("b")]
    assert [r.urn for r in ordered(given)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("program", "what"),
    [
        (lambda: k8s.helm.v4.Chart("chart", chart="oci://example/chart"), "a component that its provider"),
        (lambda: k8s.core.v1.Namespace.get("x", "x"), "a read of an object in a live cluster"),
        (lambda: pulumi.runtime.invoke("kubernetes:helm:template", {}), "a function of a provider"),
        (lambda: (Pair("pair"), Pair("pair")), "a second resource of the same type and name"),
    ],
)
def test_what_needs_the_real_engine_is_refused(program: object, what: str) -> None:
    with pytest.raises(CannotRun, match=what):
        run(program)  # type: ignore[arg-type]


def test_the_programs_own_error_comes_out_and_the_next_run_is_clean() -> None:
    def broken() -> None:
        Pair("pair")
        raise LookupError("the plan lacks it")

    with pytest.raises(LookupError, match="the plan lacks it"):
        run(broken)
    assert len(run(lambda: Pair("pair"))) == 5  # with the stack itself


def test_configuration_reaches_the_program() -> None:
    seen: list[str] = []
    run(lambda: seen.append(pulumi.Config("demo").require("key")), project="demo", config={"demo:key": "v"})
    assert seen == ["v"]
