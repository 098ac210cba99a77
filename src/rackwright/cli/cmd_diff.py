"""Say what one plan changes over another, or what changed on the hosts from one preflight to the next.

Two plans: what applying B over A creates, changes and restarts. Two results, or two directories of results
or captures: hosts, verdicts and facts that are not what they were; with --plan captures are judged too.
"""

from __future__ import annotations

import gc
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackwright.errors import InputErrors, Problem

if TYPE_CHECKING:
    from checks.compare import Change, Difference, Said
    from stacks.comparison import Comparison, Restart

SHOWN_PATHS = 4


@click.command(
    name="diff",
    help=__doc__,
    epilog="No cluster and no host is asked: compare with what runs by make preview. Exit status: 0 nothing "
    "changes, 1 something does, 2 bad input.",
)
@click.argument("old", metavar="A", type=click.Path(path_type=Path))
@click.argument("new", metavar="B", type=click.Path(path_type=Path))
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), help="Judge both captures by it.")
def command(*, old: Path, new: Path, plan_file: Path | None) -> None:
    kinds = _kind(old), _kind(new)
    if kinds[0] != kinds[1]:
        raise InputErrors(
            Problem(
                f"{old}, {new}", "must be two of a kind", f"{kinds[0]} and {kinds[1]}",
                "what cannot be compared has no difference",
                "give two plans, two results, or two directories of captures",
            )
        )  # fmt: skip
    if kinds[0] == "a plan":
        sys.exit(_plans(old, new))
    gc.enable()  # a plan ends soon, a fleet does not
    found = _captures(old, new, plan_file) if kinds[0] == "captures" else _results(old, new)
    click.echo("\n".join(_told(found)))
    sys.exit(0 if found.same else 1)


def _kind(path: Path) -> str:
    """What ``path`` is, told by its shape; any other file is read as a plan, and that says what it is."""
    if path.is_dir():
        return "results" if _results_file(path).is_file() else "captures"
    return "results" if path.suffix in (".json", ".jsonl") else "a plan"


def _results_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    return next(
        (f for n in ("results.json", "results.jsonl") if (f := path / n).is_file()), path / "results.json"
    )


def _plans(old: Path, new: Path) -> int:
    from rackwright.plan import load_plan
    from stacks.comparison import compare

    found = compare(load_plan(old), load_plan(new))
    click.echo("\n".join(_lines(found)))
    return 0 if found.same else 1


def _results(old: Path, new: Path) -> Difference:
    """Verdicts, and where both runs left captures beside them, facts."""
    from checks import compare, registry
    from checks.collection import captured
    from rackwright.cli.cmd_report import read_results

    before = compare.Said.of(read_results(_results_file(old)))
    found = compare.of_results(before, compare.Said.of(read_results(_results_file(new))))
    places = [path / "captures" for path in (old, new)]
    if all(place.is_dir() and captured(place) for place in places):
        return compare.together(found, compare.of_captures(places[0], places[1], registry.load()))
    return found


def _captures(old: Path, new: Path, plan_file: Path | None) -> Difference:
    from checks import compare, registry
    from checks.collection import captured
    from rackwright.errors import CannotRun

    for path in (old, new):
        if not captured(path):
            raise CannotRun(
                Problem(
                    str(path), "must hold captures or results", "neither", "there is nothing to compare",
                    f"rackwright collect --hosts hosts.ini -o {shlex.quote(str(path))}",
                )
            )  # fmt: skip
    facts = compare.of_captures(old, new, registry.load())
    if plan_file is None:
        return facts
    return compare.together(compare.of_results(_judged(old, plan_file), _judged(new, plan_file)), facts)


def _judged(directory: Path, plan_file: Path) -> Said:
    from checks import registry, runner
    from checks.collection import placed
    from checks.compare import Said
    from rackwright.plan import load_plan

    kept = placed(directory, load_plan(plan_file), plan_file)
    options = runner.Options(captures=directory)
    return Said.of(runner.run(kept.plan, kept.inventory, runner.select(registry.load()), options))


def _told(found: Difference) -> list[str]:
    from checks.report.text import folded

    if found.same:
        return ["nothing changed"]
    lines = [
        f"hosts {word}: {folded(names)}"
        for word, names in (("gone", found.gone), ("added", found.added))
        if names
    ]
    for word, hosts in (("not reached any more", found.lost), ("reached again", found.back)):
        same: dict[str, list[str]] = {}
        for host, reason in hosts.items():
            same.setdefault(reason, []).append(host)
        lines += [f"hosts {word}: {folded(names)} ({reason})" for reason, names in same.items()]
    for title, changes in (("verdicts", found.verdicts), ("facts", found.facts)):
        if changes:
            lines += [title, *map(_change, changes)]
    return lines


def _change(change: Change) -> str:
    from checks.report.text import folded

    return f"  {change.what}: {change.old} → {change.new} on {folded(change.subjects, 120)}"


def _lines(found: Comparison) -> list[str]:
    if found.same:
        return ["nothing changes but the plan's record"] if found.changed else ["nothing changes"]
    lines = [_restart(restart) for restart in found.restarts]
    lines += [] if found.restarts or found.remade else ["nothing restarts"]
    lines += [
        f"remake  machines of pool {pool.pool}, {pool.nodes} nodes: {', '.join(pool.why[:SHOWN_PATHS])}"
        for pool in found.remade
    ]
    lines += [f"create  {identity}" for identity in found.created]
    lines += [f"delete  {identity}" for identity in found.deleted]
    for identity, paths in found.changed.items():
        if identity == found.record:
            lines.append(f"record  {identity}: the plan's digest")
            continue
        more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
        lines.append(f"change  {identity}: {', '.join(paths[:SHOWN_PATHS])}{more}")
    return lines


def _restart(restart: Restart) -> str:
    if not restart.pool:
        return f"restart {restart.kind} {restart.name}: one pod beside the engines"
    return (
        f"restart {restart.kind} {restart.name}: {restart.replicas} replicas on {restart.nodes} nodes of "
        f"pool {restart.pool}; at least {restart.kept} of {restart.replicas} serve meanwhile"
    )
