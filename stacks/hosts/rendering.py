"""The files of a plan's hosts as a directory, one folder a host. No CLI, no host, no network."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from rackwright.hosts import HostSet, decide
from rackwright.plan import Plan
from rackwright.render_rules import Finding
from stacks import manifests
from stacks.embedded import run
from stacks.hosts.program import HostFiles, build_hosts
from stacks.hosts.rules import findings


@dataclass(frozen=True)
class RenderedHosts:
    """``overwritten``: files that had been edited by hand."""

    hosts: tuple[HostSet, ...]
    findings: tuple[Finding, ...]
    overwritten: tuple[str, ...] = ()


def texts_of(plan: Plan) -> dict[str, str]:
    """Path to text of everything that is declared on hosts, but secrets, as the program registers it.

    Raises:
        InputErrors: the plan cannot stand on hosts.
    """
    wanted = f"pulumi-python:{HostFiles._resource_type_name}"
    declared = [r for r in run(lambda: build_hosts(plan)) if r.type == wanted]
    return {f"{r.name}/{path}": text for r in declared for path, text in r.inputs["files"].items()}


def render_hosts(plan: Plan, directory: Path, *, force: bool = False) -> RenderedHosts:
    """Write the files of ``plan`` below ``directory``; secrets are never written.

    Raises:
        InputErrors: the plan cannot stand on hosts.
        CannotRun: the directory is somebody else's, was edited (without ``force``) or cannot be written.
    """
    hosts = decide(plan)
    texts = texts_of(plan)
    index = {
        "written-by": manifests.MARKER,
        "plan": plan.header.name,
        "digest": plan.digest,
        "objects": [
            {
                "file": name,
                "mode": next(h for h in hosts if h.host == host).file(path).mode,
                "sha256": hashlib.sha256(texts[name].encode()).hexdigest(),
            }
            for name in sorted(texts)
            for host, _, path in [name.partition("/")]
        ],
        "files": sorted([*texts, manifests.INDEX]),
    }
    overwritten = manifests.write({**texts, manifests.INDEX: manifests.dump(index)}, directory, force=force)
    return RenderedHosts(hosts, tuple(findings(plan, hosts)), overwritten)
