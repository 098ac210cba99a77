"""The shape of fabric switches."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from rackwright.catalog.figures import Count, Entry, Frozen, GigabitsPerSecond, Mebibytes, Microseconds

INFINIBAND = "infiniband"
"""Stands among ``names`` for a switch that its subnet manager configures."""


class SonicPlatform(Frozen):
    """How SONiC knows the switch. ``first_lanes``: the first of each port's lanes, in port order."""

    platform: str
    hwsku: str
    alias: str
    lanes_a_port: int = 8
    first_lanes: tuple[int, ...]


class SwitchEntry(Entry):
    """One fixed switch. ``buffer``: shared by all ports, of Ethernet switches. ``latency``: of a frame cut
    through it.

    ``names``: how each operating system that runs on it names port number ``{port}`` (from 1), whose first
    of eight lanes is number ``{lane}`` (from 0).
    """

    kind: Literal["switch"]
    ports: Count
    rate_gbps: GigabitsPerSecond
    buffer: Mebibytes | None = None
    latency: Microseconds
    names: dict[str, str]
    sonic: SonicPlatform | None = None

    @model_validator(mode="after")
    def _buffered(self) -> SwitchEntry:
        if self.buffer is None and set(self.names) != {INFINIBAND}:
            raise ValueError("buffer must be given: marking and pauses are set by it")
        return self

    @model_validator(mode="after")
    def _lanes_of_every_port(self) -> SwitchEntry:
        if self.sonic is not None and len(self.sonic.first_lanes) != self.ports.value:
            raise ValueError(f"sonic.first_lanes must have {self.ports.value:g} entries, one a port")
        if ("sonic" in self.names) != (self.sonic is not None):
            raise ValueError("names.sonic and sonic must be given together")
        return self

    def port_name(self, system: str, port: int) -> str:
        """The name of port ``port`` (from 1) under ``system``."""
        return self.names[system].format(port=port, lane=8 * (port - 1))
