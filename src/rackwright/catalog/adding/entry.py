"""A model's shape as an entry of the catalog: the YAML that a person reviews and keeps."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import yaml

from rackwright.catalog.adding.shape import Shape
from rackwright.catalog.model_entries import ModelEntry
from rackwright.catalog.weights import SCHEMES
from rackwright.errors import InputErrors, Problem
from rackwright.yamlio import printable

AGREES = 0.02
"""Share by which computed and listed parameters may differ."""

_MAIN = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
_OFFERED = (
    "hf_id", "bits", "compute", "scheme", "loaded", "disk", "published", "native", "engine_flag",
)  # fmt: skip


def slug(name: str) -> str:
    """An id from a model's name: Qwen/Qwen3-30B-A3B → qwen3-30b-a3b."""
    text = re.sub(r"[^a-z0-9.]+", "-", name.rpartition("/")[2].lower()).strip("-.")
    return text[:80] or "model"


def figure(value: float, unit: str, source: str, *, verified: bool, **more: Any) -> dict[str, Any]:
    """A figure as it stands in YAML."""
    return {"value": value, "unit": unit, "source": source, "verified": verified, **more}


def entry_of(shape: Shape, *, name: str, hf_id: str, read_from: str) -> dict[str, Any]:
    """The entry, as plain data in the order that a file has it.

    Raises:
        InputErrors: the header lists another number of parameters than the shape gives.
    """
    data = _described(shape, name=name, hf_id=hf_id, read_from=read_from)
    model = ModelEntry.model_validate(_sourced(data))
    counts = model.parameters
    if shape.counted is not None and abs(counts.total - shape.counted) > AGREES * counts.total:
        raise InputErrors(
            Problem(
                printable(read_from),
                "must list about as many parameters as its shape gives",
                f"{shape.counted / 1e9:,.2f} × 10⁹ listed, {counts.total / 1e9:,.2f} × 10⁹ computed",
                "one of them is misread: bytes and KV cache would be wrong",
                "write the entry by hand: rackwright catalog show deepseek-v3 --yaml shows one",
            )
        )
    experts = shape.experts or {}
    active = counts.active(experts.get("top_k", 0), experts.get("count", 0))
    each = counts.experts / (experts["count"] * experts["layers"]) if experts else 0
    data["total"]["value"] = round(counts.total / 1e9, 3)
    data["active"]["value"] = round(active / 1e9, 3)
    data["always_read"]["value"] = round(counts.always_read / 1e9, 3)
    if experts:
        data["experts"]["each"]["value"] = round(each / 1e6, 3)
    for key, offered in data["quantisations"].items():
        _size(offered, model, key, shape)
    return data


def _size(offered: dict[str, Any], model: ModelEntry, key: str, shape: Shape) -> None:
    """Bytes of one quantisation: computed; of the file given, as it lists them."""
    bare = model.model_copy(update={"quantisations": {}})
    loaded = bare.weights(offered["scheme"]).loaded
    listed = shape.file_bytes if offered.get("native") else None
    offered["disk"] = figure(round(loaded / 1e9, 2), "GB", "bytes", verified=False)
    if listed is not None:
        offered["published"] = figure(round(listed / 1e9, 3), "GB", "file", verified=True)
        offered["disk"] = figure(round(listed / 1e9, 2), "GB", "file", verified=True)
        loaded = min(loaded, listed) if shape.mtp_layers else listed
    offered["loaded"] = figure(round(loaded / 1e9, 2), "GB", "bytes", verified=False)
    offered["scheme"] = offered["scheme"] if offered["scheme"] != key else None
    data = {key: offered[key] for key in _OFFERED if offered.get(key) is not None}
    offered.clear()
    offered.update(data)


def _described(shape: Shape, *, name: str, hf_id: str, read_from: str) -> dict[str, Any]:
    """All fields; sizes that follow from the shape are still nought."""
    today = datetime.now(tz=UTC).date().isoformat()
    out: dict[str, Any] = {
        "id": slug(name),
        "kind": "model",
        "name": name.rpartition("/")[2],
        "aliases": sorted(a for a in {hf_id, name.rpartition("/")[2]} if a.lower() != slug(name)),
        "sources": {
            "file": f"{read_from}, read {today}",
            "shape": "computed from the file's shape: attention, dense and shared layers, head; experts",
            "bytes": "computed: parameters by class at the scheme's bits, the rest in 16 bits",
        },
        "note": "; ".join(shape.notes),
        "dated": today,
        "hf_id": hf_id,
        "architecture": shape.architecture,
        "native": shape.native,
        "total": figure(0, "1e9", "shape", verified=True),
        "active": figure(0, "1e9", "shape", verified=True),
        "always_read": figure(0, "1e9", "shape", verified=True),
    }
    for field in _MAIN:
        out[field] = figure(getattr(shape, field), "1", "file", verified=True)
    if shape.ffn_matrices != 3:
        out["ffn_matrices"] = shape.ffn_matrices
    if shape.tied:
        out["tied_embeddings"] = True
    if shape.attention:
        out["attention"] = shape.attention
    if shape.mla:
        out["mla"] = shape.mla
    if shape.experts:
        out["experts"] = {**shape.experts, "each": figure(0, "1e6", "shape", verified=True)}
    if shape.encoder_layers:
        out["encoder"] = {"layers": shape.encoder_layers}
    if shape.multimodal:
        out["multimodal"] = True
    out["max_context"] = figure(shape.max_context, "1", "file", verified=True)
    native = shape.scheme
    out["default_quantisation"] = native
    out["quantisations"] = {native: _offered(hf_id, native, native=True)}
    if native == "bf16" and not shape.encoder_layers:
        out["quantisations"]["fp8"] = {**_offered(hf_id, "fp8", native=False), "engine_flag": "fp8"}
    out["trust_remote_code"] = shape.remote_code
    out["shape_verified"] = True
    return {key: value for key, value in out.items() if value not in ("", [])}


def _offered(hf_id: str, scheme: str, *, native: bool) -> dict[str, Any]:
    about = SCHEMES[scheme]
    bits = next(b for b in (2, 3, 4, 5, 6, 8, 16) if b >= int(about.bits))
    size = figure(0, "GB", "bytes", verified=False)
    return {
        "hf_id": hf_id,
        "bits": bits,
        "compute": about.compute,
        "scheme": scheme,
        "loaded": size,
        "disk": size,
        "native": native or None,
    }


def _sourced(data: dict[str, Any]) -> dict[str, Any]:
    """``data`` as it validates before sizes are known."""

    def clean(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: clean(value) for key, value in node.items() if value is not None}
        return node

    return {key: clean(value) for key, value in data.items()}


class _Flow(dict[str, Any]):
    """A mapping that YAML writes on one line."""


class _Quoted(str):
    """A text that looks like a number to some readers of YAML."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _flow(dumper: Any, data: _Flow) -> Any:
    return dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True)


def _quoted(dumper: Any, data: _Quoted) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(data), style='"')


_Dumper.add_representer(_Flow, _flow)
_Dumper.add_representer(_Quoted, _quoted)


def _laid_out(node: Any) -> Any:
    """Figures and short mappings on one line."""
    if isinstance(node, dict):
        inner = {key: _laid_out(value) for key, value in node.items()}
        flat = all(not isinstance(value, dict | list) for value in inner.values())
        if isinstance(inner.get("unit"), str) and inner["unit"][:1].isdigit():
            inner["unit"] = _Quoted(inner["unit"])
        return _Flow(inner) if "unit" in inner or (flat and "kind" in inner and "id" not in inner) else inner
    return [_laid_out(item) for item in node] if isinstance(node, list) else node


def entry_text(data: dict[str, Any]) -> str:
    """``data`` as the file's text: figures on one line, in the order given."""
    laid = {key: value if key in ("sources",) else _laid_out(value) for key, value in data.items()}
    text: str = yaml.dump(laid, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return text
