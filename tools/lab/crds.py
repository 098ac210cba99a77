"""Definitions of the kinds that a plan's objects have, as their operators would bring them.

From the best source there is: the pinned module's own file, a folder of schemas beside the checkout, else a
minimal definition that accepts any content. Which source a kind came from is told.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rackwright.plan import Plan
from tools.engine.build import directory_of
from tools.engine.families import LWS_FAMILY

SCHEMAS = Path(__file__).resolve().parents[3] / "shared" / "crds" / "crd-schemas.json.gz"
GUARDED = (".k8s.io", ".kubernetes.io")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
CLUSTER_WIDE = {"ClusterPolicy", "NicClusterPolicy", "HostDeviceNetwork", "NVIDIADriver", "NicNodePolicy"}


@dataclass(frozen=True)
class Source:
    """``origin``: module, schemas, or minimal."""

    origin: str
    content: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.content["metadata"]["name"])


@dataclass(frozen=True)
class Wanted:
    group: str
    kind: str
    versions: tuple[str, ...]


def definitions(plan: Plan, schemas: Path = SCHEMAS) -> list[Source]:
    """One definition a kind that ``plan`` uses, and every definition of the pinned modules."""
    modules = {d["metadata"]["name"]: d for d in _module_definitions()}
    table = json.loads(gzip.decompress(schemas.read_bytes())) if schemas.is_file() else {}
    found = [Source("module", d) for d in modules.values()]
    found += (
        _from_table(wanted, table) or Source("minimal", _definition(wanted, {}))
        for wanted in kinds(plan)
        if f"{plural(wanted.kind)}.{wanted.group}" not in modules
    )
    return found


def kinds(plan: Plan) -> list[Wanted]:
    """Custom kinds of the plan's objects."""
    from stacks.rendering import is_custom, manifests_of

    seen: dict[tuple[str, str], set[str]] = {}
    for manifest in manifests_of(plan):
        if manifest.purpose == "object" and is_custom(manifest.content):
            group, _, version = str(manifest.content["apiVersion"]).partition("/")
            seen.setdefault((group, manifest.kind), set()).add(version)
    return [Wanted(group, kind, tuple(sorted(versions))) for (group, kind), versions in sorted(seen.items())]


def _module_definitions() -> Iterable[dict[str, Any]]:
    for path in sorted((directory_of(LWS_FAMILY) / "crds").glob("*.yaml")):
        yield from (d for d in yaml.load_all(path.read_text(encoding="utf-8"), _LOADER) if d)


def _from_table(wanted: Wanted, table: Mapping[str, Any]) -> Source | None:
    prefix = f"{wanted.group}/"
    entries = {
        key.split("/")[1]: entry
        for key, entry in table.items()
        if key.startswith(prefix) and key.endswith(f"/{wanted.kind}")
    }
    if not set(wanted.versions) <= entries.keys():
        return None
    return Source("schemas", _definition(wanted, entries))


def _definition(wanted: Wanted, entries: Mapping[str, Any]) -> dict[str, Any]:
    name = plural(wanted.kind)
    scope = next((e["scope"] for e in entries.values()), None)
    guarded = wanted.group.endswith(GUARDED)
    approval = {"api-approved.kubernetes.io": "unapproved, a lab's copy"} if guarded else {}
    versions = sorted(entries) or list(wanted.versions)
    stored = next((v for v in versions if entries.get(v, {}).get("storage")), versions[0])
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}.{wanted.group}", "annotations": approval},
        "spec": {
            "group": wanted.group,
            "names": {
                "kind": wanted.kind,
                "listKind": f"{wanted.kind}List",
                "plural": name,
                "singular": wanted.kind.lower(),
            },
            "scope": scope or ("Cluster" if wanted.kind in CLUSTER_WIDE else "Namespaced"),
            "versions": [_version(wanted.kind, v, v == stored, entries.get(v)) for v in versions],
        },
    }


def _version(kind: str, name: str, stored: bool, entry: Mapping[str, Any] | None) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    subresources: dict[str, Any] = {"status": {}}
    if kind == "LeaderWorkerSet":
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.hpaPodSelector",
        }
    return {
        "name": name,
        "served": bool(entry["served"]) if entry else True,
        "storage": stored,
        "schema": {"openAPIV3Schema": entry["schema"] if entry else anything},
        "subresources": subresources,
    }


def plural(kind: str) -> str:
    """The API's own way: policies, classes, pools."""
    word = kind.lower()
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch")) else f"{word}s"
