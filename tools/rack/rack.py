"""The description of a simulated rack: one YAML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.plan import Plan
from rackwright.yamlio import load_yaml, validated

if TYPE_CHECKING:
    from tools.rack.state import HostState


class FaultSpec(BaseModel):
    """One planted fault. ``args`` are the fault's own (``gpu: 3``); what is left out is drawn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    fault: str
    args: dict[str, Any] = Field(default_factory=dict)


class RackSpec(BaseModel):
    """``nodes``: how many of the plan's nodes (in order), or their names; left out: all of them.

    ``network``: the first two octets of the hosts' loopback addresses. ``port``: left out, one that is free.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    plan: Path
    nodes: Annotated[int, Field(ge=1, le=4000)] | tuple[str, ...] | None = None
    load: Literal["idle", "full"] = "idle"
    seed: int = 1
    network: Annotated[str, Field(pattern=r"^127\.(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])$")] = "127.66"
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    faults: tuple[FaultSpec, ...] = ()

    def address(self, index: int) -> str:
        return f"{self.network}.{index // 250}.{index % 250 + 1}"

    def node_names(self, plan: Plan) -> tuple[str, ...]:
        """The nodes to simulate, in the plan's order.

        Raises:
            InputErrors: a name that is not in the plan, or more nodes than it has.
        """
        every = tuple(node.name for pool in plan.pools for node in pool.nodes)
        if self.nodes is None:
            return every
        if isinstance(self.nodes, int):
            if self.nodes > len(every):
                raise InputErrors(
                    Problem(
                        "nodes",
                        f"must be at most the plan's number of nodes, {len(every)}",
                        str(self.nodes),
                        "every simulated host is one node of the plan",
                        "lower it, or size a larger plan",
                    )
                )
            return every[: self.nodes]
        unknown = [name for name in self.nodes if name not in every]
        if unknown:
            raise InputErrors(
                Problem(
                    "nodes",
                    "must name nodes of the plan" + nearest(unknown[0], every),
                    listing(unknown),
                    "every simulated host is one node of the plan",
                    f"use names such as {listing(every, 3)}",
                )
            )
        return tuple(name for name in every if name in self.nodes)


def load_rack(path: Path) -> RackSpec:
    """Read a rack file; its plan is found relative to it.

    Raises:
        CannotRun: the file cannot be read.
        InputErrors: unknown fields or impossible values.
    """
    document = load_yaml(path, next_command="see inventory/lab/rack.yaml for an example")
    spec = validated(
        RackSpec,
        document,
        why="the rack is built from it",
        next_command=f"mend it, then: python -m tools.rack up {path}",
    )
    return spec.model_copy(update={"plan": (path.parent / spec.plan).resolve()})


def check_faults(specs: Sequence[FaultSpec], hosts: Sequence[str], *, options: bool = False) -> None:
    """All planted faults name a host of the rack, a fault that exists, and arguments that it has.

    ``options``: they were given on the command line, not in a rack file; messages name the place.

    Raises:
        InputErrors: every one that does not.
    """
    from tools.rack.faults import FAULTS

    problems = []
    for number, spec in enumerate(specs):
        if spec.host not in hosts:
            problems.append(
                Problem(
                    place(number, "host", options),
                    "must be a host of the rack" + nearest(spec.host, hosts),
                    f'"{spec.host}"',
                    "a fault on no host would be planted nowhere",
                    f"use one of {listing(list(hosts), 6)}",
                )
            )
        if spec.fault not in FAULTS:
            problems.append(
                Problem(
                    place(number, "fault", options),
                    "must be a known fault" + nearest(spec.fault, FAULTS),
                    f'"{spec.fault}"',
                    "",
                    "python -m tools.rack faults",
                )
            )
            continue
        known = FAULTS[spec.fault].args
        problems += [
            Problem(
                place(number, "args", options),
                f"must be an argument of {spec.fault}" + nearest(name, known),
                f'"{name}"',
                "",
                f"use {listing(list(known))}" if known else f"leave it out: {spec.fault} takes none",
            )
            for name in spec.args
            if name not in known
        ]
    if problems:
        raise InputErrors(problems)


def check_fit(
    specs: Sequence[FaultSpec], states: Mapping[str, HostState], *, seed: int, options: bool = False
) -> None:
    """Each fault finds on its host what it breaks, the faults before it included. Plants them in ``states``.

    Raises:
        InputErrors: every one that does not.
    """
    from tools.rack.faults import FAULTS, apply_all
    from tools.rack.faults.base import NotThere

    problems = []
    for number, spec in enumerate(specs):
        state, fault = states[spec.host], FAULTS[spec.fault]
        if not fault.fits(state):
            near = [f.name for f in FAULTS.values() if f.area == fault.area and f.fits(state)]
            near = near or [f.name for f in FAULTS.values() if f.fits(state)]
            problems.append(
                Problem(
                    place(number, "fault", options),
                    f"{spec.fault} must apply to {spec.host}",
                    f"{state.parts}",
                    "nothing of that host could show the fault",
                    f"plant it on another host or plan; on this one such as {listing(near, 6)}",
                )
            )
            continue
        try:
            apply_all(state, [spec], seed=seed)
        except NotThere as error:
            problems.append(
                Problem(
                    place(number, "args", options),
                    f"{error.name} must be one of {spec.host}",
                    f'"{error.found}"',
                    "nothing of that host could show the fault",
                    f"use one of {listing(error.known, 10)}, or leave it out: one is drawn",
                )
            )
    if problems:
        raise InputErrors(problems)


def place(number: int, name: str, options: bool) -> str:
    """Where a person wrote this of a fault."""
    if options:
        return {"args": "--arg"}.get(name, f"--{name}")
    return f"faults[{number}].{name}"
