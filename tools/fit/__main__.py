"""``python -m tools.fit``: fits, validates, and writes constants and report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tools.fit import report, validate, write
from tools.fit.data import TARGETS, Data
from tools.fit.model import Model
from tools.fit.spec import SPEC

ROOT = Path(__file__).parents[2]
CONSTANTS = ROOT / "src/rackwright/catalog/estimator/constants.yaml"
REPORT = ROOT / "docs/estimator-fit.md"
FOLD = ROOT / "tests/sizing/held_out.json"
PREDICTED = ROOT / "tools/fit/held_out.csv"
SOURCE = '"fit of public measurements (tools/fit/measured.csv) by python -m tools.fit"'


def main() -> None:
    np.seterr(all="ignore")
    data = Data()
    model = Model(data)
    every = np.arange(len(data))
    x = model.fit(every, hold=validate.HOLD, rounds=validate.ROUNDS)
    pairs = [validate.left_out(model, data.pair, validate.FOLDS, seed) for seed in validate.SEEDS]
    hardware = validate.left_out(model, data.hardware, validate.FOLDS, 0)
    models = validate.left_out(model, data.model, validate.FOLDS, 0)
    seen = validate.Out(model.predict(x, every), np.zeros(len(data), int), pairs[0].near, [x])
    logs = np.concatenate([np.log(data.measured[:, 0] / out.predicted[:, 0]) for out in pairs])
    kind, near = np.tile(data.kind, len(pairs)), np.concatenate([out.near for out in pairs])
    usable = np.tile(data.used, len(pairs)) & ~np.isnan(logs)
    found = validate.intervals(kind[usable], near[usable], logs[usable])
    inside = np.log(data.measured[:, 0] / seen.predicted[:, 0])[data.used]
    for name in found:
        chosen = inside if name == "all" else inside[data.kind[data.used] == name]
        low, high = np.quantile(chosen, (0.1, 0.9)) * validate.WIDER
        found[name]["measured"] = (float(np.exp(min(low, -0.05))), float(np.exp(max(high, 0.05))))
    write.save(CONSTANTS, write.text(model, x, found, unseen(data, pairs), source=SOURCE))
    facts = {
        "constants": str(len(SPEC)),
        "factors": str(sum(len(by) for _, b in write.constants(model, x).values() for by in b.values())),
        "freedom": f"{freedom(model, x):.0f}",
        "figures": str(int((~np.isnan(data.measured[data.used])).sum())),
    }
    write.save(REPORT, report.text(data, pairs, hardware=hardware, models=models, inside=seen, facts=facts))
    write.save(FOLD, fold(model, pairs[0]))
    write.save(PREDICTED, predictions(data, pairs[0]))


def unseen(data: Data, pairs: list[validate.Out]) -> write.Errors:
    """Errors of rows that the fits had not seen, all splits together."""
    every = np.concatenate([report.errors(data, out.predicted)[data.used] for out in pairs])
    return {
        name: (float(np.nanmedian(every[:, i])), float(np.nanpercentile(every[:, i], 90)))
        for i, name in enumerate(TARGETS)
    }


def freedom(model: Model, x: np.ndarray) -> float:
    """Effective degrees of freedom: trace of the hat matrix of the last step."""
    index = np.arange(len(model.data))[model.data.used]
    j = model.jacobian(x, index, model.residuals(x, index))
    own = j.T @ j
    return float(np.trace(np.linalg.solve(own + np.diag((validate.HOLD / model.width) ** 2), own)))


def fold(model: Model, out: validate.Out) -> str:
    """Constants fitted without the first fold, and the rows of that fold, for the test that predicts them."""
    number = 0
    constants = {
        name: {"value": value, "by": by}
        for name, (value, by) in write.constants(model, out.parameters[number]).items()
    }
    chosen = np.where((out.fold == number) & model.data.used)[0]
    found = report.errors(model.data, out.predicted)[chosen]
    medians = {name: round(float(np.nanmedian(found[:, i])), 2) for i, name in enumerate(TARGETS)}
    rows = [model.data.rows[i]["row_id"] for i in chosen]
    plain = {"rows": rows, "median_error_percent": medians, "constants": constants}
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def predictions(data: Data, out: validate.Out) -> str:
    """Every measured row as it was predicted by a fit that had not seen its pair: row, tok/s, ms, ms."""
    lines = ["row_id,output_tok_s_total,ttft_ms,tpot_ms"]
    for row, values in zip(data.rows, out.predicted, strict=True):
        if row["row_id"].isdigit():
            lines.append(",".join([row["row_id"], *(f"{value:.4g}" for value in values)]))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
