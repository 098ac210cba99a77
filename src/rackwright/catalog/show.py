"""The catalog on a screen: lists by kind, and one entry with the source of every number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from rackwright.catalog import (
    Accelerator,
    Cabinet,
    CalibrationEntry,
    Catalog,
    EngineEntry,
    Entry,
    Figure,
    Machine,
    ModelEntry,
    Partitioning,
    Prices,
    ScenarioEntry,
)
from rackwright.catalog.entries import PricePoint
from rackwright.catalog.weights import SCHEMES

CONTEXTS = (8192, 131072)


def number(value: float) -> str:
    """``value`` with thousands marked and no trailing noughts."""
    return f"{value:,.10g}" if value < 1e15 else f"{value:g}"


def _columns(entry: Entry, catalog: Catalog) -> tuple[tuple[str, str], ...]:
    match entry:
        case Accelerator():
            return (
                ("MEMORY", f"{entry.memory_gib:,.1f} GiB"),
                ("BANDWIDTH", f"{number(entry.bandwidth.value)} GB/s"),
                ("BF16", f"{number(entry.bf16.value)} TFLOPS"),
                ("POWER", f"{number(entry.power_limit.value)} W"),
            )
        case Machine():
            prices = [f"{p.value:,.0f} {p.unit}" for p in _prices(entry, catalog)]
            return (
                ("GPUS", f"{entry.gpus.value:.0f} × {entry.accelerator}"),
                ("FULL LOAD", f"{entry.full_load.value / 1000:,.2f} kW"),
                ("PRICE", prices[0] if prices else "no price"),
            )
        case ModelEntry():
            context = entry.max_context.value
            return (
                ("PARAMETERS", f"{entry.total.value:,.1f} B, {entry.active.value:,.1f} active"),
                ("KV A TOKEN", f"{entry.kv_bytes_per_token(16) / 1024:,.1f} KiB"),
                ("CONTEXT", f"{context:,.0f}"),
                ("OFFERED IN", ", ".join(entry.quantisations)),
            )
        case EngineEntry():
            return (("VERSION", entry.version), ("FOR", ", ".join(entry.vendors)), ("WHEN", entry.when))
        case Cabinet():
            return (("UNITS", number(entry.units.value)), ("RATING", f"{entry.rating.value / 1000:g} kW"))
        case ScenarioEntry():
            return (
                ("FACTOR", f"{entry.factor.value:g}"),
                ("INPUT", f"{entry.input.mean.value:,.0f}"),
                ("OUTPUT", f"{entry.output.mean.value:,.0f}"),
                ("WHEN", entry.when),
            )
        case CalibrationEntry():
            factor = entry.factors.throughput
            return (
                ("THROUGHPUT", f"× {factor.value:.3g}"),
                ("POINTS", str(len(entry.points))),
                ("MEASURED", entry.dated),
            )
        case Partitioning():
            return (
                ("ACCELERATOR", entry.accelerator),
                ("PROFILES", ", ".join(p.name for p in entry.profiles)),
            )
        case Prices():
            return (("ELECTRICITY", f"{entry.electricity.value:g} {entry.electricity.unit}"),)
    return ()


def _prices(machine: Machine, catalog: Catalog) -> list[PricePoint]:
    return [p.machines[machine.id] for p in catalog.prices.values() if machine.id in p.machines]


def table(kind: str, entries: Mapping[str, Entry], catalog: Catalog) -> Iterator[str]:
    """One line an entry, with its main figures."""
    rows = [(("ID", e.id), ("NAME", e.name), *_columns(e, catalog)) for _, e in sorted(entries.items())]
    if not rows:
        yield f"{kind}: none"
        return
    lines = [tuple(head for head, _ in rows[0]), *(tuple(cell for _, cell in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def entry_lines(entry: Entry, catalog: Catalog) -> Iterator[str]:
    """Everything an entry says, a figure a line with its source; an unread source is marked."""
    yield f"{entry.id}: {entry.name} ({entry.kind})"
    if entry.aliases:
        yield f"also called  {', '.join(entry.aliases)}"
    if entry.note:
        yield f"note         {entry.note}"
    yield f"dated        {entry.dated}"
    yield ""
    lines = list(_walk(entry, ""))
    width = max((len(path) for path, _, _ in lines), default=0)
    shown = max((len(value) for _, value, _ in lines), default=0)
    for path, value, source in lines:
        yield f"{path.ljust(width)}  {value.ljust(min(shown, 28))}  {source}".rstrip()
    if isinstance(entry, ModelEntry):
        yield from _model_lines(entry)
    if isinstance(entry, Machine):
        yield from ("", *(_price_lines(entry, catalog)))
    yield ""
    yield "? marks what stands there from general knowledge: its source was not read"


def _walk(node: BaseModel, path: str) -> Iterator[tuple[str, str, str]]:
    skip = {"id", "kind", "name", "aliases", "sources", "note", "replaces", "dated"} if not path else set()
    for field in type(node).model_fields:
        if field in skip:
            continue
        yield from _value(getattr(node, field), f"{path}.{field}" if path else field)


def _value(value: object, path: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, Figure | PricePoint):
        unit = "" if value.unit == "1" else f" {value.unit}"
        ends = f" ({number(value.low if value.low is not None else value.value)}–" + (
            f"{number(value.high if value.high is not None else value.value)})"
        )
        text = number(value.value) + (ends if value.low is not None or value.high is not None else "") + unit
        yield (
            path,
            text,
            f"{'' if value.verified else '? '}{value.source}" + (f" — {value.note}" if value.note else ""),
        )
    elif isinstance(value, BaseModel):
        yield from _walk(value, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _value(item, f"{path}.{key}")
    elif isinstance(value, tuple):
        if value and isinstance(value[0], BaseModel):
            for index, item in enumerate(value):
                yield from _value(item, f"{path}[{index}]")
        elif value:
            yield path, ", ".join(map(str, value)), ""
    elif value not in (None, "", False):
        yield path, str(value).lower() if isinstance(value, bool) else str(value), ""


def _model_lines(model: ModelEntry) -> Iterator[str]:
    yield ""
    yield "weights at any precision, GB (computed; * a published size)"
    names = [*model.quantisations, *(s for s in SCHEMES if s not in model.quantisations)]
    cells = [(name, model.weights(name)) for name in names]
    for start in range(0, len(cells), 4):
        row = cells[start : start + 4]
        yield "  ".join(
            f"{name:>13} {w.loaded / 1e9:>9,.1f}{'*' if w.published else ' '}" for name, w in row
        ).rstrip()
    yield ""
    for bits in (16, 8):
        sizes = ", ".join(f"{model.kv_bytes(c, bits) / 2**30:,.2f} GiB at {c:,} tokens" for c in CONTEXTS)
        yield f"KV cache, {bits} bit: {model.kv_bytes_per_token(bits):,} bytes a further token; {sizes}"


def _price_lines(machine: Machine, catalog: Catalog) -> Iterator[str]:
    if machine.no_price:
        yield f"no price: {machine.no_price}"
    for prices in catalog.prices.values():
        if machine.id in prices.machines:
            p = prices.machines[machine.id]
            yield f"price in {prices.name}: {p.value:,.0f} {p.unit}, {'' if p.verified else '? '}{p.source}"
