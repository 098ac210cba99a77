"""Size a workload into a plan: nodes, layout, fabric, flags, expectations, cost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import click

from rackwright.catalog import Catalog, load_catalog
from rackwright.cli.messages import located
from rackwright.errors import CannotRun, Problem, RackwrightError
from rackwright.files import say, write_whole
from rackwright.plan import Cost, Plan, save_plan
from rackwright.plan.cost import Way
from rackwright.plan.deployments import Deployment
from rackwright.plan.shares import Share
from rackwright.sizing.joint import plan_of
from rackwright.workload import load_workload
from rackwright.yamlio import load_yaml


@click.command(
    name="size",
    help=__doc__,
    epilog="Exit status: 0 sized, 1 it cannot be met, 2 the workload is wrong.",
)
@click.argument("workload", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the plan here.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a report here, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON instead of the summary.")
def command(workload: Path, output: Path | None, html: Path | None, as_json: bool) -> None:
    asked = load_workload(workload)
    if output is not None:
        _keep_others(output)
    catalog = load_catalog()
    try:
        plan = plan_of(asked, catalog)
    except RackwrightError as error:
        raise located(error, load_yaml(workload)) from None
    pages = _pages(plan, catalog, html) if html is not None else {}
    if output is not None:
        save_plan(plan, output)
    for place, text in pages.items():
        write_whole(place, text)
    if as_json:
        say(json.dumps({"digest": plan.digest, **plan.as_dict()}, ensure_ascii=False, indent=1))
        return
    say("\n".join(summary(plan, workload, output)))


def _pages(plan: Plan, catalog: Catalog, html: Path) -> dict[Path, str]:
    from rackwright.report.sizing import pages

    return pages(plan, catalog, html)


def _keep_others(output: Path) -> None:
    """Only a plan is replaced: the workload itself is one mistyped name away.

    Raises:
        CannotRun: ``output`` is there and is no plan.
    """
    try:
        if not output.is_file() or output.stat().st_size == 0:
            return
        with output.open("rb") as stream:
            head = stream.read(4096)
    except (OSError, ValueError):
        return
    if not re.search(rb"^schema: [\"']?rackwright/plan/", head, re.MULTILINE):
        raise CannotRun(
            Problem(
                str(output),
                "must be a plan, or not exist yet",
                "a file that is no plan",
                "it would be replaced",
                "write the plan elsewhere, or remove that file first",
            )
        )


def summary(plan: Plan, workload: Path, output: Path | None) -> Iterator[str]:
    """The plan on one screen, by line."""
    for name, lines in _rows(plan):
        for index, line in enumerate(lines):
            yield f"{name if index == 0 else '':<11}{line}".rstrip()
    yield ""
    yield from _cautions(plan)
    target, source = quote(str(output or "plan.yaml")), quote(str(workload))
    yield f"next       {f'review {target}' if output else f'rackwright size {source} -o {target}'}, then:"
    yield f"           rackwright check {target}"
    yield f"           rackwright explain {target}"
    yield f"           rackwright render {target} -o rendered"
    yield f"           rackwright inventory {target}"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _millions(count: float) -> str:
    return f"{count / 1e6:,.0f}" if count >= 1e7 else f"{count / 1e6:.3g}"


def _rows(plan: Plan) -> Iterator[tuple[str, list[str]]]:
    load, cost, users = plan.load, plan.cost, plan.workload.users
    assert load is not None
    assert cost is not None
    yield "plan", [f"{plan.header.name}  digest {plan.digest[:12]}"]
    daily = f"{_many(users.dau, 'daily user')}, {users.scenario}" if not plan.shares else "all services"
    yield (
        "load",
        [
            f"{daily}: {_millions(load.tokens_per_day)} M tokens a day",
            f"peak {load.peak_output_tok_s:,.0f} tok/s out, {load.peak_input_tok_s:,.0f} in, "
            f"{load.peak_requests_per_s:,.2f} requests/s, {load.concurrency:,.0f} at a time",
        ],
    )
    if plan.shares:
        racks = list(plan.racks())
        yield (
            "racks",
            [
                f"{len(racks)}, {'of all services' if plan.tenancy else 'each of one service'}; "
                f"{cost.full_load_w / 1000:,.1f} kW in all at full load"
            ],
        )
    for index, deployment in enumerate(plan.deployments):
        if plan.shares:
            yield from _share(plan, plan.shares[index], index)
        yield from _deployment(plan, deployment)
    if plan.shares:
        yield "", [""]
    yield "cost", list(_cost(cost))
    yield from _alternatives(plan)


def _share(plan: Plan, share: Share, index: int) -> Iterator[tuple[str, list[str]]]:
    workload = plan.workload
    users = workload.also[index - 1].users if index else workload.users
    yield "", [""]
    yield (
        "service",
        [
            f"{share.service}: {_many(users.dau, 'daily user')}, {users.scenario}, "
            f"{_millions(share.load.tokens_per_day)} M tokens a day, "
            f"peak {share.load.peak_output_tok_s:,.0f} tok/s out; {'its share' if plan.tenancy else 'alone'} "
            f"{share.cost.month.amount:,.0f} {share.cost.currency} a month"
        ],
    )


def _deployment(plan: Plan, deployment: Deployment) -> Iterator[tuple[str, list[str]]]:
    pool = plan.pool(deployment.pool)
    layout, held, at = deployment.layout, deployment.memory, deployment.estimate
    place = plan.tenancy.place(deployment.name) if plan.tenancy else None
    piece = "slice" if deployment.resources.resource else "GPU"
    yield (
        "model",
        [
            f"{deployment.model} {deployment.weights.quantisation}, {deployment.context_tokens:,} tokens of "
            f"context, {deployment.engine.name} {deployment.engine.version}"
        ],
    )
    yield (
        "layout",
        [
            f"{_many(layout.replicas, 'replica')} × {layout.words} "
            f"({_many(layout.gpus_per_replica, 'GPU')} on {_many(layout.nodes_per_replica, 'node')} each)"
        ]
        if place is None
        else [
            f"{_many(layout.replicas, 'replica')} × {place.each} {place.resource}, at most "
            f"{place.per_node} a node"
        ],
    )
    if deployment.adapters is not None:
        found = deployment.adapters
        yield (
            "adapters",
            [
                f"{len(found.adapters)} in {_many(found.active, 'slot')} of rank {found.max_rank}, "
                f"{found.slot_mib:,.0f} MiB a GPU each; {found.cached} in host memory, {found.host_gib:g} GiB"
            ],
        )
    spares = f", {pool.spares} of them spare" if pool.spares else ", no spare"
    yield (
        "nodes",
        [f"{len(pool.nodes)} × {pool.machine} ({pool.gpus_per_node} × {pool.accelerator}){spares}"],
    )
    standing = {node.rack for node in pool.nodes}
    racks = [rack for rack in plan.racks() if rack.name in standing]
    fullest = max(racks, key=lambda rack: rack.planned_full_load_w)
    drawn = fullest.planned_full_load_w * fullest.power_factor / 1000
    yield (
        "racks",
        [
            f"{len(racks)}; fullest {drawn:,.1f} of {fullest.rating_w / 1000:,.1f} kW "
            f"({_many(len(fullest.nodes), 'node')} at full load × {fullest.power_factor:g}); "
            f"{sum(rack.planned_full_load_w for rack in racks) / 1000:,.1f} kW in all"
        ],
    )
    used = held.weights_gib + held.kv_gib + held.activations_gib
    yield (
        "memory",
        [
            f"{used:,.1f} of {held.total_gib:,.1f} GiB a {piece} "
            f"({100 * used / held.total_gib:.1f} %, red line 85 %): weights {held.weights_gib:,.1f}, "
            f"KV {held.kv_gib:,.1f}, activations {held.activations_gib:,.1f}",
            f"KV cache of {held.kv_tokens:,} tokens a replica",
        ],
    )
    interval = f"80 %: {at.output_tok_s_low:,.0f}–{at.output_tok_s_high:,.0f}, {at.evidence}"
    yield (
        "estimate",
        [
            f"{at.output_tok_s:,.0f} tok/s a replica at {at.concurrency:,.0f} requests ({interval}); "
            "planned on the low end",
            f"{at.tpot_ms:,.1f} ms a token (objective {deployment.slo.tpot_p50_ms:g}), "
            f"first token {at.ttft_ms:,.0f} ms (objective p95 {deployment.slo.ttft_p95_ms:g})",
            *([f"calibrated by {at.calibration}"] if at.calibration else []),
        ],
    )


def _cost(cost: Cost) -> Iterator[str]:
    """What it costs to own, what else there is, and what moves the figure most."""
    unit, months = cost.currency, cost.depreciation_months
    yield f"{cost.capex.amount:,.0f} {unit} to buy; {cost.tco.amount:,.0f} {unit} in {months} months"
    yield (
        f"{cost.month.amount:,.0f} {unit} a month: depreciation {cost.depreciation_month.amount:,.0f}, power "
        f"{cost.power_month.amount:,.0f}, space {cost.space_month.amount:,.0f}, staff "
        f"{cost.staff_month.amount:,.0f}"
    )
    yield (
        f"{cost.per_million_tokens.amount:,.2f} {unit} a million tokens of this load; by the guide's "
        f"convention {cost.per_million_guide.amount:,.2f} {unit}"
    )
    for way in cost.ways[1:]:
        yield f"{way.name.partition(',')[0]}: {way.month.amount:,.0f} {unit} a month; {_pays(way)}"
    widest = cost.sensitivity[0]
    ends = sorted((widest.at_low.amount, widest.at_high.amount))
    yield f"most sensitive to {widest.name}: {ends[0]:,.0f} to {ends[1]:,.0f} {unit} in {months} months"
    yield f"price list {cost.prices}, {cost.prices_why}" + (f", region {cost.region}" if cost.region else "")


def _pays(way: Way) -> str:
    """When owning pays against ``way``: by which month at this load, and from how many daily users."""
    if way.break_even_month is None and way.break_even_users is None:
        return "owning never pays"
    month = f"by month {way.break_even_month}" if way.break_even_month else "never at this load"
    users = way.break_even_users
    many = f", from {users:,} daily users a month costs less" if users is not None and users > 1 else ""
    return f"owning pays {month}{many}"


def _alternatives(plan: Plan) -> Iterator[tuple[str, list[str]]]:
    looked = plan.alternatives
    if looked is None:
        return
    lines = [
        f"best of {looked.considered} by {looked.objective}: {looked.value:,.4g} {looked.unit}"
        if looked.value < 1000
        else f"best of {looked.considered} by {looked.objective}: {looked.value:,.0f} {looked.unit}"
    ]
    lines += [looked.engine_why] if looked.engine_why else []
    lines += [f"then {o.machine} {o.quantisation}{_with(o.engine)}: {o.why}" for o in looked.runners_up[:3]]
    yield "chosen", lines


def _with(engine: str | None) -> str:
    return f" with {engine}" if engine else ""


def _cautions(plan: Plan) -> Iterator[str]:
    if not plan.cautions:
        return
    yield "cautions"
    for caution in plan.cautions:
        mark = "suppressed " if caution.suppressed else f"{caution.severity:<7}"
        text = f"{caution.text} [{caution.suppressed}]" if caution.suppressed else caution.text
        yield click.wrap_text(f"{mark}{caution.id}: {text}", 110, "  ", " " * 9)
    yield ""
    refused = [caution.id for caution in plan.cautions if caution.severity == "refuse"]
    if refused:
        yield f"refused    {', '.join(refused)}: rackwright check reports it until the workload changes"
        yield ""
