"""What a fault is, and the registry of all of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tools.rack.state import Gpu, HostState, Port

Args = Mapping[str, Any]
Scope = Literal["host", "pool", "rack"]


@dataclass(frozen=True)
class Find:
    """A check that must report the fault, and on what: the host itself, its pool or its rack.

    Written ``id``, ``id@pool``, ``id@rack``; with ``~full`` behind it only for a rack under full load.
    """

    check: str
    on: Scope = "host"
    only_full: bool = False

    @classmethod
    def parse(cls, text: str) -> Find:
        words, _, load = text.partition("~")
        check, _, on = words.partition("@")
        return cls(check, _SCOPES[on], only_full=load == "full")

    def __str__(self) -> str:
        scope = "" if self.on == "host" else f"@{self.on}"
        return f"{self.check}{scope}{'~full' if self.only_full else ''}"


_SCOPES: dict[str, Scope] = {"": "host", "host": "host", "pool": "pool", "rack": "rack"}


@dataclass(frozen=True)
class Fault:
    """One named fault.

    Attributes:
        finds: the checks that must report it, the primary one first: exactly these, no other.
        touches: what it changes; two faults that touch one thing do not stand on one host together.
        alone: it hides other faults of its host, so it stands there alone.
        silences: nothing of the host can be collected.
        args: names of arguments and what they mean.
    """

    name: str
    area: str
    description: str
    finds: tuple[Find, ...]
    touches: frozenset[str]
    alone: bool
    silences: bool
    args: Mapping[str, str]
    applies: Callable[[HostState], bool]
    apply: Callable[[HostState, random.Random, Args], None]

    def fits(self, state: HostState) -> bool:
        """Whether the host has what the fault breaks."""
        parts = {"gpu": state.gpus, "port": state.ports, "device": state.devices}
        return all(parts.get(name, True) for name in self.args) and self.applies(state)


class NotThere(LookupError):
    """An argument names a part that the host does not have."""

    def __init__(self, name: str, found: object, known: list[str]) -> None:
        super().__init__(f"{name}: no {found}")
        self.name, self.found, self.known = name, found, known


FAULTS: dict[str, Fault] = {}
Apply = Callable[[HostState, random.Random, Args], None]


_NVIDIA = frozenset({"gpu", "nvlink"})
"""Areas whose faults are of NVIDIA's cards and tools."""


def always(_: HostState) -> bool:
    return True


def fault(
    name: str,
    area: str,
    finds: str,
    *,
    touches: str = "",
    alone: bool = False,
    silences: bool = False,
    applies: Callable[[HostState], bool] = always,
    args: Mapping[str, str] | None = None,
) -> Callable[[Apply], Apply]:
    """Register a fault; the function's docstring says what it does to the machine. ``finds`` holds finds as
    :class:`Find` writes them, separated by blanks."""

    def register(apply: Apply) -> Apply:
        if name in FAULTS:
            raise ValueError(f"fault {name} stands twice")
        FAULTS[name] = Fault(
            name=name,
            area=area,
            description=" ".join((apply.__doc__ or "").split()),
            finds=tuple(Find.parse(word) for word in finds.split()),
            touches=frozenset(touches.split()) or frozenset({name}),
            alone=alone or silences,
            silences=silences,
            args=args or {},
            applies=(lambda s: s.vendor == "nvidia" and applies(s)) if area in _NVIDIA else applies,
            apply=apply,
        )
        return apply

    return register


def has_nvlink(state: HostState) -> bool:
    return state.nvlink


def has_rdma(state: HostState) -> bool:
    return bool(state.ports)


def has_roce(state: HostState) -> bool:
    return state.roce


def has_infiniband(state: HostState) -> bool:
    return bool(state.ports) and not state.roce


def has_bmc(state: HostState) -> bool:
    return state.bmc is not None


def one_gpu(state: HostState, rng: random.Random, args: Args) -> Gpu:
    wanted = args.get("gpu")
    if wanted is not None:
        for gpu in state.gpus:
            if str(gpu.index) == str(wanted):
                return gpu
        raise NotThere("gpu", wanted, [str(g.index) for g in state.gpus])
    return rng.choice(state.gpus)


def one_port(state: HostState, rng: random.Random, args: Args) -> Port:
    wanted = args.get("port")
    if wanted is not None:
        for port in state.ports:
            if port.device == str(wanted):
                return port
        raise NotThere("port", wanted, [p.device for p in state.ports])
    return rng.choice(state.ports)


GPU = {"gpu": "index of the GPU"}
PORT = {"port": "RDMA device, such as mlx5_3"}
