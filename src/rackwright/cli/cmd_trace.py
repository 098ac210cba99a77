"""Turn a request log into the users section of a workload."""

from __future__ import annotations

from pathlib import Path

import click

from rackwright.files import say
from rackwright.sizing.trace import read_trace, users_section


@click.command(
    name="trace",
    help=__doc__,
    epilog="FILE is CSV with a first line that names its columns: a time, input tokens and output tokens. "
    "Exit status: 0 read, 2 not a trace.",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--users", required=True, type=click.IntRange(1, 1_000_000_000), help="Daily users behind it.")
@click.option("--gaps", is_flag=True, help="Hours without requests are real, not a hole in the log.")
def command(file: Path, users: int, gaps: bool) -> None:
    say(users_section(read_trace(file, gaps=gaps), users), newline=False)
