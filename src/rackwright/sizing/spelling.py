"""Names as people write them: found where exactly one entry can be meant, else not at all.

Compared are letters and digits alone, without the owner of a repository, the maker, and words that do not
change the shape (``Instruct``, dates of a checkpoint, precisions). A size of memory must be the entry's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from rackwright.catalog import EngineEntry, ModelEntry, find
from rackwright.catalog.entries import Entry

E = TypeVar("E", bound=Entry)

_MAKERS = frozenset((
    "nvidia", "amd", "intel", "apple", "huawei", "moore", "threads", "biren", "cambricon", "geforce",
    "instinct", "gpu", "gpus", "per", "rack", "card", "blackwell", "workstation", "ws", "edition",
))  # fmt: skip
_VARIANTS = frozenset((
    "instruct", "chat", "it", "hf", "meta", "base", "thinking", "preview", "fp8", "fp4", "nvfp4", "mxfp4",
    "awq", "gptq", "int4", "int8", "w8a8", "w4a16", "w4a8", "gguf", "bf16", "fp16", "kv", "dynamic", "mtp",
))  # fmt: skip
_ENGINES = {
    "trt": "trtllm", "tensorrt": "trtllm", "tensorrtllm": "trtllm", "trtllmserve": "trtllm", "nim": "trtllm",
    "triton": "trtllm", "dynamotrt": "trtllm", "dynamotrtllm": "trtllm", "sgl": "sglang",
    "dynamosglang": "sglang", "dynamo": "vllm", "dynamovllm": "vllm", "vllmserve": "vllm",
    "llamacppserver": "llama.cpp", "llamaserver": "llama.cpp", "gguf": "llama.cpp", "mlxlm": "mlx",
    "rapidmlx": "mlx", "lmdeploy": "vllm",
}  # fmt: skip
"""Engines by other names; servers that run an engine count as it, LMDeploy as what it is compared to."""
_APART = re.compile(r"[-_ :,/]+")
_MEMORY = re.compile(r"[-_ ](\d+)\s*gi?b?\b(?:\s*hbm\w*)?", re.IGNORECASE)
_BRACKETS = re.compile(r"\([^)]*\)")
_DATE = re.compile(r"2[3-9](?:0[1-9]|1[0-2])|(?:0[1-9]|1[0-2])[0-3]\d")
_REVISION = re.compile(r"(?<=fp[48])-v\d$", re.IGNORECASE)
SCHEME = re.compile(
    r"(?:^|[-_ /])(nvfp4|mxfp4|fp4|fp8|awq|gptq|int4|int8|w8a8|w4a16|q\d_\w+|bf16)\b", re.IGNORECASE
)
"""A precision in a model's name."""
NEAR = 0.08
"""Part by which a size of memory in a name may differ from the entry's: decimal and binary units."""


def hardware(known: Mapping[str, E], name: str) -> E | None:
    """The accelerator or machine that ``name`` means; generations of sockets and of memory are left out."""

    def key(text: str) -> str:
        return _squashed(_MEMORY.sub("", _BRACKETS.sub("", text)), _MAKERS)

    found = find(known, name)
    if found is None and name:
        size = _MEMORY.search(_BRACKETS.sub("", name))
        matches = [
            entry
            for entry in known.values()
            if _meant(key(name), {key(text) for text in _names(entry)})
            and (size is None or _holds(entry, float(size[1])))
        ]
        found = matches[0] if len(matches) == 1 else None
    return found


def model(known: Mapping[str, ModelEntry], name: str) -> ModelEntry | None:
    """The model that ``name`` means: other checkpoints of a shape count as it."""

    def key(text: str) -> str:
        return _squashed(_REVISION.sub("", text.rsplit("/", 1)[-1]), _VARIANTS)

    found = find(known, name)
    if found is None and name:
        matches = [m for m in known.values() if key(name) in {key(text) for text in _names(m)} - {""}]
        found = matches[0] if len(matches) == 1 else None
    return found


def engine(known: Mapping[str, EngineEntry], name: str) -> EngineEntry | None:
    """The engine that ``name`` means; a version behind it is not part of the name."""
    found = find(known, name)
    if found is None:
        plain = re.sub(r"[^a-z]", "", re.sub(r"v?\d[\d.]*\S*$", "", name.strip().lower()))
        same = [entry for entry in known.values() if re.sub(r"[^a-z]", "", entry.id) == plain]
        found = same[0] if len(same) == 1 else known.get(_ENGINES.get(plain, ""))
    return found


def _names(entry: Entry) -> tuple[str, ...]:
    return (entry.id, str(getattr(entry, "name", "")), *entry.aliases)


def _squashed(text: str, drop: frozenset[str]) -> str:
    words = [word for word in _APART.split(text.lower()) if word not in drop and not _DATE.fullmatch(word)]
    return re.sub(r"[^a-z0-9.]|hbm\de?$|(?<=sxm)\d", "", "".join(words))


def _meant(wanted: str, names: set[str]) -> bool:
    """Whether ``wanted`` is one of ``names``, or two of them in a row ("DGX Spark GB10")."""
    names = names - {""}
    return wanted in names or any(
        wanted.startswith(name) and wanted.removeprefix(name) in names for name in names
    )


def _holds(entry: Entry, gigabytes: float) -> bool:
    memory = getattr(entry, "memory", None)
    return memory is None or bool(abs(memory.value * 2**20 / 1e9 / gigabytes - 1) < NEAR)
