"""What the commands of the tools share: where they work, and errors that are told without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from rackwright.errors import RackwrightError


def directory(what: str) -> Callable[[Any], Any]:
    """The option that names the directory of ``what``."""
    return click.option(
        "--dir",
        "directory",
        type=click.Path(path_type=Path, file_okay=False),
        required=True,
        help=f"Where the {what} lives.",
    )


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """Errors that can be explained are printed without a traceback, with their own exit status."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except RackwrightError as error:
            say(str(error))
            sys.exit(error.exit_code)

    return run


def say(text: str) -> None:
    """Progress and errors: results go to the other stream."""
    click.echo(text, err=True)
