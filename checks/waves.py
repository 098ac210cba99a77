"""Which hosts test each other when: every two once, none twice at a time, in the fewest waves.

The circle method of round-robin tournaments (a 1-factorisation of the complete graph): n − 1 waves for an
even number of hosts, n for an odd one, of n // 2 pairs each.
"""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[str, str]
"""Server, client."""

WAVES_MAX = 31
"""Beyond 32 hosts each meets the 31 that the first waves give it (CVS tests meshes in groups of 32 hosts)."""


def waves(hosts: Sequence[str], most: int = WAVES_MAX) -> list[list[Pair]]:
    """The first ``most`` waves; within one, all pairs may run at once. Each host is about as often server as
    client.

    Raises:
        ValueError: a host stands twice.
    """
    if len(set(hosts)) != len(hosts):
        raise ValueError("a host stands twice")
    if len(hosts) < 2:
        return []
    ring: list[str | None] = list(hosts)
    if len(ring) % 2:
        ring.append(None)
    found = []
    for number in range(min(len(ring) - 1, most)):
        pairs = []
        for place in range(len(ring) // 2):
            first, second = ring[place], ring[-1 - place]
            if first is None or second is None:
                continue
            pairs.append((second, first) if (number if place == 0 else place) % 2 else (first, second))
        found.append(pairs)
        ring.insert(1, ring.pop())
    return found
