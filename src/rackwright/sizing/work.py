"""What one replica has to do: bytes, FLOP, layers and links as plain numbers, from catalog entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rackwright.sizing.lora import parameters, slot_bytes

if TYPE_CHECKING:
    from rackwright.catalog import Accelerator, ModelEntry
    from rackwright.sizing.shape import Shape

UNBOUNDED = 1e9
"""Tokens that no context reaches: a window or a choice that does not bind."""
STATE_PASSES = 2
"""A step reads and writes the state of linear layers."""


@dataclass(frozen=True, slots=True)
class Work:
    """One replica of ``tp × pp × dp`` accelerators. Bytes and FLOP are of all layers and ranks together
    unless they say otherwise; rates are of one accelerator, a second.

    ``dense_bytes``: read by every pass; ``expert_bytes``: of one expert in all layers of experts; ``chosen``:
    share of experts a token chooses. ``*_parameters``: of which a token computes two FLOP each;
    ``prompt_parameters``: without the head. ``kv``, ``index``, ``kv_sliding``: bytes a token of context that
    a step reads, of full or latent layers, of indexers, and inside ``window``; ``sparse``: tokens a sparse
    layer attends to. ``kv_held`` and ``kv_sliding_held``: bytes a token that one rank holds; ``state``: of a
    sequence. ``moved``: bytes of activations a token. ``reduces``, ``dispatches``: collectives a pass.
    ``copies``: ranks a token is sent to. ``held``, ``workspace``: bytes on one accelerator. ``chunk``: prompt
    tokens a pass and rank; ``sequences``: most that a rank runs. ``age``: years since October 2025.
    ``verified``: tokens of a sequence that a step computes, ``accepted``: that it keeps on average,
    ``drafting``: a step with its drafts over the step alone; all 1 without speculation.
    """

    tp: float
    pp: float
    dp: float
    staged: float
    bandwidth: float
    dense_flops: float
    expert_flops: float
    wide_flops: float
    link: float
    dispatch_link: float
    stage_link: float
    layers: float
    expert_layers: float
    linear_layers: float
    sparse_layers: float
    latent_layers: float
    hidden: float
    dense_bytes: float
    expert_bytes: float
    experts: float
    chosen: float
    dense_parameters: float
    prompt_parameters: float
    expert_parameters: float
    attention: float
    attention_prompt: float
    attention_sliding: float
    attention_index: float
    kv: float
    index: float
    kv_sliding: float
    window: float
    sparse: float
    state: float
    kv_shards: float
    kv_held: float
    kv_sliding_held: float
    state_held: float
    moved: float
    moved_experts: float
    reduces: float
    dispatches: float
    copies: float
    memory: float
    held: float
    workspace: float
    chunk: float
    sequences: float
    age: float
    verified: float = 1.0
    accepted: float = 1.0
    drafting: float = 1.0


@dataclass(frozen=True, slots=True)
class Attention:
    """Sums over the layers of a model, at one width of the cache: see ``Work``."""

    kv: float = 0.0
    index: float = 0.0
    kv_sliding: float = 0.0
    window: float = UNBOUNDED
    sparse: float = UNBOUNDED
    state: float = 0.0
    flops: float = 0.0
    flops_prompt: float = 0.0
    flops_sliding: float = 0.0
    flops_index: float = 0.0
    linear: float = 0.0
    latent: float = 0.0
    indexed: float = 0.0


def attention_of(model: ModelEntry, kv_bits: int) -> Attention:
    """Bytes a token of context and FLOP a token and token of context, over all layers.

    Scores and values: ``4 × heads × head size`` a layer; a latent one attends in its rank when decoding,
    ``2 × heads × (2 rank + rope)``, and in its heads for prompts, ``2 × heads × (nope + rope + value)``.
    """
    width = kv_bits / 8
    heads = int(model.heads.value)
    got = dict.fromkeys(Attention.__slots__, 0.0) | {"window": UNBOUNDED, "sparse": UNBOUNDED}
    for group in model.groups:
        if group.kind == "linear":
            got["state"] += group.layers * group.state_bytes
            got["linear"] += group.layers
        elif group.kind == "latent" and model.mla is not None:
            mla = model.mla
            nope = mla.nope or int(model.head_dim.value)
            value = mla.value or nope
            got["kv"] += group.layers * (mla.rank + mla.rope) * width
            got["flops"] += group.layers * 2 * heads * (2 * mla.rank + mla.rope)
            got["flops_prompt"] += group.layers * 2 * heads * (nope + mla.rope + value)
            got["latent"] += group.layers
            if group.sparse is not None:
                got["sparse"] = float(group.sparse.top_k)
                if not group.sparse.shared:
                    got["index"] += group.layers * group.sparse.index_bytes
                    got["flops_index"] += group.layers * 2 * group.sparse.index_heads * group.sparse.index_dim
                    got["indexed"] += group.layers
        else:
            size = getattr(group, "head_dim", None) or int(model.head_dim.value)
            kv_heads = getattr(group, "kv_heads", None) or int(model.kv_heads.value)
            own = getattr(group, "heads", None) or heads
            flops, cached = group.layers * 4 * own * size, group.layers * 2 * kv_heads * size * width
            if group.kind == "sliding":
                got["window"] = float(group.window)
                got["kv_sliding"] += cached
                got["flops_sliding"] += flops
            else:
                got["kv"] += cached
                got["flops"] += flops
                got["flops_prompt"] += flops
    return Attention(**got)


def precision_of(accelerator: Accelerator, compute: str, quantisation: str) -> str:
    """In which precision products are taken: what the weights' scheme asks for and the hardware has.

    4-bit microscaling weights are multiplied as FP8 where there is FP4, and widened to 16 bits elsewhere.
    """
    if compute == "fp4":
        if accelerator.fp4 is None:
            return "bf16"
        return "fp8" if quantisation.startswith("mxfp4") and accelerator.fp8 is not None else "fp4"
    if compute == "fp8":
        return "fp8" if accelerator.fp8 is not None else "bf16"
    if compute == "int8":
        faster = accelerator.int8 is not None and accelerator.int8.value > accelerator.bf16.value
        return "int8" if faster else "bf16"
    return "bf16"


def link_of(accelerator: Accelerator, ranks: int, rdma_gb_s: float) -> tuple[str, float]:
    """What joins ``ranks`` accelerators: its kind and bytes a second out of one of them.

    Over nodes each accelerator sends only to others: what a dispatch pays. See ``reduced_over``.
    """
    link = accelerator.interconnect
    if link is not None and ranks <= link.domain:
        kind = {"nvlink": "nvlink", "ethernet": "rdma", "thunderbolt": "rdma"}.get(link.kind, "mesh")
        return kind, link.unidirectional.value * 1e9
    if ranks <= 8 and accelerator.pcie.value > 0:
        return "pcie", accelerator.pcie.value * 1e9
    return "rdma", rdma_gb_s * 1e9


def reduced_over(accelerator: Accelerator, ranks: int, rdma_gb_s: float) -> float:
    """Bytes a second at which one of ``ranks`` takes part in an all-reduce.

    Over nodes a value crosses the network once for a whole node, all of its ports sharing the work: the
    slower of the link inside and the ports of a node together.
    """
    kind, rate = link_of(accelerator, ranks, rdma_gb_s)
    link = accelerator.interconnect
    if kind != "rdma" or link is None or link.domain < 2:
        return rate
    return float(min(link.unidirectional.value * 1e9, rate * min(link.domain, 8)))


def expert_gb(shape: Shape) -> float:
    """Bytes of all routed experts of a model as loaded, GB; 0 without experts."""
    experts, held = shape.model.experts, shape.model.weights(shape.quantisation)
    return held.expert * experts.count * experts.layers / 1e9 if experts is not None else 0.0


_WORK: dict[tuple[object, ...], tuple[Shape, Work]] = {}
_MOST_KEPT = 4096


def work_of(shape: Shape) -> Work:
    """The work of ``shape``; kept by the identity of its entries."""
    key = (
        id(shape.accelerator), id(shape.model), id(shape.engine), shape.quantisation, shape.tp, shape.pp,
        shape.dp, shape.kv_bits, shape.rdma_gb_s, shape.chunk, shape.sequences, shape.age,
        shape.draft, shape.lora,
    )  # fmt: skip
    kept = _WORK.get(key)
    if kept is None:
        if len(_WORK) >= _MOST_KEPT:
            _WORK.clear()
        kept = _WORK[key] = (shape, _work(shape))
    return kept[1]


@lru_cache(maxsize=1)
def _head_bytes() -> float:
    return 2.0


def _work(shape: Shape) -> Work:
    model, accelerator = shape.model, shape.accelerator
    tp, pp, dp = shape.tp, shape.pp, shape.dp
    bytes_ = model.weights(shape.quantisation)
    attention = attention_of(model, shape.kv_bits)
    experts = model.experts
    layers, hidden, ffn = model.layers.value, model.hidden.value, model.ffn.value
    heads, size = model.heads.value, model.head_dim.value
    always = model.always_read.value * 1e9
    head = model.vocab.value * hidden
    spread = dp if experts is not None else 1
    mixed = float(experts.layers) if experts else 0.0
    each = experts.each.value * 1e6 if experts else 0.0
    chosen = float(experts.top_k) if experts else 0.0
    count = float(experts.count) if experts else 1.0
    inner = float(experts.intermediate) if experts else 0.0
    shared = float(experts.shared) if experts else 0.0
    precision = precision_of(accelerator, bytes_.compute, shape.quantisation)
    expert_bytes = bytes_.expert * mixed
    narrow = (bytes_.always - head * 2) / max(always - head, 1.0) < 1.5
    dense_precision = precision if narrow else "bf16"
    _, sent = link_of(accelerator, tp * dp, shape.rdma_gb_s)
    link = reduced_over(accelerator, tp, shape.rdma_gb_s)
    shards = 1.0 if attention.latent else float(min(tp, model.kv_heads.value))
    routed = bytes_.expert * count * mixed
    held = ((bytes_.loaded - routed) / tp + routed / (tp * spread)) / pp
    # A step reads every slot that its batch uses: all of them, when all are busy.
    lora = shape.lora
    adapters = lora.count * slot_bytes(model, lora.rank, tp) if lora is not None else 0.0
    adapted = parameters(model, lora.rank) if lora is not None else 0.0
    return Work(
        tp=float(tp),
        pp=float(pp),
        dp=float(dp),
        staged=1.0 if pp > 1 else 0.0,
        bandwidth=accelerator.bandwidth.value * 1e9,
        dense_flops=accelerator.flops(dense_precision),
        expert_flops=accelerator.flops(precision),
        wide_flops=accelerator.flops("bf16"),
        link=link,
        dispatch_link=sent,
        stage_link=shape.rdma_gb_s * 1e9 if tp * pp * dp > 8 else link,
        layers=layers,
        expert_layers=mixed,
        linear_layers=attention.linear,
        sparse_layers=attention.indexed,
        latent_layers=attention.latent,
        hidden=hidden,
        dense_bytes=bytes_.always + adapters * tp,
        expert_bytes=expert_bytes,
        experts=count,
        chosen=min(chosen / count, 0.999999) if experts else 0.0,
        dense_parameters=always + adapted,
        prompt_parameters=always - head + adapted,
        expert_parameters=chosen * mixed * each,
        attention=attention.flops,
        attention_prompt=attention.flops_prompt,
        attention_sliding=attention.flops_sliding,
        attention_index=attention.flops_index,
        kv=attention.kv,
        index=attention.index,
        kv_sliding=attention.kv_sliding,
        window=attention.window,
        sparse=attention.sparse,
        state=attention.state * STATE_PASSES,
        kv_shards=shards,
        kv_held=(attention.kv + attention.index) / shards / pp,
        kv_sliding_held=attention.kv_sliding / shards / pp,
        state_held=attention.state / tp / pp,
        moved=2
        * (
            layers * 6 * hidden
            + layers * heads * size * 3
            + (layers - mixed) * 3 * ffn
            + mixed * shared * 3 * inner
        ),
        moved_experts=2 * mixed * chosen * (3 * hidden + 3 * inner),
        reduces=2 * layers if tp > 1 else 0.0,
        dispatches=2 * mixed if spread > 1 else 0.0,
        copies=(dp - 1) * (1 - (1 - 1 / dp) ** max(chosen, 1.0)),
        memory=accelerator.memory_gib * 2**30,
        held=held + adapters / pp,
        workspace=shape.chunk * (8 * hidden + 3 * max(ffn, inner * chosen) / tp) * 2,
        chunk=float(shape.chunk),
        sequences=float(shape.sequences),
        age=shape.age,
        verified=shape.draft.tokens + 1.0 if shape.draft else 1.0,
        accepted=shape.draft.accepted if shape.draft else 1.0,
        drafting=1.0 + shape.draft.tokens * shape.draft.cost_of(model) if shape.draft else 1.0,
    )
