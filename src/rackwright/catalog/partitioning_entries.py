"""The shape of a card's partitioning: the MIG profiles that it can be divided into."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rackwright.catalog.figures import Count, Entry, Frozen, Mebibytes, Share

Slice = Annotated[int, Field(ge=0, le=15)]


class MigProfile(Frozen):
    """One profile. ``memory``: what ``nvidia-smi mig -lgip`` shows; ``processors``: SMs, by the same.

    ``bandwidth``: share of the card's memory bandwidth, which follows the memory slices. ``size``,
    ``starts``: memory slices that an instance takes and where it may begin (``nvidia-smi mig -lgipp``):
    together they say which instances fit on one card.
    """

    name: Annotated[str, Field(pattern=r"^[1-9][0-9]*g\.[1-9][0-9]*gb$")]
    memory: Mebibytes
    processors: Count
    bandwidth: Share
    size: Annotated[int, Field(ge=1, le=16)]
    starts: Annotated[tuple[Slice, ...], Field(min_length=1)]

    @property
    def resource(self) -> str:
        """What the device plugin advertises it as under the strategy ``mixed``."""
        return f"nvidia.com/mig-{self.name}"


class Partitioning(Entry):
    """The profiles of ``accelerator``, smallest first. ``processors``: SMs of the whole card."""

    kind: Literal["partitioning"]
    accelerator: str
    processors: Count
    profiles: Annotated[tuple[MigProfile, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _plausible(self) -> Partitioning:
        names = [profile.name for profile in self.profiles]
        if len(set(names)) < len(names):
            raise ValueError("profiles must have names that differ")
        if any(profile.processors.value > self.processors.value for profile in self.profiles):
            raise ValueError("no profile has more processors than the card")
        return self

    def profile(self, name: str) -> MigProfile | None:
        return next((profile for profile in self.profiles if profile.name == name), None)
