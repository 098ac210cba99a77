"""What a cluster must be for a plan, judged from facts: kinds, operators, permissions and owners."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rackwright.errors import Problem, listing
from rackwright.plan import Operator
from stacks import operators
from stacks.cluster_facts import MANAGER, Facts, Need, Object, Running
from stacks.manifests import Manifest
from stacks.model import PLAN

ANY = "any"
"""The accepted version of an operator whose version cannot be read."""


@dataclass(frozen=True)
class Wanted:
    """What is to be applied. ``stack``: whose file the settings are in. ``accepted``: by operator, the lowest
    version that this environment takes instead of the plan's. ``adopt``: whether objects of others are taken
    over."""

    plan: str
    stack: str
    context: str
    manifests: Sequence[Manifest]
    adopt: bool = False
    accepted: Mapping[str, str] = field(default_factory=dict)

    def setting(self, key: str, value: str) -> str:
        return f"pulumi config set --stack {self.stack} {key} {value}"


def problems(wanted: Wanted, facts: Facts) -> Iterator[Problem]:
    """Everything that is wrong but nodes."""
    yield from _operators(wanted, facts.operators)
    yield from _kinds(wanted, facts)
    yield from _permissions(wanted, facts.denied)
    for manifest in wanted.manifests:
        live = facts.live.get(manifest.identity)
        if live is not None and manifest.purpose == "object":
            yield from _owner(wanted, facts, manifest, live)


def _operators(wanted: Wanted, running: Sequence[Running]) -> Iterator[Problem]:
    for one in running:
        if one.deployments is not None:
            yield from _operator(wanted, one, operators.controllers(one.operator.name, one.deployments))


def _operator(wanted: Wanted, running: Running, found: Sequence[Object]) -> Iterator[Problem]:
    operator = running.operator
    where = f"operator {operator.name}"
    look = f"kubectl --context {wanted.context} -n {operator.namespace} get deployments -o wide"
    if not found:
        others = operators.controllers(operator.name, running.elsewhere)
        spaces = sorted({str(d["metadata"]["namespace"]) for d in others})
        yield Problem(
            where,
            f"must run in the namespace {operator.namespace}",
            f"it in {listing(spaces)}" if spaces else "no Deployment of it",
            "its objects would be accepted and nothing would come of them",
            "move it, or plan with its namespace" if spaces
            else f"install {operator.name} {operator.version} or newer; look: {look}",
        )  # fmt: skip
        return
    lowest = wanted.accepted.get(operator.name, operator.version)
    if lowest != ANY:
        yield from _version(wanted, operator, lowest, found)
    if not any(int((d.get("status") or {}).get("availableReplicas") or 0) for d in found):
        yield Problem(
            where,
            "must be available",
            f"{found[0]['metadata']['name']} with no pod that is ready",
            "its webhooks would refuse objects, or nothing would act on them",
            look,
        )


def _version(wanted: Wanted, operator: Operator, lowest: str, found: Sequence[Object]) -> Iterator[Problem]:
    versions = [version for d in found if (version := operators.version_of(operator.name, d))]
    needed = operators.parsed(lowest)
    if not versions or needed is None:
        yield Problem(
            f"operator {operator.name}",
            f"must show its version; {lowest} or newer is needed",
            f"{found[0]['metadata']['name']} without one, in image tag or label",
            "an older one may not know the fields that the plan uses",
            "if you know that it is new enough: "
            + wanted.setting(f"--path rackwright:operators.{operator.name}", ANY),
        )
        return
    oldest = min(versions, key=lambda version: operators.parsed(version) or (0, 0, 0, 0))
    if (operators.parsed(oldest) or (0, 0, 0, 0)) < needed:
        yield Problem(
            f"operator {operator.name}",
            f"must be {lowest} or newer",
            oldest,
            "the plan's objects use fields that it may drop in silence",
            "upgrade it; or accept it on purpose: "
            + wanted.setting(f"--path rackwright:operators.{operator.name}", oldest),
        )


def _kinds(wanted: Wanted, facts: Facts) -> Iterator[Problem]:
    """Kinds that are not served and that the plan does not bring, each with how many objects need it."""
    brought = {
        (d["spec"]["group"], d["spec"]["names"]["kind"])
        for d in (m.content for m in wanted.manifests if m.kind == "CustomResourceDefinition")
    }
    released = {m.registration.name for m in wanted.manifests if m.purpose == "release"}
    missing: dict[tuple[str, str], list[str]] = {}
    for manifest in wanted.manifests:
        if manifest.purpose == "release":
            continue
        version = str(manifest.content["apiVersion"])
        group = version.rpartition("/")[0]
        known = (group, manifest.kind) in brought or operators.bringing(group) in released
        if manifest.kind not in facts.served.get(version, {}) and not known:
            missing.setdefault((version, manifest.kind), []).append(manifest.identity)
    for (version, kind), needing in missing.items():
        group = version.rpartition("/")[0]
        others = facts.versions.get(group) or ()
        by = operators.bringing(group)
        yield Problem(
            f"kind {kind}.{version}",
            "must be served by the cluster",
            f"{group} in {listing(sorted(others))} only" if others else "no definition of it",
            f"{len(needing)} of the plan's objects are of this kind: {listing(needing, 3)}",
            (f"install {by} with its definitions" if by else "install what defines it")
            + "; or bring the definitions along: "
            + wanted.setting("crds", "DIR"),
        )


def _permissions(wanted: Wanted, denied: Sequence[Need]) -> Iterator[Problem]:
    """One problem a resource and namespace, with every verb that is refused."""
    together: dict[tuple[str, str, str], list[Need]] = {}
    for need in denied:
        together.setdefault((need.group, need.resource, need.namespace), []).append(need)
    for (group, resource, space), needs in together.items():
        verbs = ",".join(need.verb for need in needs)
        full = f"{resource}.{group}" if group else resource
        role = f"role rackwright-{resource} -n {space}" if space else f"clusterrole rackwright-{resource}"
        yield Problem(
            f"permission on {full}" + (f" in {space}" if space else ""),
            f"must be given: {verbs}",
            "it refused",
            f"the update would stop half-way, for example at {needs[0].why}",
            f"kubectl create {role} --verb={verbs} --resource={full}, bound to the user of {wanted.context}",
        )


def _owner(wanted: Wanted, facts: Facts, manifest: Manifest, live: Object) -> Iterator[Problem]:
    metadata = live["metadata"]
    if metadata.get("deletionTimestamp"):
        yield Problem(
            manifest.identity,
            "must not be on its way out",
            f"it being deleted since {metadata['deletionTimestamp']}",
            "what is applied to it would go with it",
            f"wait for it, or see what holds it: kubectl describe {_short(manifest)}",
        )
    elif (metadata.get("labels") or {}).get(PLAN) != wanted.plan:
        yield from _foreign(wanted, facts, manifest, live)
    elif not wanted.adopt:
        yield from _disputed(wanted, manifest, live)


def _foreign(wanted: Wanted, facts: Facts, manifest: Manifest, live: Object) -> Iterator[Problem]:
    """An object that the plan did not make."""
    other = (live["metadata"].get("labels") or {}).get(PLAN)
    if not wanted.adopt:
        made = f'one of the plan "{other}"' if other else f"one that {_makers(live)} made"
        yield Problem(
            manifest.identity,
            f"must not be there yet, or carry the label {PLAN}={wanted.plan}",
            f"{made} on {live['metadata'].get('creationTimestamp')}",
            "it is somebody else's: their values would be overwritten, and a destroy would delete it",
            "rename or remove it; or take over all such objects: " + wanted.setting("adopt", "true"),
        )
    elif manifest.identity in facts.rejected:
        yield Problem(
            manifest.identity,
            "must be one that can be taken over",
            facts.rejected[manifest.identity],
            "what it was made with cannot be changed into what the plan says",
            f"remove it first: kubectl delete {_short(manifest)}",
        )


def _makers(live: Object) -> str:
    managers = dict.fromkeys(
        str(entry.get("manager")) for entry in _managed(live) if not entry.get("subresource")
    )
    return listing(list(managers), 3) or "somebody"


def _disputed(wanted: Wanted, manifest: Manifest, live: Object) -> Iterator[Problem]:
    """Fields of our object that another declares too, with other values. What was edited by hand is drift and
    is repaired; another declaration would take the field back for ever."""
    for manager, path in disputes(manifest.content, live):
        yield Problem(
            f"{manifest.identity} {path}",
            "must be declared by one owner",
            f'"{manager}", which applies another value',
            "the two would overwrite each other at every run",
            f"remove the field there; or take it over: {wanted.setting('adopt', 'true')}",
        )


def disputes(declared: Object, live: Object) -> Iterator[tuple[str, str]]:
    """Manager and path of each declared field that somebody else applied and that has another value."""
    for entry in _managed(live):
        applied = entry.get("operation") == "Apply" and not entry.get("subresource")
        if applied and entry.get("manager") != MANAGER:
            for path in _claimed(entry.get("fieldsV1") or {}, declared, live):
                yield str(entry.get("manager")), path


def _managed(live: Object) -> Sequence[Object]:
    found: Sequence[Object] = live["metadata"].get("managedFields") or ()
    return found


def _claimed(fields: Mapping[str, Any], declared: Any, live: Any, path: str = "") -> Iterator[str]:
    """Paths among ``fields`` (in the API's own notation) at which the two differ."""
    for key, inner in fields.items():
        mark, _, name = key.partition(":")
        if mark == "f" and isinstance(declared, Mapping) and name in declared:
            here = f"{path}.{name}" if path else name
            found = live.get(name) if isinstance(live, Mapping) else None
            if inner and isinstance(declared[name], (Mapping, list)):
                yield from _claimed(inner, declared[name], found, here)
            elif str(declared[name]) != str(found):
                yield here
        elif mark == "k" and isinstance(declared, list):
            mine, theirs = _element(declared, name), _element(live or [], name)
            if mine is not None:
                yield from _claimed(inner, mine, theirs, f"{path}[{name}]")


def _element(items: Sequence[Any], keys: str) -> Any:
    """The item of a list that ``keys`` (as JSON) names."""
    wanted = json.loads(keys)
    return next(
        (i for i in items if isinstance(i, Mapping) and all(i.get(k) == v for k, v in wanted.items())), None
    )


def _short(manifest: Manifest) -> str:
    space = f" -n {manifest.namespace}" if manifest.namespace else ""
    return f"{manifest.kind.lower()} {manifest.name}{space}"
