"""The results directory of a run: locked while it runs, and with a journal that a killed run leaves behind.

results.jsonl holds a header line, one line a result as it is established, one line a host and tier once all
its results are in, and an end line. What stands before a half line is all that was measured until then.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from pydantic import ValidationError

from rackwright.errors import CannotRun, InputErrors, Problem
from rackwright.files import write_whole
from rackwright.verdict import Result, Results

SCHEMA = "rackwright/results-stream/v1"
NAME = "results.jsonl"
LOCK = ".lock"


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """The directory for one run alone. A run that is killed lets go of it by dying.

    Raises:
        CannotRun: another run holds it, or its file system knows no locks.
    """
    path = directory / LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise CannotRun(_no_lock(directory, error)) from None
    with os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise CannotRun(_in_use(directory, file.read(200).strip())) from None
            raise CannotRun(_no_lock(directory, error)) from None
        with contextlib.suppress(OSError):  # on a full disk the lock holds without saying whose it is
            file.truncate(0)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            file.write(f"process {os.getpid()}, started {now}\n")
            file.flush()
        yield
        with contextlib.suppress(OSError):
            file.truncate(0)


def _in_use(directory: Path, owner: str) -> Problem:
    return Problem(
        f"--results {directory}", "must not be in use by another run", owner or "another run",
        "two runs into one directory would mix their results",
        "wait for it to end, or give another one: --results DIRECTORY",
    )  # fmt: skip


def _no_lock(directory: Path, error: OSError) -> Problem:
    return Problem(
        f"--results {directory}", "must be a directory that can be locked", error.strerror or str(error),
        "two runs into one directory would mix their results", "give a local one: --results DIRECTORY",
    )  # fmt: skip


class Journal:
    """The file as it grows; without a path it keeps nothing.

    Every method that writes raises CannotRun where the disk refuses.
    """

    def __init__(self, path: Path | None, header: Results, asked: dict[str, Any] | None = None) -> None:
        """``asked``: what the run was told to do, for whoever goes on with it."""
        self.path = path
        self._file: TextIO | None = None
        if path is not None:
            first = header.model_dump(mode="json", by_alias=True, exclude={"results"})
            write_whole(path, _text({"stream": SCHEMA, "header": first, "asked": asked or {}}))
            with self._writing():
                self._file = path.open("a", encoding="utf-8")

    def add(self, results: Iterable[Result]) -> None:
        """Results that were established together, in one write."""
        if self._file is not None:
            self._write("".join(map(_line, results)))

    def host(self, name: str, tier: int, problem: str = "") -> None:
        """All results of a host in a tier are in; ``problem`` where it was not reached."""
        self._line({"host": name, "tier": tier, "problem": problem})

    def end(self, results: Results) -> None:
        """The run ended: what the header could not know yet."""
        self._line({"end": results.model_dump(mode="json", by_alias=True, exclude={"results"})})

    def _line(self, data: Any) -> None:
        self._write(_text(data))

    def _write(self, text: str) -> None:
        if self._file is not None and text:
            with self._writing():
                self._file.write(text)
                self._file.flush()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            found = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise CannotRun(unwritten(self.path or Path(NAME), found)) from None

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # what could not be written was said when it was tried
                self._file.close()


def unwritten(path: Path, found: str) -> Problem:
    """The message of a run that stops because its results cannot be kept."""
    return Problem(
        str(path), "must be written as the run goes", found,
        "the run stopped here: what it would have found further could not be kept",
        f"make room, then go on where it stopped: rackwright preflight --resume {path.parent}",
    )  # fmt: skip


def _line(result: Result) -> str:
    try:
        return result.model_dump_json() + "\n"  # several times as fast as json's own
    except ValueError:  # half a surrogate pair, which json writes as it is
        return _text(result.model_dump(mode="json"))


def _text(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Recovered:
    """What a journal holds.

    Attributes:
        asked: what the run was told to do: ids of its checks, its load, its plan file.
        done: host and tier of which every result is in.
        ended: whether the run ended by itself.
    """

    results: Results
    asked: dict[str, Any] = field(default_factory=dict)
    done: frozenset[tuple[str, int]] = frozenset()
    ended: bool = False


def is_journal(text: str) -> bool:
    """Whether ``text`` begins as a journal does, also where the rest is damaged."""
    return text.lstrip("\ufeff \n").startswith('{"stream": "' + SCHEMA + '"')


def inventory_of(directory: Path) -> str:
    """The inventory of the run whose journal lies in ``directory``, by its first line alone; empty where none
    says it."""
    try:
        with (directory / NAME).open(encoding="utf-8") as file:
            return Results.model_validate(_object(file.readline()).get("header")).inventory
    except (OSError, ValueError):
        return ""


def read(path: Path) -> Recovered:
    """What a run had established, from its journal.

    Raises:
        CannotRun: it cannot be read.
        InputErrors: it is no journal, or its first line is damaged.
    """
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise CannotRun(
            Problem(str(path), "must be the journal of a run", error.strerror or str(error),
                    "there is nothing to go on with", "rackwright preflight --hosts hosts.ini")
        ) from None  # fmt: skip
    return parse(text, path)


def parse(text: str, path: Path) -> Recovered:
    """As :func:`read`, from the text. What follows the first damaged line is left out."""
    lines = text.split("\n")
    first = _object(lines[0])
    try:
        header = Results.model_validate(first.get("header"))
    except ValidationError:
        found = "a damaged first line" if is_journal(text) else "something else"
        raise InputErrors(
            Problem(str(path), f"must be a journal ({SCHEMA})", found, "nothing can be read out of it",
                    "run it again: rackwright preflight --hosts hosts.ini")
        ) from None  # fmt: skip
    found_results: list[Result] = []
    done: dict[tuple[str, int], str] = {}
    end: Results | None = None
    for line in lines[1:]:
        data = _object(line)
        try:
            if "end" in data:
                end = Results.model_validate(data["end"])
            elif "host" in data:
                done[str(data["host"]), int(data["tier"])] = str(data.get("problem", ""))
            elif data:
                found_results.append(Result.model_validate(data))
            else:
                break
        except (ValueError, KeyError, TypeError):
            break
    lost = {host: problem for (host, _), problem in done.items() if problem}
    if end is None:
        note = "recovered from the journal of a run that did not end by itself"
        end = header.model_copy(update={"unreachable": lost, "notes": (*header.notes, note)})
    return Recovered(
        results=end.model_copy(update={"results": tuple(found_results)}),
        asked=dict(first.get("asked") or {}),
        done=frozenset(key for key, problem in done.items() if not problem),
        ended=end.complete,
    )


def _object(line: str) -> dict[str, Any]:
    """The line as a JSON object; empty where it is none."""
    try:
        data = json.loads(line)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _ended(path: Path) -> bool:
    """Whether the last line says that the run ended by itself: then nothing before it need be read."""
    try:
        last = path.read_bytes().rstrip(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")
    except OSError:
        return False
    end = _object(last).get("end")
    return isinstance(end, dict) and end.get("complete") is True


def set_aside(directory: Path) -> tuple[Path, Recovered] | None:
    """An unfinished run's journal is kept under another name before the next one begins.

    Returns the new name and what it holds; None where there is nothing to keep.
    """
    path = directory / NAME
    if _ended(path):
        return None
    try:
        prior = read(path)
    except (CannotRun, InputErrors):
        return None
    if prior.ended or not prior.results.results:
        return None
    stamp = "".join(c for c in prior.results.started[:19] if c.isdigit()) or "earlier"
    target = directory / f"results-{stamp}.jsonl"
    number = 1
    while target.exists():
        number += 1
        target = directory / f"results-{stamp}-{number}.jsonl"
    path.rename(target)
    return target, prior


def kept(prior: Recovered, tiers: Sequence[int]) -> dict[int, set[str]]:
    """For each tier the hosts that need not be contacted again."""
    return {tier: {host for host, t in prior.done if t == tier} for tier in tiers}
