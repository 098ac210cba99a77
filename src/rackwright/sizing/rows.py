"""A measurement's row, or the options of one question, as a case: a replica, how many of them, and a load.

Columns are those of ``tools/fit/measured.csv``. What was measured (``MEASURED``) is never read here. Fields
may be empty: parallelism is then the smallest that holds the model, precision what the model is published in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rackwright.catalog import Accelerator, Catalog, EngineEntry, ModelEntry
from rackwright.errors import nearest
from rackwright.sizing import spelling
from rackwright.sizing.disaggregation import Pools
from rackwright.sizing.queueing import MANY
from rackwright.sizing.shape import Shape
from rackwright.sizing.speculation import Draft
from rackwright.sizing.versions import age_of

MEASURED = (
    "output_tok_s_total",
    "output_tok_s_per_gpu",
    "tok_s_per_user",
    "ttft_ms",
    "tpot_ms",
    "prefill_tok_s",
)
"""Columns that hold results; a prediction does not depend on them."""
KINDS = (
    "fixed_concurrency", "saturated", "burst", "decode_only", "rate", "slo_server", "slo_interactive",
    "claim",
)  # fmt: skip
SPLIT_KINDS = ("fixed_concurrency", "saturated")
"""Kinds of load that a split into prefill and decode is estimated for."""
UNSTATED_PROMPT, UNSTATED_ANSWER = 1024.0, 1024.0
"""Tokens where a row does not say."""
FULL = 0.62
"""Share of memory that weights may fill when parallelism is not stated; the rest is cache."""
LARGEST_TP = 8
BY_DATA = 8.0
"""Clients an accelerator from which latent attention runs in parallel by data: the public sweeps of
DeepSeek-R1 turn it on above 64 on eight (github.com/SemiAnalysisAI/InferenceX, .github/configs)."""
_SCHEMES = {
    "fp16": "bf16", "f16": "bf16", "float16": "bf16", "bfloat16": "bf16", "half": "bf16", "fp4": "nvfp4",
    "w8a8": "int8", "awq": "int4", "gptq": "int4", "w4a16": "int4", "4bit": "int4", "8bit": "int8",
    "w4a8": "int4", "fp8_e4m3": "fp8", "e4m3": "fp8", "float8": "fp8", "mxfp8": "fp8", "fp8-dynamic": "fp8",
    "w8a8-fp8": "fp8", "w8a8_fp8": "fp8", "int4-gptq": "int4", "int4-awq": "int4", "q4": "q4_0", "q8": "q8_0",
}  # fmt: skip
_UNKNOWN = ("", "-", "–", "?", "n/a", "na", "none", "null", "other", "unknown", "auto", "default")
"""What stands in a field that says nothing."""
_ENDLESS = ("inf", "infinity", "max", "unlimited", "offline", "server", "interactive")
_SEVERAL = re.compile(r"(\d{1,4})\s*[x×*]\s*(\D.*)")
"""Hardware with a count in front: "8 x H200"."""
_RATES = ("req/s", "requests/s", "rps", "qps")
_CLIENTS = re.compile(
    r"(?:c|conc|concurrency|batch|batch size|bs|users|clients)?\s*[=:]?\s*\d+(?:\.\d+)?"
    r"(?:\s*(?:users|clients|concurrent|streams))?(?:\s*/\s*\w+)?"
)
_KINDS = {
    "concurrency": "fixed_concurrency", "closed": "fixed_concurrency", "serving": "fixed_concurrency",
    "single_stream": "fixed_concurrency", "offline": "saturated", "throughput": "saturated",
    "max_throughput": "saturated", "at_once": "burst", "decode": "decode_only", "server": "slo_server",
    "interactive": "slo_interactive", "request_rate": "rate", "poisson": "rate",
}  # fmt: skip
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SERVER = re.compile(r"launch_server|vllm serve|trtllm-serve")
"""One command of these is one replica, however often its ranks were multiplied."""
_FLAGS = {
    "chunk": ("--max-num-batched-tokens", "--max_num_tokens", "--chunked-prefill-size"),
    "sequences": ("--max-num-seqs", "--max-batch-size", "--max_batch_size", "--max-running-requests"),
}


class CannotEstimate(Exception):
    """A row that is impossible, or names what the catalog does not know. The text is the reason."""


@dataclass(frozen=True)
class Case:
    """``replicas`` of ``shape`` under a load. ``clients``, ``requests`` and ``rate`` are of one replica; with
    ``pools`` there is one replica of two pools. ``said``: which of tp, dp, pp, ep the question states."""

    shape: Shape
    replicas: float
    kind: str
    given: float
    made: float
    clients: float
    requests: float
    rate: float
    pools: Pools | None = None
    said: frozenset[str] = frozenset()

    @property
    def layout(self) -> str:
        """How a replica is divided, and what of it was assumed because the question does not say."""
        shape = self.shape
        ranks = shape.tp * shape.dp
        text = f"attention TP {shape.tp} x DP {shape.dp}"
        if shape.model.experts is not None and ranks > 1:
            text += f", experts over {ranks} accelerators"
        if shape.pp > 1:
            text += f", PP {shape.pp}"
        if self.pools is not None:
            text += f"; {self.pools.prefill:g} prefill and {self.pools.decode:g} decode replicas"
        return text + ("" if "tp" in self.said else " (assumed: give tp and dp to change it)")


def case_of(row: Mapping[str, str], catalog: Catalog) -> Case:
    """The case that ``row`` describes.

    Raises:
        CannotEstimate: it names no hardware, model or engine of the catalog, or cannot be.
    """
    accelerator, count = _accelerator(row, catalog)
    model = _named(catalog.models, row, "model")
    engine = _engine(row, catalog)
    kind = _kind(row)
    quantisation = _quantisation(row, model)
    gpus = _whole(row, "n_gpus") or count
    clients, rate = _load(row, kind, gpus)
    tp, pp, dp = _division(row, model, quantisation, accelerator, gpus, kind=kind, clients=clients)
    if dp > 1 and gpus == tp * pp * dp * dp and _SERVER.search(row.get("notes") or ""):
        gpus = tp * pp * dp
    chunk, sequences = (_flag(row, name) for name in ("chunk", "sequences"))
    version = row.get("engine_version") or ""
    shape = Shape(
        accelerator,
        model,
        quantisation,
        engine,
        tp,
        pp,
        _kv_bits(row),
        dp=dp,
        chunk=chunk,
        sequences=sequences,
        age=age_of(engine.id, version, row.get("date") or ""),
        draft=_draft(row),
    )
    _fits(shape, gpus)
    pools = _pools(row, shape, gpus, kind=kind)
    replicas = 1.0 if pools else max(gpus / shape.gpus, 1.0)
    made = _number(row, "output_len", UNSTATED_ANSWER)
    given = _number(row, "input_len", UNSTATED_PROMPT)
    scale = 0.9 if (row.get("source") or "").startswith("InferenceX") else 1.0
    if made <= 0:
        raise CannotEstimate("output_len must be at least one token")
    requests = max(_number(row, "nreq", 0.0) or MANY, 1.0)
    if not rate:
        replicas = min(replicas, max(clients, 1.0), requests)
    return Case(
        shape,
        replicas,
        kind,
        given * scale,
        max(made * scale, 1.0),
        clients / replicas,
        requests / replicas,
        rate / replicas,
        pools,
        frozenset(name for name in ("tp", "dp", "pp", "ep") if (row.get(name) or "").strip()),
    )


def _draft(row: Mapping[str, str]) -> Draft | None:
    """Speculative decoding: ``draft_tokens`` and ``acceptance``, and ``draft_cost`` where it is known."""
    tokens = _whole(row, "draft_tokens")
    given = {name: _number(row, name, -1.0) for name in ("acceptance", "draft_cost")}
    if not tokens:
        if max(given.values()) >= 0:
            raise CannotEstimate("acceptance and draft_cost need draft_tokens, the drafts a step verifies")
        return None
    if not 0 <= given["acceptance"] <= 1:
        raise CannotEstimate("draft_tokens need acceptance, the share of drafts kept: 0 to 1")
    return Draft(tokens, given["acceptance"], None if given["draft_cost"] < 0 else given["draft_cost"])


def _pools(row: Mapping[str, str], shape: Shape, gpus: int, *, kind: str) -> Pools | None:
    """The split of ``gpus`` into a prefill pool of ``prefill_gpus`` and a decode pool of the rest."""
    prefill = _whole(row, "prefill_gpus")
    if not prefill:
        return None
    decode = gpus - prefill
    if decode < shape.gpus or prefill < shape.gpus or prefill % shape.gpus or decode % shape.gpus:
        raise CannotEstimate(
            f"prefill_gpus {prefill} of {gpus} leaves no whole replicas of {shape.gpus} on both sides"
        )
    if kind not in SPLIT_KINDS:
        raise CannotEstimate(f"prefill_gpus goes with metric_kind {' or '.join(SPLIT_KINDS)}, not {kind}")
    return Pools(prefill / shape.gpus, decode / shape.gpus, shape.rdma_gb_s * 1e9)


def _kind(row: Mapping[str, str]) -> str:
    """What is measured: by its name, or by one of the names that others give it."""
    said = (row.get("metric_kind") or "").strip().lower().replace("-", "_").replace(" ", "_")
    if said in KINDS:
        return said
    if said in _UNKNOWN:
        return "fixed_concurrency"
    kind = _KINDS.get(said)
    if kind is None:
        raise CannotEstimate(f'metric_kind "{said}" is not one of {", ".join(KINDS)}')
    return kind


def _accelerator(row: Mapping[str, str], catalog: Catalog) -> tuple[Accelerator, int]:
    name = (row.get("hardware") or "").strip()
    several = _SEVERAL.fullmatch(name)
    count, name = (int(several[1]), several[2]) if several else (1, name)
    found = spelling.hardware(catalog.accelerators, name)
    if found is not None:
        return found, count
    machine = spelling.hardware(catalog.machines, name)
    if machine is not None:
        return catalog.accelerator_of(machine), count * int(machine.gpus.value)
    near = nearest(name, [*catalog.accelerators, *catalog.machines])
    raise CannotEstimate(f'hardware "{name}" is not in the catalog{near}')


def _named(known: Mapping[str, ModelEntry], row: Mapping[str, str], column: str) -> ModelEntry:
    name = (row.get(column) or "").strip()
    found = spelling.model(known, name)
    if found is None:
        raise CannotEstimate(f'{column} "{name}" is not in the catalog{nearest(name, known)}')
    return found


def _engine(row: Mapping[str, str], catalog: Catalog) -> EngineEntry:
    """An engine that is not named, or not known, is estimated as vLLM."""
    name = (row.get("engine") or "").strip() or "vllm"
    found = spelling.engine(catalog.engines, name)
    if found is not None:
        return found
    if name.lower() in _UNKNOWN:
        return catalog.engines["vllm"]
    raise CannotEstimate(f'engine "{name}" is not in the catalog{nearest(name, catalog.engines)}')


def _quantisation(row: Mapping[str, str], model: ModelEntry) -> str:
    """The row's precision of weights as a name that the model's entry or the rule of bytes knows."""
    said = (row.get("wprec") or (row.get("precision") or "").partition("/")[0]).strip().lower()
    if said in _UNKNOWN:
        inside = spelling.SCHEME.search(row.get("model") or "")
        said = inside[1].lower() if inside else ""
    name = _SCHEMES.get(said, said) or model.default_quantisation
    if name in model.quantisations:
        return name
    native = next((q for q, entry in model.quantisations.items() if entry.native), None)
    if native == "mxfp4" and name in ("nvfp4", "fp8", "int4"):
        return "mxfp4"
    try:
        model.weights(name)
    except ValueError:
        raise CannotEstimate(f'precision "{said}" is neither one of {model.id} nor a known scheme') from None
    return name


def _kv_bits(row: Mapping[str, str]) -> Literal[8, 16]:
    said = (row.get("kvprec") or (row.get("precision") or "").partition("/")[2]).strip().lower()
    return 8 if said.startswith(("fp8", "int8", "q8", "e4m3", "e5m2")) else 16


def _division(
    row: Mapping[str, str],
    model: ModelEntry,
    quantisation: str,
    accelerator: Accelerator,
    gpus: int,
    *,
    kind: str,
    clients: float,
) -> tuple[int, int, int]:
    """TP, PP and DP. Where TP is not stated: ``by_data``, or the fewest accelerators that hold the weights.

    TP and DP whose product is more than there are count the same accelerators: attention runs in TP / DP.
    """
    pp, dp = _whole(row, "pp") or 1, _whole(row, "dp") or 1
    tp = _whole(row, "tp")
    if tp:
        if dp > 1 and tp * pp * dp > gpus and gpus % (pp * dp) == 0:
            tp = gpus // (pp * dp)
        return tp, pp, dp
    if kind == "decode_only" and (_whole(row, "ep") or 1) > 1:
        return 1, pp, max(dp, gpus)
    if not _whole(row, "dp") and not kind.startswith("slo_") and by_data(model, accelerator, clients / gpus):
        return 1, pp, max(min(gpus // pp, LARGEST_TP), 1)
    weights, memory, tp = model.weights(quantisation).loaded, accelerator.memory_gib * 2**30, 1
    while dp == 1 and tp < LARGEST_TP and tp * 2 * pp <= gpus and weights > FULL * memory * tp * pp:
        tp *= 2
    return tp, pp, dp


def by_data(model: ModelEntry, accelerator: Accelerator, clients: float) -> bool:
    """Whether attention is taken to run in parallel by data where nobody says so, with ``clients`` an
    accelerator. A latent cache is not split by TP; links must carry the dispatch of tokens to experts."""
    link = accelerator.interconnect
    return model.mla is not None and model.experts is not None and link is not None and clients > BY_DATA


def _fits(shape: Shape, gpus: int) -> None:
    """Weights that are larger than all memory cannot be loaded; a near miss is left to the engine."""
    weights, memory = shape.model.weights(shape.quantisation).loaded, shape.accelerator.memory.value * 2**20
    room = memory * max(gpus, shape.gpus)
    if weights > room:
        raise CannotEstimate(
            f"weights of {weights / 1e9:,.0f} GB do not fit {room / 1e9:,.0f} GB of memory "
            f"({max(gpus, shape.gpus)} x {shape.accelerator.name})"
        )


def _load(row: Mapping[str, str], kind: str, gpus: int) -> tuple[float, float]:
    """Clients at a time over all replicas, and requests a second."""
    said = (row.get("concurrency_or_rate") or "").strip()
    low = said.lower().replace(",", "")
    number = _NUMBER.search(low)
    value = float(number[0]) if number else 0.0
    if number and value <= 0:
        raise CannotEstimate("concurrency_or_rate must be above 0")
    if number and low.endswith(_RATES):
        return MANY, value
    if number and _CLIENTS.fullmatch(low):
        return value * (
            gpus if low.startswith("batch") and "/" in low else 1
        ), value if kind == "rate" else 0.0
    if low in _UNKNOWN or low in _ENDLESS:
        return MANY, 0.0
    raise CannotEstimate(f'concurrency_or_rate "{said}" is neither a number, "N req/s", nor inf')


def _flag(row: Mapping[str, str], name: str) -> int:
    """An engine's flag that the command line in ``notes`` sets; 0 where it does not."""
    for flag in _FLAGS[name]:
        found = re.search(re.escape(flag) + r"[= ]+(\d+)", row.get("notes", "") or "")
        if found:
            return int(found[1])
    return 0


def _number(row: Mapping[str, str], column: str, missing: float) -> float:
    text = (row.get(column) or "").strip()
    if text.lower() in _UNKNOWN:
        return missing
    try:
        value = float(text.replace(",", "").removeprefix("~"))
    except ValueError:
        raise CannotEstimate(f'{column} "{text}" is not a number') from None
    if not 0 <= value < 1e9:
        raise CannotEstimate(f"{column} {text} is out of range")
    return value


def _whole(row: Mapping[str, str], column: str) -> int:
    value = _number(row, column, 0.0)
    if value != int(value) or value > 1e6:
        raise CannotEstimate(f"{column} {value:g} is not a whole number")
    return int(value)
