"""What is done on one host, over SSH: a release put there, activated, looked at, removed.

The host's own script (``templates/hosts/host.sh.j2``) does the switching and its way back, so that a cut
connection leaves no half. Nothing reaches a shell that is not quoted here.
"""

from __future__ import annotations

import hashlib
import io
import shlex
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from rackwright.errors import CannotRun, Problem
from rackwright.hosts import masked_content
from rackwright.inventory import Host
from remote.transport import AbortedError, Network, Settings, UnreachableError, execute

SHORT_S = 60.0
ABSENT = "absent"
DIFFERS = "differs on the host, not shown"
"""In place of a secret file's content that is not what was put there."""
DAMAGED = "cannot be read back as text"


class HostFailed(CannotRun):
    """A host refused, failed or does not answer. ``rolled_back``: what served before serves again."""

    def __init__(self, problem: Problem, *, rolled_back: bool = False) -> None:
        super().__init__(problem)
        self.rolled_back = rolled_back


@dataclass(frozen=True)
class Found:
    """What a host shows. ``state``: of each replica, and of nginx under ``front``."""

    release: str
    sums: Mapping[str, str]
    modes: Mapping[str, str]
    state: Mapping[str, str]


@dataclass
class Remote:
    """One host. ``script``: the text of its host.sh. ``sudo_password`` goes to sudo's standard input only."""

    host: Host
    root: str
    script: str
    sudo_password: str = ""

    @cached_property
    def _network(self) -> Network:
        return Network(Settings())

    def put(self, name: str, files: Mapping[str, str], modes: Mapping[str, str]) -> str:
        """``files`` as a release; gives the name that it got there.

        Raises:
            HostFailed: it cannot be reached or written.
        """
        code, out = self._inline("unpack", name, stdin=archive(files, modes))
        names = [line.split()[1] for line in out.splitlines() if line.startswith("release ")]
        if code or len(names) != 1:
            raise self._failed("must take a release", code, out, "nothing was changed on it")
        return names[0]

    def check(self, release: str, *, deadline_s: float) -> None:
        """Raises HostFailed: units, nginx, weights or programs are not as the release needs them."""
        code, out = self._own(release, "check", deadline_s)
        if code:
            raise self._failed(
                f"must pass the checks of release {release}", code, out, "nothing was switched; all serves on"
            )

    def activate(self, release: str, *, deadline_s: float) -> None:
        """Switch to ``release``.

        Raises:
            HostFailed: it does not serve. ``rolled_back`` tells whether the version before serves again.
        """
        code, out = self._own(release, "activate", deadline_s)
        if code == 0:
            return
        if code == 3:
            before = next((line[5:] for line in out.splitlines() if line.startswith("back ")), "")
            kept = f"release {before} serves" if before else "nothing stands there, as before"
            problem = self._problem(f"must serve with release {release}", code, out, f"rolled back: {kept}")
            raise HostFailed(problem, rolled_back=True)
        raise self._failed(
            f"must serve with release {release}",
            code,
            out,
            "the way back did not end well either: see its log",
        )

    def found(self) -> Found | None:
        """What stands there; None: nothing.

        Raises:
            HostFailed: it does not answer.
        """
        code, out = self._inline("status")
        if code:
            raise self._failed("must say what stands there", code, out, "drift would go unseen")
        return _found(out)

    def content(self) -> Mapping[str, str]:
        """Files of the current release but its secrets, by path."""
        code, out = self._inline_bytes("files")
        if code:
            raise self._failed("must show its files", code, "", "drift would go unseen")
        texts = {}
        with tarfile.open(fileobj=io.BytesIO(out)) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isfile() else None
                if stream is not None:
                    texts[str(PurePosixPath(member.name))] = _text(stream.read())
        return texts

    def remove(self) -> None:
        """Raises HostFailed: something of it could not be removed."""
        code, out = self._inline("remove")
        if code:
            raise self._failed("must let go of what stands there", code, out, "units may still run")

    # --- one command

    def _own(self, release: str, verb: str, deadline_s: float) -> tuple[int, str]:
        words = ["/bin/sh", f"{self.root}/releases/{release}/host.sh", verb, release]
        code, out = self._root(words, b"", deadline_s)
        return code, _decoded(out)

    def _inline(self, verb: str, *arguments: str, stdin: bytes = b"") -> tuple[int, str]:
        code, out = self._inline_bytes(verb, *arguments, stdin=stdin)
        return code, _decoded(out)

    def _inline_bytes(self, verb: str, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes]:
        """The script as an argument: standard input is the command's, and the host's copy may be damaged."""
        return self._root(["/bin/sh", "-c", self.script, "host.sh", verb, *arguments], stdin, SHORT_S)

    def _root(self, words: list[str], stdin: bytes, deadline_s: float) -> tuple[int, bytes]:
        end = time.monotonic() + deadline_s
        try:
            with self._network.connect(self.host, end) as client:
                prefix, before = self._sudo(client)
                return self._ran(
                    execute(
                        client,
                        shlex.join([*prefix, *words]),
                        timeout_s=max(end - time.monotonic(), 1.0),
                        stdin=before + stdin,
                    )
                )
        except UnreachableError as error:
            raise HostFailed(
                Problem(
                    self.host.name, "must be reached by SSH", error.problem,
                    "nothing was changed on it; other hosts are not affected", error.next,
                )
            ) from None  # fmt: skip
        except AbortedError as error:
            raise HostFailed(
                Problem(
                    self.host.name, "must stay reachable until it is done", error.reason,
                    "the host goes on by itself, or back to what served before",
                    "pulumi refresh, then pulumi up",
                )
            ) from None  # fmt: skip

    def _sudo(self, client: object) -> tuple[list[str], bytes]:
        """How to become root: not at all, without a password, or with one on standard input."""
        code, out, _ = execute(client, "id -u", timeout_s=SHORT_S)  # type: ignore[arg-type]
        if code == 0 and out.strip() == b"0":
            return [], b""
        code, _, err = execute(client, "sudo -n true", timeout_s=SHORT_S)  # type: ignore[arg-type]
        if code == 0:
            return ["sudo", "-n", "--"], b""
        if self.sudo_password:
            return ["sudo", "-S", "-k", "-p", "", "--"], f"{self.sudo_password}\n".encode()
        raise HostFailed(
            Problem(
                self.host.name, "must let its user become root", _decoded(err).strip() or f"status {code}",
                "units and nginx are root's",
                "allow sudo without a password, or pulumi config set --secret rackwright:sudoPassword",
            )
        )  # fmt: skip

    @staticmethod
    def _ran(done: tuple[int, bytes, bytes]) -> tuple[int, bytes]:
        code, out, err = done
        return code, out + (err if code else b"")

    def _failed(self, rule: str, code: int, out: str, why: str) -> HostFailed:
        return HostFailed(self._problem(rule, code, out, why))

    def _problem(self, rule: str, code: int, out: str, why: str) -> Problem:
        lines = masked_content(out).strip().splitlines()
        first = next((index for index, line in enumerate(lines) if line.startswith("why ")), None)
        told = lines[first:] if first is not None else lines[-10:]
        told = [line.removeprefix("why ") for line in told if not line.startswith(("back ", "broken "))]
        found = "\n          ".join(told) or f"status {code}"
        if self.sudo_password:
            found = found.replace(self.sudo_password, "…")
        by_hand = f"look at it: sudo sh {self.root}/current/host.sh status"
        return Problem(self.host.name, rule, found, why, by_hand)


def archive(files: Mapping[str, str], modes: Mapping[str, str]) -> bytes:
    """A tar archive of ``files``, the same bytes for the same files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder in sorted({str(p) for path in files for p in PurePosixPath(path).parents} - {"."}):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for path, text in sorted(files.items()):
            data = text.encode()
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), int(modes[path], 8)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _found(out: str) -> Found | None:
    sums: dict[str, str] = {}
    modes: dict[str, str] = {}
    state: dict[str, str] = {}
    release = ""
    for what, rest in _lines(out):
        if what == "file":
            total, mode, owner, path = rest.split(" ", 3)
            sums[path] = total
            modes[path] = mode.zfill(4) if owner == "0" else f"{mode.zfill(4)}, of user {owner}"
        elif what == "replica":
            name, _, shown = rest.partition(" ")
            state[name] = shown
        elif what == "front":
            state["front"] = rest
        elif what == "release":
            release = rest
    return Found(release, sums, modes, state) if release else None


def _lines(out: str) -> Iterator[tuple[str, str]]:
    for line in out.splitlines():
        what, _, rest = line.partition(" ")
        yield what, rest


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return DAMAGED


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
