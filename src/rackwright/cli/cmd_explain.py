"""Say how a number of a plan came about: formula, inputs, source, evidence."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rackwright.plan import load_plan
from rackwright.sizing.lookup import find


@click.command(
    name="explain",
    help=__doc__,
    epilog="PATH is dotted, such as deployments[0].layout.replicas; without it everything is explained.",
)
@click.argument("plan", type=click.Path(path_type=Path))
@click.argument("path", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(plan: Path, path: str | None, as_json: bool) -> None:
    loaded = load_plan(plan)
    entries = find(loaded, path) if path else loaded.explanations
    if as_json:
        click.echo(json.dumps([e.model_dump(mode="json") for e in entries], ensure_ascii=False, indent=1))
        return
    if not entries:
        click.echo(f"{path}: taken from the workload or a fixed choice of this program; nothing was computed")
        return
    for entry in entries:
        click.echo(f"{entry.path} = {entry.value}  [{entry.evidence}]")
        click.echo(f"    formula  {entry.formula}")
        if entry.inputs:
            click.echo(
                "    inputs   " + ", ".join(f"{name} = {value}" for name, value in entry.inputs.items())
            )
        click.echo(f"    source   {entry.source}")
