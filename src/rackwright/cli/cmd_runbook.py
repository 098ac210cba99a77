"""Write the bring-up runbook of a plan's racks as Markdown."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from rackwright.errors import CannotRun, Problem


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
    _write(output, text)
    click.echo(f"wrote {output}", err=True)


def _write(output: Path, text: str) -> None:
    """Whole or not at all."""
    part = output.with_name(f".{output.name}.part")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(output)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise CannotRun(
            Problem(
                str(output),
                "must be a file that can be written",
                error.strerror or str(error),
                "the runbook was not written; what was there is unchanged",
                "choose another file: rackwright runbook PLAN -o FILE",
            )
        ) from None
