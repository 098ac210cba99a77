"""The fit's report: errors of rows that the fit had not seen, by class, and what stands in the way."""

from __future__ import annotations

import numpy as np

from tools.fit.data import Data
from tools.fit.validate import Out, covered

NAMES = ("tok/s", "TTFT", "TPOT")


def errors(data: Data, predicted: np.ndarray) -> np.ndarray:
    """|predicted / measured − 1| in percent."""
    return np.abs(predicted / data.measured - 1) * 100


def cell(values: np.ndarray) -> str:
    values = values[~np.isnan(values)]
    if not len(values):
        return "–"
    return f"{np.median(values):.1f} / {np.percentile(values, 90):.0f} ({len(values)})"


def table(data: Data, out: Out, title: str, groups: np.ndarray) -> list[str]:
    found = errors(data, out.predicted)
    lines = [f"| {title} | tok/s | TTFT | TPOT | bias of tok/s |", "|---|---|---|---|---|"]
    for name in sorted(set(groups[data.used])):
        chosen = data.used & (groups == name)
        bias = np.median(np.log(out.predicted[chosen, 0] / data.measured[chosen, 0]))
        cells = " | ".join(cell(found[chosen, i]) for i in range(3))
        lines.append(f"| {name} | {cells} | {np.exp(bias):.2f} |")
    return lines


def total(data: Data, out: Out, chosen: np.ndarray | None = None) -> str:
    chosen = data.used if chosen is None else data.used & chosen
    found = errors(data, out.predicted)
    return " | ".join(cell(found[chosen, i]) for i in range(3))


def text(
    data: Data, pairs: list[Out], *, hardware: Out, models: Out, inside: Out, facts: dict[str, str]
) -> str:
    first = pairs[0]
    burst = data.kind == "burst"
    hits, ratio = covered(first, data)
    lines = [
        "# How well the estimator predicts",
        "",
        "Written by `python -m tools.fit` from `tools/fit/measured.csv`: public measurements,",
        "and `tools/fit/anchors.csv`: published figures whose layout is that of their suite.",
        "Every figure below but the one marked *in sample* is of rows that the fit had **not** seen: whole",
        f"pairs of hardware and model are left out ({first.fold.max() + 1} folds). Cells: median / ninth",
        "decile of |predicted / measured − 1| in percent, and the number of rows.",
        "",
        "| left out | tok/s | TTFT | TPOT |",
        "|---|---|---|---|",
    ]
    for number, out in enumerate(pairs):
        lines.append(f"| pairs, split {number + 1} | {total(data, out)} |")
    lines += [
        f"| pairs, without burst runs | {total(data, first, ~burst)} |",
        f"| pairs, burst runs alone | {total(data, first, burst)} |",
        f"| all of a hardware | {total(data, hardware)} |",
        f"| all of a model | {total(data, models)} |",
        f"| *nothing (in sample)* | {total(data, inside)} |",
        "| required (tok/s 20 / 65, hardware 27) | 20 / 65 | 50 | 20 |",
        "| aimed at | 15 / 50 | 35 | 15 |",
        "",
        f"Rows predicted: {len(data)} of {len(data) + len(data.refused)}. Refused: "
        + "; ".join(f"{r['hardware']} × {r['model']} ({reason})" for r, reason in data.refused)
        + ".",
        "",
        f"80 % intervals, each fold judged by the others': {100 * hits[data.used].mean():.0f} % of "
        f"measurements lie inside; median high/low {np.nanmedian(ratio[data.used]):.2f}.",
        "",
        f"Constants: {facts['constants']} with a unit and a prior, {facts['factors']} factors by engine,",
        " hardware, precision and kind of load that are held to 1 unless measurements pull them away; about",
        f"{facts['freedom']} effective degrees of freedom for {facts['figures']} measured figures.",
        "",
    ]
    groups = {
        "kind of load": data.kind,
        "evidence": first.near.astype(str),
        "memory class": np.array([k.memory_class for k in data.keys]),
        "engine": data.engine,
        "attention": np.array([k.attention for k in data.keys]),
        "model kind": np.where(data.work["expert_layers"] > 0, "experts", "dense"),
        "precision": np.array([k.scheme for k in data.keys]),
        "source": np.array([row["source"] for row in data.rows]),
    }
    for title, values in groups.items():
        lines += [f"## By {title}", "", *table(data, first, title, values), ""]
    lines += [
        "## What stands in the way",
        "",
        "- Burst runs with an engine's default configuration: the same figures stand under two accelerators",
        "  in the source, rows of single requests carry the label of a burst, and the same command differs",
        "  by 2 × between engine versions.",
        "- Engines that met a model for the first time (DeepSeek-V3.2 in its first weeks) run at a fraction",
        "  of what the hardware allows; one version later they do not. The version is an input, the state of",
        "  its kernels is not.",
        "- Prefix caching in benchmarks that repeat their prompts cannot be told from the columns.",
        "- Ascend 910B: bandwidth itself is not certain (0.4–1.6 TB/s), and two engines differ by 4 ×.",
        "- TTFT under load depends on how a benchmark spaces its requests, which no source states.",
        "",
    ]
    return "\n".join(lines)
