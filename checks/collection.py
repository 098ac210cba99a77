"""A collection on disk: a directory with one capture a host and a page that says what it is of.

It is written host by host and read host by host, so its size is the disk's matter and not the memory's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from checks import journal
from checks.capture import Capture
from checks.collect import commands_of
from checks.fleet import collect_all
from checks.pairs import exchange
from checks.redact import Redactor
from checks.registry import Check
from checks.runner import DEADLINES, needs_pair, scripts
from rackwright.errors import CannotRun, InputErrors, Problem, listing
from rackwright.files import write_whole
from rackwright.inventory import Host, Inventory, bound
from rackwright.plan import Plan
from remote.transport import Network, Settings

PAGE = "COLLECTION"
"""No file of a host can have this name: theirs end in .json."""
SCHEMA: Literal["rackwright/collection/v1"] = "rackwright/collection/v1"


class Place(BaseModel):
    """Where a host stands in the plan."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pool: str
    rack: str


class Collection(BaseModel):
    """What a directory of captures is of. ``redacted``: hosts, serials and addresses are pseudonyms, and the
    inventory is not named."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["rackwright/collection/v1"] = Field(default=SCHEMA, alias="schema")
    plan: str
    plan_digest: str
    inventory: str = ""
    started: str
    checks: tuple[str, ...]
    hosts: dict[str, Place]
    redacted: bool = False
    complete: bool = False

    def write(self, directory: Path) -> None:
        """Raises CannotRun where the place cannot be written."""
        write_whole(directory / PAGE, self.model_dump_json(by_alias=True, indent=1) + "\n")


def collect(
    plan: Plan,
    inventory: Inventory,
    selected: Sequence[Check],
    directory: Path,
    settings: Settings,
    *,
    forks: int = 32,
    deadline_s: float | None = None,
    redactor: Redactor | None = None,
) -> Iterator[Capture]:
    """One capture a host as it is written into ``directory``; with a redactor nothing else reaches the disk.

    Nothing is judged, so no host is spared a later tier for what an earlier one found.

    Raises:
        CannotRun: the place cannot be written.
    """
    names = {h.name: redactor.host(h.name) if redactor else h.name for h in inventory.hosts}
    page = Collection(
        plan=plan.header.name,
        plan_digest=plan.digest,
        inventory="" if redactor else inventory.source,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        checks=tuple(item.id for item in selected),
        hosts={names[h.name]: Place(pool=h.pool, rack=h.rack) for h in inventory.hosts},
        redacted=redactor is not None,
    )
    page.write(directory)
    allowed = deadline_s or sum(DEADLINES.get(tier, 60.0) for tier in {item.tier for item in selected})
    network = Network(replace(settings, deadline_s=allowed))
    reached: list[Host] = []
    hosts = {h.name: h for h in inventory.hosts}
    for capture in collect_all(network, scripts(plan, inventory, selected), forks=forks):
        reached += [hosts[capture.host]] if not capture.problem else []
        kept = redactor.capture(capture) if redactor else capture
        kept.write(directory)
        yield kept
    together = [command for command in commands_of(filter(needs_pair, selected)) if command.paired]
    if together:
        for capture in exchange(network, plan, reached, together, forks=forks, deadline_s=allowed):
            later = redactor.capture(capture) if redactor else capture
            before = Capture.read(directory / f"{later.host}.json")
            before.model_copy(update={"outputs": {**before.outputs, **later.outputs}}).write(directory)
    page.model_copy(update={"complete": True}).write(directory)


@dataclass(frozen=True)
class Kept:
    """A collection that was read: hosts with their places, remarks, and whether it was redacted."""

    inventory: Inventory
    plan: Plan
    notes: tuple[str, ...] = ()


def captured(directory: Path) -> list[str]:
    """The hosts that have a capture in ``directory``."""
    return sorted(p.stem for p in directory.glob("*.json"))


def read_page(directory: Path) -> Collection | None:
    """The page of a collection; None for captures of a preflight, which has none.

    Raises:
        CannotRun: it cannot be read.
        InputErrors: it is something else.
    """
    path = directory / PAGE
    try:
        return Collection.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotRun(_no_page(path, error.strerror or str(error))) from None
    except (ValidationError, ValueError) as error:
        raise InputErrors(_no_page(path, str(error).splitlines()[0])) from None


def _no_page(path: Path, found: str) -> Problem:
    return Problem(
        str(path), f"must be the page of a collection ({SCHEMA})", found,
        "hosts find their pool and rack by it", "rackwright collect --hosts hosts.ini -o DIR",
    )  # fmt: skip


def placed(directory: Path, plan: Plan, plan_file: Path) -> Kept:
    """The hosts of a collection in their places of ``plan``, which need not be the plan it was made with.

    A host of the page without a capture stays in: it was not reached. Of a redacted collection the nodes of
    the returned plan carry the pseudonyms: nodes of one pool and rack are planned alike, so it matters not
    which of them gets which.

    Raises:
        CannotRun: there is no capture.
        InputErrors: the page cannot be read, or a host has no place in the plan.
    """
    page, names = read_page(directory), captured(directory)
    if not names:
        raise CannotRun(
            Problem(
                str(directory), "must hold captures", "no capture", "there is nothing to judge",
                "collect some: rackwright collect --hosts hosts.ini -o DIR",
            )
        )  # fmt: skip
    if page is None:
        hosts = tuple(Host(name, name) for name in names)
        found = bound(Inventory(hosts, plan_file, str(directory)), plan)
        return Kept(
            replace(found.inventory, source=journal.inventory_of(directory.parent)), plan, found.notes
        )
    pools = {p.name for p in plan.pools}
    racks = {r.name for r in plan.racks()} | {n.rack for p in plan.pools for n in p.nodes}
    wrong = [
        Problem(
            f"{directory / PAGE} hosts.{name}", f"must stand in a {word} of the plan", value,
            "its expected values stand there", "give the plan of these hosts: --plan FILE",
        )
        for name, place in page.hosts.items()
        for word, value, known in (("pool", place.pool, pools), ("rack", place.rack, racks))
        if value not in known
    ]  # fmt: skip
    if wrong:
        raise InputErrors(wrong)
    hosts = tuple(Host(n, n, pool=p.pool, rack=p.rack) for n, p in page.hosts.items())
    notes = []
    if page.plan_digest != plan.digest:
        notes.append(f"collected for plan {page.plan} ({page.plan_digest[:12]}), judged by another")
    if not page.complete:
        away = [n for n in page.hosts if n not in set(names)]
        notes.append(f"the collection was ended before its time; no capture of: {listing(away) or 'none'}")
    if page.redacted:
        notes.append("captures are redacted: hosts, serial numbers and addresses are pseudonyms")
    inventory = Inventory(hosts, plan_file, page.inventory)
    return Kept(inventory, _renamed(plan, page) if page.redacted else plan, tuple(notes))


def _renamed(plan: Plan, page: Collection) -> Plan:
    waiting: dict[tuple[str, str], list[str]] = {}
    for name, place in page.hosts.items():
        waiting.setdefault((place.pool, place.rack), []).append(name)
    names: dict[str, str] = {}
    pools = []
    for pool in plan.pools:
        nodes = []
        for node in pool.nodes:
            left = waiting.get((pool.name, node.rack))
            names[node.name] = left.pop(0) if left else node.name
            nodes.append(node.model_copy(update={"name": names[node.name]}))
        pools.append(pool.model_copy(update={"nodes": tuple(nodes)}))
    sites = []
    for site in plan.sites:
        racks = tuple(
            r.model_copy(update={"nodes": tuple(names.get(n, n) for n in r.nodes)}) for r in site.racks
        )
        sites.append(site.model_copy(update={"racks": racks}))
    return plan.model_copy(update={"pools": tuple(pools), "sites": tuple(sites)})
