"""python -m tools.lab: a real control plane with simulated nodes, up and down."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from rackwright.errors import RackwrightError
from rackwright.plan import load_plan
from tools.lab.lab import Lab

DIRECTORY = click.option(
    "--dir", "directory", type=click.Path(path_type=Path, file_okay=False), required=True,
    help="Where the lab lives.",
)  # fmt: skip


def _reported(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except RackwrightError as error:
            click.echo(str(error), err=True)
            sys.exit(error.exit_code)

    return run


def _say(text: str) -> None:
    click.echo(text, err=True)


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@click.argument("plan", type=click.Path(path_type=Path))
@DIRECTORY
@_reported
def up(plan: Path, directory: Path) -> None:
    """Start the control plane and the nodes of PLAN; prints the kubeconfig's path."""
    lab, began = Lab(directory, _say), time.monotonic()
    lab.raise_up(load_plan(plan))
    _say(f"up in {time.monotonic() - began:.1f} s; identity {lab.identity}")
    click.echo(lab.kubeconfig)


@main.command()
@DIRECTORY
@_reported
def down(directory: Path) -> None:
    """Stop the lab's processes and remove its directory; also after a crash."""
    lab = Lab.open(directory, _say)
    count = sum(p.alive for p in lab.processes)
    left = lab.down()
    click.echo(f"{count - len(left)} processes stopped")
    if left:
        click.echo(f"still there: {', '.join(left)}", err=True)
        sys.exit(1)


@main.command()
@DIRECTORY
@_reported
def status(directory: Path) -> None:
    """Which processes run, and where the definitions came from."""
    lab = Lab.open(directory, _say)
    for process in lab.processes:
        click.echo(f"{process.name:<26}{'running' if process.alive else 'ended'}")
    for name, origin in sorted(lab.origins.items()):
        click.echo(f"{origin:<10}{name}")
    sys.exit(0 if all(p.alive for p in lab.processes) else 1)


if __name__ == "__main__":
    main()
