"""What applying one plan over another does: objects, restarts, and the capacity that remains meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from rackwright.placement import replicas_kept
from rackwright.plan import Deployment, Plan
from stacks.manifests import Manifest
from stacks.model import APPLIED, PLAN_HASH
from stacks.rendering import manifests_of

TEMPLATES = {"Deployment": ("template",), "LeaderWorkerSet": ("leaderWorkerTemplate",)}


class Named(Protocol):
    """An object by kind and name."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...


class Difference(NamedTuple):
    """One place at which two objects differ; None where one of them has nothing there."""

    path: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Restart:
    """A workload whose pods are replaced. ``kept``: replicas that keep serving at every moment."""

    name: str
    kind: str
    pool: str
    nodes: int
    replicas: int
    kept: int
    why: tuple[str, ...]


@dataclass(frozen=True)
class Remade:
    """A pool whose machines are made anew, and why; replicas on them go with them."""

    pool: str
    nodes: int
    why: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Identities of objects, and paths of what differs in those that stay: what an update changes.

    ``record``: the object that says which plan was applied; it changes with every plan.
    """

    created: tuple[str, ...]
    deleted: tuple[str, ...]
    changed: Mapping[str, tuple[str, ...]]
    restarts: tuple[Restart, ...]
    record: str
    remade: tuple[Remade, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing changes but the record."""
        return not (self.created or self.deleted or self.changed.keys() - {self.record})


def compare(old: Plan, new: Plan) -> Comparison:
    before, after = ({m.identity: m for m in manifests_of(plan)} for plan in (old, new))
    changed = {
        identity: paths
        for identity in before.keys() & after.keys()
        if (
            paths := tuple(d.path for d in differences(_content(before[identity]), _content(after[identity])))
        )
    }
    return Comparison(
        created=tuple(i for i in after if i not in before),
        deleted=tuple(i for i in before if i not in after),
        changed={identity: changed[identity] for identity in after if identity in changed},
        restarts=tuple(restarts(new, after, changed)),
        record=next(m.identity for m in after.values() if m.phase == "record"),
        remade=tuple(_remade(new, after, changed)),
    )


def _remade(
    plan: Plan, objects: Mapping[str, Manifest], changed: Mapping[str, tuple[str, ...]]
) -> Iterator[Remade]:
    places = {(m.kind, m.namespace, m.name): identity for identity, m in objects.items()}
    for made in plan.provisioning or ():
        why = tuple(
            f"{item.kind} {path}"
            for item in made.objects
            for path in changed.get(places[item.kind, item.namespace, item.name], ())
            if re.split(r"[.\[]", path.removeprefix("spec."))[0] in item.remakes
        )
        if why:
            yield Remade(made.pool, made.nodes_max, why)


def _content(manifest: Manifest) -> Mapping[str, Any]:
    """The object without the marks that follow from the rest of it."""
    metadata = manifest.content.get("metadata", {})
    kept = {
        part: {key: value for key, value in metadata.get(part, {}).items() if key not in (PLAN_HASH, APPLIED)}
        for part in ("labels", "annotations")
    }
    return {**manifest.content, "metadata": {**metadata, **kept}}


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Where two objects differ, no deeper than where they still have the same shape."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif old != new:
        yield Difference(path, old, new)


def restarts(
    plan: Plan, objects: Mapping[str, Named], changed: Mapping[str, tuple[str, ...]]
) -> Iterator[Restart]:
    """Workloads among ``changed`` (identity to paths) whose pods are replaced, as ``plan`` rolls them."""
    deployments = {d.name: d for d in plan.deployments}
    for identity, paths in changed.items():
        found = objects[identity]
        fields = TEMPLATES.get(found.kind, ())
        why = tuple(p for p in paths if p.startswith(tuple(f"spec.{field}." for field in fields)))
        if why:
            yield _restart(found, deployments.get(found.name), why)


def _restart(found: Named, deployment: Deployment | None, why: tuple[str, ...]) -> Restart:
    if deployment is None:
        return Restart(found.name, found.kind, "", 0, 1, 1, why)
    layout = deployment.layout
    return Restart(
        found.name,
        found.kind,
        deployment.pool,
        layout.replicas * layout.nodes_per_replica,
        layout.replicas,
        replicas_kept(deployment),
        why,
    )
