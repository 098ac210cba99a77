"""What a cluster has of what a plan needs: asked once, without changing anything, judged elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

from rackwright.plan import Operator
from stacks.kube_api import Api, ApiError
from stacks.manifests import Manifest

Object = Mapping[str, Any]

RBAC = "rbac.authorization.k8s.io"
WRITES = ("get", "list", "watch", "create", "patch", "delete")
"""What applying, reading and removing an object takes: server-side apply creates by patch and needs both, and
an object is watched until it is gone. Without a right to watch, the provider waits in silence for minutes."""
AWAITED: Mapping[str, Sequence[tuple[str, str]]] = {
    "Deployment": (
        ("apps", "deployments"), ("apps", "replicasets"), ("", "pods"), ("", "persistentvolumeclaims"),
    ),
    "Service": (("", "services"), ("", "endpoints"), ("discovery.k8s.io", "endpointslices")),
    "CustomResourceDefinition": (("apiextensions.k8s.io", "customresourcedefinitions"),),
}  # fmt: skip
"""What else is watched until an object of the kind is ready."""
MANAGER = "rackwright"


@dataclass(frozen=True, order=True)
class Need:
    """One permission. ``namespace`` is empty for what is not in one. ``why``: an object that needs it."""

    verb: str
    group: str
    resource: str
    namespace: str
    why: str = field(compare=False, default="")


@dataclass(frozen=True)
class Kind:
    """Where the API keeps objects of a kind."""

    resource: str
    namespaced: bool


@dataclass(frozen=True)
class Running:
    """Deployments of an operator's namespace; None where they may not be listed or the namespace is not
    there."""

    operator: Operator
    deployments: Sequence[Object] | None
    elsewhere: Sequence[Object] = ()


@dataclass(frozen=True)
class Facts:
    """``served``: apiVersion to its kinds, empty where it is not served. ``versions``: group to the versions
    that it does serve. ``live``: objects of the plan that exist, by identity. ``denied``: needs that the
    cluster refuses. ``rejected``: by identity, why an object could not be taken over, where that is wanted.
    """

    served: Mapping[str, Mapping[str, Kind]]
    versions: Mapping[str, Sequence[str]]
    operators: Sequence[Running]
    live: Mapping[str, Object]
    denied: Sequence[Need]
    rejected: Mapping[str, str] = field(default_factory=dict)


def identity(api: Api) -> str:
    """The cluster's own name: the UID of its namespace kube-system.

    Raises:
        ApiError: it does not answer, or does not let us read it.
    """
    return str(api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"])


def collect(api: Api, manifests: Sequence[Manifest], operators: Sequence[Operator], *, adopt: bool) -> Facts:
    """Everything that the rules judge.

    Raises:
        ApiError: the server stopped answering.
    """
    objects = [m for m in manifests if m.purpose != "release"]
    wanted = {str(m.content["apiVersion"]) for m in objects}
    served = dict(zip(sorted(wanted), api.each(partial(_kinds, api), sorted(wanted)), strict=True))
    groups = sorted({v.rpartition("/")[0] for v, kinds in served.items() if not kinds} - {""})
    versions = dict(zip(groups, api.each(partial(_versions, api), groups), strict=True))
    needs = sorted({*_needs(manifests, operators, served), *_given_on(api, manifests)})
    denied = [
        need
        for need, allowed in zip(needs, api.each(partial(_allowed, api), needs), strict=True)
        if not allowed
    ]
    placed = [(m, path) for m in objects if (path := path_of(m.content, served))]
    found = api.each(partial(_live, api), [path for _, path in placed])
    live = {m.identity: content for (m, _), content in zip(placed, found, strict=True) if content}
    foreign = [(m, path) for m, path in placed if adopt and m.purpose == "object" and m.identity in live]
    answers = api.each(partial(_rejection, api), [(path, m.content) for m, path in foreign])
    return Facts(
        served, versions, api.each(partial(_running, api), operators), live, denied,
        {m.identity: text for (m, _), text in zip(foreign, answers, strict=True) if text},
    )  # fmt: skip


def path_of(content: Object, served: Mapping[str, Mapping[str, Kind]]) -> str | None:
    """Where the object lies; None where its kind is not served."""
    version, metadata = str(content["apiVersion"]), content["metadata"]
    kind = served.get(version, {}).get(str(content["kind"]))
    if kind is None:
        return None
    space = f"/namespaces/{metadata.get('namespace', 'default')}" if kind.namespaced else ""
    return f"{_root(version)}{space}/{kind.resource}/{metadata['name']}"


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _kinds(api: Api, version: str) -> dict[str, Kind]:
    listed = api.find(_root(version)) or {}
    return {
        r["kind"]: Kind(r["name"], bool(r["namespaced"]))
        for r in listed.get("resources", ())
        if "/" not in r["name"]
    }


def _versions(api: Api, group: str) -> list[str]:
    found = api.find(f"/apis/{group}") or {}
    return [str(entry["version"]) for entry in found.get("versions", ())]


def _live(api: Api, path: str) -> Object | None:
    """None also where it may not be read: the permission is a problem of its own."""
    try:
        found: Object | None = api.find(path)
    except ApiError as error:
        if error.status in {401, 403}:
            return None
        raise
    return found


def _rejection(api: Api, asked: tuple[str, Object]) -> str:
    """Why the server would not let us take the object over; empty where it would, or where it cannot tell."""
    path, content = asked
    try:
        made = api.try_apply(path, content, MANAGER)
    except ApiError as error:
        return str(error) if error.status == 422 else ""
    return next(_left(content, made), "")


def _left(declared: Any, made: Any, path: str = "") -> Iterator[str]:
    """Lists that would keep entries of theirs beside the plan's: the object would never be as planned."""
    if isinstance(declared, Mapping) and isinstance(made, Mapping):
        for key, value in declared.items():
            yield from _left(value, made.get(key), f"{path}.{key}" if path else key)
    elif isinstance(declared, list) and isinstance(made, list):
        if len(made) != len(declared):
            yield f"{path} with {len(made)} entries, {len(declared)} of them the plan's"
        else:
            for index, (one, other) in enumerate(zip(declared, made, strict=True)):
                yield from _left(one, other, f"{path}[{index}]")


def _running(api: Api, operator: Operator) -> Running:
    here = _deployments(api, f"/namespaces/{operator.namespace}")
    everywhere = _deployments(api, "") if here == [] else None
    return Running(operator, here, everywhere or ())


def _deployments(api: Api, place: str) -> list[Object] | None:
    try:
        return list(api.get(f"/apis/apps/v1{place}/deployments")["items"])
    except ApiError as error:
        if error.status in {401, 403}:
            return None
        raise


def _allowed(api: Api, need: Need) -> bool:
    attributes = {"verb": need.verb, "group": need.group, "resource": need.resource}
    if need.namespace:
        attributes["namespace"] = need.namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer["status"].get("allowed"))


def _given_on(api: Api, manifests: Sequence[Manifest]) -> Iterator[Need]:
    """What the plan's roles give: nobody may give what he does not hold, unless he may escalate and bind."""
    for role in manifests:
        if role.kind != "Role":
            continue
        space = str(role.namespace)
        if all(_allowed(api, Need(verb, RBAC, "roles", space)) for verb in ("escalate", "bind")):
            continue
        for rule in role.content["rules"]:
            for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"]):
                yield Need(verb, group, resource, space, role.identity)


def _needs(
    manifests: Sequence[Manifest], operators: Iterable[Operator], served: Mapping[str, Mapping[str, Kind]]
) -> Iterator[Need]:
    for manifest in manifests:
        if manifest.purpose == "release":
            yield Need("*", "*", "*", "", manifest.identity)
            continue
        content = manifest.content
        group = str(content["apiVersion"]).rpartition("/")[0]
        kind = served.get(str(content["apiVersion"]), {}).get(manifest.kind)
        if kind is None:
            continue
        space = str(content["metadata"].get("namespace", "default")) if kind.namespaced else ""
        verbs = ("get", "patch") if manifest.purpose == "node" else WRITES
        for verb in verbs:
            yield Need(verb, group, kind.resource, space, manifest.identity)
        for watched_group, resource in AWAITED.get(manifest.kind, ()):
            for verb in ("list", "watch"):
                yield Need(verb, watched_group, resource, space, manifest.identity)
    for operator in operators:
        yield Need("list", "apps", "deployments", operator.namespace, f"operator {operator.name}")
