"""What a new plan restarts, where, and what keeps serving; the same through the command."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from click.testing import CliRunner

from rackwright.cli import group
from rackwright.placement import replicas_kept
from rackwright.plan import load_plan, save_plan
from stacks.comparison import compare
from tests.golden import REPOSITORY
from tests.stacks.plans import changed, multi, single, with_node


def test_the_same_plan_changes_nothing() -> None:
    assert compare(multi(), multi()).same


def test_another_plan_with_the_same_objects_changes_its_record_alone() -> None:
    found = compare(multi(), changed(multi(), header__generated_by="another"))
    assert found.restarts == ()
    assert list(found.changed) == [found.record] == ["v1 ConfigMap llm/big-plan"]
    assert found.same


def test_a_node_more_changes_that_pools_objects_alone() -> None:
    """The addresses of its rails, which list the pool's nodes, and nothing of what runs on it."""
    old = load_plan(REPOSITORY / "inventory" / "roce-100k" / "plan.yaml")
    found = compare(old, with_node("roce-100k"))
    assert found.created == (f"v1 Node h200-{len(old.pools[0].nodes) + 1}",)
    assert found.deleted == found.restarts == ()
    kinds = Counter(identity.split()[1] for identity in found.changed)
    assert kinds == {"CIDRPool": len(old.fabric.rails) if old.fabric else 0, "ConfigMap": 1}
    paths = {path for identity, paths in found.changed.items() if "CIDRPool" in identity for path in paths}
    assert paths == {"spec.staticAllocations"}


def test_a_flag_restarts_its_deployment_and_says_what_serves() -> None:
    old = multi()
    new = changed(old, deployments__0__resources__cpus=40)
    found = compare(old, new)
    (restart,) = found.restarts
    layout = old.deployments[0].layout
    assert (restart.name, restart.replicas) == (old.deployments[0].name, layout.replicas)
    assert restart.nodes == layout.replicas * layout.nodes_per_replica
    assert restart.kept == layout.replicas - old.deployments[0].rollout.max_unavailable
    assert all(path.startswith("spec.leaderWorkerTemplate.") for path in restart.why)


def test_a_surge_keeps_all_replicas_of_one_node_and_all_but_one_of_several() -> None:
    """The controller of groups takes its surge group away before the last group serves again."""
    for plan, out in ((single(), 0), (multi(), 1)):
        surging = changed(
            plan, deployments__0__rollout__max_surge=1, deployments__0__rollout__max_unavailable=0
        )
        (deployment,) = surging.deployments
        assert replicas_kept(deployment) == deployment.layout.replicas - out


def test_a_budget_or_a_volume_restarts_nothing() -> None:
    found = compare(single(), changed(single(), volumes__0__size_gib=300))
    assert found.restarts == ()
    assert [i.split()[1] for i in found.changed] == ["PersistentVolumeClaim", "ConfigMap"]


def test_the_command(tmp_path: Path) -> None:
    old, new = tmp_path / "a.yaml", tmp_path / "b.yaml"
    save_plan(multi(), old)
    save_plan(changed(multi(), deployments__0__resources__cpus=40), new)
    runner = CliRunner()
    same = runner.invoke(group, ["diff", str(old), str(old)])
    assert (same.exit_code, same.output) == (0, "nothing changes\n")
    other = runner.invoke(group, ["diff", str(old), str(new)])
    assert other.exit_code == 1
    assert "serve meanwhile" in other.output.splitlines()[0]
