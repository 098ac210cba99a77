"""Writes what was fitted: constants with unit and source, intervals, and which pairs were measured."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from tools.fit.model import Model
from tools.fit.spec import ENGINES, LIMITS, RELEASES, SPEC
from tools.fit.validate import Intervals

SMALLEST = 0.01
"""Factors nearer to 1 than this are left out."""


def constants(model: Model, x: np.ndarray) -> dict[str, tuple[float, dict[str, dict[str, float]]]]:
    values: dict[str, tuple[float, dict[str, dict[str, float]]]] = {}
    for (name, category, case), value in zip(model.names, x, strict=True):
        if not category:
            values[name] = (float(f"{np.exp(value):.4g}"), {})
        elif abs(value) > SMALLEST:
            values[name][1].setdefault(category, {})[case] = float(f"{np.exp(value):.4g}")
    return values


Errors = dict[str, tuple[float, float]]
"""Median and ninth decile in percent by target."""


def text(model: Model, x: np.ndarray, found: Intervals, errors: Errors, *, source: str) -> str:
    """The constants file. Hand-written so that the order of ``spec`` and one line a category are kept."""
    data = model.data
    lines = [
        "# Written by `python -m tools.fit`; change tools/fit/spec.py and run it again.",
        f"source: {source}",
        "constants:",
    ]
    for name, (value, by) in constants(model, x).items():
        lines += [f"  {name}:", f"    value: {value}", f"    unit: {SPEC[name][1]}"]
        if by:
            lines.append("    by:")
            lines += [f"      {category}: {_flow(cases)}" for category, cases in by.items()]
    lines.append("intervals:")
    for kind, classes in found.items():
        lines.append(f"  {kind}:")
        lines += [f"    {name}: [{low:.3f}, {high:.3f}]" for name, (low, high) in classes.items()]
    lines.append("errors:")
    lines += [f"  {name}: [{middle:.1f}, {high:.0f}]" for name, (middle, high) in errors.items()]
    lines.append("engines: " + _flow(ENGINES))
    lines.append("limits:")
    lines += [f"  {engine}: {_flow(limits)}" for engine, limits in LIMITS.items()]
    lines.append("releases:")
    lines += [f"  {engine}: {_flow(releases)}" for engine, releases in RELEASES.items()]
    pairs: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    designs: dict[str, set[str]] = defaultdict(set)
    for i in np.where(data.used)[0]:
        pairs[data.engine[i]][data.hardware[i]].add(data.model[i])
        designs[data.engine[i]].add(data.keys[i].design)
    lines.append("measured:")
    for engine, hardware in sorted(pairs.items()):
        lines.append(f"  {engine}:")
        lines += [f"    {name}: [{', '.join(sorted(models))}]" for name, models in sorted(hardware.items())]
    lines.append("designs:")
    lines += [f"  {engine}: [{', '.join(sorted(names))}]" for engine, names in sorted(designs.items())]
    return "\n".join(lines) + "\n"


def _flow(mapping: dict[str, object]) -> str:
    return "{" + ", ".join(f'"{key}": {value}' for key, value in mapping.items()) + "}"


def save(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
