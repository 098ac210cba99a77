"""Addresses, the lossless profile and NCCL's environment."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackwright.catalog import load_catalog
from rackwright.fabric import addressing, nccl, qos

MACHINE = load_catalog().machines["hgx-h200-8-roce"]
assert MACHINE.fabric is not None
RAILS = addressing.rails(MACHINE.fabric)


def test_rails_have_subnets_that_do_not_overlap() -> None:
    nets = [ipaddress.ip_network(r.subnet) for r in RAILS]
    assert str(nets[0]) == "10.240.0.0/18"
    assert str(nets[1]) == "10.240.64.0/18"
    assert not any(a.overlaps(b) for i, a in enumerate(nets) for b in nets[i + 1 :])
    assert all(n.subnet_of(addressing.SPACE) for n in nets)  # type: ignore[arg-type]


def test_the_second_node_on_rail_three() -> None:
    assert addressing.node_address("10.240.192.0/18", 1) == "10.240.192.3/31"
    assert addressing.addresses(RAILS, 0)[:2] == ("10.240.0.1/31", "10.240.64.1/31")


@given(st.tuples(st.integers(0, 7), st.integers(0, 8191)), st.tuples(st.integers(0, 7), st.integers(0, 8191)))
def test_no_two_nodes_share_a_block(one: tuple[int, int], two: tuple[int, int]) -> None:
    first = ipaddress.ip_interface(addressing.node_address(RAILS[one[0]].subnet, one[1]))
    second = ipaddress.ip_interface(addressing.node_address(RAILS[two[0]].subnet, two[1]))
    assert (first.network == second.network) == (one == two)


def test_a_rail_is_full_at_8192_nodes() -> None:
    with pytest.raises(ValueError, match="8192 nodes"):
        addressing.node_address("10.240.0.0/18", 8192)


def test_one_profile_that_agrees_with_itself() -> None:
    profile = qos.profile()
    assert (profile.dscp, profile.tos) == (26, 104)
    assert profile.dscp >> 3 == profile.lossless_priority == 3
    assert profile.cnp_dscp >> 3 == profile.cnp_priority == 6
    assert [i for i, on in enumerate(profile.pfc) if on] == [3]


def test_nccl_takes_exactly_the_rails_and_leaves_the_gid_index_alone() -> None:
    env = nccl.environment(RAILS, qos.profile())
    assert env["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7"
    assert env["NCCL_SOCKET_IFNAME"] == "eth0"
    assert env["NCCL_IB_TC"] == "104"
    assert not {"NCCL_IB_GID_INDEX", "NCCL_IB_DISABLE", "NCCL_SOCKET_TIMEOUT"} & set(env)
    assert "NCCL_IB_TC" not in nccl.environment(RAILS, None)
