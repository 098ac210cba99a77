"""Rank the hardware that can serve a workload, and say why the rest cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import get_args

import click

from rackwright.catalog import load_catalog
from rackwright.cli.messages import located
from rackwright.errors import RackwrightError
from rackwright.files import say
from rackwright.sizing.joint import named_services
from rackwright.sizing.search import Found, Lost, Option, search, why_behind
from rackwright.workload import Objective, Workload, load_workload
from rackwright.yamlio import load_yaml


@click.command(
    name="search",
    help=__doc__,
    epilog="Exit status: 0 something serves it, 1 nothing does, 2 the workload is wrong.",
)
@click.argument("workload", type=click.Path(path_type=Path))
@click.option("--objective", type=click.Choice(get_args(Objective)), help="Instead of the workload's.")
@click.option("--engine", help="Instead of the workload's; auto searches over those that plans can start.")
@click.option("--top", type=click.IntRange(1, 1000), default=10, show_default=True, help="Options to print.")
@click.option("--json", "as_json", is_flag=True, help="All options and refusals as JSON.")
def command(workload: Path, objective: Objective | None, engine: str | None, top: int, as_json: bool) -> None:
    asked = load_workload(workload)
    if objective is not None:
        asked = asked.model_copy(update={"search": asked.search.model_copy(update={"objective": objective})})
    if engine is not None:
        asked = asked.model_copy(update={"engine": engine})
    found = {name: _found(service, workload) for name, service in named_services(asked)}
    if as_json:
        data = {name: _data(each) for name, each in found.items()}
        say(json.dumps(data if asked.also else data[asked.name], ensure_ascii=False, indent=1))
        return
    for name, service in named_services(asked):
        if asked.also:
            say(f"service {name}: {service.users.dau:,} daily users, {service.model.id}")
        say("\n".join(_lines(found[name], service, workload, top)))


def _found(service: Workload, path: Path) -> Found:
    try:
        return search(service, load_catalog())
    except RackwrightError as error:
        raise located(error, load_yaml(path)) from None


def _data(found: Found) -> dict[str, object]:
    return {
        "objective": found.objective,
        "options": [_option(o, found) for o in found.options],
        "refused": [
            {
                "machine": r.machine,
                "quantisation": r.quantisation,
                "engine": r.engine,
                "constraint": r.constraint,
                "why": r.text,
            }
            for r in found.lost
        ],
    }


def _option(option: Option, found: Found) -> dict[str, object]:
    shape, at = option.chosen.candidate.shape, option.chosen.candidate.at
    return {
        "machine": option.machine.id,
        "quantisation": option.quantisation,
        "engine": option.workload.engine,
        "fabric": option.workload.hardware.fabric,
        "nodes": option.nodes,
        "replicas": option.chosen.replicas,
        "tensor_parallel": shape.tp,
        "pipeline_parallel": shape.pp,
        "data_parallel": shape.dp,
        "output_tok_s_replica": round(at.output_tok_s, 1),
        "output_tok_s_replica_low": round(at.low, 1),
        "evidence": option.evidence,
        "currency": option.currency,
        "capex": round(option.capex),
        "tco": round(option.tco),
        "cost_per_million": round(option.cost_per_million, 4),
        "energy_kwh_per_million": round(option.energy_kwh_per_million, 4),
        "why": "best" if option is found.best else why_behind(option, found.best, found.objective),
    }


def _lines(found: Found, asked: Workload, path: Path, top: int) -> Iterator[str]:
    currency = found.best.currency
    yield f"{len(found.options)} options by {found.objective}, {len(found.lost)} refused"
    yield ""
    yield (
        f"{'machine':<18} {'precision':<9} {_engine('engine', found)}{'nodes':>5}  {'layout':<14} "
        f"{f'capex, {currency}':>15} {f'tco, {currency}':>15} {f'{currency}/M tok':>10} {'kWh/M tok':>9}  "
        "evidence"
    )
    for option in found.options[:top]:
        shape = option.chosen.candidate.shape
        layout = f"{option.chosen.replicas} × TP{shape.tp}" + "".join(
            f" × {name}{count}" for name, count in (("PP", shape.pp), ("DP", shape.dp)) if count > 1
        )
        yield (
            f"{option.machine.id:<18} {option.quantisation:<9} "
            f"{_engine(option.workload.engine, found)}{option.nodes:>5}  {layout:<14} "
            f"{option.capex:>15,.0f} {option.tco:>15,.0f} {option.cost_per_million:>10,.2f} "
            f"{option.energy_kwh_per_million:>9,.2f}  {option.evidence}"
        )
    if len(found.options) > top:
        yield f"… and {len(found.options) - top} more: --top {len(found.options)}"
    yield ""
    yield from _refused(found.lost)
    yield ""
    yield f"next  rackwright size {quote(str(path))} -o plan.yaml" + (
        "" if asked.hardware.machine else "   (takes the first)"
    )


def _engine(text: str, found: Found) -> str:
    """A column that is there only where engines were compared."""
    return f"{text:<11} " if found.several_engines else ""


def _refused(lost: tuple[Lost, ...]) -> Iterator[str]:
    """By reason: a fleet of refusals with one cause is one line."""
    reasons: dict[str, list[Lost]] = {}
    for item in lost:
        reasons.setdefault(item.constraint, []).append(item)
    for constraint, items in sorted(reasons.items(), key=lambda pair: -max(i.stage for i in pair[1])):
        names = ", ".join(dict.fromkeys(i.machine for i in items))
        yield click.wrap_text(f"refused by {constraint} ({len(items)}): {names}", 110, "", "    ")
        yield click.wrap_text(f"such as {items[0].machine}: {items[0].text}", 110, "    ", "    ")
