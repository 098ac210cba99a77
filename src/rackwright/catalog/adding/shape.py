"""What a model's files say of its shape, before it is an entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Shape:
    """Fields as in ``ModelEntry``; ``attention`` as plain mappings of its groups.

    ``native``: precision of the files; ``scheme``: its key in ``weights.SCHEMES``. ``file_bytes``: what the
    weights take in the file, where the header says it. ``counted``: parameters that the header lists.
    """

    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    max_context: int
    ffn_matrices: int = 3
    tied: bool = False
    native: str = "bf16"
    scheme: str = "bf16"
    remote_code: bool = False
    multimodal: bool = False
    mla: dict[str, int] | None = None
    experts: dict[str, Any] | None = None
    attention: list[dict[str, Any]] = field(default_factory=list)
    encoder_layers: int = 0
    mtp_layers: int = 0
    file_bytes: int | None = None
    counted: int | None = None
    notes: list[str] = field(default_factory=list)
