"""python -m tools.lab: a real control plane with simulated nodes, up and down."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from rackwright.plan import load_plan
from tools import cli
from tools.lab.lab import Lab

DIRECTORY = cli.directory("lab")


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@click.argument("plan", type=click.Path(path_type=Path))
@DIRECTORY
@cli.reported
def up(plan: Path, directory: Path) -> None:
    """Start the control plane and the nodes of PLAN; prints the kubeconfig's path."""
    lab, began = Lab(directory, cli.say), time.monotonic()
    lab.raise_up(load_plan(plan))
    cli.say(f"up in {time.monotonic() - began:.1f} s; identity {lab.identity}")
    click.echo(lab.kubeconfig)


@main.command()
@click.argument("plan", type=click.Path(path_type=Path))
@DIRECTORY
@cli.reported
def apply(plan: Path, directory: Path) -> None:
    """pulumi up of PLAN in the lab, then what runs where. Its state is kept in the lab."""
    from tools.lab.apply import apply as run

    sys.exit(run(Lab.open(directory, cli.say), plan, cli.say, click.echo))


@main.command()
@DIRECTORY
@cli.reported
def down(directory: Path) -> None:
    """Stop the lab's processes and remove its directory; also after a crash."""
    lab = Lab.open(directory, cli.say)
    count = sum(p.alive for p in lab.processes)
    left = lab.down()
    click.echo(f"{count - len(left)} processes stopped")
    if left:
        click.echo(f"still there: {', '.join(left)}", err=True)
        sys.exit(1)


@main.command()
@DIRECTORY
@cli.reported
def status(directory: Path) -> None:
    """Which processes run, and where the definitions came from."""
    lab = Lab.open(directory, cli.say)
    for process in lab.processes:
        click.echo(f"{process.name:<26}{'running' if process.alive else 'ended'}")
    for name, origin in sorted(lab.origins.items()):
        click.echo(f"{origin:<10}{name}")
    sys.exit(0 if all(p.alive for p in lab.processes) else 1)


if __name__ == "__main__":
    main()
