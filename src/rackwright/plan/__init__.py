"""The sized plan: derived from a workload as a lock file is from a manifest, reviewed in a pull request.

``load_plan`` refuses a plan whose content does not match its digest, names the values that were edited,
and points at the override that makes the same change survive the next sizing.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from rackwright.errors import HandEditedPlan, InputErrors, Problem
from rackwright.files import write_whole
from rackwright.plan.base import NotApplicable, Section
from rackwright.plan.claims import Claims
from rackwright.plan.cost import Alternatives, Caution, Cost, Explanation, Money
from rackwright.plan.deployments import Deployment
from rackwright.plan.expectations import HostExpectation
from rackwright.plan.fabric import Fabric, InfinibandSubnet, Qos, Rail, Switching
from rackwright.plan.header import Header
from rackwright.plan.links import link_problems
from rackwright.plan.load import Load
from rackwright.plan.platform import Operator, Platform
from rackwright.plan.pools import Node, Pool, Taint
from rackwright.plan.provisioning import PoolObject, Provisioned
from rackwright.plan.queue import Queue
from rackwright.plan.services import Observability, Route, Scaling, WeightVolume
from rackwright.plan.shares import Share
from rackwright.plan.sites import Rack, Site
from rackwright.plan.tenancy import Tenancy
from rackwright.workload import Workload
from rackwright.yamlio import Document, dump_yaml, load_yaml, printable, validated

__all__ = [
    "Caution", "Claims", "Cost", "Deployment", "Explanation", "Fabric", "Header", "HostExpectation",
    "InfinibandSubnet", "Load", "Money", "Node", "NotApplicable", "Observability", "Operator", "Plan",
    "Platform", "Pool", "PoolObject", "Provisioned", "Qos", "Queue", "Rack", "Rail", "Route", "Scaling",
    "Share", "Site", "Switching", "Taint", "Tenancy", "WeightVolume", "digest_problem", "link_problems",
    "load_plan", "migrate", "read_plan", "save_plan",
]  # fmt: skip

SCHEMA: Literal["rackwright/plan/v1"] = "rackwright/plan/v1"


class Plan(Section):
    """One sized plan. Sections are optional so that parts can stand beside each other."""

    schema_: Literal["rackwright/plan/v1"] = Field(default=SCHEMA, alias="schema")
    header: Header
    workload: Workload
    load: Load | None = None
    sites: tuple[Site, ...] = ()
    pools: tuple[Pool, ...] = ()
    fabric: Fabric | None = None
    deployments: tuple[Deployment, ...] = ()
    volumes: tuple[WeightVolume, ...] = ()
    routes: tuple[Route, ...] = ()
    scaling: tuple[Scaling, ...] = ()
    observability: Observability | None = None
    platform: Platform | None = None
    tenancy: Tenancy | None = None
    claims: Claims | None = None
    provisioning: tuple[Provisioned, ...] | None = None
    queue: Queue | None = None
    expectations: dict[str, HostExpectation] = Field(default_factory=dict)
    cost: Cost | None = None
    shares: tuple[Share, ...] | None = None
    alternatives: Alternatives | None = None
    cautions: tuple[Caution, ...] = ()
    explanations: tuple[Explanation, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data in file order, without the digest and without fields that are None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the canonical form; objects and results carry it (its first 12 digits as a label)."""
        return hashlib.sha256(dump_yaml(self.as_dict()).encode()).hexdigest()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's, without the digest that was computed for what is copied."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("digest", None)
        return copied

    def pool(self, name: str) -> Pool:
        return next(p for p in self.pools if p.name == name)

    def provisioned(self, pool: str) -> Provisioned | None:
        """How the nodes of ``pool`` are made; None where they exist already."""
        return next((p for p in self.provisioning or () if p.pool == pool), None)

    def named_nodes(self, pool: Pool) -> tuple[Node, ...]:
        """Nodes of ``pool`` that have the plan's names in the cluster: none where a provider names them."""
        made = self.provisioned(pool.name)
        return pool.nodes if made is None or made.named else ()

    def deployment(self, name: str) -> Deployment:
        return next(d for d in self.deployments if d.name == name)

    def racks(self) -> Iterator[Rack]:
        for site in self.sites:
            yield from site.racks

    def to_yaml(self) -> str:
        body = self.as_dict()
        head = (
            "# Derived by rackwright; change the workload (or its overrides) and size again.\n"
            f"digest: {self.digest}\n"
        )
        return head + dump_yaml(body)


_MIGRATIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From an older schema name to a function that gives the next one."""


def migrate(data: dict[str, Any], source: str) -> dict[str, Any]:
    """``data`` in the current schema.

    Raises:
        InputErrors: the schema is missing, unknown, or newer than this program.
    """
    while data.get("schema") != SCHEMA:
        step = _MIGRATIONS.get(str(data.get("schema")))
        if step is None:
            raise InputErrors(
                Problem(
                    f"{source} schema",
                    f'must be "{SCHEMA}" or an older one that can be migrated',
                    repr(data.get("schema")),
                    "a plan of another version would be misread",
                    "size the workload again with this version: rackwright size WORKLOAD.yaml -o plan.yaml",
                )
            )
        data = step(data)
    return data


def load_plan(path: Path) -> Plan:
    """Read a plan and prove that it is as it was derived.

    Raises:
        CannotRun: the file cannot be read.
        InputErrors: unknown fields or impossible values, all at once.
        HandEditedPlan: the digest does not match the content.
        InputErrors: a section names what another does not have.
    """
    document = load_yaml(path, next_command=f"rackwright size WORKLOAD.yaml -o {shlex.quote(str(path))}")
    return plan_from_document(document)


def plan_from_document(document: Document) -> Plan:
    data = document.data
    if not isinstance(data, dict) or "header" not in data:
        raise InputErrors(
            Problem(
                document.source, "must be a sized plan", "something else",
                "a workload is sized first; a plan is what size writes", _again(document),
            )
        )  # fmt: skip
    plan = read_plan(document)
    if (edited := digest_problem(plan, document)) is not None:
        raise HandEditedPlan(edited)
    if broken := [replace(p, where=f"{document.source} {p.where}") for p in link_problems(plan)]:
        raise InputErrors(broken)
    return plan


def read_plan(document: Document) -> Plan:
    """The plan as it stands in ``document``, whatever digest it states.

    Raises:
        InputErrors: unknown fields or impossible values, all at once.
    """
    data = migrate(dict(document.data), document.source)
    data.pop("digest", None)
    return validated(
        Plan,
        document.holding(data),
        why="everything downstream reads it",
        next_command=_again(document),
    )


def _again(document: Document) -> str:
    target = shlex.quote(document.source)
    return f"change the workload, then: rackwright size WORKLOAD.yaml -o {target}"


def digest_problem(plan: Plan, document: Document) -> Problem | None:
    """What is wrong with the digest that ``document`` states, if anything."""
    stated = document.data.get("digest")
    if stated == plan.digest:
        return None
    return Problem(
        document.place(("digest",)),
        "must be the digest of the plan's content",
        printable(str(stated)) if stated else "nothing",
        "a value that was edited by hand is lost at the next sizing, and nobody derived it",
        f"put the change under overrides: in the workload; to see which values differ: "
        f"rackwright check {shlex.quote(document.source)}",
    )


def save_plan(plan: Plan, path: Path) -> None:
    """Write whole or not at all.

    Raises:
        CannotRun: the place cannot be written.
    """
    write_whole(path, plan.to_yaml())
