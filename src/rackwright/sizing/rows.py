"""A measurement's row, or the options of one question, as a case: a replica, how many of them, and a load.

Columns are those of ``tools/fit/measured.csv``. What was measured (``MEASURED``) is never read here. Fields
may be empty: parallelism is then the smallest that holds the model, precision what the model is published in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rackwright.catalog import Accelerator, Catalog, EngineEntry, ModelEntry, find
from rackwright.errors import nearest
from rackwright.sizing.queueing import MANY
from rackwright.sizing.shape import Shape
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
UNSTATED_PROMPT, UNSTATED_ANSWER = 1024.0, 1024.0
"""Tokens where a row does not say."""
FULL = 0.62
"""Share of memory that weights may fill when parallelism is not stated; the rest is cache."""
LARGEST_TP = 8
_SCHEMES = {"fp16": "bf16", "f16": "bf16", "fp4": "nvfp4", "w8a8": "int8", "awq": "int4", "gptq": "int4"}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_FLAGS = {
    "chunk": ("--max-num-batched-tokens", "--max_num_tokens", "--chunked-prefill-size"),
    "sequences": ("--max-num-seqs", "--max-batch-size", "--max_batch_size", "--max-running-requests"),
}


class CannotEstimate(Exception):
    """A row that is impossible, or names what the catalog does not know. The text is the reason."""


@dataclass(frozen=True)
class Case:
    """``replicas`` of ``shape`` under a load. ``clients``, ``requests`` and ``rate`` are of one replica."""

    shape: Shape
    replicas: float
    kind: str
    given: float
    made: float
    clients: float
    requests: float
    rate: float


def case_of(row: Mapping[str, str], catalog: Catalog) -> Case:
    """The case that ``row`` describes.

    Raises:
        CannotEstimate: it names no hardware, model or engine of the catalog, or cannot be.
    """
    accelerator, count = _accelerator(row, catalog)
    model = _named(catalog.models, row, "model")
    engine = _engine(row, catalog)
    kind = row.get("metric_kind", "").strip() or "fixed_concurrency"
    if kind not in KINDS:
        raise CannotEstimate(f'metric_kind "{kind}" is not one of {", ".join(KINDS)}')
    quantisation = _quantisation(row, model)
    gpus = _whole(row, "n_gpus") or count
    tp, pp, dp = _division(row, model, quantisation, accelerator, gpus, kind=kind)
    chunk, sequences = (_flag(row, name) for name in ("chunk", "sequences"))
    version = row.get("engine_version", "")
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
        age=age_of(engine.id, version, row.get("date", "")),
    )
    _fits(shape, gpus)
    replicas = max(gpus / shape.gpus, 1.0)
    made = _number(row, "output_len", UNSTATED_ANSWER)
    given = _number(row, "input_len", UNSTATED_PROMPT)
    scale = 0.9 if row.get("source", "").startswith("InferenceX") else 1.0
    if made <= 0:
        raise CannotEstimate("output_len must be at least one token")
    clients, rate = _load(row, kind, gpus)
    requests = _number(row, "nreq", 0.0) or MANY
    return Case(
        shape,
        replicas,
        kind,
        given * scale,
        max(made * scale, 1.0),
        clients / replicas,
        requests / replicas,
        rate / replicas,
    )


def _accelerator(row: Mapping[str, str], catalog: Catalog) -> tuple[Accelerator, int]:
    name = row.get("hardware", "").strip()
    found = find(catalog.accelerators, name)
    if found is not None:
        return found, 1
    machine = find(catalog.machines, name)
    if machine is not None:
        return catalog.accelerator_of(machine), int(machine.gpus.value)
    near = nearest(name, [*catalog.accelerators, *catalog.machines])
    raise CannotEstimate(f'hardware "{name}" is not in the catalog{near}')


def _named(known: Mapping[str, ModelEntry], row: Mapping[str, str], column: str) -> ModelEntry:
    name = row.get(column, "").strip()
    found = find(known, name)
    if found is None:
        raise CannotEstimate(f'{column} "{name}" is not in the catalog{nearest(name, known)}')
    return found


def _engine(row: Mapping[str, str], catalog: Catalog) -> EngineEntry:
    """An engine that is not named, or not known, is estimated as vLLM."""
    name = row.get("engine", "").strip() or "vllm"
    found = find(catalog.engines, name)
    if found is not None:
        return found
    if name == "other":
        return catalog.engines["vllm"]
    raise CannotEstimate(f'engine "{name}" is not in the catalog{nearest(name, catalog.engines)}')


def _quantisation(row: Mapping[str, str], model: ModelEntry) -> str:
    """The row's precision of weights as a name that the model's entry or the rule of bytes knows."""
    said = (row.get("wprec", "") or row.get("precision", "").partition("/")[0]).strip().lower()
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
    said = row.get("kvprec", "") or row.get("precision", "").partition("/")[2]
    return 8 if said.strip().lower() in ("fp8", "int8", "fp8_e4m3", "fp8_e5m2") else 16


def _division(
    row: Mapping[str, str],
    model: ModelEntry,
    quantisation: str,
    accelerator: Accelerator,
    gpus: int,
    *,
    kind: str,
) -> tuple[int, int, int]:
    """TP, PP and DP. Where TP is not stated: the fewest accelerators that hold the weights."""
    pp, dp = _whole(row, "pp") or 1, _whole(row, "dp") or 1
    tp = _whole(row, "tp")
    if tp:
        return tp, pp, dp
    if kind == "decode_only" and (_whole(row, "ep") or 1) > 1:
        return 1, pp, max(dp, gpus)
    weights, memory, tp = model.weights(quantisation).loaded, accelerator.memory_gib * 2**30, 1
    while dp == 1 and tp < LARGEST_TP and tp * 2 * pp <= gpus and weights > FULL * memory * tp * pp:
        tp *= 2
    return tp, pp, dp


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
    said = row.get("concurrency_or_rate", "").strip()
    number = _NUMBER.search(said)
    if said.endswith("req/s") and number:
        return MANY, float(number[0])
    if said.startswith("batch") and number:
        return float(number[0]) * (gpus if "/" in said else 1), 0.0
    if number and number[0] == said:
        if float(said) <= 0:
            raise CannotEstimate("concurrency_or_rate must be above 0")
        return float(said), float(said) if kind == "rate" else 0.0
    if said.lower() in ("", "inf", "offline", "server", "interactive"):
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
    if not text:
        return missing
    try:
        value = float(text)
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
