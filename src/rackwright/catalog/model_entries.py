"""The shape of a model: attention by groups of layers, experts, the precisions it is offered in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from rackwright.catalog.figures import Billions, Count, Entry, Frozen, Gigabytes, Millions
from rackwright.catalog.parameters import Parameters, parameters_of
from rackwright.catalog.weights import WeightBytes, weight_bytes

Layers = Annotated[int, Field(ge=1, le=10_000)]
Size = Annotated[int, Field(ge=1, le=10_000_000)]


class Mla(Frozen):
    """Multi-head latent attention: what is cached per token and layer is ``rank`` + ``rope`` values.

    ``q_rank``: of the query's own down-projection; ``nope``, ``value``: head sizes without position and of
    the values.
    """

    rank: Size
    rope: Size
    q_rank: Size | None = None
    nope: Size | None = None
    value: Size | None = None


class Sparse(Frozen):
    """DeepSeek sparse attention: a token attends to ``top_k`` earlier ones, chosen by an indexer.

    ``index_bytes``: what the indexer caches a token and layer. ``shared``: another layer's choice is used;
    there is neither an indexer nor a cache of its own.
    """

    top_k: Size
    index_heads: Size
    index_dim: Size
    index_bytes: Size
    shared: bool = False


class FullAttention(Frozen):
    """Every earlier token. Heads as the model's where they are not given.

    ``gated``: the query's projection is doubled for an output gate. ``cached``: layers that hold a cache of
    their own (the rest reads another layer's).
    """

    kind: Literal["full"]
    layers: Layers
    heads: Size | None = None
    kv_heads: Size | None = None
    head_dim: Size | None = None
    gated: bool = False


class SlidingAttention(Frozen):
    """The last ``window`` tokens; ``chunked``: those since the last multiple of ``window``."""

    kind: Literal["sliding"]
    layers: Layers
    window: Size
    chunked: bool = False
    heads: Size | None = None
    kv_heads: Size | None = None
    head_dim: Size | None = None
    gated: bool = False


class LatentAttention(Frozen):
    """Multi-head latent attention, dense or sparse; ranks are those of the model's ``mla``."""

    kind: Literal["latent"]
    layers: Layers
    sparse: Sparse | None = None


class LinearAttention(Frozen):
    """Gated delta rule: a state of constant size a sequence, whatever its length.

    ``state_bits``: width of the recurrent state; the convolution's state is 16 bit.
    """

    kind: Literal["linear"]
    layers: Layers
    key_heads: Size
    value_heads: Size
    key_dim: Size
    value_dim: Size
    convolution: Size
    state_bits: Literal[16, 32] = 32

    @property
    def state_bytes(self) -> int:
        """Bytes a sequence and layer: value heads × key size × value size, and the last inputs of the
        convolution."""
        recurrent = self.value_heads * self.key_dim * self.value_dim * self.state_bits // 8
        channels = 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
        return recurrent + channels * (self.convolution - 1) * 2


AttentionGroup = Annotated[
    FullAttention | SlidingAttention | LatentAttention | LinearAttention, Field(discriminator="kind")
]


class Experts(Frozen):
    """``layers``: how many layers are mixtures; ``each``: parameters of one expert in one layer.

    ``shared_intermediate``: of all shared experts of a layer together; count × ``intermediate`` where it is
    not given.
    """

    count: Size
    top_k: Size
    shared: Annotated[int, Field(ge=0)]
    layers: Layers
    intermediate: Size
    each: Millions
    shared_intermediate: Size | None = None


class Encoder(Frozen):
    """The encoder of an encoder-decoder; hidden size, heads and feed-forward are the decoder's."""

    layers: Layers


class Quantisation(Frozen):
    """One precision that the model is offered in.

    ``scheme``: a key of ``weights.SCHEMES``; the quantisation's own name where it is not given. ``loaded``:
    bytes in GPU memory over all ranks; ``disk``: bytes to store. ``published``: size of the published
    checkpoint. ``engine_flag``: value for the engine's quantisation option where the checkpoint does not say
    it itself.
    """

    hf_id: str
    bits: Literal[2, 3, 4, 5, 6, 8, 16]
    compute: Literal["bf16", "int8", "fp8", "fp4"]
    loaded: Gigabytes
    disk: Gigabytes
    native: bool = False
    engine_flag: str | None = None
    scheme: str | None = None
    published: Gigabytes | None = None


class ModelEntry(Entry):
    """One model.

    ``total``, ``active``: computed from the shape; ``nominal_total``, ``nominal_active``: as its makers say.
    ``always_read``: parameters that every token reads (attention, shared and dense layers, head).
    ``attention``: groups of layers; without it all layers are full, or latent where there is ``mla``.
    ``native``: precision of the published weights. ``mtp``, ``vision``: parameters of the prediction heads
    and of the encoder of images, in the checkpoint besides ``total``.
    """

    kind: Literal["model"]
    hf_id: str
    revision: str | None = None
    architecture: str = ""
    native: str = "bf16"
    licence: str = ""
    total: Billions
    active: Billions
    always_read: Billions
    nominal_total: Billions | None = None
    nominal_active: Billions | None = None
    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    ffn: Count
    ffn_matrices: Literal[2, 3] = 3
    vocab: Count
    tied_embeddings: bool = False
    attention: tuple[AttentionGroup, ...] = ()
    mla: Mla | None = None
    experts: Experts | None = None
    encoder: Encoder | None = None
    mtp: Billions | None = None
    vision: Billions | None = None
    multimodal: bool = False
    max_context: Count
    default_quantisation: str
    quantisations: dict[str, Quantisation]
    trust_remote_code: bool
    shape_verified: bool

    @property
    def encoder_decoder(self) -> bool:
        return self.encoder is not None

    @cached_property
    def groups(self) -> tuple[FullAttention | SlidingAttention | LatentAttention | LinearAttention, ...]:
        """The attention of all layers, by groups."""
        if self.attention:
            return self.attention
        layers = int(self.layers.value)
        if self.mla is not None:
            return (LatentAttention(kind="latent", layers=layers),)
        return (FullAttention(kind="full", layers=layers),)

    @cached_property
    def parameters(self) -> Parameters:
        """Parameters by class, computed from the shape."""
        return parameters_of(self)

    @cached_property
    def weighed(self) -> dict[str, WeightBytes]:
        """What ``weights`` has computed."""
        return {}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy that computes anew what follows from the changed fields."""
        copied = super().model_copy(update=update, deep=deep)
        for derived in ("groups", "parameters", "weighed"):
            copied.__dict__.pop(derived, None)
        return copied

    def weights(self, precision: str) -> WeightBytes:
        """Bytes of weights at ``precision``: a quantisation of the entry, or a scheme of ``weights.SCHEMES``.

        Raises:
            ValueError: it is neither.
        """
        if precision not in self.weighed:
            self.weighed[precision] = weight_bytes(self, precision)
        return self.weighed[precision]

    def _kv_values(self, group: FullAttention | SlidingAttention) -> int:
        """Values cached a token and layer: 2 × KV heads × head size."""
        heads = group.kv_heads or int(self.kv_heads.value)
        return 2 * heads * (group.head_dim or int(self.head_dim.value))

    def kv_bytes_per_token(self, kv_bits: int) -> int:
        """Bytes of KV cache a further token costs however long the context is: full and latent layers.

        2 × layers × KV heads × head size × width, or layers × (rank + rope) × width for a latent, and what a
        sparse layer's indexer keeps.
        """
        width, total = kv_bits // 8, 0
        for group in self.groups:
            if group.kind == "full":
                total += group.layers * self._kv_values(group) * width
            elif group.kind == "latent" and self.mla is not None:
                total += group.layers * (self.mla.rank + self.mla.rope) * width
                total += group.layers * (
                    group.sparse.index_bytes if group.sparse and not group.sparse.shared else 0
                )
        return total

    def kv_bytes(self, context: float, kv_bits: int, *, encoder_tokens: float = 0.0) -> float:
        """Bytes of cache that one sequence of ``context`` tokens holds.

        Sliding layers are capped at their window, linear ones add their constant state, an encoder-decoder
        the keys and values of ``encoder_tokens`` in every decoder layer.
        """
        width = kv_bits // 8
        total = context * self.kv_bytes_per_token(kv_bits)
        for group in self.groups:
            if group.kind == "sliding":
                total += group.layers * min(context, group.window) * self._kv_values(group) * width
            elif group.kind == "linear":
                total += group.layers * group.state_bytes
        if self.encoder is not None:
            crossed = 2 * int(self.layers.value * self.kv_heads.value * self.head_dim.value)
            total += encoder_tokens * crossed * width
        return total

    def attended(self, context: float) -> float:
        """Token-layers that one new token attends to after ``context`` tokens: Σ layers × tokens seen."""
        seen = 0.0
        for group in self.groups:
            if group.kind == "sliding":
                seen += group.layers * min(context, group.window)
            elif group.kind == "latent" and group.sparse is not None:
                seen += group.layers * min(context, group.sparse.top_k)
            elif group.kind != "linear":
                seen += group.layers * context
        return seen
