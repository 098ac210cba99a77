"""The INI inventory, as Ansible users write it, and its place in a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.errors import CannotRun, InputErrors
from rackwright.inventory import (
    Host,
    Inventory,
    bind,
    bound,
    inventory_from_plan,
    limited,
    load_inventory,
)
from rackwright.plan import Node, Plan, Rack
from tests.golden import REPOSITORY, assert_golden
from tests.preflight.plans import small_plan

ERRORS = REPOSITORY / "tests" / "errors"


def read(tmp_path: Path, text: str) -> Inventory:
    (tmp_path / "plan.yaml").touch()
    path = tmp_path / "hosts.ini"
    path.write_text(text + "\n[all:vars]\nplan=plan.yaml\n")
    return load_inventory(path)


def host(tmp_path: Path, line: str) -> Host:
    (only,) = read(tmp_path, f"[h200]\n{line}").hosts
    return only


def test_a_host_line(tmp_path: Path) -> None:
    got = host(
        tmp_path,
        "GPU-01 ansible_host=10.0.0.1 ansible_port=2222 ansible_user=Ops note=\"two words\" k='a b' # c",
    )
    assert (got.name, got.address, got.port, got.user, got.line) == ("GPU-01", "10.0.0.1", 2222, "Ops", 2)
    assert (got.vars["note"], got.vars["k"], got.groups) == ("two words", "a b", ("h200",))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("gpu-[01:03]", ["gpu-01", "gpu-02", "gpu-03"]),
        ("gpu-[8:11]", ["gpu-8", "gpu-9", "gpu-10", "gpu-11"]),
        ("gpu-[a:c].dc1", ["gpu-a.dc1", "gpu-b.dc1", "gpu-c.dc1"]),
        ("r[1:2]-n[01:02]", ["r1-n01", "r1-n02", "r2-n01", "r2-n02"]),
        ("n[0:6:3]", ["n0", "n3", "n6"]),
        ("n[08:10]", ["n08", "n09", "n10"]),
        ("n[1:1]", ["n1"]),
    ],
)
def test_ranges(tmp_path: Path, pattern: str, names: list[str]) -> None:
    assert [h.name for h in read(tmp_path, f"[h200]\n{pattern} rack=r1").hosts] == names


def test_a_port_after_the_name_and_an_ipv6_address(tmp_path: Path) -> None:
    assert (host(tmp_path, "gpu-01:2222").name, host(tmp_path, "gpu-01:2222").port) == ("gpu-01", 2222)
    assert host(tmp_path, "gpu-[01:02]:2222".replace(":02]", ":01]")).port == 2222
    assert host(tmp_path, "2001:db8::1").name == "2001:db8::1"


def test_groups_children_and_precedence(tmp_path: Path) -> None:
    inventory = read(
        tmp_path,
        """
        gpu-09
        [h200]
        gpu-01
        gpu-02 level=host
        [racks:children]
        h200
        [racks:vars]
        level = racks
        other = "quoted # not a comment"  # a comment
        [h200:vars]
        level=h200
        """,
    )
    assert [h.vars.get("level") for h in inventory.hosts] == [None, "h200", "host"]
    assert inventory.host("gpu-01").vars["other"] == "quoted # not a comment"
    assert inventory.host("gpu-01").groups == ("racks", "h200")
    assert inventory.host("gpu-09").groups == ()


def test_one_host_in_two_groups_is_one_host(tmp_path: Path) -> None:
    inventory = read(tmp_path, "[a]\ngpu-01 ansible_user=x\n[b]\ngpu-01\ngpu-01x\n")
    assert [h.name for h in inventory.hosts] == ["gpu-01", "gpu-01x"]
    assert inventory.hosts[0].groups == ("a", "b")


def test_ssh_arguments_that_are_honoured(tmp_path: Path) -> None:
    got = host(tmp_path, "g ansible_ssh_common_args='-o UserKnownHostsFile=/k -o ProxyJump=ops@bastion:2200'")
    assert (got.known_hosts, got.proxy_jump) == ("/k", "ops@bastion:2200")
    assert host(tmp_path, "g ansible_ssh_extra_args='-J bastion'").proxy_jump == "bastion"
    assert (
        host(tmp_path, "g ansible_ssh_common_args='-o ControlMaster=auto -oControlPersist=60s'").name == "g"
    )


def test_the_plan_stands_relative_to_the_inventory(tmp_path: Path) -> None:
    assert read(tmp_path, "[h200]\ng").plan_path == tmp_path / "plan.yaml"
    other = tmp_path / "hosts.ini"
    assert load_inventory(other, plan=Path("elsewhere.yaml")).plan_path == Path("elsewhere.yaml")


@pytest.mark.parametrize("path", sorted(ERRORS.glob("inventory-*.ini")), ids=lambda p: p.stem)
def test_errors_are_told_all_at_once(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hosts.ini").write_text(path.read_text())
    for name in ("plan.yaml", "other.yaml"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputErrors) as caught:
        bound(load_inventory(Path("hosts.ini")), two_pools())
    assert_golden(path.with_suffix(".txt"), str(caught.value) + "\n")


def two_pools() -> Plan:
    plan = small_plan(("gpu-01", "gpu-02"))
    (first,) = plan.pools
    nodes = (Node(name="gpu-03", rack="r02"),)
    second = first.model_copy(update={"name": "l40s", "nodes": nodes})
    site = plan.sites[0]
    rack = Rack(name="r02", rating_w=1, power_factor=1.2, planned_full_load_w=1, nodes=("gpu-03",))
    return plan.model_copy(
        update={
            "pools": (first, second),
            "sites": (site.model_copy(update={"racks": (*site.racks, rack)}),),
        }
    )


def test_an_absent_inventory_names_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"rackwright inventory plan\.yaml -o hosts\.ini"):
        load_inventory(tmp_path / "none.ini")


def test_hosts_find_their_pool_and_rack(tmp_path: Path) -> None:
    inventory = read(tmp_path, "[gpus]\ngpu-01\n[all]\ngpu-02 pool=h200\nextra rack=r02 pool=l40s\n")
    result = bind(inventory, two_pools())
    assert result.problems == ()
    assert [(h.pool, h.rack) for h in result.inventory.hosts] == [
        ("h200", "r01"),
        ("h200", "r01"),
        ("l40s", "r02"),
    ]
    assert result.notes == ()


def test_a_group_above_counts_as_the_pool(tmp_path: Path) -> None:
    inventory = read(tmp_path, "[row1]\ngpu-01\n[h200:children]\nrow1\n")
    assert bind(inventory, two_pools()).inventory.hosts[0].pool == "h200"


def test_nodes_that_are_not_in_the_inventory_are_noted(tmp_path: Path) -> None:
    result = bind(read(tmp_path, "[h200]\ngpu-02\n"), two_pools())
    assert result.notes == (
        "pool h200: not in the inventory: gpu-01",
        "pool l40s: not in the inventory: gpu-03",
    )


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    plan = two_pools()
    (tmp_path / "plan.yaml").touch()
    path = tmp_path / "hosts.ini"
    path.write_text(inventory_from_plan(plan))
    result = bind(load_inventory(path), plan)
    assert (result.problems, result.notes) == ((), ())
    assert [h.name for h in result.inventory.hosts] == ["gpu-01", "gpu-02", "gpu-03"]


def test_limit(tmp_path: Path) -> None:
    inventory = bind(read(tmp_path, "[h200]\ngpu-[01:02]\n[l40s]\ngpu-03\n"), two_pools()).inventory
    assert [h.name for h in limited(inventory, ("gpu-0[12]", "gpu-03")).hosts] == [
        "gpu-01",
        "gpu-02",
        "gpu-03",
    ]
    assert [h.name for h in limited(inventory, ("l40s",)).hosts] == ["gpu-03"]
    with pytest.raises(CannotRun, match="did you mean"):
        limited(inventory, ("gpu-09",))
