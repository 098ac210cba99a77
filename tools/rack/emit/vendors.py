"""What the collector's loops over devices print on hosts of other vendors, put together."""

from __future__ import annotations

from tools.rack.emit import ascend, others
from tools.rack.state import HostState


def composed(state: HostState) -> dict[str, str]:
    """The output of commands that ask a tool once a device, by the command's key."""
    if state.vendor == "apple":
        return {"mac-disk": others.disk(state)}
    return ascend.composed(state) if state.vendor == "huawei" else {}
