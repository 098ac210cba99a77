"""Scheduling of tests between hosts: all pairs once, no host twice at a time, in the fewest waves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.waves import WAVES_MAX, waves


def names(count: int) -> list[str]:
    return [f"node-{n:03d}" for n in range(count)]


@given(st.integers(min_value=0, max_value=70))
def test_every_two_meet_once_and_nobody_is_in_two_places(count: int) -> None:
    rounds = waves(names(count), most=count + 1)
    met = Counter(frozenset(pair) for wave in rounds for pair in wave)
    assert set(met.values()) <= {1}
    assert len(met) == count * (count - 1) // 2
    for wave in rounds:
        here = [host for pair in wave for host in pair]
        assert len(here) == len(set(here))
        assert len(wave) == count // 2, "no wave is left half empty"
    assert len(rounds) == (0 if count < 2 else count - 1 if count % 2 == 0 else count)


@given(st.integers(min_value=2, max_value=64))
def test_servers_and_clients_are_spread(count: int) -> None:
    served = Counter(server for wave in waves(names(count), most=count) for server, _ in wave)
    for name in names(count):
        assert abs(2 * served[name] - (count - 1)) <= 2 + count % 2, (name, served[name])


@pytest.mark.parametrize(("count", "expected"), [(2, 1), (3, 3), (4, 3), (8, 7), (9, 9), (32, 31)])
def test_how_many_waves(count: int, expected: int) -> None:
    assert len(waves(names(count))) == expected


def test_a_large_pool_takes_no_longer_than_32_hosts() -> None:
    rounds = waves(names(1000))
    assert len(rounds) == WAVES_MAX
    met = Counter(host for wave in rounds for pair in wave for host in pair)
    assert set(met.values()) == {WAVES_MAX} and len(met) == 1000


def test_a_host_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        waves(["a", "b", "a"])
