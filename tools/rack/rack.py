"""The description of a simulated rack: one YAML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.plan import Plan
from rackwright.yamlio import load_yaml, validated


class FaultSpec(BaseModel):
    """One planted fault. ``args`` are the fault's own (``gpu: 3``); what is left out is drawn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    fault: str
    args: dict[str, Any] = Field(default_factory=dict)


class RackSpec(BaseModel):
    """``nodes``: how many of the plan's nodes (in order), or their names; left out: all of them.

    ``network``: the first two octets of the hosts' loopback addresses.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    plan: Path
    nodes: Annotated[int, Field(ge=1, le=4000)] | tuple[str, ...] | None = None
    load: Literal["idle", "full"] = "idle"
    seed: int = 1
    network: Annotated[str, Field(pattern=r"^127\.\d{1,3}$")] = "127.66"
    port: Annotated[int, Field(ge=1, le=65535)] = 2222
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


def check_faults(specs: Sequence[FaultSpec], hosts: Sequence[str]) -> None:
    """All planted faults name a host of the rack and a fault that exists.

    Raises:
        InputErrors: every one that does not.
    """
    from tools.rack.faults import FAULTS

    problems = []
    for number, spec in enumerate(specs):
        if spec.host not in hosts:
            problems.append(
                Problem(
                    f"faults[{number}].host",
                    "must be a host of the rack" + nearest(spec.host, hosts),
                    f'"{spec.host}"',
                    "a fault on no host would be planted nowhere",
                    f"use one of {listing(list(hosts), 6)}",
                )
            )
        if spec.fault not in FAULTS:
            problems.append(
                Problem(
                    f"faults[{number}].fault",
                    "must be a known fault" + nearest(spec.fault, FAULTS),
                    f'"{spec.fault}"',
                    "",
                    "python -m tools.rack faults",
                )
            )
    if problems:
        raise InputErrors(problems)
