"""The measurements as arrays: the work of each row's replica, its load, its categories, what was measured."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from rackwright.catalog import load_catalog
from rackwright.sizing.constants import Keys
from rackwright.sizing.rows import CannotEstimate, case_of
from rackwright.sizing.work import Work, work_of

FILE = Path(__file__).with_name("measured.csv")
ANCHORS = Path(__file__).with_name("anchors.csv")
"""Published figures whose configuration is that of the suite, not of the figure's own row."""
FIELDS = tuple(Work.__dataclass_fields__)
TARGETS = ("output_tok_s_total", "ttft_ms", "tpot_ms")


class Data:
    """Row arrays. ``measured``: rows × (tok/s, ms, ms), NaN where nothing was measured."""

    def __init__(self, *paths: Path) -> None:
        catalog, rows = load_catalog(), []
        for path in paths or (FILE, ANCHORS):
            with path.open(encoding="utf-8", newline="") as stream:
                rows += list(csv.DictReader(stream))
        self.rows, cases, self.refused = [], [], []
        for row in rows:
            try:
                cases.append(case_of(row, catalog))
                self.rows.append(row)
            except CannotEstimate as reason:
                self.refused.append((row, str(reason)))
        works = [work_of(case.shape) for case in cases]
        self.work = {name: np.array([getattr(w, name) for w in works]) for name in FIELDS}
        self.load = {
            name: np.array([float(getattr(case, name)) for case in cases])
            for name in ("replicas", "given", "made", "clients", "requests", "rate")
        }
        self.keys: list[Keys] = [case.shape.keys(case.kind) for case in cases]
        self.kind = np.array([case.kind for case in cases])
        self.measured = np.array([[_figure(row[name]) for name in TARGETS] for row in self.rows])
        self.hardware = np.array([case.shape.accelerator.id for case in cases])
        self.model = np.array([case.shape.model.id for case in cases])
        self.engine = np.array([k.engine for k in self.keys])
        self.pair = np.array([f"{h}|{m}" for h, m in zip(self.hardware, self.model, strict=True)])
        self.used = np.array([self.kind[i] != "claim" for i in range(len(self.rows))])

    def __len__(self) -> int:
        return len(self.rows)

    def work_at(self, index: Any) -> SimpleNamespace:
        return SimpleNamespace(**{name: values[index] for name, values in self.work.items()})


def _figure(text: str) -> float:
    value = float(text) if text else float("nan")
    return value if value > 0 else float("nan")
