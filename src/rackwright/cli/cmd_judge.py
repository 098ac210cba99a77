"""Judge captures that were collected before; no host is contacted.

DIR is what collect wrote, or the captures directory of a preflight.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rackwright.cli.cmd_preflight import OUTPUT_OPTIONS, judged, output_options, patterns


@click.command(
    name="judge",
    help=__doc__,
    epilog="Exit status: 0 all good, 1 findings, 2 bad input or nothing could be judged.",
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--plan", "plan_file", required=True, type=click.Path(path_type=Path), help="Plan to judge by.")
@click.option("--only", multiple=True, metavar="PATTERN", help="Only these checks or areas.")
@click.option("--skip", multiple=True, metavar="PATTERN", help="Not these checks or areas.")
@click.option("--limit", multiple=True, metavar="PATTERN", help="Only these hosts or pools.")
@click.option(
    "--tier", type=click.IntRange(0, 4), default=0, show_default=True, help="Highest tier to judge."
)
@click.option("--load", type=click.Choice(["idle", "partial", "full"]), help="Demand readings at this load.")
@click.option(
    "--results",
    "results_dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("preflight-results"),
    show_default=True,
    help="Directory for results.json and report.html.",
)
@click.option("--waivers", "waivers_file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              help="Findings that somebody accepts until a day.")  # fmt: skip
@click.option("--reason", default="", help="Why checks or hosts are left out; it stands in the report.")
@output_options
@click.option("--open", "open_report", is_flag=True, help="Open the report in a browser at the end.")
@click.option("-q", "--quiet", is_flag=True, help="No line per host.")
def command(**options: Any) -> None:
    outputs = {name: path for name in OUTPUT_OPTIONS if (path := options.pop(name)) is not None}
    sys.exit(_run(outputs=outputs, **options))


def _run(
    *, directory: Path, plan_file: Path, only: tuple[str, ...], skip: tuple[str, ...], limit: tuple[str, ...],
    tier: int, load: str | None, results_dir: Path, waivers_file: Path | None, reason: str,
    outputs: dict[str, Path], open_report: bool, quiet: bool,
) -> int:  # fmt: skip
    from checks import registry, runner
    from checks.collection import placed
    from rackwright.inventory import limited
    from rackwright.plan import load_plan
    from rackwright.verdict import Load
    from rackwright.waivers import Waivers, load_waivers

    known = registry.load()
    plan = load_plan(plan_file)
    kept = placed(directory, plan, plan_file)
    selected = runner.select(known, only=patterns(only), skip=patterns(skip), tier=tier)
    made = runner.Options(
        results_dir=results_dir,
        captures=directory,
        load=Load(load) if load else None,
        left_out=runner.left_out(known, selected),
        plan_file=str(plan_file),
        waivers=load_waivers(waivers_file, known, plan) if waivers_file else Waivers(),
        waivers_file=str(waivers_file or ""),
        reason=reason,
        plan_digest=plan.digest,
    )
    inventory = limited(kept.inventory, patterns(limit))
    return judged(
        kept.plan, inventory, selected, made, notes=kept.notes, outputs=outputs, open_report=open_report,
        quiet=quiet,
    )  # fmt: skip
