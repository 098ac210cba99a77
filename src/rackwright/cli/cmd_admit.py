"""Print the commands that let proven new nodes take pods.

PLAN is the plan whose nodes were made, RESULTS the results.json of a whole preflight run of it. A node keeps
its startup taint unless every check was measured on it and none that blocks failed.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click


@click.command(
    name="admit",
    help=__doc__,
    epilog="Nothing is changed: pipe the output to sh. Exit status: 0 every node passed, 1 a node is held "
    "back, 2 bad input, or results that say nothing of this plan.",
)
@click.argument("plan", type=click.Path(path_type=Path))
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "--node",
    "names",
    metavar="HOST=NODE",
    multiple=True,
    help="Name in the cluster of a host, where the provider named it.",
)
@click.option(
    "--max-age",
    type=click.FloatRange(min=0, min_open=True),
    default=24.0,
    show_default=True,
    metavar="HOURS",
    help="The oldest results that count.",
)
def command(plan: Path, results: Path, names: tuple[str, ...], max_age: float) -> None:
    from rackwright.admission import admitted
    from rackwright.cli.cmd_report import read_results
    from rackwright.cli.messages import visible
    from rackwright.plan import load_plan

    pairs = [name.partition("=") for name in names]
    if any(not (host and node) for host, _, node in pairs):
        raise click.UsageError("--node takes HOST=NODE")
    found = admitted(
        load_plan(plan),
        read_results(results),
        {host: node for host, _, node in pairs},
        now=datetime.now(UTC),
        max_age_h=max_age,
    )
    for line in found.commands:
        click.echo(line)
    for host, why in found.held.items():
        click.echo(visible(f"held back  {host}: {why}"), err=True)
    sys.exit(1 if found.held else 0)
