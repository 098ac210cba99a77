"""Target ``hosts``: what stands on each machine of a plan that has no Kubernetes, file by file."""

from rackwright.hosts.changes import masked_content, unified
from rackwright.hosts.deciding import decide
from rackwright.hosts.model import HostFile, HostSet, Replica, Settings, Slot

__all__ = [
    "HostFile",
    "HostSet",
    "Replica",
    "Settings",
    "Slot",
    "decide",
    "masked_content",
    "unified",
]
