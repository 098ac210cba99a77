"""LoRA adapters that a deployment serves beside its model, from the same weights."""

from __future__ import annotations

from rackwright.plan.base import Section


class Adapter(Section):
    """One adapter: requests name it as their model. ``bytes``: on disk, as its rank gives them.

    ``manifest_sha256``: SHA-256 of a ``sha256sum``-format manifest at ``manifest_path``, or None while it is
    not pinned (a caution in the plan). ``alias``: a name that requests may use instead; of all with the same
    alias each gets its ``weight``. ``priority``: above 0 is served first where requests wait.
    """

    name: str
    source: str
    revision: str | None = None
    rank: int
    bytes: int
    path: str
    manifest_path: str
    manifest_sha256: str | None = None
    alias: str | None = None
    weight: int = 1
    priority: int = 0


class AdapterSet(Section):
    """``active``: slots on every GPU, each of ``max_rank`` and ``slot_mib``; a batch holds so many adapters.

    ``cached``: in host memory, ``host_gib`` in all, from where a slot is filled. ``hot_swap``: adapters are
    found by name in ``directory`` when a request asks for them, so that new ones need no restart.
    """

    active: int
    cached: int
    max_rank: int
    slot_mib: float
    host_gib: float
    directory: str
    hot_swap: bool
    adapters: tuple[Adapter, ...]
