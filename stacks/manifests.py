"""Registrations as files: one object a file, in apply order, the same bytes for the same plan."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from rackwright import yaml_events
from rackwright.errors import CannotRun, InputErrors, Problem, listing
from rackwright.render_links import NAME_LIMIT
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
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SHOWN = 80
_FIRST_KEYS = ("apiVersion", "kind", "metadata", "name", "namespace", "labels", "annotations")


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Block style, no aliases, and text that stays text for every reader."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _style(text: str) -> str | None:
    return "|" if "\n" in text else "'" if _OTHER_TYPE.fullmatch(text) else None


def _text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


_Dumper.add_representer(str, _text)


def dump(data: Any) -> str:
    """``data`` as YAML in the order given."""
    text = yaml_events.write(data, _style)
    if text is None:
        text = str(
            yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=yaml_events.WIDTH)
        )
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
        InputErrors: names that no file and no object can have.
        CannotRun: two objects would take the same file.
    """
    by_urn = {r.urn: r for r in registrations}
    declared = [r for r in registrations if r.custom and not _is_provider(r)]
    _require_names(declared)
    found = [_manifest(r, by_urn, phases) for r in declared]
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


def _require_names(registrations: Iterable[Registration]) -> None:
    """Names become parts of paths. One name used by many objects is one problem."""
    problems: dict[str, Problem] = {}
    for registration in registrations:
        metadata = _metadata(registration.inputs)
        kind = registration.inputs.get("kind", registration.type.rpartition(":")[2])
        names = {
            "metadata.name": metadata.get("name", registration.name),
            "metadata.namespace": metadata.get("namespace") or "default",
        }
        for place, name in names.items():
            if not (isinstance(name, str) and len(name) <= NAME_LIMIT and _NAME.fullmatch(name)):
                problems.setdefault(str(name), _unfit(f"{kind} {place}", name))
    if problems:
        raise InputErrors(problems.values())


def _unfit(where: str, name: object) -> Problem:
    shown = str(name) if len(str(name)) <= _SHOWN else f"{str(name)[:_SHOWN]}…"
    return Problem(
        where,
        f"must be a DNS name of at most {NAME_LIMIT} characters",
        f'"{shown}"',
        "it is part of a file's path, and the API server refuses it",
        "use small letters, digits and dashes where the workload names it",
    )


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
        entry["sha256"] = _sha256(texts[manifest.file])
        body["objects"].append(entry)
    body["kustomization-sha256"] = _sha256(texts[KUSTOMIZATION])
    body["staged-nodes"] = list(staged)
    body["files"] = sorted([*texts, INDEX])
    return dump(body)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Previous:
    """The render that is in a directory: its files, and the hash of each that it recorded one for."""

    files: frozenset[str] = frozenset()
    hashes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Foreign:
    """What no render wrote: files (links included) and directories that hold nothing."""

    files: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


def write(texts: Mapping[str, str], directory: Path, *, force: bool = False) -> tuple[str, ...]:
    """Replace ``directory`` by ``texts``, whole or not at all; what a render did not write stays.

    Gives the files that had been edited by hand and were written over, which only ``force`` allows.

    Raises:
        CannotRun: a path that leaves the directory, something in the way that no render wrote, a rendered
            file that was edited, or a directory that cannot be written.
    """
    _require_inside(texts)
    try:
        directory = directory.resolve()
        previous = _previous(directory)
        foreign = _foreign(directory, previous.files)
        edited = _edited(directory, previous, texts)
        _require_room(texts, directory, foreign, edited if not force else ())
        _replace(texts, directory, foreign)
    except (OSError, RuntimeError) as error:
        raise CannotRun(_unwritable(directory, error)) from None
    return edited


def _require_inside(texts: Iterable[str]) -> None:
    wrong = [name for name in texts if not _is_inside(name)]
    if wrong:
        raise CannotRun(
            Problem(
                f'"{name[:_SHOWN]}"',
                "must be a path inside the directory, of small letters, digits, dots and dashes",
                "a part that is none",
                "nothing may be written outside the directory; nothing was written",
                "name the object differently in the workload",
            )
            for name in wrong
        )


def _is_inside(name: str) -> bool:
    return all(_PART.fullmatch(part) for part in name.split("/"))


_PART = re.compile(r"[a-z0-9][-a-z0-9.]{0,254}")


def _require_room(texts: Mapping[str, str], directory: Path, foreign: Foreign, edited: Sequence[str]) -> None:
    blocked = sorted(_in_the_way(texts, foreign))
    problems = [_not_ours(directory, listing(blocked))] if blocked else []
    problems += [
        Problem(
            f"{directory}/{name}",
            "must be as the last render wrote it",
            "edits made by hand",
            "they would be lost; nothing was written",
            "put the change into the workload; to drop the edits: rackwright render PLAN "
            f"-o {shlex.quote(str(directory))} --force",
        )
        for name in edited
    ]
    if problems:
        raise CannotRun(problems)


def _in_the_way(texts: Mapping[str, str], foreign: Foreign) -> set[str]:
    """What stands at a new file's place, above it or below it; an empty directory may be filled."""
    above = {str(parent) for name in texts for parent in PurePosixPath(name).parents}
    return {
        name
        for names, places in ((foreign.files, above | texts.keys()), (foreign.empty, texts.keys()))
        for name in names
        if name in places or any(str(parent) in texts for parent in PurePosixPath(name).parents)
    }


def _replace(texts: Mapping[str, str], directory: Path, foreign: Foreign) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        fresh.chmod(0o755)
        for name, text in texts.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        _adopt(foreign, directory, fresh)
        _swap(fresh, directory)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _adopt(foreign: Foreign, directory: Path, fresh: Path) -> None:
    """Give the new directory what is not ours of the old, which keeps it until the two change places."""
    for name in foreign.empty:
        (fresh / name).mkdir(parents=True, exist_ok=True)
    for name in foreign.files:
        (fresh / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(directory / name, fresh / name, follow_symlinks=False)
        except OSError:
            shutil.copy2(directory / name, fresh / name, follow_symlinks=False)
    if directory.is_dir():
        kept = {str(parent) for name in foreign.files for parent in PurePosixPath(name).parents}
        for name in {".", *kept, *foreign.empty}:
            shutil.copymode(directory / name, fresh / name)


def _swap(fresh: Path, directory: Path) -> None:
    if not directory.exists():
        fresh.rename(directory)
        return
    retired = Path(tempfile.mkdtemp(prefix=f".{directory.name}.old.", dir=directory.parent))
    old = retired / "was"
    try:
        directory.rename(old)
        try:
            fresh.rename(directory)
        except BaseException:
            old.rename(directory)
            raise
    finally:
        if not old.exists():
            retired.rmdir()
    shutil.rmtree(retired, ignore_errors=True)


def _previous(directory: Path) -> Previous:
    """The render that is there; an empty one for a new or empty directory."""
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return Previous()
    index = directory / INDEX
    if not directory.is_dir() or not index.is_file():
        raise CannotRun(_not_ours(directory, "no index.yaml of an earlier render"))
    data = load_yaml(index).data
    if not isinstance(data, dict) or data.get("written-by") != MARKER:
        raise CannotRun(_not_ours(directory, "an index.yaml that no render wrote"))
    files, objects = data.get("files"), data.get("objects")
    if not isinstance(files, list) or not isinstance(objects, list):
        raise CannotRun(_not_ours(directory, "an index.yaml without its lists of files and objects"))
    hashes = {str(o.get("file")): str(o["sha256"]) for o in objects if isinstance(o, dict) and "sha256" in o}
    if "kustomization-sha256" in data:
        hashes[KUSTOMIZATION] = str(data["kustomization-sha256"])
    return Previous(frozenset(filter(_is_inside, map(str, files))), hashes)


def _foreign(directory: Path, ours: frozenset[str]) -> Foreign:
    files, empty = [], []
    for place, below, names in os.walk(directory, onerror=_raise) if directory.is_dir() else ():
        here = Path(place)
        links = [name for name in below if (here / name).is_symlink()]
        files += [(here / name).relative_to(directory).as_posix() for name in (*names, *links)]
        if not below and not names and here != directory:
            empty.append(here.relative_to(directory).as_posix())
    return Foreign(tuple(sorted(set(files) - ours)), tuple(sorted(empty)))


def _raise(error: OSError) -> None:
    raise error


def _edited(directory: Path, previous: Previous, texts: Mapping[str, str]) -> tuple[str, ...]:
    """Files of the last render that hold neither what it wrote nor what is to be written."""
    found = []
    for name in sorted(previous.files & previous.hashes.keys()):
        path = directory / name
        if path.is_file():
            content = path.read_bytes()
            changed = hashlib.sha256(content).hexdigest() != previous.hashes[name]
            if changed and content != texts.get(name, "").encode():
                found.append(name)
    return tuple(found)


def _not_ours(directory: Path, found: str) -> Problem:
    return Problem(
        str(directory),
        "must be empty, new, or written by an earlier render",
        found,
        "files that somebody else made would be overwritten or applied along",
        "choose another directory: rackwright render PLAN -o DIR",
    )


def _unwritable(directory: Path, error: Exception) -> Problem:
    return Problem(
        str(directory),
        "must be a directory that can be written",
        getattr(error, "strerror", None) or str(error),
        "nothing was rendered; what was there is unchanged",
        "choose another directory: rackwright render PLAN -o DIR",
    )
