"""The catalog entry of a calibration: facts resolved, points compared with the prediction, as YAML."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rackwright.calibration.measurement import Measurement
from rackwright.calibration.rules import Accepted, Stated, accepted
from rackwright.catalog import Catalog, find
from rackwright.catalog.calibration_entries import CalibrationEntry
from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.sizing import constants
from rackwright.sizing.calibrated import Factor
from rackwright.sizing.calibrating import Ratios, factor_of, measured_shape, ratios_of
from rackwright.sizing.limits import limit
from rackwright.sizing.rows import CannotEstimate, case_of
from rackwright.sizing.shape import Shape
from rackwright.yamlio import dump_yaml, printable, quoted

NEEDED = ("hardware", "gpus", "tp", "model", "precision", "engine", "engine_version", "date")
DEFAULTS: Mapping[str, str | int] = {"pp": 1, "dp": 1, "kv_precision": "bf16"}
_SAME = ("hardware", "model", "precision", "kv_precision", "engine", "engine_version")
LONGEST = 80


@dataclass(frozen=True)
class Made:
    """An entry, its file's text, and the ratio of each point."""

    entry: CalibrationEntry
    text: str
    ratios: tuple[Ratios, ...]
    shapes: tuple[Shape, ...]


Facts = dict[str, Any]


def made(
    runs: Sequence[Measurement], options: Mapping[str, Any], stated: Stated, catalog: Catalog, by: str = ""
) -> Made:
    """The entry that ``runs`` give with the facts that ``options`` say; ``by``: who measured.

    Raises:
        InputErrors: every rule that a run breaks, every fact that is missing, unknown or contradicted.
    """
    problems: list[Problem] = []
    taken: list[tuple[Accepted, Facts]] = []
    for run in runs:
        facts, wrong = _facts(run, options, catalog)
        problems += wrong
        try:
            taken.append((accepted(run, stated), facts))
        except InputErrors as error:
            problems += error.problems
    problems = list(dict.fromkeys(problems))
    problems += [] if problems else _apart(taken)
    if problems:
        raise InputErrors(problems)
    return _entry(taken, catalog, by)


def _facts(run: Measurement, options: Mapping[str, Any], catalog: Catalog) -> tuple[Facts, list[Problem]]:
    """What was measured, from the options and the run itself, in ids of the catalog."""
    said: Facts = {**run.facts, "date": run.date or None}
    problems: list[Problem] = []
    facts: Facts = dict(DEFAULTS)
    for name in (*NEEDED, *DEFAULTS):
        given, own = options.get(name), said.get(name)
        value = own if given is None else given
        if given is not None and own is not None and _id(name, given, catalog) != _id(name, own, catalog):
            problems.append(
                Problem(
                    f"--{name.replace('_', '-')}", f"must be what {run.where} says ({quoted(own)})",
                    quoted(given), "the run itself says what it measured", "drop the option",
                )
            )  # fmt: skip
        if value is not None:
            facts[name] = value
    if "model" not in facts and find(catalog.models, run.model) is not None:
        facts["model"] = run.model
    problems += [_missing(name, run) for name in NEEDED if name not in facts]
    problems += [] if problems else _known(facts, run, catalog)
    return facts, problems


def _id(name: str, value: Any, catalog: Catalog) -> Any:
    """``value`` by its id where it names an entry of the catalog."""
    if name == "hardware":
        return _accelerator(str(value), catalog) or value
    known = {"model": catalog.models, "engine": catalog.engines}.get(name)
    found = find(known, str(value)) if known is not None else None
    return found.id if found is not None else value


def _accelerator(name: str, catalog: Catalog) -> str | None:
    accelerator = find(catalog.accelerators, name)
    if accelerator is not None:
        return accelerator.id
    machine = find(catalog.machines, name)
    return catalog.accelerator_of(machine).id if machine is not None else None


def _missing(name: str, run: Measurement) -> Problem:
    found = "nothing in the result or the options"
    if name == "model" and run.model:
        found = f'"{printable(run.model)}" in the result, which no entry of the catalog is called'
    examples = {
        "hardware": "an accelerator or machine of the catalog, such as h200-sxm",
        "gpus": "GPUs of all replicas",
        "tp": "tensor parallelism",
        "model": "a model of the catalog",
        "precision": "of the weights: fp8, bf16 …",
        "engine": "vllm, sglang …",
        "engine_version": "such as 0.33.0",
        "date": "when it was measured: 2026-11-30",
    }
    return Problem(
        f"--{name.replace('_', '-')}",
        f"must be given ({examples[name]})",
        found,
        "the factor holds for what was measured and nothing else",
        f"add --{name.replace('_', '-')} …",
    )


def _known(facts: Facts, run: Measurement, catalog: Catalog) -> list[Problem]:
    """Puts ids in the place of names; what the catalog or the estimator does not know is a problem."""
    accelerator = _accelerator(str(facts["hardware"]), catalog)
    names: list[tuple[str, Any, Sequence[str]]] = [
        ("hardware", accelerator, [*catalog.accelerators, *catalog.machines]),
        ("model", _found_id(catalog.models, facts["model"]), list(catalog.models)),
        ("engine", _found_id(catalog.engines, facts["engine"]), list(catalog.engines)),
    ]
    problems = [
        Problem(
            f"--{name}",
            f"must be in the catalog{nearest(str(facts[name]), known)}",
            quoted(facts[name]),
            "there is nothing to compare the measurement with",
            f"rackwright catalog list {'accelerator' if name == 'hardware' else name}",
        )
        for name, found, known in names
        if found is None
    ]
    if problems:
        return problems
    facts.update({name: found for name, found, _ in names})
    offered = catalog.models[facts["model"]].quantisations
    if facts["precision"] not in offered:
        return [
            Problem(
                "--precision",
                f"must be one that {facts['model']} is offered in{nearest(str(facts['precision']), offered)}",
                quoted(facts["precision"]),
                "plans are sized with those only",
                f"give {listing(sorted(offered))}, or add it to the model's entry",
            )
        ]
    return list(_impossible(facts, run, catalog))


def _found_id(known: Mapping[str, Any], name: Any) -> str | None:
    found = find(known, str(name))
    return found.id if found is not None else None


def _impossible(facts: Facts, run: Measurement, catalog: Catalog) -> Iterator[Problem]:
    """What cannot have been measured: replicas that are not whole, weights that do not fit."""
    each = facts["tp"] * facts["pp"] * facts["dp"]
    if facts["gpus"] % each:
        yield Problem(
            "--gpus",
            f"must be whole replicas of TP × PP × DP = {each}",
            str(facts["gpus"]),
            "throughput is that of all replicas together",
            "give the GPUs of all replicas that served the run",
        )
        return
    row = {
        "hardware": facts["hardware"], "n_gpus": str(facts["gpus"]), "tp": str(facts["tp"]),
        "pp": str(facts["pp"]), "dp": str(facts["dp"]), "model": facts["model"], "engine": facts["engine"],
        "wprec": facts["precision"], "concurrency_or_rate": "1",
    }  # fmt: skip
    try:
        case_of(row, catalog)
    except CannotEstimate as reason:
        yield Problem(
            run.where,
            "must be a run that can have been",
            str(reason),
            "a fact that is stated wrongly would become a factor",
            "mend the options",
        )


def _apart(taken: Sequence[tuple[Accepted, Facts]]) -> Iterator[Problem]:
    first_run, first = taken[0]
    for run, facts in taken[1:]:
        for name in _SAME:
            if facts[name] != first[name]:
                yield Problem(
                    f"{run.run.where} {name}",
                    f"must be that of {first_run.run.where} ({first[name]})",
                    str(facts[name]),
                    "one calibration is of one hardware, model, precision and engine version",
                    "calibrate each by itself",
                )


def _entry(taken: Sequence[tuple[Accepted, Facts]], catalog: Catalog, by: str) -> Made:
    facts = taken[0][1]
    sources = {f"run{i}": _source(run, f, by) for i, (run, f) in enumerate(taken, start=1)}
    points = [_point(run, f, f"run{i}") for i, (run, f) in enumerate(taken, start=1)]
    data: dict[str, Any] = {
        "id": _entry_id(facts),
        "kind": "calibration",
        "name": f"{facts['model']} {facts['precision']} on {facts['hardware']}, {facts['engine']} "
        f"{facts['engine_version']}: {len(points)} run{'' if len(points) == 1 else 's'}",
        "dated": max(str(f["date"]) for _, f in taken),
        "sources": sources,
        "hardware": facts["hardware"],
        "model": facts["model"],
        "precision": facts["precision"],
        "kv_cache": facts["kv_precision"],
        "engine": facts["engine"],
        "version": str(facts["engine_version"]),
        "points": points,
    }
    like = Shape(
        catalog.accelerators[facts["hardware"]],
        catalog.models[facts["model"]],
        facts["precision"],
        catalog.engines[facts["engine"]],
        1,
    )
    bare = _validated({**data, "factors": _factors([Ratios(1.0, None, None)], data["dated"])}, taken)
    shapes = tuple(measured_shape(bare, point, like) for point in bare.points)
    ratios = tuple(ratios_of(point, shape) for point, shape in zip(bare.points, shapes, strict=True))
    problems = list(_incredible(taken, ratios))
    if problems:
        raise InputErrors(problems)
    data["factors"] = _factors(ratios, data["dated"])
    return Made(_validated(data, taken), dump_yaml(data), ratios, shapes)


def _incredible(taken: Sequence[tuple[Accepted, Facts]], ratios: Sequence[Ratios]) -> Iterator[Problem]:
    most = limit("accepted", "largest_factor")
    for (run, facts), ratio in zip(taken, ratios, strict=True):
        if not 1 / most <= ratio.throughput <= most:
            yield Problem(
                f"{run.run.where} throughput",
                f"must be within a factor of {most:g} of the prediction "
                f"({run.run.output_tok_s / ratio.throughput:,.0f} tok/s)",
                f"{run.run.output_tok_s:,.0f} tok/s, × {ratio.throughput:.3g}",
                f"{facts['gpus']} × {facts['hardware']} with TP {facts['tp']} do not differ so much: a "
                "stated fact is wrong, or the client was the limit",
                "check --hardware, --gpus, --tp, --precision and the concurrency",
            )


def _validated(data: Mapping[str, Any], taken: Sequence[tuple[Accepted, Facts]]) -> CalibrationEntry:
    try:
        return CalibrationEntry.model_validate(data)
    except ValidationError as error:
        raise InputErrors(
            [
                Problem(
                    taken[0][0].run.where,
                    str(item["msg"]).removeprefix("Value error, "),
                    quoted(item.get("input")),
                    "the entry would not be read",
                    f"mend {'.'.join(map(str, item['loc']))}",
                )
                for item in error.errors()
            ]
        ) from None


def _source(taken: Accepted, facts: Facts, by: str) -> str:
    run = taken.run
    who = f", by {printable(by)}" if by else ""
    return f"{run.tool}: {Path(run.where).name} (sha256 {run.sha256[:12]}), measured {facts['date']}{who}"


def _point(taken: Accepted, facts: Facts, source: str) -> dict[str, Any]:
    run = taken.run

    def figure(value: float, unit: str) -> dict[str, Any]:
        return {
            "value": float(f"{value:.6g}"), "unit": unit, "source": source, "verified": True,
            "date": str(facts["date"]),
        }  # fmt: skip

    point: dict[str, Any] = {
        "gpus": facts["gpus"],
        "tensor_parallel": facts["tp"],
        "pipeline_parallel": facts["pp"],
        "data_parallel": facts["dp"],
        "concurrency": figure(taken.concurrency, "requests"),
        "input": figure(run.input_tokens, "tokens"),
        "output": figure(run.output_tokens, "tokens"),
        "requests": figure(run.completed, "requests"),
        "throughput": figure(run.output_tok_s, "tok/s"),
    }
    if taken.ttft_ms is not None:
        point["ttft"] = figure(taken.ttft_ms, "ms")
    if run.tpot_ms is not None:
        point["tpot"] = figure(run.tpot_ms, "ms")
    if taken.remarks:
        point["remarks"] = list(taken.remarks)
    return point


def _factors(ratios: Sequence[Ratios], dated: str) -> dict[str, Any]:
    factors: dict[str, Any] = {"estimator": constants.digest()[:12]}
    for name in ("throughput", "ttft", "tpot"):
        found = factor_of(name, [getattr(ratio, name) for ratio in ratios])
        if found is not None:
            factors[name] = _ratio(found, dated)
    return factors


def _ratio(factor: Factor, dated: str) -> dict[str, Any]:
    return {
        "value": float(f"{factor.value:.4g}"), "low": float(f"{factor.low:.4g}"),
        "high": float(f"{factor.high:.4g}"), "unit": "measured/predicted",
        "source": f"geometric mean of {factor.count} measured / predicted, 80 % interval", "verified": True,
        "date": dated,
    }  # fmt: skip


def _entry_id(facts: Facts) -> str:
    cache = "-kv-fp8" if facts["kv_precision"] == "fp8" else ""
    parts = (facts[name] for name in ("hardware", "model", "precision", "engine", "engine_version"))
    whole = re.sub(r"[^a-z0-9._-]+", "-", "-".join(map(str, parts)).lower()).strip("-._") + cache
    if len(whole) <= LONGEST:
        return whole
    return f"{whole[: LONGEST - 9]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
