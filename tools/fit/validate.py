"""Cross-validation: pairs of hardware and model, or all of a hardware, left out of the fit."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass

import numpy as np

from tools.fit.data import Data
from tools.fit.model import Model

FOLDS, SEEDS = 8, (0, 1, 2)
HOLD = 0.7
"""Weight of the prior against the measurements; chosen by cross-validation, flat between 0.5 and 1.2."""
ROUNDS, ROUNDS_OUT = 14, 8
WORKERS = 3
WIDER = 1.15
"""Quantiles of few rows are too near to each other: logs of the intervals are widened by this."""
AT_LEAST = 40
"""Rows that a class of intervals needs of its own."""


def folds(groups: np.ndarray, count: int, seed: int) -> np.ndarray:
    """A fold for each row: groups stay whole, folds are of about equal size."""
    names = sorted(set(groups))
    np.random.RandomState(seed).shuffle(names)
    size = {name: int((groups == name).sum()) for name in names}
    total, where = [0] * count, {}
    for name in sorted(names, key=lambda n: -size[n]):
        where[name] = int(np.argmin(total))
        total[where[name]] += size[name]
    return np.array([where[name] for name in groups])


@dataclass
class Out:
    """Predictions of rows that the fit had not seen, their fold, and how near the nearest seen ones were."""

    predicted: np.ndarray
    fold: np.ndarray
    near: np.ndarray
    parameters: list[np.ndarray]


def left_out(model: Model, groups: np.ndarray, count: int, seed: int) -> Out:
    data, fold = model.data, folds(groups, count, seed)
    every = np.arange(len(data))
    predicted, near = np.full((len(data), 3), np.nan), np.empty(len(data), object)
    fits = [(model, every[fold != number]) for number in range(count)]
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        parameters = pool.starmap(_fitted, fits, chunksize=1)
    for number, x in enumerate(parameters):
        seen, unseen = every[fold != number], every[fold == number]
        predicted[unseen] = model.predict(x, unseen)
        near[unseen] = nearness(data, seen, unseen)
    return Out(predicted, fold, near, parameters)


def _fitted(model: Model, seen: np.ndarray) -> np.ndarray:
    return model.fit(seen, hold=HOLD, rounds=ROUNDS_OUT)


def nearness(data: Data, seen: np.ndarray, unseen: np.ndarray) -> list[str]:
    """Evidence classes of ``unseen`` rows when only ``seen`` rows are known."""
    hardware = {(data.hardware[i], data.engine[i]) for i in seen}
    designs = {(data.keys[i].design, data.engine[i]) for i in seen}
    pair = {(data.pair[i], data.engine[i]) for i in seen}
    out = []
    for i in unseen:
        staged = data.work["pp"][i] > 1
        if (data.pair[i], data.engine[i]) in pair and not staged:
            out.append("measured")
        elif (data.hardware[i], data.engine[i]) in hardware and (
            data.keys[i].design, data.engine[i]
        ) in designs and not staged:  # fmt: skip
            out.append("same-family")
        else:
            out.append("extrapolated")
    return out


Intervals = dict[str, dict[str, tuple[float, float]]]


def intervals(kind: np.ndarray, near: np.ndarray, logs: np.ndarray) -> Intervals:
    """Tenth and ninetieth percentile of measured over predicted, by kind and class; "all" for small kinds."""
    found: Intervals = {}
    for name in [*sorted(set(kind)), "all"]:
        of_kind = np.ones(len(kind), bool) if name == "all" else kind == name
        if of_kind.sum() < AT_LEAST:
            continue
        for class_ in ("same-family", "extrapolated"):
            chosen = of_kind & (near == class_)
            if chosen.sum() < AT_LEAST:
                chosen = of_kind
            low, high = np.quantile(logs[chosen], (0.1, 0.9)) * WIDER
            found.setdefault(name, {})[class_] = (
                float(np.exp(min(low, -0.05))),
                float(np.exp(max(high, 0.05))),
            )
    return found


def covered(out: Out, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Whether each row lies in the interval that the other folds give, and the interval's high over low."""
    logs = np.log(data.measured[:, 0] / out.predicted[:, 0])
    inside, ratio = np.zeros(len(data), bool), np.full(len(data), np.nan)
    usable = data.used & ~np.isnan(logs)
    for number in range(out.fold.max() + 1):
        known = usable & (out.fold != number)
        table = intervals(data.kind[known], out.near[known], logs[known])
        for i in np.where(usable & (out.fold == number))[0]:
            classes = table.get(data.kind[i], table["all"])
            low, high = classes.get(out.near[i], classes["extrapolated"])
            inside[i] = np.log(low) <= logs[i] <= np.log(high)
            ratio[i] = high / low
    return inside, ratio
