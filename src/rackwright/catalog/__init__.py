"""What the product knows about hardware, models, engines, prices and platforms.

One YAML file an entry. Every number is a ``Figure``: value, unit, source, and whether the source was read
(``verified: true``) or the value stands there from general knowledge and still wants one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from rackwright.catalog.entries import (
    Accelerator,
    Efficiency,
    EngineEntry,
    Entry,
    Figure,
    Machine,
    ModelEntry,
    Nic,
    NvLink,
    OperatorEntry,
    PlatformEntry,
    Prices,
    Quantisation,
)
from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.yamlio import Document, parse_yaml, validated

__all__ = [
    "Accelerator",
    "Catalog",
    "Efficiency",
    "EngineEntry",
    "Entry",
    "Figure",
    "Machine",
    "ModelEntry",
    "Nic",
    "NvLink",
    "OperatorEntry",
    "PlatformEntry",
    "Prices",
    "Quantisation",
    "load_catalog",
    "read_catalog",
    "unknown_entry",
]

E = TypeVar("E", bound=Entry)

_KINDS: dict[str, type[Entry]] = {
    "accelerator": Accelerator,
    "machine": Machine,
    "model": ModelEntry,
    "engine": EngineEntry,
    "prices": Prices,
    "platform": PlatformEntry,
}
_FOLDERS = ("hardware", "models", "engines", "prices", "platform")


@dataclass(frozen=True)
class Catalog:
    """All entries by id, and the digest of every file they came from."""

    accelerators: Mapping[str, Accelerator]
    machines: Mapping[str, Machine]
    models: Mapping[str, ModelEntry]
    engines: Mapping[str, EngineEntry]
    prices: Mapping[str, Prices]
    platforms: Mapping[str, PlatformEntry]
    digests: Mapping[str, str]

    def machine(self, name: str) -> Machine:
        """The machine ``name``.

        Raises:
            InputErrors: there is none; the nearest name is suggested.
        """
        return _pick(self.machines, name, "hardware.machine", "machine")

    def model(self, name: str) -> ModelEntry:
        """The model ``name``; raises InputErrors like ``machine``."""
        return _pick(self.models, name, "model.id", "model")

    def engine(self, name: str) -> EngineEntry:
        """The engine ``name``; raises InputErrors like ``machine``."""
        return _pick(self.engines, name, "engine", "engine")

    def accelerator_of(self, machine: Machine) -> Accelerator:
        return self.accelerators[machine.accelerator]

    def digest_of(self, *ids: str) -> str:
        """SHA-256 over the files of the entries ``ids``: what a plan that read them depends on."""
        lines = "".join(f"{i} {self.digests[i]}\n" for i in sorted(set(ids)))
        return hashlib.sha256(lines.encode()).hexdigest()


def _pick(known: Mapping[str, E], name: str, path: str, what: str) -> E:
    if name in known:
        return known[name]
    raise InputErrors(unknown_entry(known, name, path, what))


def unknown_entry(known: Mapping[str, Entry], name: str, path: str, what: str) -> Problem:
    """The problem that ``name`` is no entry of ``known``."""
    return Problem(
        path,
        f"must be {'an' if what[0] in 'aeiou' else 'a'} {what} of the catalog{_near(name, known)}",
        f'"{name}"',
        f"its figures are needed to size; the catalog has {listing(sorted(known))}",
        f"write one of those under {path}",
    )


def _near(name: str, known: Mapping[str, Entry]) -> str:
    """The nearest id; one that begins with ``name`` is nearer than one that merely looks alike."""
    longer = [k for k in known if k.startswith(name)]
    return nearest(longer[0], longer) if len(longer) == 1 else nearest(name, known)


@cache
def load_catalog() -> Catalog:
    """The catalog that ships with the product, read once."""
    return read_catalog(files("rackwright") / "catalog")


def read_catalog(root: Traversable | Path) -> Catalog:
    """Read a catalog from ``root``.

    Raises:
        InputErrors: every entry that is malformed, stands twice or names an entry that is not there.
    """
    found: dict[type[Entry], dict[str, Entry]] = {kind: {} for kind in _KINDS.values()}
    digests: dict[str, str] = {}
    problems: list[Problem] = []
    for name, text in _texts(root):
        try:
            entry = _entry(name, text)
        except InputErrors as error:
            problems.extend(error.problems)
            continue
        if entry.id in digests:
            problems.append(_broken(name, "must have an id of its own", f'"{entry.id}" twice'))
        digests[entry.id] = hashlib.sha256(text.encode()).hexdigest()
        found[type(entry)][entry.id] = entry
    if problems:
        raise InputErrors(problems)
    catalog = Catalog(
        accelerators=_typed(found, Accelerator),
        machines=_typed(found, Machine),
        models=_typed(found, ModelEntry),
        engines=_typed(found, EngineEntry),
        prices=_typed(found, Prices),
        platforms=_typed(found, PlatformEntry),
        digests=digests,
    )
    problems = list(_dangling(catalog))
    if problems:
        raise InputErrors(problems)
    return catalog


def _texts(root: Traversable | Path) -> Iterator[tuple[str, str]]:
    for folder in _FOLDERS:
        place = root / folder
        if not place.is_dir():
            continue
        for item in sorted(place.iterdir(), key=lambda i: i.name):
            if item.name.endswith(".yaml"):
                yield f"catalog/{folder}/{item.name}", item.read_text(encoding="utf-8")


def _entry(name: str, text: str) -> Entry:
    document = parse_yaml(text, name)
    kind = document.data.get("kind") if isinstance(document.data, dict) else None
    model = _KINDS.get(str(kind))
    if model is None:
        raise InputErrors(_broken(name, f"must have a kind of {listing(sorted(_KINDS))}", repr(kind)))
    return validated(model, _with_sources(document), why="the sizing reads it", next_command=f"mend {name}")


def _with_sources(document: Document) -> Document:
    """Figures name a key of the entry's ``sources``; the text is put in its place."""
    sources = document.data.get("sources", {})

    def expand(node: Any) -> Any:
        if isinstance(node, dict):
            out = {key: expand(value) for key, value in node.items()}
            if isinstance(node.get("source"), str):
                out["source"] = sources.get(node["source"], node["source"])
            return out
        return [expand(item) for item in node] if isinstance(node, list) else node

    body = {key: value if key == "sources" else expand(value) for key, value in document.data.items()}
    return Document(document.source, body, document.lines)


def _typed(found: dict[type[Entry], dict[str, Entry]], kind: type[E]) -> dict[str, E]:
    return {name: entry for name, entry in found[kind].items() if isinstance(entry, kind)}


def _dangling(catalog: Catalog) -> Iterator[Problem]:
    for machine in catalog.machines.values():
        if machine.accelerator not in catalog.accelerators:
            near = nearest(machine.accelerator, catalog.accelerators)
            yield _broken(
                machine.id, f"must name an accelerator of the catalog{near}", f'"{machine.accelerator}"'
            )
        if not any(machine.id in prices.machines for prices in catalog.prices.values()):
            yield _broken(machine.id, "must have a price", "none")


def _broken(name: str, rule: str, found: str) -> Problem:
    return Problem(name, rule, found, "the sizing reads it", "mend that catalog entry")
