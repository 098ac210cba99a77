"""What a replica gets where accelerators are shared: a slice as an accelerator of its own.

A slice has a share of the card's memory, bandwidth and arithmetic, and no link to others: neither MIG
instances nor MPS clients reach each other's memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from rackwright.catalog import Accelerator, Figure, MigProfile, Partitioning
from rackwright.units import thousandths


@dataclass(frozen=True)
class Mate:
    """Another service on the same nodes: its peak and a replica's rate in tok/s, and how many of its
    replicas a node holds. ``least``: replicas that an override keeps whatever the load."""

    peak: float
    rate: float
    places: int
    least: int = 1

    def nodes(self, grown: float) -> int:
        """Nodes that it needs at ``grown`` times its peak."""
        return math.ceil(max(self.least, math.ceil(self.peak * grown / self.rate - 1e-9)) / self.places)


@dataclass(frozen=True)
class Unit:
    """What one replica takes of a node.

    ``accelerator``: what it is sized for. ``places``: how many replicas of the service a node holds.
    ``resource``: what its pods ask for, instead of whole accelerators; None: whole ones. ``nodes``: that
    the pool has at least, without spares. ``share``: of the pool that the service pays for. ``parallel``:
    whether a replica may take several. ``shown_gib``: the memory that its process is shown, where that is
    the whole card's.
    """

    accelerator: Accelerator
    places: int
    resource: str | None = None
    nodes: int = 0
    share: float = 1.0
    parallel: bool = True
    shown_gib: float | None = None
    mates: tuple[Mate, ...] = ()


def share_of_shown(unit: Unit, utilization: float) -> float:
    """``utilization`` of the replica's own memory as a share of what its process is shown, rounded down."""
    if unit.shown_gib is None:
        return utilization
    return thousandths(utilization * unit.accelerator.memory_gib / unit.shown_gib)


def slice_of(card: Accelerator, partitioning: Partitioning, profile: MigProfile) -> Accelerator:
    """``card`` as one instance of ``profile``.

    Arithmetic follows the processors (16 of 132 rather than a seventh on H200), bandwidth the memory slices.
    """
    return _part(
        card,
        f"{card.id}/{profile.name}",
        f"{card.name}, MIG {profile.name}",
        memory=profile.memory,
        bandwidth=profile.bandwidth.value,
        arithmetic=profile.processors.value / partitioning.processors.value,
        why=f"{profile.bandwidth.value:g} of the card's: {profile.bandwidth.source}",
    )


def client_of(card: Accelerator, clients: int) -> Accelerator:
    """``card`` as one of ``clients`` equal clients of MPS: what each gets while all are busy.

    The device plugin limits memory to a whole number of MiB and threads to a whole per cent
    (k8s-device-plugin, ``mps/daemon.go``).
    """
    memory = card.memory.model_copy(update={"value": float(card.memory.value // clients)})
    return _part(
        card,
        f"{card.id}/mps-{clients}",
        f"{card.name}, one of {clients} MPS clients",
        memory=memory,
        bandwidth=1 / clients,
        arithmetic=(100 // clients) / 100,
        why=f"1/{clients} of the card's, while all clients are busy",
    )


def _part(
    card: Accelerator,
    ident: str,
    name: str,
    *,
    memory: Figure,
    bandwidth: float,
    arithmetic: float,
    why: str,
) -> Accelerator:
    def scaled(figure: Figure | None, share: float) -> Figure | None:
        if figure is None:
            return None
        return figure.model_copy(update={"value": figure.value * share, "source": f"{figure.source}; {why}"})

    return card.model_copy(
        update={
            "id": ident,
            "name": name,
            "memory": memory,
            "bandwidth": scaled(card.bandwidth, bandwidth),
            **{field: scaled(getattr(card, field), arithmetic) for field in ("bf16", "fp8", "fp4", "int8")},
            "nvlink": None,
            "link": None,
        }
    )


def fits(profiles: Sequence[MigProfile]) -> bool:
    """Whether instances of ``profiles`` can stand on one card together: each at one of its starts."""
    order = sorted(profiles, key=lambda profile: (-profile.size, len(profile.starts)))

    def placed(index: int, taken: int) -> bool:
        if index == len(order):
            return True
        profile = order[index]
        mask = (1 << profile.size) - 1
        return any(
            not taken & (mask << start) and placed(index + 1, taken | mask << start)
            for start in profile.starts
        )

    return placed(0, 0)


def geometry(
    replicas: Mapping[str, int], profiles: Mapping[str, MigProfile], gpus: int
) -> Mapping[str, int] | None:
    """Instances of each service on every card, so that the fewest nodes of ``gpus`` cards hold ``replicas``.

    All cards are divided alike, so that any node can take any pod. None: the profiles do not fit on one card
    together. Between equals the fewest instances: what is free can be given to another service later.
    """
    names = sorted(profiles)
    most = max(len(profile.starts) for profile in profiles.values())
    best: tuple[int, int, tuple[int, ...]] | None = None
    for more in range(most + 1):
        for added in combinations_with_replacement(names, more):
            counts = {name: 1 + added.count(name) for name in names}
            if not fits([profiles[name] for name, count in counts.items() for _ in range(count)]):
                continue
            nodes = max(math.ceil(replicas[name] / (gpus * counts[name])) for name in names)
            key = nodes, sum(counts.values()), tuple(counts[name] for name in names)
            best = key if best is None else min(best, key)
    return None if best is None else dict(zip(names, best[2], strict=True))


def places(replicas: Mapping[str, int], sizes: Mapping[str, int], room: int) -> Mapping[str, int] | None:
    """Replicas of each service on every node of ``room`` units, for the fewest nodes.

    Every node holds the same, so that no placement of one service keeps another's pod from its place. None:
    one replica of each does not fit on a node.
    """
    if sum(sizes.values()) > room:
        return None
    names = list(replicas)
    held: dict[str, int] = {}
    for nodes in range(1, max(replicas.values()) + 1):
        held = {name: math.ceil(replicas[name] / nodes) for name in names}
        if sum(held[name] * sizes[name] for name in names) <= room:
            return held
    return dict.fromkeys(names, 1)
