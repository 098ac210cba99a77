"""python -m tools.rack: bring a simulated rack up, plant faults, take it down."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from rackwright.errors import InputErrors, Problem
from tools import cli
from tools.rack.faults import FAULTS
from tools.rack.rack import load_rack
from tools.rack.run import Rack

DIRECTORY = cli.directory("rack")


@click.group(help="A simulated rack: hosts on loopback addresses that answer by SSH as real machines would.")
def main() -> None:
    pass


@main.command()
@click.argument("rack", type=click.Path(path_type=Path))
@DIRECTORY
@click.option("--load", type=click.Choice(["idle", "full"]), help="Instead of the load that the file names.")
@cli.reported
def up(rack: Path, directory: Path, load: str | None) -> None:
    """Start the hosts that the file RACK describes; prints the inventory's path."""
    spec = load_rack(rack)
    if load:
        spec = spec.model_copy(update={"load": load})
    running = Rack(spec, directory, progress=cli.say)
    running.up()
    click.echo(running.inventory)
    click.echo(f"next  rackwright preflight --hosts {running.inventory}", err=True)


@main.command()
@DIRECTORY
@cli.reported
def down(directory: Path) -> None:
    """Stop the rack's processes and remove its hosts; also after a crash."""
    click.echo(f"{Rack.to_end(directory).down()} hosts stopped")


@main.command()
@DIRECTORY
@cli.reported
def status(directory: Path) -> None:
    """Which hosts run, with which faults. Exit 1 where one that should run does not."""
    running = Rack.open(directory)
    unknown = running.unknown_commands()
    missing = 0
    for name, alive in running.status().items():
        host = running.hosts[name]
        should = running.state(name).login.up
        missing += should and not alive
        word = "up" if alive else "down (planted)" if not should else "DOWN"
        faults = ", ".join(f["fault"] for f in host.faults)
        click.echo(f"{name}  {host.address}:{running.spec.port}  {word}  {faults}".rstrip())
        for line in unknown.get(name, []):
            click.echo(f"    no recording of: {line}")
    sys.exit(1 if missing else 0)


@main.command()
def faults() -> None:
    """All faults that can be planted, and the checks that must report each."""
    for area in sorted({f.area for f in FAULTS.values()}):
        click.echo(f"{area}:")
        for fault in sorted((f for f in FAULTS.values() if f.area == area), key=lambda f: f.name):
            finds = " ".join(str(f) for f in fault.finds) or "nothing may be reported"
            arguments = "".join(f" [{name}=]" for name in fault.args)
            click.echo(f"  {fault.name}{arguments}\n      {fault.description}\n      → {finds}")


@main.command()
@DIRECTORY
@click.option("--host", required=True)
@click.option("--fault", required=True, help="A name from `faults`.")
@click.option(
    "--arg", "arguments", multiple=True, metavar="NAME=VALUE", help="Such as gpu=3; may be repeated."
)
@cli.reported
def plant(directory: Path, host: str, fault: str, arguments: Sequence[str]) -> None:
    """Plant a fault on a running host."""
    Rack.open(directory).plant(host, fault, _parsed(arguments))
    click.echo(f"{host}: {FAULTS[fault].description}")


@main.command()
@DIRECTORY
@click.option("--host", required=True)
@click.option("--fault", help="Left out: all of them.")
@cli.reported
def heal(directory: Path, host: str, fault: str | None) -> None:
    """Take a fault, or all, from a running host."""
    Rack.open(directory).heal(host, fault)
    click.echo(f"{host}: healed")


def _parsed(arguments: Sequence[str]) -> dict[str, str]:
    parsed = {}
    for text in arguments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputErrors(
                Problem(
                    "--arg",
                    "must be NAME=VALUE",
                    f'"{text}"',
                    "",
                    "such as --arg gpu=3; see: python -m tools.rack faults",
                )
            )
        parsed[name] = value
    return parsed


if __name__ == "__main__":
    main(prog_name="python -m tools.rack")
