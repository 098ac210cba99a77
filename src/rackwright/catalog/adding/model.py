"""From whichever of a model's files is at hand to the text of its entry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rackwright.catalog import Catalog, ModelEntry, find
from rackwright.catalog.adding.config import LARGEST, read_config
from rackwright.catalog.adding.entry import entry_of, entry_text, slug
from rackwright.catalog.adding.gguf import gguf_shape
from rackwright.catalog.adding.safetensors import safetensors_shape
from rackwright.catalog.adding.shape import Shape
from rackwright.errors import CannotRun, InputErrors, Problem
from rackwright.yamlio import printable, quoted

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_HF_ID = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")
INDEX = "model.safetensors.index.json"


def model_entry(
    path: Path, catalog: Catalog, *, hf_id: str = "", own_id: str = "", replaces: bool = False
) -> tuple[str, dict[str, Any], str]:
    """Id, data and YAML text of the entry for the model that ``path`` describes.

    ``path``: a config.json, a GGUF or safetensors file, a safetensors index, or a directory with them.

    Raises:
        CannotRun: the file cannot be read.
        InputErrors: it does not describe a model that is known, or its names are another entry's.
    """
    file = _file(path)
    shape = _shape(file)
    name = hf_id or _name(file)
    problems = [*_name_problems(hf_id, own_id)]
    if problems:
        raise InputErrors(problems)
    data = entry_of(shape, name=name, hf_id=name, read_from=printable(file.name))
    data["id"] = own_id or slug(name)
    data["aliases"] = [alias for alias in data.get("aliases", []) if alias.lower() != data["id"]]
    if replaces:
        data["replaces"] = True
    taken = [*_taken(catalog, data)] if not replaces else []
    if taken:
        raise InputErrors(taken)
    ordered = {key: value for key, value in data.items() if value not in ([], "")}
    return data["id"], ordered, entry_text(ordered)


def described(data: dict[str, Any]) -> ModelEntry:
    """The entry as the product reads it."""
    sources = data["sources"]

    def expand(node: Any) -> Any:
        if isinstance(node, dict):
            out = {key: expand(value) for key, value in node.items()}
            if isinstance(node.get("source"), str):
                out["source"] = sources.get(node["source"], node["source"])
            return out
        return [expand(item) for item in node] if isinstance(node, list) else node

    return ModelEntry.model_validate({k: v if k == "sources" else expand(v) for k, v in data.items()})


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in (INDEX, "config.json"):
        if (path / name).is_file():
            return path / name
    raise CannotRun(
        Problem(
            printable(str(path)),
            "must hold a config.json",
            "none",
            "the model's shape is read from it",
            "give the directory of a model, its config.json, or a GGUF or safetensors file",
        )
    )


def _shape(file: Path) -> Shape:
    if file.exists() and not file.is_file():
        raise CannotRun(_unreadable(file, "a device or a pipe"))
    try:
        with file.open("rb") as stream:
            magic = stream.read(4)
        if magic == b"GGUF" or file.suffix == ".gguf":
            return gguf_shape(file)
        if file.suffix == ".safetensors" or file.name.endswith(".safetensors.index.json"):
            return safetensors_shape(file)
    except (OSError, ValueError) as error:
        found = (getattr(error, "strerror", None) or str(error)).lower()
        raise CannotRun(_unreadable(file, found)) from None
    if file.stat().st_size > LARGEST * 4:
        raise CannotRun(_unreadable(file, f"{file.stat().st_size:,} bytes, more than any config.json"))
    return read_config(file)


def _unreadable(file: Path, found: str) -> Problem:
    return Problem(
        printable(str(file)),
        "must be a file that can be read",
        printable(found),
        "the model's shape is read from it",
        "give a config.json, or a GGUF or safetensors file",
    )


def _name(file: Path) -> str:
    """The directory's name for files that are called the same everywhere, else the file's."""
    same = file.name in ("config.json", "model.safetensors") or file.name.endswith(".safetensors.index.json")
    text = file.resolve().parent.name if same or "-of-" in file.stem else file.stem
    return re.sub(r"[^\w.-]+", "-", text).strip("-.") or "model"


def _name_problems(hf_id: str, own_id: str) -> list[Problem]:
    problems = []
    if hf_id and not _HF_ID.fullmatch(hf_id):
        problems.append(
            Problem(
                "--hf-id",
                "must be OWNER/NAME as on Hugging Face",
                quoted(hf_id),
                "the engine is told to load it",
                "write it such as Qwen/Qwen3-32B",
            )
        )
    if own_id and not _ID.fullmatch(own_id):
        problems.append(
            Problem(
                "--id",
                "must be lower-case letters, digits, dots, dashes and underscores",
                quoted(own_id),
                "workloads name the model by it",
                "write it such as qwen3-32b-ours",
            )
        )
    return problems


def _taken(catalog: Catalog, data: dict[str, Any]) -> list[Problem]:
    names = [data["id"], *data["aliases"]]
    found = {name: entry.id for name in names if (entry := find(catalog.models, name)) is not None}
    if data["id"] in catalog.digests:
        found.setdefault(data["id"], data["id"])
    return [
        Problem(
            printable(name),
            "must be no name of another entry",
            f"{other} has it",
            "a workload that names it would not say which is meant",
            f"rackwright catalog show {other}; else give --id and --hf-id of your own, or --replaces",
        )
        for name, other in found.items()
    ]
