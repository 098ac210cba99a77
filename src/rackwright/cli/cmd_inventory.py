"""Write an inventory with every node of a plan."""

from __future__ import annotations

import os
from pathlib import Path

import click

from rackwright.errors import CannotRun, Problem


@click.command(name="inventory", help=__doc__)
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File (default: standard output)."
)
@click.option("--force", is_flag=True, help="Overwrite an inventory that exists.")
def command(plan_file: Path, output: Path | None, force: bool) -> None:
    from rackwright.inventory import inventory_from_plan
    from rackwright.plan import load_plan

    plan = load_plan(plan_file)
    if output is None:
        click.echo(inventory_from_plan(plan, str(plan_file)), nl=False)
        return
    if output.exists() and not force:
        raise CannotRun(
            Problem(
                str(output), "must not exist yet", "an inventory", "addresses added by hand would be lost",
                f"rackwright inventory {plan_file} -o {output} --force",
            )
        )  # fmt: skip
    reference = os.path.relpath(plan_file, output.parent)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(inventory_from_plan(plan, reference), encoding="utf-8")
    nodes = sum(len(pool.nodes) for pool in plan.pools)
    click.echo(f"{output}: {nodes} hosts. Next: rackwright enrol --hosts {output}")
