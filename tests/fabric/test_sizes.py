"""How many switches, which thresholds: figures that a person can work out."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackwright.catalog import load_catalog
from rackwright.errors import InputErrors
from rackwright.fabric import addressing, checking, qos
from rackwright.fabric.switching import switching
from rackwright.plan import link_problems
from tests.fabric.plans import choice_of, few, plan, rendered, sized, small, with_fabric

ENTRY = load_catalog().switches["arista-7060dx5-64s"]


def test_headroom_of_400_gigabits_over_five_metres() -> None:
    """2 × 9,214 + 2 × 5 m × 50 GB/s / 1.98e8 m/s + 905 × 64 = 18,428 + 2,525 + 57,920 = 78,873: 78 KiB."""
    assert qos.headroom(400, 5) == 78 * 1024
    assert qos.headroom(400, 300) == 223 * 1024  # 18,428 + 151,515 + 57,920 = 227,863, up to whole KiB


def test_marking_begins_at_the_bandwidth_delay_product() -> None:
    """90 m of cable 455 ns, three switches of 825 ns, two NICs of 1 us: 4.93 us; both ways × 50 GB/s."""
    assert qos.round_trip_s(5, 40, 0.825e-6) == pytest.approx(9.859e-6, rel=1e-3)
    least, most = qos.marking(400, 5, 40, 0.825e-6)
    assert (least, most) == (482 * 1024, 4 * 482 * 1024)


@given(st.sampled_from([400, 800]), st.integers(1, 500), st.integers(1, 2000))
def test_longer_cables_never_need_less(rate: int, host: int, uplink: int) -> None:
    assert qos.headroom(rate, host) <= qos.headroom(rate, host + 1)
    assert qos.marking(rate, host, uplink, 1e-6) <= qos.marking(rate, host, uplink + 1, 1e-6)
    assert qos.marking(rate, host, uplink, 1e-6) <= qos.marking(2 * rate, host, uplink, 1e-6)


def test_marking_comes_before_pauses() -> None:
    """Half of the ports congested at once still leave each more than the depth at which all is marked."""
    for entry in load_catalog().switches.values():
        rate, ports = int(entry.rate_gbps.value), int(entry.ports.value)
        if entry.buffer is None:
            assert entry.names == {"infiniband": "{port}"}
            continue
        _, most = qos.marking(rate, 5, 40, entry.latency.value / 1e6)
        aside = ports * qos.headroom(rate, 40)
        assert most < qos.pause_depth(int(entry.buffer.value * 2**20), aside, ports), entry.id


@pytest.mark.parametrize(
    ("nodes", "groups", "uplinks", "spines", "planes"),
    [
        (1, 1, 1, 1, 1),
        (2, 1, 2, 1, 1),
        (32, 1, 32, 4, 1),  # 8 leaves × 32 uplinks = 256 ports of 4 spines
        (84, 3, 32, 16, 1),  # 24 leaves × 2 cables to each of 16 spines: 48 of 64 ports
        (256, 8, 32, 32, 1),  # 64 leaves, one cable to each spine
        (257, 9, 32, 8, 8),  # 72 leaves no longer fit one spine: a plane a rail, 9 × 4 = 36 ports of 8 spines
        (2048, 64, 32, 32, 8),
    ],
)
def test_switches_of(nodes: int, groups: int, uplinks: int, spines: int, planes: int) -> None:
    found = switching(ENTRY, choice_of(), rails=8, nodes=nodes)
    assert (found.groups, found.uplinks_per_leaf, found.spines, found.planes) == (
        groups,
        uplinks,
        spines,
        planes,
    )


def test_infiniband_switches_have_cables_and_nothing_to_configure() -> None:
    """One leaf a rail for a few nodes; no AS numbers, addresses or lossless classes."""
    fabric, files = rendered(few(plan("hgx-h200-8-ib", "infiniband", uplink_cable_m=30), 4))
    assert (fabric.switching.os, fabric.switching.switch) == ("infiniband", "nvidia-qm9700")
    assert (fabric.switching.asn, fabric.switching.loopbacks, fabric.switching.mtu) == (None, None, None)
    assert {c.length_m for c in fabric.cables if c.kind == "uplink"} == {30}
    assert checking.check(fabric.plan, files).problems == []
    moved = files["cables.csv"].replace("h200-01-r0,host,0,", "h200-01-r0,host,1,", 1)
    assert checking.check(fabric.plan, {**files, "cables.csv": moved}).problems != []


def test_a_switch_of_the_other_kind_is_refused() -> None:
    with pytest.raises(
        InputErrors, match=r"must be a system that NVIDIA Quantum-2 QM9700.* runs: infiniband"
    ):
        plan(switch="nvidia-qm9700")
    with pytest.raises(InputErrors, match='found "infiniband"'):
        plan("hgx-h200-8-ib", "infiniband", switch="nvidia-sn5400")
    with pytest.raises(InputErrors, match="must have ports of the NICs' 400 Gb/s"):
        plan(switch="nvidia-sn5600", switch_os="cumulus")


def test_two_tiers_end_at_2048_nodes() -> None:
    with pytest.raises(InputErrors, match="at most 2048"):
        switching(ENTRY, choice_of(), rails=8, nodes=2049)


def test_every_port_has_one_cable_and_every_node_every_rail() -> None:
    fabric, _ = rendered(sized())
    used = Counter((cable.b, cable.b_port) for cable in fabric.cables)
    used.update((c.a, c.a_port) for c in fabric.cables if c.kind == "uplink")
    assert set(used.values()) == {1}
    assert len({cable.name for cable in fabric.cables}) == len(fabric.cables)
    for switch in fabric.switches:
        assert len(switch.ports) <= 64
        assert len({port.number for port in switch.ports}) == len(switch.ports)
    assert len({s.loopback for s in fabric.switches}) == len(fabric.switches)
    assert len({s.asn for s in fabric.switches if s.role == "leaf"}) == 8 * fabric.switching.groups
    for host in fabric.hosts:
        assert [link.switch.rpartition("-r")[2] for link in host.links] == [str(r) for r in range(8)]


def test_planes_of_a_fabric_too_large_for_one() -> None:
    """260 nodes: eight planes. Leaves and spines of one rail only meet, and all of it agrees."""
    base = sized()
    pool = base.pools[0]
    nodes = tuple(pool.nodes[0].model_copy(update={"name": f"h200-{n:03}"}) for n in range(260))
    large = with_fabric(base.model_copy(update={"pools": (pool.model_copy(update={"nodes": nodes}),)}))
    fabric, files = rendered(large)
    assert (fabric.switching.planes, fabric.switching.spines) == (8, 8)
    used = Counter((cable.b, cable.b_port) for cable in fabric.cables)
    used.update((c.a, c.a_port) for c in fabric.cables if c.kind == "uplink")
    assert set(used.values()) == {1}
    for cable in fabric.cables:
        if cable.kind == "uplink":
            assert cable.a.endswith(f"-r{cable.rail}") and cable.b.startswith(f"spine-p{cable.rail}-")
    result = checking.check(large, files)
    assert (result.problems, result.cables) == ([], 260 * 8 + 72 * 32)


def test_more_rails_than_nics() -> None:
    with pytest.raises(InputErrors) as caught:
        plan(rails=9)
    assert "fabric.rails · must be at most 8, the NICs of a node · found 9" in str(caught.value)


def test_subnets_that_overlap_are_all_named() -> None:
    with pytest.raises(InputErrors) as caught:
        plan(rails=3, subnets=["10.0.0.0/16", "10.0.128.0/17", "10.0.0.0/8"])
    message = str(caught.value)
    assert (
        "fabric.subnets[1] · must not overlap fabric.subnets[0] · found 10.0.128.0/17 and 10.0.0.0/16"
        in message
    )
    assert "fabric.subnets[2] · must not overlap fabric.subnets[1]" in message


def test_a_subnet_too_small_for_the_nodes() -> None:
    machine = load_catalog().machines["hgx-h200-8-roce"]
    assert machine.fabric is not None
    rails = addressing.rails(machine.fabric, 1, ["10.0.0.0/31"])
    assert addressing.addresses(rails, 0) == ("10.0.0.1/31",)
    with pytest.raises(InputErrors, match="holds 1 nodes, not node 1"):
        addressing.addresses(rails, 1)


def test_notifications_keep_their_class() -> None:
    for choice in ({"lossless_priority": 6}, {"dscp": 48}):
        with pytest.raises(InputErrors, match="must leave priority 6 and DSCP 48"):
            with_fabric(few(sized(), 1), **choice)


def test_a_plan_with_a_broken_fabric_is_refused() -> None:
    good = small()
    assert good.fabric is not None and good.fabric.qos is not None
    fabric, profile = good.fabric, good.fabric.qos

    def found(**update: object) -> list[str]:
        broken = good.model_copy(update={"fabric": fabric.model_copy(update=update)})
        return [str(p).splitlines()[0] for p in link_problems(broken) if p.where.startswith("fabric")]

    assert found() == []
    none = profile.model_copy(update={"pfc": (False,) * 8})
    assert found(qos=none) == ["fabric.qos.pfc · must guard the one lossless priority 3 · found no priority"]
    assert found(qos=None)[0].startswith("fabric.qos · must be a profile")
    assert found(qos=profile.model_copy(update={"tos": 26})) == [
        "fabric.qos.tos · must be DSCP << 2, 104 · found 26"
    ]
    both = tuple(rail.model_copy(update={"subnet": "10.240.0.0/18"}) for rail in fabric.rails)
    assert [line.partition(" · found")[0] for line in found(rails=both)] == [
        "fabric.rails[1].subnet · must not overlap fabric.rails[0].subnet"
    ]
    assert fabric.switching is not None
    over = fabric.switching.model_copy(update={"loopbacks": "10.240.0.0/24"})
    assert "must not overlap fabric.rails[0].subnet" in found(switching=over)[0]
