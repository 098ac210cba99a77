"""Reading entries from directories: YAML with line numbers, or a cache of what that YAML said.

Reading YAML takes about a hundred times longer than reading the same data as JSON. What was read without a
complaint is kept in the user's cache directory, under the digest of every text; a cache that is damaged, not
ours or of other texts is left aside.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rackwright import __version__
from rackwright.catalog.calibration_entries import CalibrationEntry
from rackwright.catalog.entries import (
    Accelerator,
    Cabinet,
    EngineEntry,
    Entry,
    Machine,
    ModelEntry,
    PlatformEntry,
    Prices,
    ScenarioEntry,
    SwitchEntry,
)
from rackwright.catalog.figures import FIRST
from rackwright.catalog.partitioning_entries import Partitioning
from rackwright.catalog.provisioner_entries import Provisioner
from rackwright.errors import CannotRun, InputErrors, Problem, listing, nearest
from rackwright.yamlio import Document, parse_yaml, printable, validated

KINDS: dict[str, type[Entry]] = {
    "accelerator": Accelerator,
    "machine": Machine,
    "cabinet": Cabinet,
    "model": ModelEntry,
    "engine": EngineEntry,
    "prices": Prices,
    "platform": PlatformEntry,
    "scenario": ScenarioEntry,
    "switch": SwitchEntry,
    "calibration": CalibrationEntry,
    "partitioning": Partitioning,
    "provisioner": Provisioner,
}
FOLDERS = (
    "hardware", "cabinets", "models", "engines", "prices", "platform", "scenarios", "switches",
    "calibrations", "partitionings", "provisioners",
)  # fmt: skip

LARGEST = 1 << 20
"""Bytes of one entry's file; the largest of ours has a hundredth of it."""


@dataclass(frozen=True)
class Text:
    """One file: its name as messages show it, what it says, and whether it is the user's."""

    name: str
    text: str
    own: bool


def texts(root: Traversable | Path, *, own: bool = False) -> Iterator[Text]:
    """The entry files of ``root``, in a fixed order. A user's directory may also hold them without folders.

    Raises:
        InputErrors: a file is no text, or longer than any entry.
    """
    for folder in ("", *FOLDERS) if own else FOLDERS:
        place = root / folder if folder else root
        if not place.is_dir():
            continue
        for item in _items(place):
            if item.name.endswith((".yaml", ".yml") if own else ".yaml") and item.is_file():
                name = str(item) if own else f"catalog/{folder}/{item.name}"
                yield Text(printable(name), _text(item, name), own)


def _items(place: Traversable | Path) -> list[Traversable | Path]:
    try:
        return sorted(place.iterdir(), key=lambda i: i.name)
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        raise CannotRun(broken(str(place), "must be a directory that can be read", found)) from None


def _text(item: Traversable | Path, name: str) -> str:
    try:
        raw = item.read_bytes()
        if len(raw) > LARGEST:
            raise InputErrors(broken(name, "must be one entry", f"{len(raw):,} bytes"))
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputErrors(
            broken(name, "must be a text", f"bytes that are not UTF-8 at offset {error.start}")
        ) from None
    except OSError as error:
        raise CannotRun(
            broken(name, "must be a file that can be read", (error.strerror or str(error)).lower())
        ) from None


def broken(name: str, rule: str, found: str, next_step: str = "mend that catalog entry") -> Problem:
    """A problem of the entry ``name``."""
    return Problem(printable(name), rule, found, "the sizing reads it", next_step)


def entries(files: Sequence[Text]) -> list[tuple[Text, Entry]]:
    """The entries of ``files``.

    Raises:
        InputErrors: every entry that is malformed.
    """
    key = hashlib.sha256(
        "\0".join((__version__, _shape(), *(f"{f.name}\0{f.text}" for f in files))).encode()
    ).hexdigest()
    kept = _recall(key, files)
    if kept is not None:
        return kept
    found: list[tuple[Text, Entry]] = []
    plain: list[Any] = []
    problems: list[Problem] = []
    for file in files:
        try:
            document = _with_sources(parse_yaml(file.text, file.name))
            found.append((file, _entry(file.name, document)))
            plain.append(document.data)
        except InputErrors as error:
            problems.extend(error.problems)
    if problems:
        raise InputErrors(problems)
    _keep(key, plain, files)
    return found


def _shape() -> str:
    """Changes with the code that reads: a newer program does not trust what an older one accepted."""
    return ",".join(f"{kind}:{len(model.model_fields)}" for kind, model in KINDS.items())


def _entry(name: str, document: Document) -> Entry:
    kind = document.data.get("kind") if isinstance(document.data, dict) else None
    model = KINDS.get(str(kind))
    if model is None:
        rule = f"must have a kind of {listing(sorted(KINDS))}{nearest(str(kind), KINDS)}"
        raise InputErrors(broken(name, rule, "nothing" if kind is None else f'"{printable(str(kind))}"'))
    return validated(model, document, why="the sizing reads it", next_command=f"mend {name}")


def _with_sources(document: Document) -> Document:
    """Figures name a key of the entry's ``sources``; the text is put in its place."""
    if not isinstance(document.data, dict):
        return document
    sources = document.data.get("sources", {})
    if not isinstance(sources, dict):
        return document
    dated = document.data.get("dated", FIRST)

    def expand(node: Any) -> Any:
        if isinstance(node, dict):
            out = {key: expand(value) for key, value in node.items()}
            if isinstance(node.get("source"), str):
                out["source"] = sources.get(node["source"], node["source"])
                if "value" in node and isinstance(dated, str):
                    out.setdefault("date", dated)
            return out
        return [expand(item) for item in node] if isinstance(node, list) else node

    body = {key: value if key == "sources" else expand(value) for key, value in document.data.items()}
    return document.holding(body)


def _cache_file(files: Sequence[Text]) -> Path | None:
    """Where what these files said is kept; one place for each set of directories."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME")
    if not base or not Path(base).is_absolute():
        return None
    home = Path(base) if os.environ.get("XDG_CACHE_HOME") else Path(base) / ".cache"
    roots = sorted({str(Path(f.name).parent) for f in files})
    return home / "rackwright" / f"catalog-{hashlib.sha256(repr(roots).encode()).hexdigest()[:12]}.json"


def _recall(key: str, files: Sequence[Text]) -> list[tuple[Text, Entry]] | None:
    """What was kept under ``key``, or None. Bytes that are not ours or not whole are not believed."""
    place = _cache_file(files)
    if place is None:
        return None
    try:
        if place.stat().st_uid != os.getuid() or place.stat().st_mode & 0o022:
            return None
        head, _, body = place.read_bytes().partition(b"\n")
        if head.decode() != f"{key} {hashlib.sha256(body).hexdigest()}":
            return None
        plain = json.loads(body)
        if len(plain) != len(files):
            return None
        return [
            (file, KINDS[str(data["kind"])].model_validate(data))
            for file, data in zip(files, plain, strict=True)
        ]
    except (OSError, ValueError, TypeError, KeyError, ValidationError):
        return None


def _keep(key: str, plain: list[Any], files: Sequence[Text]) -> None:
    """Keep what was read; a cache that cannot be written costs time, nothing else."""
    place = _cache_file(files)
    if place is None:
        return
    body = json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    with contextlib.suppress(OSError, ValueError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(f"{key} {hashlib.sha256(body).hexdigest()}\n".encode() + body)
        temporary.replace(place)
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)
