"""Host and switch agree whatever the profile, and one changed character on either side is noticed."""

from __future__ import annotations

import re
import string
from functools import cache

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rackwright.errors import InputErrors
from rackwright.fabric import checking
from rackwright.fabric.agreement import Ends, disagreements
from rackwright.fabric.host_files import qos_view, rail_views
from rackwright.fabric.hosts import NETPLAN, QOS_ENV
from rackwright.fabric.switches import OS
from rackwright.fabric.topology import Topology
from rackwright.plan import Plan
from tests.fabric.plans import few, rendered, sized, small, with_fabric

CHOICES = st.fixed_dictionaries(
    {
        "switch_os": st.sampled_from(sorted(OS)),
        "rails": st.integers(1, 8),
        "host_cable_m": st.integers(1, 500),
        "uplink_cable_m": st.integers(1, 2000),
        "lossless_priority": st.sampled_from([0, 1, 2, 3, 4, 5, 7]),
        "dscp": st.integers(0, 63).filter(lambda d: d != 48),
    }
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHOICES, st.integers(1, 4))
def test_both_ends_agree_for_any_profile(choice: dict[str, object], nodes: int) -> None:
    plan = with_fabric(few(sized(), nodes), **choice)
    fabric, files = rendered(plan)
    result = checking.check(plan, files)
    assert [str(p) for p in result.problems] == []
    assert result.cables == len(fabric.cables) >= nodes
    assert result.missing == result.ignored == []


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHOICES, CHOICES)
def test_ends_of_two_profiles_disagree_without_asking_a_plan(
    one: dict[str, object], other: dict[str, object]
) -> None:
    """Hosts of one profile, switches of another: found exactly where the two differ in what both have."""
    same = {"switch_os": one["switch_os"], "rails": one["rails"]}
    left, hosts = rendered(with_fabric(few(sized(), 2), **one))
    right, switches = rendered(with_fabric(few(sized(), 2), **{**other, **same}))
    found = list(disagreements(left, _ends(left, hosts, switches)))
    differ = left.qos.lossless != right.qos.lossless or [left.qos.priority_of(d) for d in range(64)] != [
        right.qos.priority_of(d) for d in range(64)
    ]
    assert bool(found) == differ


def _ends(fabric: Topology, hosts: dict[str, str], switches: dict[str, str]) -> Ends:
    system = OS[fabric.switching.os]
    return Ends(
        {s.name: system.view(switches[f"switches/{s.name}/{system.file}"], s.name) for s in fabric.switches},
        {host.pool: qos_view(hosts[f"pools/{host.pool}/{QOS_ENV}"], "qos") for host in fabric.hosts},
        {host.node: rail_views(hosts[f"nodes/{host.node}/{NETPLAN}"], host.node) for host in fabric.hosts},
    )


def _places(path: str, text: str) -> list[int]:
    """Every letter and digit outside comments."""
    comment = "!" if path.endswith(".conf") and "switches/" in path else "#"
    found, at = [], 0
    for line in text.splitlines(keepends=True):
        if not line.lstrip().startswith(comment) and line.strip() != "end":
            found += [at + m.start() for m in re.finditer(r"[A-Za-z0-9]", line)]
        at += len(line)
    return found


@cache
def _small(system: str) -> tuple[Plan, dict[str, str], dict[str, list[int]]]:
    plan = small(system)
    _, files = rendered(plan)
    return plan, files, {path: _places(path, text) for path, text in files.items()}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(OS)), st.data())
def test_one_changed_character_is_noticed(system: str, data: st.DataObject) -> None:
    plan, files, places = _small(system)
    path = data.draw(st.sampled_from(sorted(files)))
    at = data.draw(st.sampled_from(places[path]))
    old = files[path][at]
    alike = string.digits if old.isdigit() else string.ascii_letters
    new = data.draw(st.sampled_from([c for c in alike if c != old]))
    changed = {**files, path: files[path][:at] + new + files[path][at + 1 :]}
    problems = checking.check(plan, changed).problems
    line = files[path][:at].count("\n")
    assert problems, f"{path}:{line + 1}: {files[path].splitlines()[line]!r}, {old} became {new}"
    assert all(p.rule and p.found and p.why and p.next for p in problems)


@pytest.mark.parametrize(
    ("system", "find", "replace", "where"),
    [
        ("sonic", '"pfc_enable": "3"', '"pfc_enable": "4"', "PORT_QOS_MAP.Ethernet0.pfc_enable"),
        ("sonic", '"26": "3"', '"26": "4"', "DSCP_TO_TC_MAP.ROCE.26"),
        ("sonic", '"mtu": "9214"', '"mtu": "1500"', "PORT.Ethernet0.mtu"),
        ("cumulus", "switch-priority: 3", "switch-priority: 4", "qos.mapping.roce.dscp.24"),
        ("eos", "traffic-class 3 to tx-queue 3", "traffic-class 3 to tx-queue 4", "qos map traffic-class 3"),
        ("eos", "no-drop", "drop", "qos profile lossless"),
    ],
)
def test_a_switch_changed_by_hand(system: str, find: str, replace: str, where: str) -> None:
    plan, files, _ = _small(system)
    path = f"switches/leaf-g1-r0/{OS[system].file}"
    assert find in files[path]
    problems = checking.check(plan, {**files, path: files[path].replace(find, replace, 1)}).problems
    assert any(where in p.where for p in problems)
    # The ends themselves disagree as well, not only the file with the plan.
    assert any("rail-qos.env" in p.rule for p in problems)


def test_a_host_changed_by_hand_is_told_with_its_line() -> None:
    plan, files, _ = _small("sonic")
    path = f"pools/h200/{QOS_ENV}"
    text = files[path].replace("26:3", "26:4")
    found = checking.check(plan, {**files, path: text}).problems
    assert any(p.where == f"{path}:5 DSCP_PRIORITY" for p in found)
    assert any("must map DSCP 26 to 4" in p.rule and "switches/leaf-g1-r0" in p.where for p in found)


def test_a_profile_without_a_lossless_class_is_refused() -> None:
    plan, files, _ = _small("sonic")
    path = f"pools/h200/{QOS_ENV}"
    text = files[path].replace("PFC=0,0,0,1,0,0,0,0", "PFC=0,0,0,0,0,0,0,0")
    found = checking.check(plan, {**files, path: text}).problems
    assert any(p.rule == "must guard one lossless priority" and p.found == "none" for p in found)


def test_a_swapped_cable_and_a_swapped_address_are_found() -> None:
    plan, files, _ = _small("sonic")
    swapped = files["cables.csv"].replace("h200-01,enp25s0np0", "h200-01,enp42s0np0", 1)
    found = checking.check(plan, {**files, "cables.csv": swapped}).problems
    assert [p.where for p in found] == ["cables.csv:2 h200-01-r0.a_port"]
    path = f"nodes/h200-01/{NETPLAN}"
    other = files[path].replace("10.240.0.1/31", "10.240.0.3/31")
    found = checking.check(plan, {**files, path: other}).problems
    assert any("must be the other address of 10.240.0.2/31" in p.rule for p in found)


def test_a_wrong_neighbour_is_found_at_both_ends() -> None:
    plan, files, _ = _small("sonic")
    path = "switches/spine-1/config_db.json"
    wrong = files[path].replace('"local_asn": "4200000000"', '"local_asn": "4200000009"')
    found = checking.check(plan, {**files, path: wrong}).problems
    assert any("switches/leaf-g1-r1/config_db.json BGP_NEIGHBOR" in p.where for p in found)


def test_comments_spacing_and_what_is_the_sites_own_are_left_alone() -> None:
    plan, files, _ = _small("eos")
    path = "switches/leaf-g1-r0/eos.conf"
    text = files[path].replace("!\n", "! edited by hand\n", 1) + "ntp server 10.0.0.1\n"
    assert checking.check(plan, {**files, path: text}).problems == []
    text = files[path] + "qos map dscp 10 to traffic-class 3\n"
    assert checking.check(plan, {**files, path: text}).problems != []


@example("{")
@example('{"PORT": {"Ethernet0": 1}}')
@example("- set: 1")
@example("network:\n  ethernets: [1]\n")
@settings(max_examples=30, deadline=None)
@given(st.text(max_size=60))
def test_any_text_in_place_of_a_file_is_a_problem_not_a_traceback(text: str) -> None:
    for system in OS:
        plan, files, _ = _small(system)
        for path in (f"switches/leaf-g1-r0/{OS[system].file}", f"nodes/h200-01/{NETPLAN}", "cables.csv"):
            assert checking.check(plan, {**files, path: text}).problems


def test_a_file_is_known_by_the_name_it_gives_itself() -> None:
    for system in OS:
        plan, files, _ = _small(system)
        text = files[f"switches/leaf-g1-r0/{OS[system].file}"]
        result = checking.check(plan, {"/tmp/running-config.txt": text})
        assert (result.problems, result.checked) == ([], {"switches": 1})


def test_a_key_twice_is_refused() -> None:
    plan, files, _ = _small("sonic")
    path = "switches/leaf-g1-r0/config_db.json"
    text = files[path].replace('"26": "3",', '"26": "3", "26": "4",', 1)
    found = checking.check(plan, {**files, path: text}).problems
    assert any('"26" twice' in p.found for p in found)
    with pytest.raises(InputErrors):
        OS["sonic"].view(text, path)
