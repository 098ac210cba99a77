"""Headers of safetensors files, and of their index, beside a config.json."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from rackwright.catalog.adding.binary import Cursor
from rackwright.catalog.adding.config import json_mapping, read_config
from rackwright.catalog.adding.shape import Shape
from rackwright.errors import InputErrors, Problem
from rackwright.yamlio import printable, quoted, read_text

HEADER_MAX = 32 << 20
"""Bytes; the format allows 100 MB, real files have less than a tenth of this."""
INDEX_MAX = 128 << 20
"""Characters of an index; that of a model of 10¹² parameters has 15 million."""
_BYTES = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
    "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
_VALUES = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}
"""Types that hold a parameter a value; integers may be packed, and scales are none."""


def safetensors_shape(path: Path) -> Shape:
    """The shape of the model that ``path``, a safetensors file or the index of several, belongs to.

    The header has names and sizes but neither heads nor experts a token: config.json beside it does.

    Raises:
        InputErrors: damaged, without config.json beside it, or contradicting it.
    """
    config = path.parent / "config.json"
    if not config.is_file():
        raise InputErrors(
            Problem(
                printable(str(config)),
                "must be beside the weights",
                "nothing",
                "the header has no head count, no experts a token and no context; KV cache follows from them",
                "put the model's config.json there, or add the model from it",
            )
        )
    shape = read_config(config)
    if path.name.endswith(".json"):
        return replace(shape, file_bytes=_index_bytes(path))
    size, values, packed = read_header(path)
    if "-of-" in path.stem:
        index = path.parent / "model.safetensors.index.json"
        if index.is_file():
            return replace(shape, file_bytes=_index_bytes(index))
        shape.notes.append("one part of a split file: sizes are computed, not read")
        return shape
    return replace(shape, file_bytes=size, counted=None if packed else values)


def read_header(path: Path) -> tuple[int, int, bool]:
    """Bytes of all tensors, parameters in floating-point ones, and whether others may hold packed ones.

    Raises:
        InputErrors: the header is damaged or announces what the file does not have.
    """
    total = path.stat().st_size
    with path.open("rb") as stream:
        cursor = Cursor(stream, str(path), total, HEADER_MAX + 8)
        length = cursor.number("Q")
        if length > HEADER_MAX:
            raise cursor.refuse(f"must have a header of at most {HEADER_MAX:,} bytes", f"{length:,}")
        raw = cursor.take(length)
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise cursor.refuse("must have a JSON mapping as its header", repr(raw[:40]))
    size = values = 0
    packed = False
    for name, entry in data.items():
        if name == "__metadata__":
            continue
        count, width, kind = _tensor(cursor, name, entry, total - 8 - length)
        size += count * width
        values += count if kind in _VALUES else 0
        packed |= kind not in _VALUES
    return size, values, packed


def _tensor(cursor: Cursor, name: str, entry: Any, room: int) -> tuple[int, int, str]:
    """Values, bytes a value and type of one tensor."""
    shape = entry.get("shape") if isinstance(entry, dict) else None
    kind = entry.get("dtype") if isinstance(entry, dict) else None
    ends = entry.get("data_offsets") if isinstance(entry, dict) else None
    sound = isinstance(shape, list) and all(isinstance(n, int) and 0 <= n < 1 << 40 for n in shape)
    if not sound or len(shape or ()) > 8 or not isinstance(kind, str) or kind not in _BYTES:
        raise cursor.refuse("must give a known dtype and a shape for every tensor", quoted(name))
    count = math.prod(shape or ())
    inside = isinstance(ends, list) and len(ends) == 2 and all(isinstance(n, int) for n in ends)
    if not inside or not ends or not 0 <= ends[0] <= ends[1] <= room:
        raise cursor.refuse("must keep every tensor inside the file", quoted(name))
    if ends[1] - ends[0] != count * _BYTES[kind]:
        raise cursor.refuse("must have offsets that agree with shape and dtype", quoted(name))
    return count, _BYTES[kind], kind


def _index_bytes(path: Path) -> int:
    """``metadata.total_size`` of an index."""
    data = json_mapping(read_text(path, "give model.safetensors.index.json"), str(path), INDEX_MAX)
    metadata = data.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 1 << 50:
        raise InputErrors(
            Problem(
                f"{printable(str(path))} metadata.total_size",
                "must be the bytes of all tensors",
                "nothing" if size is None else quoted(size),
                "the weights' size is read from it",
                "add the model from its config.json; sizes are then computed",
            )
        )
    return size
