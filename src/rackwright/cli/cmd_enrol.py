"""Record the hosts' SSH keys, after showing their fingerprints."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from checks.enrol import Found


@click.command(
    name="enrol",
    help=__doc__,
    epilog="Compare the fingerprints with those on the hosts' consoles (ssh-keygen -lf "
    "/etc/ssh/ssh_host_ed25519_key.pub) before you say yes. A key that differs from the one on record is "
    "never replaced here. Exit status: 0 all on record, 1 some are not, 2 bad input.",
)
@click.option("--hosts", required=True, metavar="INVENTORY", type=click.Path(path_type=Path))
@click.option(
    "--known-hosts", type=click.Path(path_type=Path, dir_okay=False), help="File to add the keys to."
)
@click.option(
    "--ssh-config", type=click.Path(path_type=Path, dir_okay=False), help="Instead of ~/.ssh/config."
)
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path), help="Plan, instead of the inventory's."
)
@click.option("--forks", type=click.IntRange(1, 512), default=32, show_default=True, help="Hosts at a time.")
@click.option("--yes", is_flag=True, help="Record without asking.")
def command(
    *,
    hosts: Path,
    known_hosts: Path | None,
    ssh_config: Path | None,
    plan_file: Path | None,
    forks: int,
    yes: bool,
) -> None:
    from checks.enrol import fetch, record
    from rackwright.inventory import load_inventory
    from remote.transport import Network, Settings

    inventory = load_inventory(hosts, plan=plan_file)
    network = Network(Settings(known_hosts=known_hosts, ssh_config=ssh_config, inventory=str(hosts)))
    with ThreadPoolExecutor(max_workers=forks) as pool:
        found = list(pool.map(lambda host: fetch(network, host), inventory.hosts))
    new = [item for item in found if item.state == "new"]
    _show(found)
    if new and (yes or click.confirm(f"Record {len(new)} new keys in {_files(new)}?", default=False)):
        record(new)
        click.echo(f"{len(new)} keys recorded. Next: rackwright preflight --hosts {hosts}")
        new = []
    sys.exit(1 if new or any(item.state in ("changed", "failed") for item in found) else 0)


def _show(found: list[Found]) -> None:
    width = max((len(item.host) for item in found), default=0)
    for item in found:
        click.echo(
            f"{item.host:<{width}}  {item.state:<7}  {item.text}", err=item.state in ("changed", "failed")
        )


def _files(found: list[Found]) -> str:
    return ", ".join(sorted({str(item.file) for item in found}))
