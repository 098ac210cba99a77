"""Collect what the checks read, and judge nothing: captures to judge later, elsewhere or again."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackwright.cli.cmd_preflight import load_bound, patterns, require_writable
from rackwright.errors import CannotRun, InputErrors, Problem
from rackwright.files import write_whole

if TYPE_CHECKING:
    from checks.redact import Redactor
    from rackwright.inventory import Inventory
    from rackwright.plan import Plan

KEY_BYTES = 32


@click.command(
    name="collect",
    help=__doc__,
    epilog="Nothing on a host is changed. Exit status: 0 every host came back, 1 some did not, 2 bad input "
    "or none did.",
)
@click.option("--hosts", metavar="INVENTORY", required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "directory",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="One file a host is written there.",
)
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path), help="Plan, instead of the inventory's."
)
@click.option("--only", multiple=True, metavar="PATTERN", help="What these checks or areas read.")
@click.option("--skip", multiple=True, metavar="PATTERN", help="Not what these read.")
@click.option("--limit", multiple=True, metavar="PATTERN", help="Only these hosts, pools or groups.")
@click.option("--tier", type=click.IntRange(0, 4), default=0, show_default=True, help="Highest tier.")
@click.option("--forks", type=click.IntRange(1, 512), default=32, show_default=True, help="Hosts at a time.")
@click.option("--timeout", type=click.FloatRange(5), help="Seconds a host may take.")
@click.option("--known-hosts", type=click.Path(path_type=Path, dir_okay=False), help="Instead of your own.")
@click.option(
    "--ssh-config", type=click.Path(path_type=Path, dir_okay=False), help="Instead of ~/.ssh/config."
)
@click.option("--key", type=click.Path(path_type=Path, dir_okay=False), help="Private key file.")
@click.option("--redact", is_flag=True, help="Pseudonyms for hosts, serials and addresses; no secrets.")
@click.option(
    "--redact-key",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Makes pseudonyms the same next month; made where it is absent. Never share it.",
)
@click.option("-q", "--quiet", is_flag=True, help="No line per host.")
def command(
    *, hosts: Path, directory: Path, plan_file: Path | None, only: tuple[str, ...], skip: tuple[str, ...],
    limit: tuple[str, ...], tier: int, forks: int, timeout: float | None, known_hosts: Path | None,
    ssh_config: Path | None, key: Path | None, redact: bool, redact_key: Path | None, quiet: bool,
) -> None:  # fmt: skip
    from checks import registry, runner
    from checks.collection import captured, collect
    from remote.transport import Settings

    inventory, plan, notes = load_bound(hosts, plan_file, patterns(limit))
    selected = runner.select(registry.load(), only=patterns(only), skip=patterns(skip), tier=tier)
    runner.require_hosts(inventory)
    require_writable(directory)
    if there := captured(directory):
        raise CannotRun(
            Problem(
                f"-o {directory}", "must not hold captures yet", f"{len(there)} of them",
                "captures of two collections would be taken for one", "give an empty directory, or remove it",
            )
        )  # fmt: skip
    redactor = _redactor(redact_key, inventory, plan) if redact or redact_key else None
    settings = Settings(known_hosts=known_hosts, ssh_config=ssh_config, key_file=key, inventory=str(hosts))
    for note in notes:
        click.echo(f"note: {note}", err=True)
    lost = total = 0
    for capture in collect(
        plan, inventory, selected, directory, settings, forks=forks, deadline_s=timeout, redactor=redactor
    ):
        total += 1
        lost += bool(capture.problem)
        if not quiet:
            said = capture.problem or capture.cut or f"{len(capture.outputs)} outputs"
            click.echo(
                f"[{total}/{len(inventory.hosts)}] {capture.host}: {said} ({capture.seconds:.1f} s)", err=True
            )
    if redactor is not None:
        _names(directory, redactor, inventory)
    click.echo(f"{directory}: {total - lost} of {total} hosts. Next:")
    click.echo(f"  rackwright judge {directory} --plan {inventory.plan_path}")
    sys.exit(2 if lost == total else 1 if lost else 0)


def _redactor(path: Path | None, inventory: Inventory, plan: Plan) -> Redactor:
    from checks.redact import Redactor

    key = _key(path) if path else secrets.token_bytes(KEY_BYTES)
    hosts = {h.name: {h.address, h.address.partition(".")[0]} for h in inventory.hosts}
    kept = {
        word
        for wanted in plan.expectations.values()
        if isinstance(wanted.os.ntp, tuple)
        for word in wanted.os.ntp
    }
    return Redactor(key, hosts, kept)


def _key(path: Path) -> bytes:
    """The key in ``path``, or a new one that is kept there for its owner alone."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        key = secrets.token_bytes(KEY_BYTES)
        path.touch(mode=0o600)
        write_whole(path, key.hex() + "\n")
        return key
    except (OSError, ValueError) as error:
        raise CannotRun(_no_key(path, str(error))) from None
    try:
        if len(key := bytes.fromhex(text)) == KEY_BYTES:
            return key
    except ValueError:
        pass
    raise InputErrors(_no_key(path, f"{len(text)} characters of something else"))


def _no_key(path: Path, found: str) -> Problem:
    return Problem(
        f"--redact-key {path}", f"must be a key: {2 * KEY_BYTES} hexadecimal digits", found,
        "pseudonyms would not be those of last time", "name a file that does not exist: it is made",
    )  # fmt: skip


def _names(directory: Path, redactor: Redactor, inventory: Inventory) -> None:
    """Which pseudonym is whom, beside the directory and not in it."""
    path = directory.parent / f"{directory.resolve().name}.names.txt"
    path.touch(mode=0o600)
    write_whole(path, "".join(f"{redactor.host(h.name)} {h.name}\n" for h in inventory.hosts))
    click.echo(f"{path}: which pseudonym is whom; keep it to yourself")
