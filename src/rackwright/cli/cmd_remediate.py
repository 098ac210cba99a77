"""Apply remedies that are safe and can be taken back, then check again.

Which hosts need one is found first. The exact commands are shown and asked for; what was done and what takes
it back stands in remediation.jsonl. Where a reboot is needed, the procedure is printed: cordon, drain, one
rack or block at a time, uncordon after the re-check. This command reboots nothing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackwright.cli.cmd_preflight import load_bound, patterns, require_writable
from rackwright.errors import CannotRun, InputErrors, Problem, listing, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from checks.registry import Check
    from checks.remediate import Action
    from rackwright.inventory import Inventory
    from rackwright.plan import Plan
    from rackwright.verdict import Results
    from remote.transport import Settings


@click.command(
    name="remediate",
    help=__doc__,
    epilog="Exit status: 0 all of it passes now, 1 something does not, or was not agreed to, 2 bad input.",
)
@click.option("--check", "ids", multiple=True, metavar="ID", help="Checks to mend (os-thp,os-swap).")
@click.option("--hosts", metavar="INVENTORY", required=True, type=click.Path(path_type=Path))
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path), help="Plan, instead of the inventory's."
)
@click.option("--limit", multiple=True, metavar="PATTERN", help="Only these hosts, pools or groups.")
@click.option("--plan-only", is_flag=True, help="Show what would be done; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--reboot", is_flag=True, help="Refused: a person reboots, by the procedure of --plan-only.")
@click.option("--context", default="", metavar="NAME", help="kubectl context in the procedure.")
@click.option("--undo", is_flag=True, help="Take back what the log in --results says was done.")
@click.option(
    "--results",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("remediation"),
    show_default=True,
    help="Where the log and results.json stand.",
)
@click.option("--forks", type=click.IntRange(1, 512), default=16, show_default=True, help="Hosts at a time.")
@click.option("--known-hosts", type=click.Path(path_type=Path, dir_okay=False), help="Instead of your own.")
@click.option(
    "--ssh-config", type=click.Path(path_type=Path, dir_okay=False), help="Instead of ~/.ssh/config."
)
@click.option("--key", type=click.Path(path_type=Path, dir_okay=False), help="Private key file.")
def command(
    *, ids: tuple[str, ...], hosts: Path, plan_file: Path | None, limit: tuple[str, ...], plan_only: bool,
    yes: bool, reboot: bool, context: str, undo: bool, directory: Path, forks: int, known_hosts: Path | None,
    ssh_config: Path | None, key: Path | None,
) -> None:  # fmt: skip
    from checks import registry
    from remote.transport import Settings

    if reboot:
        raise CannotRun(
            Problem(
                "--reboot", "is left to a person", "asked for",
                "a drain that hangs, or a host that does not come back, needs judgement between two steps",
                "see the procedure, one failure domain at a time: --plan-only --context NAME",
            )
        )  # fmt: skip
    inventory, plan, notes = load_bound(hosts, plan_file, patterns(limit))
    settings = Settings(known_hosts=known_hosts, ssh_config=ssh_config, key_file=key, inventory=str(hosts))
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if undo:
        sys.exit(_undo(inventory, settings, directory))
    work = _Work(inventory, plan, _selected(patterns(ids), registry.load()), settings, directory, forks)
    sys.exit(work.go(hosts, context, plan_only=plan_only, yes=yes))


def _selected(ids: tuple[str, ...], known: Any) -> tuple[Check, ...]:
    """Raises InputErrors for every id that cannot be mended from here."""
    able = [i for i, item in known.items() if item.fix is not None]
    if not ids:
        raise click.UsageError(
            f"give --check ID; with a remedy that can be applied or planned: {', '.join(able)}"
        )
    problems = [
        Problem(
            f"--check {name}",
            "must be a check" + nearest(name, known) if name not in known else "must have a remedy as data",
            "no such check" if name not in known else "a remedy for a person",
            "only what can be taken back is applied", f"those with one are {', '.join(able)}",
        )
        for name in ids
        if name not in able
    ]  # fmt: skip
    if problems:
        raise InputErrors(problems)
    return tuple(known[name] for name in dict.fromkeys(ids))


def _undo(inventory: Inventory, settings: Settings, directory: Path) -> int:
    from checks import remediate
    from remote.transport import Network

    log = remediate.Log.read(directory / remediate.LOG)
    if not log.open():
        click.echo(f"{log.path}: nothing is left to take back")
        return 0
    return 0 if remediate.undo(Network(settings), inventory.hosts, log, say=click.echo) else 1


@dataclass(frozen=True)
class _Work:
    inventory: Inventory
    plan: Plan
    selected: tuple[Check, ...]
    settings: Settings
    directory: Path
    forks: int

    def go(self, hosts: Path, context: str, *, plan_only: bool, yes: bool) -> int:
        from checks import reboots, remediate
        from remote.transport import Network

        results = self._judge(self.inventory)
        todo, left = remediate.actions(self.plan, self.inventory.hosts, self.selected, results.results)
        away = reboots.domains(
            self.plan,
            self.inventory.hosts,
            self.selected,
            results.results,
            inventory=str(hosts),
            context=context,
        )
        for host, why in results.unreachable.items():
            click.echo(f"{host}: not reached: {why}")
        needing = {h for domain in away for h in domain.hosts}
        for place, why in left.items():
            if place.split()[0] not in needing:
                click.echo(f"{place}: left alone; {why}")
        if away:
            click.echo("\n".join(["a reboot is needed:", *reboots.procedure(away), ""]))
        if not todo:
            good = not (away or left or results.unreachable)
            click.echo("nothing to do: all of it passes" if good else "nothing that could be applied")
            return 0 if good else 1
        self._show(todo)
        if plan_only:
            return 1
        if not yes and not _agreed(len({a.host.name for a in todo})):
            click.echo("nothing was changed")
            return 1
        require_writable(self.directory)
        log = remediate.Log(self.directory / remediate.LOG)
        done = remediate.apply(Network(self.settings), todo, log, forks=self.forks, say=click.echo)
        return self._again(todo, done=done and not (away or left or results.unreachable))

    def _judge(self, inventory: Inventory) -> Results:
        from checks import runner

        options = runner.Options(network=self.settings, forks=self.forks)
        return runner.run(self.plan, inventory, self.selected, options)

    def _show(self, todo: Sequence[Action]) -> None:
        from checks.report.text import folded

        same: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for action in todo:
            same.setdefault((action.check, action.shown), []).append(action.host.name)
        for (check, commands), names in same.items():
            click.echo(f"{check} on {folded(names)}:")
            for line in commands:
                click.echo(f"  {line}")

    def _again(self, todo: Sequence[Action], *, done: bool) -> int:
        """Only what was touched is checked again, and all of it lasts until the next reboot."""
        names = {a.host.name for a in todo}
        touched = replace(self.inventory, hosts=tuple(h for h in self.inventory.hosts if h.name in names))
        click.echo("checking again")
        results = self._judge(touched)
        results.write(self.directory / "results.json")
        wrong = [r for r in results.results if r.blocking or r.status in ("fail", "warn", "error")]
        for result in wrong:
            click.echo(f"{result.subject} {result.check}: {result.status}: {result.message}")
        good = not wrong and not results.unreachable
        if good:
            click.echo(f"{listing(sorted({a.check for a in todo}))}: passes on {len(names)} hosts")
        click.echo("it lasts until the next reboot; to keep it, see the check's remedy: rackwright checklist")
        click.echo(f"to take it back: rackwright remediate --undo --hosts … --results {self.directory}")
        return 0 if good and done else 1


def _agreed(hosts: int) -> bool:
    if not sys.stdin.isatty():
        raise CannotRun(
            Problem(
                "remediate", "must be agreed to", "no terminal to ask at",
                f"{hosts} hosts would be changed", "look at the commands above, then: --yes",
            )
        )  # fmt: skip
    return click.confirm(f"Run this on {hosts} hosts?", default=False)
