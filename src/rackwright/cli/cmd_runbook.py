"""Write the bring-up runbook of a plan's racks as Markdown."""

from __future__ import annotations

from pathlib import Path

import click

from rackwright.files import write_whole


@click.command(name="runbook", help=__doc__)
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File (default: standard output)."
)
def command(plan_file: Path, output: Path | None) -> None:
    from checks import registry
    from checks.report import runbook
    from rackwright.plan import load_plan

    plan = load_plan(plan_file)
    text = runbook.runbook(plan, registry.load(), plan_file=str(plan_file))
    if output is None:
        click.echo(text, nl=False)
        return
    write_whole(output, text)
    click.echo(f"wrote {output}", err=True)
