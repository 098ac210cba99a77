"""What one switch operating system is to the fabric: it writes a switch's file, and reads any such file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rackwright.fabric.leaves import Settings
from rackwright.fabric.topology import Switch, Topology


@dataclass(frozen=True)
class Ecn:
    """Marking of one queue: thresholds in bytes, the most before ``maximum`` in percent."""

    minimum: int | None
    maximum: int | None
    percent: int | None
    on: bool


@dataclass(frozen=True)
class PortView:
    """What a file says of one port, in the terms of both ends.

    ``pfc``: priorities paused both ways. ``priorities``: of every DSCP. ``ecn``: by priority.
    ``places``: where each was read, for messages.
    """

    name: str
    up: bool
    mtu: int | None
    address: str | None
    pfc: tuple[int, ...]
    priorities: tuple[int | None, ...]
    trusts_dscp: bool
    ecn: Mapping[int, Ecn]
    peer_asn: int | None
    places: Mapping[str, str] = field(default_factory=dict)

    def place(self, what: str) -> str:
        return self.places.get(what, self.name)


@dataclass(frozen=True)
class SwitchView:
    """What a file says of its switch."""

    hostname: str
    asn: int | None
    ports: Mapping[str, PortView]


@dataclass(frozen=True)
class SwitchOs:
    """``file``: name of a switch's file. ``owned``: beginnings of paths below which a setting that the plan
    does not give is wrong; elsewhere it is the site's own. ``settings``, ``view`` raise InputErrors."""

    name: str
    file: str
    render: Callable[[Switch, Topology], str]
    settings: Callable[[str, str], Settings]
    view: Callable[[str, str], SwitchView]
    owned: tuple[str, ...]
    recognises: Callable[[str], bool]


def whole(text: object) -> int | None:
    """``text`` as a number, None where it is none."""
    try:
        return int(str(text))
    except ValueError:
        return None
