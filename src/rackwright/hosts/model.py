"""Words of the target ``hosts``. A *replica* has two *slots*, blue and green, of which one serves."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from rackwright.hosts.families import Family
from rackwright.plan import Plan, Pool

BLUE, GREEN = "blue", "green"
SECRETS = "secrets.env"
"""The one file whose content is no part of a plan: the API key, given by whoever applies."""
DIGITS = 12


@dataclass(frozen=True)
class Settings:
    """What one environment says. ``tls``: nginx serves HTTPS with the files named, which must be on the host;
    without, plain HTTP on port 8080, for a trial behind something that encrypts."""

    tls: bool = True
    certificate: str = "/etc/rackwright-tls/fullchain.pem"
    certificate_key: str = "/etc/rackwright-tls/privkey.pem"


@dataclass(frozen=True)
class HostFile:
    """A file of a release. ``path`` is relative to the release; the owner is root."""

    path: str
    content: str
    mode: str = "0644"


@dataclass(frozen=True)
class Slot:
    """Where one version of a replica runs. ``gpus``: indices of the host's accelerators."""

    colour: Literal["blue", "green"]
    unit: str
    port: int
    gpus: tuple[int, ...]


@dataclass(frozen=True)
class Replica:
    """``side_by_side``: both slots have accelerators of their own, so that the new version starts beside the
    old one. Otherwise the old one ends first, and starts again where the new one does not serve."""

    name: str
    deployment: str
    slots: tuple[Slot, Slot]
    side_by_side: bool


@dataclass(frozen=True)
class Standing:
    """Where files stand: the plan, the pool of the host, and the directory of everything on it."""

    plan: Plan
    pool: Pool
    family: Family
    root: str

    def slot(self, replica: Replica, slot: Slot) -> str:
        """The link that a slot's unit reads its files through: it leads to the release that runs there."""
        return f"{self.root}/slots/{replica.name}-{slot.colour}"


@dataclass(frozen=True)
class HostSet:
    """Everything that stands on one host.

    Attributes:
        root: directory of releases, links and state on the host.
        key_variables: what ``secrets.env`` holds, one value under the names that the engines read.
        interrupts: replicas whose deployment does not answer on this host while their version changes.
        deadline_s: seconds that an activation may take, a failed one with its way back included.
    """

    host: str
    pool: str
    plan: str
    family: Family
    root: str
    files: tuple[HostFile, ...]
    replicas: tuple[Replica, ...]
    key_variables: tuple[str, ...]
    deadline_s: int

    @property
    def interrupts(self) -> tuple[str, ...]:
        alone = Counter(r.deployment for r in self.replicas)
        return tuple(r.name for r in self.replicas if not r.side_by_side and alone[r.deployment] == 1)

    def file(self, path: str) -> HostFile:
        return next(f for f in self.files if f.path == path)


def release_id(files: dict[str, str], modes: dict[str, str]) -> str:
    """Name of the release that holds exactly these files."""
    content = json.dumps([sorted(files.items()), sorted(modes.items())], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:DIGITS]
