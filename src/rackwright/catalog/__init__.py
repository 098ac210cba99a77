"""What the product knows about hardware, models, engines, prices and platforms.

One YAML file an entry. Every number is a ``Figure``: value, unit, source, and whether the source was read
(``verified: true``) or the value stands there from general knowledge and still wants one. A user's own
entries stand beside ours: a directory named by ``RACKWRIGHT_CATALOG`` or ``rackwright --catalog``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from rackwright.catalog.calibration_entries import CalibrationEntry
from rackwright.catalog.entries import (
    Accelerator,
    Cabinet,
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
    ScenarioEntry,
    SwitchEntry,
)
from rackwright.catalog.partitioning_entries import MigProfile, Partitioning
from rackwright.catalog.provisioner_entries import Provisioner
from rackwright.catalog.reading import broken, entries, texts
from rackwright.errors import CannotRun, InputErrors, Problem, listing, nearest
from rackwright.yamlio import printable, quoted

__all__ = [
    "VARIABLE",
    "Accelerator",
    "Cabinet",
    "CalibrationEntry",
    "Catalog",
    "Efficiency",
    "EngineEntry",
    "Entry",
    "Figure",
    "Machine",
    "MigProfile",
    "ModelEntry",
    "Nic",
    "NvLink",
    "OperatorEntry",
    "Partitioning",
    "PlatformEntry",
    "Prices",
    "Provisioner",
    "Quantisation",
    "ScenarioEntry",
    "SwitchEntry",
    "find",
    "load_catalog",
    "named",
    "read_catalog",
    "unknown_entry",
    "using",
]

E = TypeVar("E", bound=Entry)

VARIABLE = "RACKWRIGHT_CATALOG"
"""Names directories of a user's own entries, joined as in PATH."""


@dataclass(frozen=True)
class Catalog:
    """All entries by id, and the text and digest of every file they came from.

    ``accelerator``, ``machine``, ``cabinet``, ``model``, ``engine``, ``scenario`` and ``switch`` find an
    entry by id or alias, in any case; they raise InputErrors, with the nearest name, where there is none.
    """

    accelerators: Mapping[str, Accelerator]
    machines: Mapping[str, Machine]
    cabinets: Mapping[str, Cabinet]
    models: Mapping[str, ModelEntry]
    engines: Mapping[str, EngineEntry]
    prices: Mapping[str, Prices]
    platforms: Mapping[str, PlatformEntry]
    scenarios: Mapping[str, ScenarioEntry]
    switches: Mapping[str, SwitchEntry]
    digests: Mapping[str, str]
    texts: Mapping[str, str]
    calibrations: Mapping[str, CalibrationEntry] = dataclasses.field(default_factory=dict)
    partitionings: Mapping[str, Partitioning] = dataclasses.field(default_factory=dict)
    provisioners: Mapping[str, Provisioner] = dataclasses.field(default_factory=dict)

    def accelerator(self, name: str) -> Accelerator:
        return _pick(self.accelerators, name, "hardware.accelerator", "accelerator")

    def machine(self, name: str) -> Machine:
        return _pick(self.machines, name, "hardware.machine", "machine")

    def cabinet(self, name: str) -> Cabinet:
        return _pick(self.cabinets, name, "site.cabinet", "cabinet")

    def model(self, name: str) -> ModelEntry:
        return _pick(self.models, name, "model.id", "model")

    def engine(self, name: str) -> EngineEntry:
        return _pick(self.engines, name, "engine", "engine")

    def scenario(self, name: str) -> ScenarioEntry:
        return _pick(self.scenarios, name, "users.scenario", "scenario")

    def switch(self, name: str) -> SwitchEntry:
        return _pick(self.switches, name, "fabric.switch", "switch")

    def accelerator_of(self, machine: Machine) -> Accelerator:
        return self.accelerators[machine.accelerator]

    def partitioning_of(self, accelerator: Accelerator) -> Partitioning | None:
        """The MIG profiles of ``accelerator``; None where it has none, or none are known."""
        return next((p for p in self.partitionings.values() if p.accelerator == accelerator.id), None)

    @cached_property
    def kinds(self) -> Mapping[str, Mapping[str, Entry]]:
        """Every kind's entries, by the kind's name."""
        return {
            "accelerator": self.accelerators,
            "machine": self.machines,
            "cabinet": self.cabinets,
            "model": self.models,
            "engine": self.engines,
            "prices": self.prices,
            "platform": self.platforms,
            "scenario": self.scenarios,
            "switch": self.switches,
            "calibration": self.calibrations,
            "partitioning": self.partitionings,
            "provisioner": self.provisioners,
        }

    def digest_of(self, *ids: str, estimator: str = "") -> str:
        """SHA-256 over the files of the entries ``ids`` and the digest of the ``estimator``'s constants: what
        a plan that read them depends on."""
        lines = "".join(f"{i} {self.digests[i]}\n" for i in sorted(set(ids)))
        lines += f"estimator {estimator}\n" if estimator else ""
        return hashlib.sha256(lines.encode()).hexdigest()


def find(known: Mapping[str, E], name: str) -> E | None:
    """The entry of that id or alias, in any case; None where there is none."""
    if name in known:
        return known[name]
    low = name.lower()
    for entry in known.values():
        if low in _names(entry):
            return entry
    return None


def _names(entry: Entry) -> set[str]:
    return {entry.id, *(alias.lower() for alias in entry.aliases)}


def _pick(known: Mapping[str, E], name: str, path: str, what: str) -> E:
    entry = find(known, name)
    if entry is None:
        raise InputErrors(unknown_entry(known, name, path, what))
    return entry


def unknown_entry(known: Mapping[str, Entry], name: str, path: str, what: str) -> Problem:
    """The problem that ``name`` is no entry of ``known``."""
    return Problem(
        path,
        f"must be {'an' if what[0] in 'aeiou' else 'a'} {what} of the catalog{_near(name, known)}",
        quoted(name),
        f"its figures are needed to size; the catalog has {listing(_like(name, known))}",
        f"write one of those under {path}, or list all: rackwright catalog list {what}",
    )


def _near(name: str, known: Mapping[str, Entry]) -> str:
    """The nearest id; one that begins with ``name`` is nearer than one that merely looks alike.

    Aliases count too, in any case; the answer is the id that they stand for.
    """
    longer = [k for k in known if k.startswith(name)]
    if len(longer) == 1:
        return nearest(longer[0], longer)
    spoken = {alias.lower(): entry.id for entry in known.values() for alias in entry.aliases}
    spoken |= {entry: entry for entry in known}
    close = get_close_matches(name.lower(), spoken, n=1, cutoff=0.6)
    return nearest(spoken[close[0]], [spoken[close[0]]]) if close else ""


def _like(name: str, known: Mapping[str, Entry]) -> list[str]:
    """All ids: those that contain ``name`` first, then those that begin alike."""
    low = name.lower()

    def rank(other: str) -> int:
        pairs = zip(low, other, strict=False)
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return len(low) + 1 if low in other else alike if alike >= 3 else 0

    return sorted(known, key=lambda other: (-rank(other), other))


def named(catalog: Catalog, name: str) -> list[Entry]:
    """The entries of every kind with that id or alias.

    Raises:
        InputErrors: there is none.
    """
    entries = [found for known in catalog.kinds.values() if (found := find(known, name)) is not None]
    if not entries:
        every = {entry.id: entry for known in catalog.kinds.values() for entry in known.values()}
        problem = unknown_entry(every, name, "NAME", "entry")
        raise InputErrors(replace(problem, next="rackwright catalog list"))
    return entries


@contextmanager
def using(directories: Iterable[Path]) -> Iterator[None]:
    """Read ``directories`` of a user's own entries besides those that ``RACKWRIGHT_CATALOG`` names."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = os.pathsep.join([*map(str, directories), *filter(None, [before])])
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def load_catalog() -> Catalog:
    """The catalog that ships with the product, and the user's own entries; read once a process.

    Raises:
        CannotRun: a directory that ``RACKWRIGHT_CATALOG`` names is not there.
        InputErrors: an entry in it is malformed.
    """
    return _loaded(os.environ.get(VARIABLE, ""))


@cache
def _loaded(own: str) -> Catalog:
    directories = [Path(part) for part in own.split(os.pathsep) if part]
    for directory in directories:
        if not directory.is_dir():
            raise CannotRun(
                Problem(
                    printable(str(directory)),
                    "must be a directory of catalog entries",
                    "a file" if directory.exists() else "nothing there",
                    f"your own entries are read from where --catalog or {VARIABLE} points",
                    f"make it, or take it out of --catalog and {VARIABLE}",
                )
            )
    return read_catalog(files("rackwright") / "catalog", *directories)


def read_catalog(root: Traversable | Path, *own: Path) -> Catalog:
    """Read a catalog from ``root`` and the user's directories ``own``.

    Raises:
        InputErrors: every entry that is malformed, stands twice or names an entry that is not there.
    """
    read = [*texts(root), *(text for directory in own for text in texts(directory, own=True))]
    found: dict[str, Entry] = {}
    where: dict[str, str] = {}
    digests: dict[str, str] = {}
    said: dict[str, str] = {}
    problems: list[Problem] = []
    for file, entry in entries(read):
        if entry.id in digests and not (file.own and entry.replaces):
            problems.append(
                broken(
                    file.name,
                    "must have an id of its own",
                    f'"{entry.id}" twice, also in {where[entry.id]}',
                    "give it another id, or set replaces: true in your own entry" if file.own else "mend one",
                )
            )
        digests[entry.id] = hashlib.sha256(file.text.encode()).hexdigest()
        where[entry.id] = file.name
        said[entry.id] = file.text
        found[entry.id] = entry
    if problems:
        raise InputErrors(problems)
    catalog = Catalog(
        accelerators=_typed(found, Accelerator),
        machines=_typed(found, Machine),
        cabinets=_typed(found, Cabinet),
        models=_typed(found, ModelEntry),
        engines=_typed(found, EngineEntry),
        prices=_typed(found, Prices),
        platforms=_typed(found, PlatformEntry),
        scenarios=_typed(found, ScenarioEntry),
        switches=_typed(found, SwitchEntry),
        digests=digests,
        texts=said,
        calibrations=_typed(found, CalibrationEntry),
        partitionings=_typed(found, Partitioning),
        provisioners=_typed(found, Provisioner),
    )
    problems = [*_dangling(catalog, where), *_ambiguous(catalog, where)]
    if problems:
        raise InputErrors(problems)
    return catalog


def _typed(found: Mapping[str, Entry], kind: type[E]) -> dict[str, E]:
    return {name: entry for name, entry in found.items() if isinstance(entry, kind)}


def _dangling(catalog: Catalog, where: Mapping[str, str]) -> Iterator[Problem]:
    priced = {name for prices in catalog.prices.values() for name in prices.machines}
    for machine in catalog.machines.values():
        if machine.id not in priced and not machine.no_price:
            yield broken(
                where[machine.id],
                "must have a price, or say why not",
                "neither",
                "put it into a price list, or give no_price a reason",
            )
    cards = [(where[m.id], m.accelerator) for m in catalog.machines.values()]
    cards += [(f"{where[p.id]} accelerator", p.accelerator) for p in catalog.partitionings.values()]
    cards += [
        (f"{where[p.id]} instances.{name}.accelerator", instance.accelerator)
        for p in catalog.provisioners.values()
        for name, instance in p.instances.items()
    ]
    for place, card in cards:
        if card not in catalog.accelerators:
            near = nearest(card, catalog.accelerators)
            yield broken(place, f"must name an accelerator of the catalog{near}", quoted(card))
    for calibration in catalog.calibrations.values():
        known_in: tuple[tuple[str, str, Mapping[str, Entry]], ...] = (
            ("hardware", calibration.hardware, catalog.accelerators),
            ("model", calibration.model, catalog.models),
            ("engine", calibration.engine, catalog.engines),
        )
        for field_, name, known in known_in:
            if name not in known:
                yield broken(
                    f"{where[calibration.id]} {field_}",
                    f"must name an entry of the catalog by its id{nearest(name, known)}",
                    quoted(name),
                )
    for prices in catalog.prices.values():
        named: list[tuple[str, str, Mapping[str, Entry]]]
        named = [("machines", n, catalog.machines) for n in prices.machines]
        named += [("accelerators", n, catalog.accelerators) for n in prices.accelerators]
        named += [("cabinets", n, catalog.cabinets) for n in prices.cabinets]
        named += [("rentals", r.machine, catalog.machines) for r in prices.rentals]
        named += [("apis", a.model, catalog.models) for a in prices.apis if a.model]
        for field, name, known in named:
            if name not in known:
                yield broken(
                    f"{where[prices.id]} {field}",
                    f"must name entries of the catalog{nearest(name, known)}",
                    quoted(name),
                )


def _ambiguous(catalog: Catalog, where: Mapping[str, str]) -> Iterator[Problem]:
    for kind in catalog.kinds.values():
        owner: dict[str, str] = {}
        for entry in kind.values():
            for name in sorted(_names(entry)):
                other = owner.setdefault(name, entry.id)
                if other != entry.id:
                    yield broken(
                        where[entry.id], "must share no name with another entry", f'"{name}" of {other} too'
                    )
