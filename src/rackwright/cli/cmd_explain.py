"""Say how a number of a plan came about: formula, inputs, source, evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from rackwright.files import say
from rackwright.plan import Explanation, load_plan
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
    entries = loaded.explanations if path is None else find(loaded, path)
    if as_json:
        say(json.dumps([e.model_dump(mode="json") for e in entries], ensure_ascii=False, indent=1))
        return
    say("\n".join(_lines(path, entries)))


def _lines(path: str | None, entries: tuple[Explanation, ...]) -> Iterator[str]:
    if not entries:
        yield (f"{path}: taken from the workload or a fixed choice of this program; nothing was computed")
    for entry in entries:
        yield f"{entry.path} = {entry.value}  [{entry.evidence}]"
        yield f"    formula  {entry.formula}"
        if entry.inputs:
            yield "    inputs   " + ", ".join(f"{name} = {value}" for name, value in entry.inputs.items())
        yield f"    source   {entry.source}"
