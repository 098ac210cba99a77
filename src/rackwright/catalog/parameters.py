"""Parameters of a model by class, from its shape.

Attention of a layer: ``hidden × (query + key + value) + output × hidden``; a latent one goes through its
ranks (DeepSeek-V2, arXiv 2405.04434, §2.1). Feed-forward: matrices × hidden × intermediate. Biases are left
out (below 0.01 % of every model in the catalog); norms count two vectors a layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rackwright.catalog.model_entries import ModelEntry


@dataclass(frozen=True)
class Parameters:
    """Counts. ``embedding`` is looked up, ``head`` multiplied for every token; a tied head is counted once,
    as ``head``. ``experts``: all routed ones; ``kept``: router and norms, never quantised."""

    embedding: int
    head: int
    attention: int
    dense: int
    shared: int
    experts: int
    kept: int
    encoder: int = 0

    @property
    def total(self) -> int:
        return self.embedding + self.always_read + self.experts + self.encoder

    @property
    def always_read(self) -> int:
        """What every token of the decoder reads, whichever experts it chooses."""
        return self.head + self.attention + self.dense + self.shared + self.kept

    def active(self, top_k: int, count: int) -> int:
        """``always_read`` and the chosen of ``count`` experts."""
        return self.always_read + (self.experts * top_k // count if count else 0)


def _attention(model: ModelEntry, group: Any, hidden: int) -> int:
    """Parameters of attention in one layer of ``group``."""
    heads = getattr(group, "heads", None) or int(model.heads.value)
    if group.kind == "latent" and model.mla is not None:
        mla = model.mla
        nope = mla.nope or int(model.head_dim.value)
        value = mla.value or nope
        query = heads * (nope + mla.rope)
        count = hidden * mla.q_rank + mla.q_rank * query if mla.q_rank else hidden * query
        count += hidden * (mla.rank + mla.rope) + mla.rank * heads * (nope + value) + heads * value * hidden
        if group.sparse is not None and not group.sparse.shared:
            index = group.sparse
            count += (mla.q_rank or hidden) * index.index_heads * index.index_dim
            count += hidden * (index.index_dim + index.index_heads)
        return int(count)
    if group.kind == "linear":
        keys, values = group.key_heads * group.key_dim, group.value_heads * group.value_dim
        projected = hidden * (2 * keys + 2 * values + 2 * group.value_heads)
        return int(projected + (2 * keys + values) * group.convolution + values * hidden)
    size = group.head_dim or int(model.head_dim.value)
    kv_heads = group.kv_heads or int(model.kv_heads.value)
    return int(hidden * size * (heads * (2 if group.gated else 1) + 2 * kv_heads) + heads * size * hidden)


def parameters_of(model: ModelEntry) -> Parameters:
    """``model``'s parameters by class. Images' encoder and prediction heads are not in them."""
    hidden, layers = int(model.hidden.value), int(model.layers.value)
    vocab, ffn = int(model.vocab.value) * hidden, int(model.ffn.value)
    attention = sum(group.layers * _attention(model, group, hidden) for group in model.groups)
    kept = (2 * layers + 1) * hidden
    mixed = shared = routed = 0
    if model.experts is not None:
        experts = model.experts
        mixed = experts.layers
        intermediate = experts.shared_intermediate or experts.shared * experts.intermediate
        shared = mixed * 3 * hidden * intermediate
        routed = mixed * experts.count * 3 * hidden * experts.intermediate
        kept += mixed * hidden * experts.count
    dense = (layers - mixed) * model.ffn_matrices * hidden * ffn
    encoder = 0
    if model.encoder is not None:
        one = attention // layers
        encoder = model.encoder.layers * (one + model.ffn_matrices * hidden * ffn + 2 * hidden) + hidden
        attention += layers * one
        kept += layers * hidden
    return Parameters(
        embedding=0 if model.tied_embeddings else vocab,
        head=vocab,
        attention=attention,
        dense=dense,
        shared=shared,
        experts=routed,
        kept=kept,
        encoder=encoder,
    )
