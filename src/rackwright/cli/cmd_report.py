"""Show the results of a run as one HTML page, or in another form; or a plan's sizing.

RESULTS is the results.json of a run, or the results.jsonl that one leaves which was killed. With --sizing the
report is of a plan instead: its load, memory, cost and cautions, with charts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackwright.errors import InputErrors, Problem
from rackwright.files import say, write_whole

if TYPE_CHECKING:
    from rackwright.plan import Plan
    from rackwright.verdict import Results


@click.command(
    name="report",
    help=__doc__,
    epilog="Exit status: 0 written (whatever the verdict), 2 the results or the plan cannot be read.",
)
@click.argument("results", metavar="[RESULTS]", type=click.Path(path_type=Path), required=False)
@click.option("--sizing", type=click.Path(path_type=Path), help="A plan, instead of results.")
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path), help="Plan of the run: adds racks and power."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File (default: the results' name with .html; another form: standard output).",
)
@click.option(
    "--as",
    "form",
    type=click.Choice(["html", "markdown", "junit", "ctrf", "prometheus", "github", "slack", "json"]),
    default="html",
    show_default=True,
    help="The form. prometheus is a textfile of node-exporter, slack the body of a webhook.",
)
@click.option("--markdown", is_flag=True, help="The same as --as markdown.")
def command(  # noqa: PLR0917 - options of the command line
    results: Path | None,
    sizing: Path | None,
    plan_file: Path | None,
    output: Path | None,
    form: str,
    markdown: bool,
) -> None:
    if (results is None) == (sizing is None):
        raise click.UsageError("give RESULTS, or --sizing PLAN")
    if sizing is not None:
        if form != "html" or markdown or plan_file is not None:
            raise click.UsageError("--sizing is one HTML page: leave --as, --markdown and --plan out")
        _sizing(sizing, output or sizing.with_suffix(".html"))
        return
    assert results is not None
    from checks import registry
    from checks.report import html
    from checks.report.outputs import OUTPUTS

    found = read_results(results)
    checks = registry.load()
    plan = _plan_of(found, plan_file) if plan_file else None
    form = "markdown" if markdown else form
    if form == "html":
        output = output or results.with_suffix(".html")
        html.write(found, checks, plan, output)
    else:
        text = OUTPUTS[form].write(found, checks)
        if output is None:
            say(text, newline=False)
            return
        write_whole(output, text)
    click.echo(f"wrote {output}", err=True)


def _sizing(plan: Path, output: Path) -> None:
    from rackwright.catalog import load_catalog
    from rackwright.plan import load_plan
    from rackwright.report.sizing import pages

    for place, text in pages(load_plan(plan), load_catalog(), output).items():
        write_whole(place, text)
        click.echo(f"wrote {place}", err=True)


def read_results(path: Path) -> Results:
    """The results in ``path``, a results file or the journal that a run leaves while it goes.

    Raises:
        CannotRun: the file cannot be read.
        InputErrors: it holds something else.
    """
    from pydantic import ValidationError

    from checks import journal
    from rackwright.verdict import RESULTS_SCHEMA, Results
    from rackwright.yamlio import dotted_path, read_text

    again = "rackwright preflight --hosts hosts.ini"
    if path.suffix == ".jsonl" and path.is_file():
        return journal.read(path).results  # whatever bytes its damaged end holds
    text = read_text(path, again)
    if journal.is_journal(text):
        return journal.parse(text, path).results
    try:
        return Results.from_json(text)
    except ValidationError as error:
        problems = [
            Problem(
                f"{path} {dotted_path(item['loc'])}".rstrip(), item["msg"][:1].lower() + item["msg"][1:],
                type(item.get("input")).__name__, f"a report is a view of {RESULTS_SCHEMA}", again,
            )
            for item in error.errors()[:10]
        ]  # fmt: skip
        raise InputErrors(problems) from None
    except ValueError as error:
        why = "the file is cut or is something else"
        raise InputErrors(Problem(str(path), "must be JSON", str(error), why, again)) from None


def _plan_of(results: Results, path: Path) -> Plan:
    """The plan in ``path``, if it is the one that the run was judged by.

    Raises:
        InputErrors: it is another plan.
    """
    from rackwright.plan import load_plan

    plan = load_plan(path)
    if results.plan_digest and plan.digest != results.plan_digest:
        raise InputErrors(
            Problem(
                str(path),
                f"must be the plan of the run ({results.plan}, digest {results.plan_digest[:12]})",
                f"{plan.header.name}, digest {plan.digest[:12]}",
                "ratings and racks of another plan would stand beside these readings",
                "give the plan as it was then (git log), or leave --plan out",
            )
        )
    return plan
