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
    """A check that must report the fault, and on what: the host itself, its pool or its rack."""

    check: str
    on: Scope = "host"

    @classmethod
    def parse(cls, text: str) -> Find:
        check, _, on = text.partition("@")
        return cls(check, on or "host")  # type: ignore[arg-type]

    def __str__(self) -> str:
        return self.check if self.on == "host" else f"{self.check}@{self.on}"


@dataclass(frozen=True)
class Fault:
    """One named fault.

    Attributes:
        finds: the checks that must report it, the primary one first: exactly these, no other.
        touches: what it changes; two faults that touch one thing do not stand on one host together.
        alone: it hides other faults of its host, so it stands there alone.
        args: names of arguments and what they mean.
    """

    name: str
    area: str
    description: str
    finds: tuple[Find, ...]
    touches: frozenset[str]
    alone: bool
    args: Mapping[str, str]
    applies: Callable[[HostState], bool]
    apply: Callable[[HostState, random.Random, Args], None]


FAULTS: dict[str, Fault] = {}
Apply = Callable[[HostState, random.Random, Args], None]


def always(_: HostState) -> bool:
    return True


def fault(
    name: str,
    area: str,
    finds: str,
    *,
    touches: str = "",
    alone: bool = False,
    applies: Callable[[HostState], bool] = always,
    args: Mapping[str, str] | None = None,
) -> Callable[[Apply], Apply]:
    """Register a fault; the function's docstring says what it does to the machine. ``finds`` are check ids
    separated by blanks, ``id@pool`` and ``id@rack`` for those that speak of more than the host."""

    def register(apply: Apply) -> Apply:
        if name in FAULTS:
            raise ValueError(f"fault {name} stands twice")
        FAULTS[name] = Fault(
            name=name,
            area=area,
            description=" ".join((apply.__doc__ or "").split()),
            finds=tuple(Find.parse(word) for word in finds.split()),
            touches=frozenset(touches.split()) or frozenset({name}),
            alone=alone,
            args=args or {},
            applies=applies,
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
        return next(g for g in state.gpus if g.index == int(wanted))
    return rng.choice(state.gpus)


def one_port(state: HostState, rng: random.Random, args: Args) -> Port:
    wanted = args.get("port")
    if wanted is not None:
        return next(p for p in state.ports if p.device == str(wanted))
    return rng.choice(state.ports)


GPU = {"gpu": "index of the GPU"}
PORT = {"port": "RDMA device, such as mlx5_3"}
