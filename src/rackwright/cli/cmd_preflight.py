"""Check every host of an inventory against its plan, over SSH, and report."""

from __future__ import annotations

import signal
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackwright.cli.progress import Progress
from rackwright.errors import CannotRun, InputErrors, Problem, RackwrightError, listing

if TYPE_CHECKING:
    from collections.abc import Callable

    from checks.journal import Recovered
    from checks.registry import Check
    from rackwright.inventory import Inventory
    from rackwright.plan import Plan
    from rackwright.verdict import Results


def _patterns(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


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
@click.option("--open", "open_report", is_flag=True, help="Open the report in a browser at the end.")
@click.option("-q", "--quiet", is_flag=True, help="No line per host.")
def command(**options: Any) -> None:
    sys.exit(_run(**options))


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
    open_report: bool,
    quiet: bool,
) -> int:
    _require_checks()
    from checks import journal, registry, runner
    from checks.transport import Settings
    from rackwright.verdict import Load

    known = registry.load()
    prior = None
    if resume is not None:
        _refuse_beside_resume()
        prior, results_dir = journal.read(resume / journal.NAME), resume
        hosts, plan_file, load = _asked_before(prior, hosts, plan_file)
        inventory, plan, notes = load_bound(hosts, plan_file)
        inventory = _same(prior, resume, inventory, plan)
        selected = _selected_before(prior, resume, known)
    elif hosts is None:
        raise click.UsageError("give --hosts INVENTORY, or --resume DIR")
    else:
        inventory, plan, notes = load_bound(hosts, plan_file, _patterns(limit))
        selected = runner.select(known, only=_patterns(only), skip=_patterns(skip), tier=tier)
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
    )
    _require_writable(results_dir, *([] if captures else [results_dir / "captures"]))
    with journal.held(results_dir):
        if prior is None:
            _set_aside(results_dir)
        progress = Progress(len(inventory.hosts), quiet=quiet, forks=forks)
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
    _summary(results, known, report)
    if stopped or unwritten:
        raise CannotRun(stopped or unwritten)
    if open_report and report is not None and report.suffix == ".html":
        webbrowser.open(report.resolve().as_uri())
    return results.exit_code if status is None else status


# --- going on with a run that was ended ----------------------------------------------------------------

_DECIDED = ("only", "skip", "limit", "tier", "load", "captures", "results_dir")
"""What the run that is resumed has decided already."""


def _refuse_beside_resume() -> None:
    context = click.get_current_context()
    given = [
        max(option.opts, key=len)
        for option in context.command.params
        if option.name in _DECIDED
        and context.get_parameter_source(option.name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(
            f"--resume goes on with the selection of its run; leave out {', '.join(given)}"
        )


def _asked_before(
    prior: Recovered, hosts: Path | None, plan_file: Path | None
) -> tuple[Path, Path | None, str | None]:
    """Inventory, plan and load of the run that is resumed; what is given now may only move the files."""
    before = str(prior.asked.get("plan_file") or "")
    load = prior.asked.get("load")
    return (
        hosts or Path(prior.results.inventory or "hosts.ini"),
        plan_file or (Path(before) if before else None),
        str(load) if load else None,
    )


def _same(prior: Recovered, directory: Path, inventory: Inventory, plan: Plan) -> Inventory:
    """The hosts of the run that is resumed.

    Raises:
        InputErrors: it was judged by another plan, has hosts that the inventory lacks, or has ended.
    """
    from dataclasses import replace

    names = set(prior.results.hosts)
    lost = sorted(names - {h.name for h in inventory.hosts})
    new = "judge everything by the plan of today: leave --resume out"
    problems = []
    if plan.digest != prior.results.plan_digest:
        problems.append(
            Problem(
                f"--resume {directory}",
                f"must go on with the plan of the run (digest {prior.results.plan_digest[:12]})",
                f"{plan.header.name}, digest {plan.digest[:12]}",
                "half of the verdicts would come from another plan", f"give that plan with --plan, or {new}",
            )
        )  # fmt: skip
    if lost:
        problems.append(
            Problem(
                inventory.source, "must name every host of the run", f"no {listing(lost)}",
                "the run could not be finished", "put them back, or start anew: leave --resume out",
            )
        )  # fmt: skip
    if prior.ended and not prior.results.unreachable:
        problems.append(
            Problem(
                f"--resume {directory}", "must be a run that was ended before its time",
                f"the run of {prior.results.started}, which finished",
                "there is nothing left to do", f"rackwright report {directory / 'results.json'}",
            )
        )  # fmt: skip
    if problems:
        raise InputErrors(problems)
    return replace(inventory, hosts=tuple(h for h in inventory.hosts if h.name in names))


def _selected_before(prior: Recovered, directory: Path, known: Any) -> tuple[Check, ...]:
    """The checks of the run that is resumed.

    Raises:
        InputErrors: one is not registered any more.
    """
    ids = [str(item) for item in prior.asked.get("checks") or ()]
    lost = [name for name in ids if name not in known]
    if lost or not ids:
        raise InputErrors(
            Problem(
                f"--resume {directory}", "must go on with the checks of the run",
                f"{listing(lost)}: not registered" if lost else "none named in the journal",
                "the run could not be finished", "start anew: leave --resume out",
            )
        )  # fmt: skip
    return tuple(item for item in known.values() if item.id in ids)


def _set_aside(directory: Path) -> None:
    from checks import journal

    kept = journal.set_aside(directory)
    if kept is None:
        return
    path, prior = kept
    hosts = len({host for host, _ in prior.done})
    click.echo(
        f"an unfinished run of {prior.results.started} stood here ({hosts} of "
        f"{len(prior.results.hosts)} hosts done); its journal is kept: rackwright report {path}",
        err=True,
    )


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
        import checks.sshlib  # noqa: F401 - brings paramiko
    except ModuleNotFoundError as error:
        raise CannotRun(
            Problem(
                "preflight", "needs the checks and an SSH client library", f"no module {error.name}",
                "hosts are checked over SSH", "pip install 'rackwright[checks]', then run in the repository",
            )
        ) from None  # fmt: skip


_WRITTEN = ("results.json", "results.jsonl", "report.html")


def _require_writable(directory: Path, *below: Path) -> None:
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
