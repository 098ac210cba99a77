"""Applies remedies that are safe and can be taken back, and keeps what takes them back.

What a host is told to do is written down before it is told: a run that is killed leaves no change without its
inverse. One host goes first; where it fails, no other is touched.
"""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from checks.registry import Check, Fix, expectation
from rackwright.errors import CannotRun, InputErrors, Problem
from rackwright.inventory import Host
from rackwright.plan import NotApplicable, Plan
from rackwright.verdict import Result, Status
from remote.transport import AbortedError, Network, UnreachableError, stream

LOG = "remediation.jsonl"
SCHEMA: Literal["rackwright/remediation/v1"] = "rackwright/remediation/v1"
_TIME_S = 120.0
_SHELL = 'if [ "$(id -u)" = 0 ]; then exec sh -s; else exec sudo -n sh -s; fi'
_PATH = (
    "PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin; LC_ALL=C; export PATH LC_ALL"
)


@dataclass(frozen=True)
class Action:
    """One check's remedy on one host, with the plan's values in it."""

    host: Host
    check: str
    before: str
    commands: tuple[str, ...]
    inverse: str

    @property
    def shown(self) -> tuple[str, ...]:
        """Each command as a person would run it."""
        return tuple(f"sudo sh -c {shlex.quote(c)}" for c in self.commands)


class Entry(BaseModel):
    """One line of the log. ``begun`` stands before a change, ``done`` or ``failed`` after it."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["rackwright/remediation/v1"] = Field(default=SCHEMA, alias="schema")
    id: str
    time: str
    host: str
    check: str
    state: Literal["begun", "done", "failed", "undone"]
    commands: tuple[str, ...] = ()
    was: str = ""
    inverse: str = ""
    said: str = ""


class Log:
    """Every line is on the disk before the next step is taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        """Raises CannotRun where it cannot be written; nothing may be changed then."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(entry.model_dump_json(by_alias=True) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CannotRun(
                Problem(
                    str(self.path),
                    "must be written before a host is changed",
                    error.strerror or str(error),
                    "a change without its inverse could not be taken back",
                    "make room, or give --results DIR",
                )
            ) from None
        self.entries.append(entry)

    @classmethod
    def read(cls, path: Path) -> Log:
        """A log as it was left; a last line that was cut is passed over: its step was not taken.

        Raises:
            CannotRun, InputErrors: it cannot be read, or is something else.
        """
        log = cls(path)
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, ValueError) as error:
            raise CannotRun(_no_log(path, str(error))) from None
        for number, line in enumerate(lines):
            try:
                log.entries += [Entry.model_validate_json(line)] if line.strip() else []
            except ValidationError:
                if number < len(lines) - 1:
                    raise InputErrors(_no_log(path, f"something else in line {number + 1}")) from None
        return log

    def open(self) -> list[Entry]:
        """What was begun and not taken back, the newest first."""
        undone = {e.id for e in self.entries if e.state == "undone"}
        return [e for e in reversed(self.entries) if e.state == "begun" and e.id not in undone]


def _no_log(path: Path, found: str) -> Problem:
    return Problem(
        str(path), f"must be the log of a remediation ({SCHEMA})", found,
        "what was changed cannot be taken back without it", f"it stands in the results directory as {LOG}",
    )  # fmt: skip


# --- deciding ------------------------------------------------------------------------------------------


def actions(
    plan: Plan, hosts: Iterable[Host], checks: Iterable[Check], results: Iterable[Result]
) -> tuple[list[Action], dict[str, str]]:
    """What to do on the hosts where a check did not pass, in the inventory's order, and why nothing is done
    where it is not."""
    by_name, by_id = {h.name: h for h in hosts}, {c.id: c for c in checks}
    found: list[Action] = []
    left: dict[str, str] = {}
    for result in results:
        check, host = by_id.get(result.check), by_name.get(result.subject)
        if check is None or host is None or result.status in (Status.PASS, Status.NOT_APPLICABLE):
            continue
        place = f"{host.name} {check.id}"
        expected = plan.expectations.get(host.pool)
        if result.waived is not None:
            left[place] = f"waived by {result.waived.owner}"
        elif result.status is Status.ERROR:
            left[place] = f"could not be measured: {result.message}"
        elif check.fix is None or not check.fix.safe:
            left[place] = "no remedy that is safe and can be taken back"
        elif (why := _unfit(check.fix, expected)) or (values := _values(check.fix, expected)) is None:
            left[place] = why or "the plan gives no value for the remedy"
        else:
            found.append(
                Action(
                    host,
                    check.id,
                    check.fix.before,
                    tuple(_filled(c, values) for c in check.fix.commands),
                    _filled(check.fix.inverse, values),
                )
            )
    order = {name: number for number, name in enumerate(by_name)}
    return sorted(found, key=lambda a: order[a.host.name]), left


def _unfit(fix: Fix, expected: Any) -> str:
    if fix.only is None:
        return ""
    path, value = fix.only
    wanted = expectation(expected, path)
    return "" if wanted == value else f"the remedy is for {path} {value}; the plan says {wanted}"


def _values(fix: Fix, expected: Any) -> dict[str, str] | None:
    values = {}
    for name, path in fix.values:
        wanted = expectation(expected, path.lstrip("*"))
        if wanted is None or isinstance(wanted, NotApplicable):
            return None
        if isinstance(wanted, tuple):
            wanted = " ".join(map(str, wanted)) if path.startswith("*") else wanted[0]
        values[name] = f"{wanted:g}" if isinstance(wanted, float) else str(wanted)
    return values


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", shlex.quote(value))
    return text


# --- doing ---------------------------------------------------------------------------------------------

Say = Callable[[str], None]


def apply(network: Network, todo: Sequence[Action], log: Log, *, forks: int, say: Say) -> bool:
    """Do all of it, one host first; whether everything was done.

    Raises:
        CannotRun: the log cannot be written.
    """
    by_host: dict[str, list[Action]] = {}
    for action in todo:
        by_host.setdefault(action.host.name, []).append(action)
    first, *rest = by_host.values()
    if not _apply_host(network, first, log, say):
        if rest:
            say(f"stopped: {len(rest)} more hosts were not touched")
        return False
    with ThreadPoolExecutor(max_workers=min(forks, max(len(rest), 1))) as pool:
        return all(list(pool.map(lambda todo: _apply_host(network, todo, log, say), rest)))


def _apply_host(network: Network, todo: Sequence[Action], log: Log, say: Say) -> bool:
    done = [_apply(network, action, log, say) for action in todo]
    return all(done)


def _apply(network: Network, action: Action, log: Log, say: Say) -> bool:
    place = f"{action.host.name} {action.check}"
    rc, was = _run(network, action.host, [action.before])
    if rc != 0:
        say(f"{place}: not touched; its state could not be read: {was}")
        return False
    inverse = action.inverse.replace("{was}", shlex.quote(was))
    number = secrets.token_hex(6)

    def entry(state: Literal["begun", "done", "failed"], said: str = "") -> Entry:
        return Entry(
            id=number, time=_now(), host=action.host.name, check=action.check, state=state,
            commands=action.commands, was=was, inverse=inverse, said=said,
        )  # fmt: skip

    log.add(entry("begun"))
    rc, said = _run(network, action.host, action.commands)
    log.add(entry("done" if rc == 0 else "failed", said))
    say(f"{place}: {'done' if rc == 0 else f'failed with status {rc}: {said}'}")
    return rc == 0


def undo(network: Network, hosts: Iterable[Host], log: Log, *, say: Say) -> bool:
    """Take back what the log holds, the newest first; whether all of it was.

    Raises:
        CannotRun: the log cannot be written.
    """
    by_name = {h.name: h for h in hosts}
    good = True
    for entry in log.open():
        place = f"{entry.host} {entry.check}"
        host = by_name.get(entry.host)
        if host is None:
            say(f"{place}: not taken back; the inventory has no such host")
            good = False
            continue
        rc, said = _run(network, host, [entry.inverse])
        if rc == 0:
            log.add(entry.model_copy(update={"state": "undone", "time": _now(), "said": said}))
        say(f"{place}: {'taken back' if rc == 0 else f'failed with status {rc}: {said}'}")
        good &= rc == 0
    return good


def _run(network: Network, host: Host, commands: Sequence[str]) -> tuple[int, str]:
    """Status and output of ``commands``, run by root, up to the first that fails; 255 where it was cut."""
    mark = f"@rw-{secrets.token_hex(8)}"
    body = "\n".join(commands)
    text = f"{_PATH}\n(\nset -e\n{body}\n) </dev/null 2>&1\nprintf '\\n%s %s\\n' {mark} $?\n"
    deadline = time.monotonic() + _TIME_S
    try:
        with network.connect(host, deadline) as client:
            data = b"".join(stream(client, _SHELL, text.encode(), deadline=deadline, max_bytes=4_000_000))
    except UnreachableError as error:
        return 255, f"{error.problem}; {error.next}"
    except AbortedError as error:
        return 255, error.reason
    said, found, status = data.decode("utf-8", "replace").rpartition(f"\n{mark} ")
    if not found:
        return 255, "root's shell did not answer (is sudo -n allowed?)"
    return int(status.strip() or 255), said.strip()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
