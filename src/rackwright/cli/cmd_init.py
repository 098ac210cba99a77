"""Ask a few questions and write a workload file."""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from pathlib import Path
from shlex import quote
from typing import Any

import click

from rackwright.catalog import load_catalog
from rackwright.errors import CannotRun, Problem
from rackwright.files import say, write_whole
from rackwright.sizing.starting import Answers, workload_text

QUESTIONS = {
    "users": "Daily users",
    "scenario": "Scenario (rackwright catalog list scenario)",
    "model": "Model (rackwright catalog list model)",
    "machine": "Machine, or search",
    "country": "Country, two letters",
}
DEFAULTS = Answers()


@click.command(
    name="init",
    help=__doc__,
    epilog="Exit status: 0 written, 2 an answer cannot be, or the file is there.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("workload.yaml"),
    show_default=True,
    help="The file; one that is there is never replaced.",
)
@click.option("--name", help="Of the service: it names namespaces and pools.")
@click.option("--users", type=int, help="Daily users.")
@click.option("--scenario", help="What they do.")
@click.option("--model", help="What serves them.")
@click.option("--machine", help="A machine of the catalog, or search.")
@click.option("--country", help="Where it stands: two letters; decides the price list.")
@click.option("--yes", is_flag=True, help="Ask nothing: take the default of what is not given.")
def command(output: Path, yes: bool, **given: Any) -> None:
    if output.exists() or output.is_symlink():
        raise CannotRun(
            Problem(
                str(output),
                "must not exist yet",
                "a file",
                "a workload holds decisions, and is never replaced",
                "name another with -o",
            )
        )
    answers = replace(DEFAULTS, **{name: value for name, value in given.items() if value is not None})
    if not yes:
        answers = _asked(answers, {name for name, value in given.items() if value is not None})
    text = workload_text(answers, load_catalog())
    write_whole(output, text)
    target = quote(str(output))
    say(f"{output}: written\nnext  read it, then: rackwright size {target} -o plan.yaml")


def _asked(answers: Answers, known: set[str]) -> Answers:
    """``answers`` with those that were not given as options asked for.

    Raises:
        CannotRun: nobody is there to answer.
    """
    if not sys.stdin.readable() or sys.stdin.closed:
        raise _nobody()
    kinds = {f.name: type(getattr(DEFAULTS, f.name)) for f in fields(Answers)}
    found: dict[str, Any] = {}
    try:
        for name, question in QUESTIONS.items():
            if name not in known:
                default = getattr(answers, name)
                found[name] = click.prompt(question, default=default, type=kinds[name], err=True)
    except click.Abort:
        raise _nobody() from None
    return replace(answers, **found)


def _nobody() -> CannotRun:
    return CannotRun(
        Problem(
            "standard input",
            "must answer the questions",
            "its end",
            "a workload with answers that nobody gave would be sized",
            "rackwright init --yes takes the defaults; each has an option: rackwright init --help",
        )
    )
