"""Registrations as files: one object a file, in apply order, the same bytes for the same plan."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rackwright.errors import CannotRun, Problem, listing
from rackwright.yamlio import load_yaml
from stacks.embedded import Registration

MARKER = "rackwright/render/v1"
INDEX = "index.yaml"
KUSTOMIZATION = "kustomization.yaml"
HELM_RELEASE = "kubernetes:helm.sh/v3:Release"
NODE_PATCH = "kubernetes:core/v1:NodePatch"

_ENGINE_ANNOTATION = "pulumi.com/"
_OTHER_TYPE = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?0[oO][0-7_]+|[yYnN]|[-+]?[0-9][0-9_]*"
)
"""Text that kubectl's YAML reads as a number or boolean though Python's does not: 123e456, 0o17, y."""
_FIRST_KEYS = ("apiVersion", "kind", "metadata", "name", "namespace", "labels", "annotations")


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Block style, no aliases, and text that stays text for every reader."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else "'" if _OTHER_TYPE.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump(data: Any) -> str:
    """``data`` as YAML in the order given."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text


@dataclass(frozen=True)
class Manifest:
    """One rendered object.

    ``phase``: the component it came from; ``purpose``: object (applied by any tool), node (applied by
    server-side apply once the node has joined) or release (a chart for Helm).
    """

    file: str
    phase: str
    purpose: str
    registration: Registration
    content: Mapping[str, Any]

    @property
    def text(self) -> str:
        return dump(self.content)

    @property
    def kind(self) -> str:
        return str(self.content.get("kind", "HelmRelease"))

    @property
    def name(self) -> str:
        return str(_metadata(self.content).get("name", self.registration.name))

    @property
    def namespace(self) -> str | None:
        return _metadata(self.content).get("namespace")

    @property
    def identity(self) -> str:
        """``apps/v1 Deployment llm/chat``."""
        version = self.content.get("apiVersion", "helm.sh/v3")
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{version} {self.kind} {place}"


def manifests(registrations: Sequence[Registration], phases: Sequence[str]) -> tuple[Manifest, ...]:
    """Every registered object as a file, phases in the given order, within a phase as registered.

    Raises:
        CannotRun: two objects would take the same file.
    """
    by_urn = {r.urn: r for r in registrations}
    found = [_manifest(r, by_urn, phases) for r in registrations if r.custom and not _is_provider(r)]
    ranked = sorted(found, key=lambda m: phases.index(m.phase))
    taken: dict[str, Manifest] = {}
    for manifest in ranked:
        other = taken.setdefault(manifest.file, manifest)
        if other is not manifest:
            raise CannotRun(
                Problem(
                    manifest.file,
                    "must hold one object",
                    f"{other.identity} and {manifest.identity}",
                    "the second would overwrite the first",
                    "name one of them differently in the workload",
                )
            )
    return tuple(ranked)


def _is_provider(registration: Registration) -> bool:
    return registration.type.startswith("pulumi:providers:")


def _manifest(
    registration: Registration, by_urn: Mapping[str, Registration], phases: Sequence[str]
) -> Manifest:
    phase = _phase(registration, by_urn, phases)
    if registration.type == HELM_RELEASE:
        return Manifest(
            f"helm/{registration.name}.yaml", phase, "release", registration, ordered(registration.inputs)
        )
    content = ordered(_without_ignored(_without_engine_annotations(registration.inputs), registration))
    if registration.type == NODE_PATCH:
        return Manifest(f"nodes/{registration.name}.yaml", phase, "node", registration, content)
    number = f"{10 * (phases.index(phase) + 1):02}"
    metadata = _metadata(content)
    parts = [str(content["kind"]).lower(), metadata.get("namespace"), metadata["name"]]
    name = "-".join(part for part in parts if part)
    return Manifest(f"{number}-{phase}/{name}.yaml", phase, "object", registration, content)


def _phase(registration: Registration, by_urn: Mapping[str, Registration], phases: Sequence[str]) -> str:
    """The component that registered it: the phase is the name of the outermost component's type."""
    place: Registration | None = registration
    while place is not None:
        word = _kebab(place.type.rpartition(":")[2])
        if place.component and word in phases:
            return word
        place = by_urn.get(place.parent)
    raise CannotRun(
        Problem(
            registration.urn,
            "must be declared by a component of the program",
            "an object without one",
            "its place in the order of application is unknown",
            f"declare it in one of: {listing(list(phases))}",
        )
    )


def _kebab(word: str) -> str:
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in word).lstrip("-")


def _metadata(content: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = content.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _without_engine_annotations(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Annotations that instruct the real engine mean nothing in a cluster."""
    metadata = dict(_metadata(inputs))
    kept = {
        key: value
        for key, value in metadata.pop("annotations", {}).items()
        if not key.startswith(_ENGINE_ANNOTATION)
    }
    return {**inputs, "metadata": {**metadata, "annotations": kept} if kept else metadata}


def _without_ignored(content: dict[str, Any], registration: Registration) -> dict[str, Any]:
    """Fields that the program leaves to a controller are left out, or each sync would take them back."""
    for path in registration.ignore_changes:
        content = _dropped(content, path.split("."))
    return content


def _dropped(content: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    head, *rest = path
    if head not in content:
        return content
    if rest:
        return {**content, head: _dropped(content[head], rest)}
    return {key: value for key, value in content.items() if key != head}


def ordered(value: Any) -> Any:
    """Keys in one order everywhere: what names an object first, then by alphabet."""
    if isinstance(value, Mapping):
        keys = [key for key in _FIRST_KEYS if key in value]
        keys += sorted(key for key in value if key not in _FIRST_KEYS)
        return {key: ordered(value[key]) for key in keys}
    if isinstance(value, list):
        return [ordered(item) for item in value]
    return value


def files(found: Sequence[Manifest], *, plan: str, digest: str, staged: Iterable[str] = ()) -> dict[str, str]:
    """Path to text of everything that a render writes, the index included."""
    texts = {manifest.file: manifest.text for manifest in found}
    applied = [m.file for m in found if m.purpose == "object"]
    texts[KUSTOMIZATION] = dump(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "sortOptions": {"order": "fifo"},
            "resources": applied,
        }
    )
    return {**texts, INDEX: _index(found, texts, plan, digest, sorted(staged))}


def _index(
    found: Sequence[Manifest], texts: Mapping[str, str], plan: str, digest: str, staged: Sequence[str]
) -> str:
    body: dict[str, Any] = {"written-by": MARKER, "plan": plan, "digest": digest, "objects": []}
    for manifest in found:
        entry: dict[str, Any] = {
            "file": manifest.file,
            "object": manifest.identity,
            "phase": manifest.phase,
            "purpose": manifest.purpose,
        }
        if manifest.registration.protect:
            entry["protect"] = True
        if manifest.registration.secret_paths:
            entry["redacted"] = [".".join(map(str, path)) for path in manifest.registration.secret_paths]
        entry["sha256"] = hashlib.sha256(texts[manifest.file].encode()).hexdigest()
        body["objects"].append(entry)
    body["staged-nodes"] = list(staged)
    body["files"] = sorted([*texts, INDEX])
    return dump(body)


def write(texts: Mapping[str, str], directory: Path) -> None:
    """Replace ``directory`` by ``texts``, whole or not at all. Files that a render did not write stay.

    Raises:
        CannotRun: the directory holds something that no render wrote, or cannot be written.
    """
    directory = directory.resolve()
    previous = _previous(directory)
    foreign = _foreign(directory, previous)
    blocked = sorted(set(texts) & set(foreign))
    if blocked:
        raise CannotRun(_not_ours(directory, listing(blocked)))
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    except OSError as error:
        raise CannotRun(_unwritable(directory, error)) from None
    try:
        fresh.chmod(0o755)
        for name, text in texts.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        _swap(fresh, directory, foreign)
    except OSError as error:
        raise CannotRun(_unwritable(directory, error)) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _previous(directory: Path) -> frozenset[str]:
    """Files of the render that is there; empty for a new or empty directory."""
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return frozenset()
    index = directory / INDEX
    if not directory.is_dir() or not index.is_file():
        raise CannotRun(_not_ours(directory, "no index.yaml of an earlier render"))
    data = load_yaml(index).data
    if not isinstance(data, dict) or data.get("written-by") != MARKER:
        raise CannotRun(_not_ours(directory, "an index.yaml that no render wrote"))
    return frozenset(str(name) for name in data.get("files", ()))


def _foreign(directory: Path, previous: frozenset[str]) -> list[str]:
    if not directory.is_dir():
        return []
    present = (p.relative_to(directory).as_posix() for p in directory.rglob("*") if not p.is_dir())
    return sorted(name for name in present if name not in previous)


def _swap(fresh: Path, directory: Path, foreign: Sequence[str]) -> None:
    if not directory.exists():
        fresh.rename(directory)
        return
    retired = Path(tempfile.mkdtemp(prefix=f".{directory.name}.old.", dir=directory.parent))
    old = retired / "was"
    directory.rename(old)
    try:
        fresh.rename(directory)
    except BaseException:
        old.rename(directory)
        raise
    for name in foreign:
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(old / name, target)  # noqa: PTH104 - a rename in place, links included
    shutil.rmtree(retired)


def _not_ours(directory: Path, found: str) -> Problem:
    return Problem(
        str(directory),
        "must be empty, new, or written by an earlier render",
        found,
        "files that somebody else made would be overwritten or applied along",
        "choose another directory: rackwright render PLAN -o DIR",
    )


def _unwritable(directory: Path, error: OSError) -> Problem:
    return Problem(
        str(directory),
        "must be a directory that can be written",
        error.strerror or str(error),
        "nothing was rendered; what was there is unchanged",
        "choose another directory: rackwright render PLAN -o DIR",
    )
