"""What a plan renders to, for tests: by identity, with short ways to the parts they look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackwright.plan import Plan
from stacks.embedded import Registration, run
from stacks.manifests import Manifest
from stacks.model import Environment
from stacks.program import build
from stacks.rendering import manifests_of

EXAMPLES = ("adapters", "campus", "dev-1k", "h200-10k", "nvl72", "roce-100k", "tenants")
FRONT = {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": "chat"}


_RENDERED: dict[str, tuple[Manifest, ...]] = {}
_REGISTERED: dict[str, tuple[Registration, ...]] = {}


def manifests(plan: Plan) -> tuple[Manifest, ...]:
    """Each plan is rendered once; registering resources is what takes the time."""
    if plan.digest not in _RENDERED:
        _RENDERED[plan.digest] = manifests_of(plan)
    return _RENDERED[plan.digest]


def objects(plan: Plan) -> dict[str, Mapping[str, Any]]:
    """``Kind name`` to object."""
    return {f"{m.kind} {m.name}": m.content for m in manifests(plan) if m.purpose == "object"}


def one(plan: Plan, kind: str, name: str = "chat") -> Any:
    return objects(plan)[f"{kind} {name}"]


def server(plan: Plan) -> Any:
    """The pod template of a single-node deployment."""
    return one(plan, "Deployment")["spec"]["template"]


def member(plan: Plan, role: str) -> Any:
    """The pod template of ``role`` (leader or worker) of a group."""
    return one(plan, "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"][f"{role}Template"]


def engine(template: Any) -> Any:
    return template["spec"]["containers"][0]


def env(container: Any) -> dict[str, Any]:
    return {v["name"]: v.get("value", v.get("valueFrom")) for v in container["env"]}


def registrations(plan: Plan, environment: Environment | None = None) -> tuple[Registration, ...]:
    if environment is not None:
        return run(lambda: build(plan, environment))
    if plan.digest not in _REGISTERED:
        _REGISTERED[plan.digest] = run(lambda: build(plan))
    return _REGISTERED[plan.digest]
