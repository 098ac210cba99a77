"""What a simulated host shows, from its state: recordings of commands, and files."""

from __future__ import annotations

from tools.rack.emit import bmc, fabric, health, nvidia, pci, settings, storage, system
from tools.rack.emit.core import Link, Recording, Tree
from tools.rack.state import HostState

__all__ = ["Link", "Recording", "Tree", "files", "recordings"]


def recordings(state: HostState) -> list[Recording]:
    found: list[Recording] = []
    for module in (nvidia, fabric, pci, bmc, storage, system, health, settings):
        found.extend(module.recordings(state))
    return found


def files(state: HostState) -> Tree:
    tree: Tree = {}
    for module in (nvidia, fabric, pci, system, health, settings):
        tree |= module.files(state)
    return tree
