"""What a simulated host shows, from its state: recordings of commands, and files."""

from __future__ import annotations

from tools.rack.emit import (
    active,
    amd,
    ascend,
    bmc,
    fabric,
    health,
    nvidia,
    others,
    pci,
    settings,
    storage,
    system,
)
from tools.rack.emit.core import Link, Recording, Tree
from tools.rack.state import HostState

__all__ = ["Link", "Recording", "Tree", "files", "programs", "recordings"]


def recordings(state: HostState) -> list[Recording]:
    found: list[Recording] = []
    modules = (nvidia, amd, ascend, others, fabric, pci, bmc, storage, system, health, settings, active)
    for module in modules:
        found.extend(module.recordings(state))
    return found


def files(state: HostState) -> Tree:
    tree: Tree = {}
    for module in (nvidia, fabric, pci, system, health, settings):
        tree |= module.files(state)
    return tree


def programs(state: HostState) -> dict[str, str]:
    """Tools that are programs of their own, not recordings: name to text."""
    return active.scripts(state)
