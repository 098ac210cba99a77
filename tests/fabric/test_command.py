"""rackwright fabric, as a person runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from rackwright.cli import group
from rackwright.errors import CannotRun, InputErrors, RackwrightError
from rackwright.fabric import launch_kit
from rackwright.fabric.hosts import QOS_ENV
from rackwright.plan import Plan, save_plan
from tests.fabric.plans import small


def invoke(*args: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(group, ["fabric", *map(str, args)])
    if isinstance(result.exception, RackwrightError):
        return result.exception.exit_code, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.fixture
def place(tmp_path: Path) -> Path:
    # The two nodes stand in racks of the whole plan; only the fabric is asked here.
    plan = small()
    names = {node.name for node in plan.pools[0].nodes}
    site = plan.sites[0]
    racks = tuple(
        rack.model_copy(update={"nodes": tuple(n for n in rack.nodes if n in names)}) for rack in site.racks
    )
    whole = plan.model_copy(update={"sites": (site.model_copy(update={"racks": racks}),)})
    save_plan(whole, tmp_path / "plan.yaml")
    return tmp_path


def test_render_then_check(place: Path) -> None:
    code, said = invoke("render", place / "plan.yaml", "-o", place / "out")
    assert code == 0
    assert "switches   2 leaves, 1 spines: Arista 7060DX5-64S, 64 × 400GbE, sonic" in said
    assert "cables     4 to hosts, 4 between switches" in said
    code, said = invoke("check", place / "out", "--plan", place / "plan.yaml")
    assert (code, "result     both ends agree" in said) == (0, True)
    assert "cables     8 of 8 read at both ends" in said


def test_a_change_by_hand_is_exit_status_1(place: Path) -> None:
    invoke("render", place / "plan.yaml", "-o", place / "out")
    target = place / "out" / "pools" / "h200" / QOS_ENV
    target.write_text(target.read_text().replace("TOS=104", "TOS=0"))
    code, said = invoke("check", place / "out", "--plan", place / "plan.yaml")
    assert code == 1
    assert f"pools/h200/{QOS_ENV}:6 TOS · must be 104, as the plan gives it · found 0" in said
    assert "must carry a DSCP of a guarded priority (3) · found 0" in said


def test_one_end_alone_says_that_no_cable_was_proven(place: Path) -> None:
    invoke("render", place / "plan.yaml", "-o", place / "out")
    file = place / "out" / "switches" / "leaf-g1-r0" / "config_db.json"
    code, said = invoke("check", file, "--plan", place / "plan.yaml")
    assert code == 0
    assert "result     as the plan gives it; 8 of 8 cables were not read at both ends" in said
    assert "not given" in said


def test_a_file_that_is_gone_from_a_rendered_directory_is_a_problem(place: Path) -> None:
    invoke("render", place / "plan.yaml", "-o", place / "out")
    (place / "out" / "switches" / "spine-1" / "config_db.json").unlink()
    code, said = invoke("check", place / "out", "--plan", place / "plan.yaml")
    assert code == 1
    assert "switches/spine-1/config_db.json · must be there · found no such file" in said
    assert "cables     4 of 8 read at both ends" in said


def test_a_switch_of_another_name_or_not_readable_is_a_problem(place: Path) -> None:
    invoke("render", place / "plan.yaml", "-o", place / "out")
    text = (place / "out" / "switches" / "leaf-g1-r0" / "config_db.json").read_text()
    (place / "a.json").write_text(text.replace("leaf-g1-r0", "leaf-g1-r7"))
    code, said = invoke("check", place / "a.json", "--plan", place / "plan.yaml")
    assert code == 1 and "a.json hostname · must be a switch of the plan" in said
    (place / "a.json").write_text(text[:-20])
    code, said = invoke("check", place / "a.json", "--plan", place / "plan.yaml")
    assert code == 1 and "must be JSON" in said


def test_nothing_of_the_fabric_is_exit_status_2(place: Path) -> None:
    (place / "notes.txt").write_text("hello")
    code, said = invoke("check", place / "notes.txt", "--plan", place / "plan.yaml")
    assert code == 2 and "must be files of this plan's fabric" in said
    code, said = invoke("check", place / "gone", "--plan", place / "plan.yaml")
    assert code == 2 and "must be a text that can be read" in said


def test_rendering_again_leaves_and_names_what_is_no_longer_planned(place: Path) -> None:
    invoke("render", place / "plan.yaml", "-o", place / "out")
    old = place / "out" / "switches" / "leaf-g9-r0" / "config_db.json"
    old.parent.mkdir()
    old.write_text("{}")
    _, said = invoke("render", place / "plan.yaml", "-o", place / "out")
    assert "1 of an earlier rendering: switches/leaf-g9-r0/config_db.json" in said
    assert old.read_text() == "{}"


def inventory(plan: Plan, **change: object) -> str:
    """A cluster-config.yaml with the plan's NICs, one of another network, and ``change`` on the group."""
    assert plan.fabric is not None
    pfs = [
        {
            "deviceID": plan.fabric.nic_type,
            "rdmaDevice": rail.hca,
            "pciAddress": rail.pci_address.upper(),
            "networkInterface": f"eth{rail.index}",
            "traffic": "east-west",
            "rail": rail.index,
        }
        for rail in plan.fabric.rails
    ]
    pfs.append({"deviceID": "1015", "pciAddress": "0000:01:00.0", "traffic": "north-south"})
    nodes = [node.name for node in plan.pools[0].nodes]
    group_ = {"machineType": "X", "linkType": "Ethernet", "pfs": pfs, "workerNodes": nodes, **change}
    return yaml.safe_dump({"flavor": "k8s", "clusterConfig": [group_]})


def test_a_launch_kit_inventory_that_fits(place: Path) -> None:
    (place / "cluster-config.yaml").write_text(inventory(small()))
    groups = launch_kit.read(place / "cluster-config.yaml")
    assert [nic.rail for nic in groups[0].nics] == [0, 1]  # the north-south NIC is no rail
    launch_kit.agree(groups, small())
    code, _ = invoke(
        "render", place / "plan.yaml", "-o", place / "out", "--inventory", place / "cluster-config.yaml"
    )
    assert code == 0


def test_more_rails_than_the_inventory_has_nics(place: Path) -> None:
    pfs = yaml.safe_load(inventory(small()))["clusterConfig"][0]["pfs"][:1]
    (place / "cluster-config.yaml").write_text(inventory(small(), pfs=pfs))
    code, said = invoke(
        "render", place / "plan.yaml", "-o", place / "out", "--inventory", place / "cluster-config.yaml"
    )
    assert code == 2
    assert "must have 2 east-west NICs, one a rail of the plan · found 1" in said
    assert "must have the NIC of rail 1 at 0000:2a:00.0 · found 0000:19:00.0" in said
    assert not (place / "out").exists()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("flavor: k8s\n", "must be the groups that l8k discover writes"),
        ("clusterConfig:\n- identifier: a\n", "must be a list of NICs"),
    ],
)
def test_another_file_is_no_inventory(place: Path, text: str, rule: str) -> None:
    (place / "c.yaml").write_text(text)
    with pytest.raises(InputErrors, match=rule):
        launch_kit.read(place / "c.yaml")


def test_an_inventory_of_another_cluster(place: Path) -> None:
    (place / "c.yaml").write_text(inventory(small(), workerNodes=["other-1"]))
    with pytest.raises(InputErrors, match="must have nodes of the plan"):
        launch_kit.agree(launch_kit.read(place / "c.yaml"), small())
    (place / "c.yaml").write_text(inventory(small(), linkType="Infiniband"))
    with pytest.raises(InputErrors, match="must be ethernet"):
        launch_kit.agree(launch_kit.read(place / "c.yaml"), small())


def test_nics_of_another_maker_are_not_set_with_mlnx_qos() -> None:
    from rackwright.fabric.rendering import render

    assert small().fabric is not None
    other = small().fabric.model_copy(update={"nic_vendor": "1dd8"})  # type: ignore[union-attr]
    with pytest.raises(CannotRun, match='must be "15b3"'):
        render(small().model_copy(update={"fabric": other}))


def test_a_plan_without_a_fabric_or_switch_has_nothing_to_render() -> None:
    from rackwright.fabric.rendering import render

    with pytest.raises(CannotRun, match="without a scale-out fabric there is nothing to configure"):
        render(small().model_copy(update={"fabric": None}))
    assert small().fabric is not None
    bare = small().fabric.model_copy(update={"switching": None})  # type: ignore[union-attr]
    with pytest.raises(CannotRun, match="the catalog has no switch of 400 Gb/s"):
        render(small().model_copy(update={"fabric": bare}))
