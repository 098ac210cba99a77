"""A plan as a directory of manifests, validated on the way. No CLI, no cluster, no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rackwright import render_rules
from rackwright.crds import Schemas
from rackwright.errors import CannotRun, InputErrors, Problem, nearest
from rackwright.plan import Plan
from rackwright.render_rules import Finding
from stacks import manifests
from stacks.embedded import run
from stacks.manifests import Manifest
from stacks.model import Environment
from stacks.program import PHASES, build


@dataclass(frozen=True)
class Rendered:
    """What a render made and found.

    ``validated``: custom resources checked against a schema; ``unvalidated``: those whose kind had none.
    Built-in kinds are neither: the program declares them through typed constructors. ``written``: whether
    files were written; ``overwritten``: those that had been edited by hand.
    """

    manifests: tuple[Manifest, ...]
    staged: tuple[str, ...]
    validated: tuple[Manifest, ...]
    unvalidated: tuple[Manifest, ...]
    findings: tuple[Finding, ...]
    written: bool = True
    overwritten: tuple[str, ...] = ()

    @property
    def built_in(self) -> tuple[Manifest, ...]:
        return tuple(m for m in self.manifests if m.purpose != "release" and not is_custom(m.content))

    @property
    def failed(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def exposed(self) -> tuple[Finding, ...]:
        """Secrets in clear: while there is one, nothing is written."""
        return tuple(finding for finding in self.findings if finding.rule == "no-secret")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets that the objects refer to, ``namespace/name``: whoever holds them makes them."""
        names = {
            f"{manifest.namespace or OPERATORS}/{name}"
            for manifest in self.manifests
            for name in _secret_names(manifest.content)
        }
        return tuple(sorted(names))


OPERATORS = "<its operator's namespace>"
"""Where a policy that belongs to no namespace looks for its Secrets."""


def manifests_of(plan: Plan, environment: Environment | None = None) -> tuple[Manifest, ...]:
    """Every object of ``plan``, each node's patches included whether it has joined or not.

    Raises:
        InputErrors: the plan is not for a cluster, or lacks what its parts refer to.
        CannotRun: it holds a value that no object can carry.
    """
    nodes = frozenset(node.name for pool in plan.pools for node in pool.nodes)
    everywhere = replace(environment or Environment(), joined=nodes)
    try:
        registrations = run(lambda: build(plan, everywhere))
    except (ValueError, LookupError, RuntimeError) as error:
        raise CannotRun(_undeclarable(plan, error)) from error
    return manifests.manifests(registrations, PHASES)


def _undeclarable(plan: Plan, error: Exception) -> Problem:
    return Problem(
        f"plan {plan.header.name}",
        "must hold values that its objects can carry",
        f"{type(error).__name__}: {error}".splitlines()[0],
        "nothing was rendered",
        "size the workload again: rackwright size WORKLOAD.yaml -o plan.yaml",
    )


def render(
    plan: Plan,
    directory: Path,
    *,
    joined: Iterable[str] = (),
    schemas: Schemas | None = None,
    force: bool = False,
) -> Rendered:
    """Write ``plan`` to ``directory`` and say what was found on the way. A secret in clear is never written.

    Raises:
        InputErrors: the plan is not for a cluster or does not hold together; a joined node is not in it.
        CannotRun: the directory is somebody else's, was edited (without ``force``) or cannot be written.
    """
    staged = staged_nodes(plan, joined)
    found = manifests_of(plan)
    result = judged(plan, found, staged, schemas or Schemas())
    if result.exposed:
        return replace(result, written=False)
    texts = manifests.files(found, plan=plan.header.name, digest=plan.digest, staged=staged)
    return replace(result, overwritten=manifests.write(texts, directory, force=force))


def judged(plan: Plan, found: Sequence[Manifest], staged: Sequence[str], schemas: Schemas) -> Rendered:
    custom = [m for m in found if m.purpose == "object" and is_custom(m.content)]
    checked = [(m, schemas.violations(m.content)) for m in custom]
    findings = [
        Finding(
            "schema",
            "error",
            Problem(
                f"{m.file} {violation.path}".rstrip(),
                violation.rule,
                violation.found,
                "the API server would refuse the object, or drop the field in silence",
                "the operator's version and the program disagree: compare with kubectl explain",
            ),
        )
        for m, violations in checked
        for violation in violations or ()
    ]
    releases = [(m.file, m.content) for m in found if m.purpose == "release"]
    findings += render_rules.check(plan, [m.content for m in found if m.purpose != "release"])
    findings += [finding for file, content in releases for finding in render_rules.secrets_in(file, content)]
    return Rendered(
        manifests=tuple(found),
        staged=tuple(staged),
        validated=tuple(m for m, violations in checked if violations is not None),
        unvalidated=tuple(m for m, violations in checked if violations is None),
        findings=tuple(findings),
    )


def staged_nodes(plan: Plan, joined: Iterable[str]) -> tuple[str, ...]:
    """Nodes of the plan that are not among ``joined``. A provider's nodes have names of their own."""
    names = [node.name for pool in plan.pools for node in plan.named_nodes(pool)]
    here = set(joined)
    unknown = sorted(here - set(names))
    if unknown:
        raise InputErrors(
            [
                Problem(
                    "--joined",
                    "must name a node of the plan" + nearest(name, names),
                    f'"{name}"',
                    "a node outside the plan gets no labels from it",
                    "rackwright inventory PLAN lists the nodes",
                )
                for name in unknown
            ]
        )
    return tuple(name for name in names if name not in here)


def is_custom(content: Mapping[str, Any]) -> bool:
    """Whether the kind comes from a definition: its group has a dot and is not Kubernetes' own."""
    group = str(content.get("apiVersion", "")).rpartition("/")[0]
    if "." not in group:
        return False
    return group not in _OWN_GROUPS


_OWN_GROUPS = frozenset(
    f"{name}.k8s.io"
    for name in (
        "admissionregistration",
        "apiextensions",
        "apiregistration",
        "authentication",
        "authorization",
        "certificates",
        "coordination",
        "discovery",
        "events",
        "flowcontrol.apiserver",
        "networking",
        "node",
        "rbac.authorization",
        "resource",
        "scheduling",
        "storage",
    )
)


def _secret_names(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == "secretKeyRef":
                yield f"{item['name']} (key {item['key']})"
            elif key == "imagePullSecrets":
                names = (each if isinstance(each, str) else each["name"] for each in item)
                yield from (f"{name} (a registry's login)" for name in names)
            elif key == "credentialsName":
                yield f"{item} (keys username and password)"
            elif key == "certificateRefs":
                yield from (f"{reference['name']} (a TLS certificate)" for reference in item)
            else:
                yield from _secret_names(item)
    elif isinstance(value, list):
        for item in value:
            yield from _secret_names(item)
