"""Named faults: what each does to a machine, and which checks must report it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from tools.rack.faults import active, fabric, gpu, health, login, settings, system, vendors
from tools.rack.faults.base import FAULTS, Fault, Find
from tools.rack.rack import FaultSpec
from tools.rack.state import HostState

__all__ = ["FAULTS", "Fault", "Find", "apply_all", "draw"]

_MODULES = (active, fabric, gpu, health, login, settings, system, vendors)
"""Importing them is the registration."""
_SHOWN = [name for name, known in FAULTS.items() if known.area != "active"]
"""Those that a collection which only reads can find."""


def apply_all(state: HostState, specs: Iterable[FaultSpec], *, seed: int) -> None:
    """Plant faults in a host's state. The same seed, host and fault give the same machine."""
    for spec in specs:
        rng = random.Random(f"{seed}/{spec.host}/{spec.fault}")
        FAULTS[spec.fault].apply(state, rng, spec.args)


def draw(
    seed: int,
    hosts: Mapping[str, HostState],
    count: int,
    *,
    among: Sequence[str] | None = None,
) -> list[FaultSpec]:
    """``count`` faults on random hosts, such that none hides another and each check's verdict has one cause.

    Raises:
        ValueError: there is no room for so many.
    """
    rng = random.Random(seed)
    chosen: list[FaultSpec] = []
    names = [n for n in (among or _SHOWN) if FAULTS[n].finds]
    for _ in range(200 * count):
        if len(chosen) == count:
            break
        host = rng.choice(sorted(hosts))
        fault = FAULTS[rng.choice(names)]
        if fault.applies(hosts[host]) and not _clashes(fault, host, chosen, hosts):
            chosen.append(FaultSpec(host=host, fault=fault.name))
    if len(chosen) < count:
        raise ValueError(f"only {len(chosen)} of {count} faults fit on {len(hosts)} hosts")
    return chosen


def _clashes(fault: Fault, host: str, chosen: Sequence[FaultSpec], hosts: Mapping[str, HostState]) -> bool:
    for spec in chosen:
        other = FAULTS[spec.fault]
        if fault.name == other.name or _shared_finds(fault, host, other, spec.host, hosts):
            return True
        if spec.host == host and (fault.alone or other.alone or fault.touches & other.touches):
            return True
    return False


def _shared_finds(
    fault: Fault, host: str, other: Fault, other_host: str, hosts: Mapping[str, HostState]
) -> bool:
    """Whether one result would have to speak of both."""
    mine = {(f.check, _subject(f, hosts[host])) for f in fault.finds}
    return bool(mine & {(f.check, _subject(f, hosts[other_host])) for f in other.finds})


def _subject(find: Find, state: HostState) -> str:
    return {"host": state.name, "pool": state.pool, "rack": state.rack}[find.on]
