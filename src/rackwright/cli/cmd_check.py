"""Prove a plan again: derived as its workload says, red lines kept, flags that exist."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from rackwright.catalog import load_catalog
from rackwright.sizing.check import check, load_for_check


@click.command(
    name="check",
    help=__doc__,
    epilog="Exit status: 0 nothing found, 1 findings, 2 the plan cannot be read.",
)
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON.")
def command(plan: Path, as_json: bool) -> None:
    loaded = load_for_check(plan)
    problems = check(loaded, load_catalog())
    if as_json:
        click.echo(json.dumps([vars(problem) for problem in problems], ensure_ascii=False, indent=1))
    else:
        for problem in problems:
            click.echo(str(problem))
        click.echo(f"{plan}: {len(problems)} findings" if problems else f"{plan}: as its workload gives it")
    if problems:
        sys.exit(1)
