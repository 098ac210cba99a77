"""Write an inventory with every node of a plan."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

import click

from rackwright.errors import CannotRun, Problem
from rackwright.files import say, write_whole


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
        say(inventory_from_plan(plan, str(plan_file)), newline=False)
        return
    if _exists(output) and not force:
        raise CannotRun(
            Problem(
                str(output), "must not exist yet", "an inventory", "addresses added by hand would be lost",
                f"rackwright inventory {quote(str(plan_file))} -o {quote(str(output))} --force",
            )
        )  # fmt: skip
    reference = os.path.relpath(plan_file, output.parent)
    write_whole(output, inventory_from_plan(plan, reference))
    nodes = sum(len(pool.nodes) for pool in plan.pools)
    say(f"{output}: {nodes} hosts. Next: rackwright enrol --hosts {quote(str(output))}")


def _exists(output: Path) -> bool:
    """Whether a file is there to be lost; a place that cannot be looked at is for the writer to report."""
    try:
        return output.is_file() and output.stat().st_size > 0
    except (OSError, ValueError):
        return False
