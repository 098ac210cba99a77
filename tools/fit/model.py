"""Parameters as a vector, and the product's own functions over all rows at once."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from rackwright.sizing import queueing
from tools.fit.data import Data
from tools.fit.spec import SPEC

WEIGHTS = np.array([1.0, 0.35, 0.6])
"""Of tok/s, time to first token and time a token in the loss."""
SHARED = 0.5
"""Rows of a pair of hardware and model share the weight of ``rows ** (1 - SHARED)``: a pair that was measured
fifty times says less than fifty pairs. Of rates and time a token; times to a first token are few."""
TURN = 0.25
"""Log error from which the loss grows linearly (pseudo-Huber)."""


class Model:
    """``start``, ``width``: prior of the parameters' logarithms. ``names``: (constant, category, case)."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.names: list[tuple[str, str, str]] = []
        start, width, masks = [], [], []
        for name, (prior, _, own, by) in SPEC.items():
            self.names.append((name, "", ""))
            start.append(np.log(prior))
            width.append(own)
            masks.append(None)
            for category, spread in by.items():
                cases = np.array([k.category(category) for k in data.keys])
                for case in sorted(set(cases)):
                    self.names.append((name, category, case))
                    start.append(0.0)
                    width.append(spread)
                    masks.append((cases == case).astype(float))
        self.start, self.width, self.masks = np.array(start), np.array(width), masks
        count = Counter(data.pair)
        weight = np.array([count[pair] ** (-SHARED / 2) for pair in data.pair])
        weight /= np.sqrt((weight**2).mean())
        self.weight = np.stack([weight, np.ones(len(weight)), weight], axis=1)

    def constants(self, x: np.ndarray, index: np.ndarray) -> SimpleNamespace:
        logs: dict[str, Any] = {}
        for (name, category, _), value, mask in zip(self.names, x, self.masks, strict=True):
            if not category:
                logs[name] = np.full(len(index), value)
            elif value != 0:
                logs[name] = logs[name] + value * mask[index]
        return SimpleNamespace(**{name: np.exp(value) for name, value in logs.items()})

    def predict(self, x: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Rows × (tok/s, ms, ms)."""
        return self.served(self.constants(x, index), index)

    def served(self, constants: SimpleNamespace, index: np.ndarray) -> np.ndarray:
        data, out = self.data, np.empty((len(index), 3))
        kind = data.kind[index]
        rated = (kind == "rate") & (data.load["rate"][index] > 0)
        groups = {
            "closed": kind == "fixed_concurrency",
            "arriving": rated,
            "decoding": kind == "decode_only",
        }
        groups["at_once"] = ~(groups["closed"] | groups["arriving"] | groups["decoding"])
        for name, chosen in groups.items():
            if not chosen.any():
                continue
            rows = index[chosen]
            work = data.work_at(rows)
            c = SimpleNamespace(**{k: v[chosen] for k, v in vars(constants).items()})
            load = {k: v[rows] for k, v in data.load.items()}
            extra = {
                "closed": ("clients",),
                "arriving": ("rate", "requests"),
                "decoding": ("clients",),
                "at_once": ("requests", "clients"),
            }[name]
            served = getattr(queueing, name)(
                work, c, load["given"], load["made"], **{k: load[k] for k in extra}
            )
            out[chosen] = np.array(
                [served.output * load["replicas"], served.first * 1e3, served.token * 1e3]
            ).T
        return out

    def residuals(self, x: np.ndarray, index: np.ndarray) -> np.ndarray:
        return self.losses(self.constants(x, index), index)

    def losses(self, constants: SimpleNamespace, index: np.ndarray) -> np.ndarray:
        measured = self.data.measured[index]
        error = np.log(np.maximum(self.served(constants, index), 1e-9) / measured) * WEIGHTS
        error = np.nan_to_num(np.clip(error, -4, 4)).ravel()
        loss = np.sqrt(2 * TURN**2 * (np.sqrt(1 + (error / TURN) ** 2) - 1))
        return np.sign(error) * loss * self.weight[index].ravel()

    def jacobian(self, x: np.ndarray, index: np.ndarray, base: np.ndarray) -> np.ndarray:
        step, out = 1e-3, np.zeros((len(base), len(x)))
        known, factor = vars(self.constants(x, index)), np.exp(step)
        for j, ((name, _, _), mask) in enumerate(zip(self.names, self.masks, strict=True)):
            rows = np.arange(len(index)) if mask is None else np.where(mask[index] > 0)[0]
            if len(rows):
                moved = {k: v[rows] for k, v in known.items()}
                moved[name] = moved[name] * factor
                cells = (rows[:, None] * 3 + np.arange(3)).ravel()
                out[cells, j] = (self.losses(SimpleNamespace(**moved), index[rows]) - base[cells]) / step
        return out

    def fit(
        self, index: np.ndarray, *, hold: float, rounds: int, start: np.ndarray | None = None
    ) -> np.ndarray:
        """Levenberg-Marquardt on the loss plus ``hold`` times the distance from the prior in widths."""
        index = index[self.data.used[index]]
        x = (self.start if start is None else start).copy()
        scale = hold / self.width

        def loss(x: np.ndarray) -> tuple[np.ndarray, float]:
            r = self.residuals(x, index)
            own = (x - self.start) * scale
            return r, float(r @ r + own @ own)

        damping = 1e-2
        r, value = loss(x)
        for _ in range(rounds):
            j = self.jacobian(x, index, r)
            matrix = j.T @ j + np.diag(scale**2)
            gradient = j.T @ r + (x - self.start) * scale**2
            better = False
            for _ in range(6):
                move = -np.linalg.solve(matrix + damping * np.diag(1 / self.width**2), gradient)
                trial = x + np.clip(move, -0.7, 0.7)
                r2, value2 = loss(trial)
                if value2 < value:
                    better = True
                    break
                damping *= 6
            if not better:
                break
            done = (value - value2) / value < 1e-3
            x, r, value, damping = trial, r2, value2, max(damping / 4, 1e-4)
            if done:
                break
        return x
