"""Say what applying one plan over another changes, restarts and keeps serving."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from stacks.comparison import Comparison, Restart

SHOWN_PATHS = 4


@click.command(
    name="diff",
    help=__doc__,
    epilog="No cluster is asked: compare with what runs by make preview. Exit status: 0 nothing changes, "
    "1 something does, 2 bad input.",
)
@click.argument("plan_a", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("plan_b", type=click.Path(path_type=Path, dir_okay=False))
def command(*, plan_a: Path, plan_b: Path) -> None:
    from rackwright.plan import load_plan
    from stacks.comparison import compare

    found = compare(load_plan(plan_a), load_plan(plan_b))
    click.echo("\n".join(_lines(found)))
    sys.exit(0 if found.same else 1)


def _lines(found: Comparison) -> list[str]:
    if found.same:
        return ["nothing changes but the plan's record"] if found.changed else ["nothing changes"]
    lines = [_restart(restart) for restart in found.restarts]
    lines += [] if found.restarts else ["nothing restarts"]
    lines += [f"create  {identity}" for identity in found.created]
    lines += [f"delete  {identity}" for identity in found.deleted]
    for identity, paths in found.changed.items():
        if identity == found.record:
            lines.append(f"record  {identity}: the plan's digest")
            continue
        more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
        lines.append(f"change  {identity}: {', '.join(paths[:SHOWN_PATHS])}{more}")
    return lines


def _restart(restart: Restart) -> str:
    if not restart.pool:
        return f"restart {restart.kind} {restart.name}: one pod beside the engines"
    return (
        f"restart {restart.kind} {restart.name}: {restart.replicas} replicas on {restart.nodes} nodes of "
        f"pool {restart.pool}; at least {restart.kept} of {restart.replicas} serve meanwhile"
    )
