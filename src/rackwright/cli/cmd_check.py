"""Prove a plan again: derived as its workload says, red lines kept, flags that exist."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from rackwright.catalog import load_catalog
from rackwright.cli.messages import visible
from rackwright.files import say
from rackwright.sizing.check import check, notes, read_for_check


@click.command(
    name="check",
    help=__doc__,
    epilog="Exit status: 0 nothing found, 1 findings, 2 the plan cannot be read.",
)
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON.")
def command(plan: Path, as_json: bool) -> None:
    loaded, edited = read_for_check(plan)
    catalog = load_catalog()
    problems = [*check(loaded, catalog), *edited]
    if as_json:
        say(json.dumps([vars(problem) for problem in problems], ensure_ascii=False, indent=1))
    else:
        count = f"{len(problems)} finding{'' if len(problems) == 1 else 's'}"
        said = [*map(str, problems), *(f"info {note}" for note in notes(loaded, catalog))]
        said.append(f"{plan}: {count}" if problems else f"{plan}: as its workload gives it")
        say(visible("\n".join(said)))
    if problems:
        sys.exit(1)
