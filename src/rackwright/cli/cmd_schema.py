"""Print the JSON Schema of a workload, a plan, results or a measured run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from rackwright.files import say, write_whole

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, type[BaseModel]]:
    """The published file formats by name."""
    from rackwright.calibration.readers.run import Run
    from rackwright.plan import Plan
    from rackwright.verdict import Results
    from rackwright.workload import Workload

    return {"workload": Workload, "plan": Plan, "results": Results, "run": Run}


def schema_text(name: str) -> str:
    """The schema of ``name`` as it is published."""
    model = schemas()[name]
    body: dict[str, Any] = model.model_json_schema(by_alias=True)
    if name == "plan":
        body["properties"]["digest"] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    return json.dumps({"$schema": DIALECT, **body}, ensure_ascii=False, indent=1) + "\n"


@click.command(name="schema", help=__doc__)
@click.argument("name", type=click.Choice(["workload", "plan", "results", "run"]), required=False)
@click.option(
    "--write", type=click.Path(path_type=Path, file_okay=False), help="Write all of them into this directory."
)
def command(name: str | None, write: Path | None) -> None:
    if write is not None:
        for each in schemas():
            write_whole(write / f"{each}.schema.json", schema_text(each))
    if name is not None:
        say(schema_text(name), newline=False)
    elif write is None:
        raise click.UsageError("give a name, or --write DIRECTORY")
