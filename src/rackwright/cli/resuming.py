"""Going on with a preflight that was ended: what it was told to do, and whether it still can be done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackwright.errors import InputErrors, Problem, listing

if TYPE_CHECKING:
    from checks.journal import Recovered
    from checks.registry import Check
    from rackwright.inventory import Inventory
    from rackwright.plan import Plan

_DECIDED = ("only", "skip", "limit", "tier", "load", "captures", "results_dir", "reason")
"""What the run that is resumed has decided already."""


def refuse_beside_resume() -> None:
    """Nothing, unless options are given that the run that is resumed has decided.

    Raises:
        click.UsageError: they are named.
    """
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


def asked_before(
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


def waivers_before(prior: Recovered) -> Path | None:
    """The waivers of the run that is resumed."""
    before = str(prior.asked.get("waivers_file") or "")
    return Path(before) if before else None


def same(prior: Recovered, directory: Path, inventory: Inventory, plan: Plan) -> Inventory:
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


def selected_before(prior: Recovered, directory: Path, known: Any) -> tuple[Check, ...]:
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


def set_aside(directory: Path) -> None:
    """The journal of an unfinished run is kept under another name, and its reader told how to see it."""
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
