"""Check every host of an inventory against its plan, over SSH, and report."""

from __future__ import annotations

import signal
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackwright.cli import resuming
from rackwright.cli.progress import Progress
from rackwright.errors import CannotRun, Problem, RackwrightError
from rackwright.files import write_whole

if TYPE_CHECKING:
    from checks.registry import Check
    from checks.runner import Options
    from rackwright.inventory import Inventory
    from rackwright.plan import Plan
    from rackwright.verdict import Results


def patterns(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


OUTPUT_OPTIONS = {
    "markdown": "Markdown for a ticket",
    "junit": "JUnit XML for a CI system",
    "ctrf": "CTRF (JSON) for a test dashboard",
    "prometheus": "metrics for node-exporter's textfile collector",
    "github": "a short summary for a GitHub job",
    "slack": "a short summary, the body of a Slack webhook",
}
"""Options that write the run in another form as well; checks/report/outputs.py makes them."""


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for name, title in reversed(OUTPUT_OPTIONS.items()):
        path = click.Path(path_type=Path, dir_okay=False)
        function = click.option(f"--{name}", metavar="FILE", type=path, help=f"Write {title}.")(function)
    return function


@click.command(
    name="preflight",
    help=__doc__,
    epilog="Exit status: 0 all good, 1 findings, 2 bad input or nothing could be measured.",
)
@click.option("--hosts", metavar="INVENTORY", type=click.Path(path_type=Path), help="INI inventory file.")
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path), help="Plan, instead of the inventory's."
)
@click.option(
    "--only", multiple=True, metavar="PATTERN", help="Only these checks or areas (os-thp, gpu, 'os-*')."
)
@click.option("--skip", multiple=True, metavar="PATTERN", help="Not these checks or areas.")
@click.option("--limit", multiple=True, metavar="PATTERN", help="Only these hosts, pools or groups.")
@click.option("--tier", type=click.IntRange(0, 4), default=0, show_default=True, help="Highest tier to run.")
@click.option(
    "--load",
    type=click.Choice(["idle", "partial", "full"]),
    help="Demand that power and temperature are read at this load.",
)
@click.option(
    "--results",
    "results_dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("preflight-results"),
    show_default=True,
    help="Directory for results.json, report.html and captures.",
)
@click.option(
    "--captures",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Judge the captures kept in this directory; no host is contacted.",
)
@click.option(
    "--resume",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Go on with the run that was ended in this directory; hosts that were finished are not contacted.",
)
@click.option("--forks", type=click.IntRange(1, 512), default=32, show_default=True, help="Hosts at a time.")
@click.option("--timeout", type=click.FloatRange(5), help="Seconds a host may take (default 60 in tier 0).")
@click.option(
    "--known-hosts", type=click.Path(path_type=Path, dir_okay=False), help="Instead of your own file."
)
@click.option(
    "--ssh-config", type=click.Path(path_type=Path, dir_okay=False), help="Instead of ~/.ssh/config."
)
@click.option("--key", type=click.Path(path_type=Path, dir_okay=False), help="Private key file.")
@click.option(
    "--waivers",
    "waivers_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Findings that somebody accepts until a day (see docs/waivers.md).",
)
@click.option("--reason", default="", help="Why checks or hosts are left out; it stands in the report.")
@output_options
@click.option("--open", "open_report", is_flag=True, help="Open the report in a browser at the end.")
@click.option("-q", "--quiet", is_flag=True, help="No line per host.")
def command(**options: Any) -> None:
    outputs = {name: path for name in OUTPUT_OPTIONS if (path := options.pop(name)) is not None}
    sys.exit(_run(outputs=outputs, **options))


def _run(
    *,
    hosts: Path | None,
    plan_file: Path | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    limit: tuple[str, ...],
    tier: int,
    load: str | None,
    results_dir: Path,
    captures: Path | None,
    resume: Path | None,
    forks: int,
    timeout: float | None,
    known_hosts: Path | None,
    ssh_config: Path | None,
    key: Path | None,
    waivers_file: Path | None,
    reason: str,
    outputs: dict[str, Path],
    open_report: bool,
    quiet: bool,
) -> int:
    _require_checks()
    from checks import journal, registry, runner
    from rackwright.verdict import Load
    from rackwright.waivers import Waivers, load_waivers
    from remote.transport import Settings

    known = registry.load()
    prior = None
    if resume is not None:
        resuming.refuse_beside_resume()
        prior, results_dir = journal.read(resume / journal.NAME), resume
        hosts, plan_file, load = resuming.asked_before(prior, hosts, plan_file)
        reason, waivers_file = prior.results.reason, waivers_file or resuming.waivers_before(prior)
        inventory, plan, notes = load_bound(hosts, plan_file)
        inventory = resuming.same(prior, resume, inventory, plan)
        selected = resuming.selected_before(prior, resume, known)
    elif hosts is None:
        raise click.UsageError("give --hosts INVENTORY, or --resume DIR")
    else:
        inventory, plan, notes = load_bound(hosts, plan_file, patterns(limit))
        selected = runner.select(known, only=patterns(only), skip=patterns(skip), tier=tier)
    options = runner.Options(
        network=Settings(known_hosts=known_hosts, ssh_config=ssh_config, key_file=key, inventory=str(hosts)),
        forks=forks,
        results_dir=results_dir,
        captures=captures,
        load=Load(load) if load else None,
        deadline_s=timeout,
        left_out=runner.left_out(known, selected),
        plan_file=str(plan_file or ""),
        resume=prior,
        waivers=load_waivers(waivers_file, known, plan) if waivers_file else Waivers(),
        waivers_file=str(waivers_file or ""),
        reason=reason,
    )
    return judged(plan, inventory, selected, options, notes=notes, outputs=outputs, open_report=open_report,
                  quiet=quiet)  # fmt: skip


def judged(
    plan: Plan,
    inventory: Inventory,
    selected: Sequence[Check],
    options: Options,
    *,
    notes: Sequence[str],
    outputs: dict[str, Path],
    open_report: bool,
    quiet: bool,
) -> int:
    """Run the checks, on hosts or on captures; write everything a run writes; the exit status.

    Raises:
        CannotRun: what was found could not be kept.
    """
    from checks import journal, registry, runner

    assert options.results_dir is not None
    known, results_dir, captures = registry.load(), options.results_dir, options.captures
    require_writable(results_dir, *([] if captures else [results_dir / "captures"]))
    with journal.held(results_dir):
        if options.resume is None:
            resuming.set_aside(results_dir)
        progress = Progress(len(inventory.hosts), quiet=quiet, forks=options.forks)
        progress.start(len(selected), captures)
        signal.signal(signal.SIGTERM, _as_interrupt)
        stopped: tuple[Problem, ...] = ()
        status = None
        try:
            results = runner.run(
                plan, inventory, selected, options, on_host=progress.host, on_tier=progress.tier, notes=notes
            )
        except runner.InterruptedRunError as stop:
            results, status = stop.results, 2
            stopped = (stop.problem,) if stop.problem else ()
        finally:
            progress.end()
        report, unwritten = _write(results, results_dir, known, plan, captures or results_dir / "captures")
        unwritten += _write_outputs(results, known, outputs)
    _summary(results, known, report)
    if stopped or unwritten:
        raise CannotRun(stopped or unwritten)
    if open_report and report is not None and report.suffix == ".html":
        webbrowser.open(report.resolve().as_uri())
    return results.exit_code if status is None else status


def _as_interrupt(_number: int, _frame: Any) -> None:
    """A job that is ended from outside keeps what it has, as one that is interrupted by hand."""
    raise KeyboardInterrupt


def load_bound(
    hosts: Path, plan_file: Path | None, limit: tuple[str, ...] = ()
) -> tuple[Inventory, Plan, tuple[str, ...]]:
    """The inventory with each host in its pool and rack, its plan, and remarks.

    Raises:
        InputErrors, CannotRun: either file is wrong, or they do not fit each other.
    """
    from rackwright.inventory import bound, limited, load_inventory
    from rackwright.plan import load_plan

    inventory = load_inventory(hosts, plan=plan_file)
    plan = load_plan(inventory.plan_path)
    result = bound(inventory, plan)
    return limited(result.inventory, limit), plan, result.notes


def _require_checks() -> None:
    try:
        import remote.sshlib  # noqa: F401 - brings paramiko
    except ModuleNotFoundError as error:
        raise CannotRun(
            Problem(
                "preflight", "needs the checks and an SSH client library", f"no module {error.name}",
                "hosts are checked over SSH", "pip install 'rackwright[checks]', then run in the repository",
            )
        ) from None  # fmt: skip


_WRITTEN = ("results.json", "results.jsonl", "report.html")


def require_writable(directory: Path, *below: Path) -> None:
    """Said before any host is contacted, not after all of them were.

    Raises:
        CannotRun: what a run writes could not be written there.
    """
    try:
        for place in (directory, *below):
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place) as probe:
                probe.write(b"probe")
        taken = next((directory / name for name in _WRITTEN if (directory / name).is_dir()), None)
        if taken is None:
            return
        found = f"a directory: {taken}"
    except OSError as error:
        found = f"{error.strerror or error}: {error.filename or directory}"
    raise CannotRun(
        Problem(
            f"--results {directory}", "must be a directory that can be written", found,
            "what the run finds would be lost; no host was contacted",
            "give another one: --results DIRECTORY",
        )
    )  # fmt: skip


def _write(
    results: Results, directory: Path, registry: Any, plan: Plan, captures: Path
) -> tuple[Path | None, tuple[Problem, ...]]:
    """The best file that was written, and what could not be.

    results.json first: a report that cannot be made costs no result.
    """
    from checks.report import html

    kept, report = directory / "results.json", directory / "report.html"
    problems = []
    best = None
    steps: tuple[tuple[Path, Callable[[], None]], ...] = (
        (kept, lambda: results.write(kept)),
        (report, lambda: html.write(results, registry, plan, report)),
    )
    for path, write in steps:
        try:
            write()
        except CannotRun as error:
            problems.append(_unwritten(path, captures, error))
        except RackwrightError as error:
            click.echo(f"no {path.name}: {error}", err=True)
        else:
            best = path
    return best, tuple(problems)


def _write_outputs(results: Results, registry: Any, outputs: dict[str, Path]) -> tuple[Problem, ...]:
    if not outputs:
        return ()
    from checks.report.outputs import OUTPUTS

    problems: list[Problem] = []
    for name, path in outputs.items():
        try:
            write_whole(path, OUTPUTS[name].write(results, registry))
        except CannotRun as error:
            problems += error.problems
    return tuple(problems)


def _unwritten(path: Path, captures: Path, error: CannotRun) -> Problem:
    old = ", and what stands there is an earlier run's" if path.exists() else ""
    return Problem(
        str(path), "must be written at the end of a run", error.problems[0].found,
        f"only the summary above tells what this run found{old}",
        f"make room, then judge what was collected: --captures {captures}",
    )  # fmt: skip


def _summary(results: Results, registry: Any, file: Path | None) -> None:
    from checks.report import terminal

    colour = terminal.use_colour(sys.stdout)
    click.echo(terminal.summary(results, registry=registry, colour=colour, file=str(file or "")), nl=False)
