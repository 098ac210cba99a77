"""Runs a collector script on this machine, under a given shell."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from checks.capture import CommandOutput
from checks.collect import build
from checks.frames import Reader
from checks.registry import Check, Command, Scope
from rackwright.verdict import Severity, passed

SHELLS: dict[str, list[str]] = {
    name: argv
    for name, argv in {
        "dash": ["dash"],
        "bash": ["bash", "--posix"],
        "busybox": ["busybox", "ash"],
    }.items()
    if shutil.which(argv[0])
}


def collect_here(
    commands: Sequence[Command],
    variables: Mapping[str, str] | None = None,
    *,
    shell: Sequence[str] = ("dash",),
    deadline_s: float = 30,
    env: Mapping[str, str] | None = None,
    user: int | None = None,
) -> tuple[dict[str, CommandOutput], Reader, subprocess.CompletedProcess[bytes]]:
    script = build(commands, variables or {})
    reader = Reader(script, script.new_nonce())
    done = subprocess.run(
        [*shell, "-s"],
        input=script.text(reader.nonce, deadline_s).encode(),
        capture_output=True,
        timeout=60,
        env={**os.environ, **(env or {})},
        user=user,
        check=False,
    )
    reader.feed(done.stdout)
    return reader.finish(), reader, done


def bin_without(directory: Path, *names: str) -> str:
    """A PATH with every tool of this machine except ``names``."""
    directory.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in Path(folder).iterdir():
            link = directory / tool.name
            if tool.name not in names and not link.exists():
                link.symlink_to(tool)
    return str(directory)


def a_check(name: str, *commands: Command, **fields: object) -> Check:
    values: dict[str, object] = {
        "id": name,
        "title": name,
        "why": "because",
        "severity": Severity.MAJOR,
        "tier": 0,
        "scope": Scope.HOST,
        "commands": commands,
        "expects": "",
        "remedy": "mend it",
        "reversible": True,
        "source": "test",
        "judge": lambda view, want: passed("seen"),
        "area": name.partition("-")[0],
    }
    return Check(**{**values, **fields})  # type: ignore[arg-type]
