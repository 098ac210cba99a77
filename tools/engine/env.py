"""The environment in which the real engine runs: its programs on PATH, its state in files, no network."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.engine.build import have
from tools.engine.families import ENGINE, HERE

HOSTS = HERE / "bin"
"""Scripts that stand for the language and dynamic-provider hosts of an official install."""


def usable() -> str:
    """Empty where `pulumi` can run here; otherwise why not, with the next command."""
    if os.environ.get("RACKWRIGHT_ENGINE") == "embedded":
        return "RACKWRIGHT_ENGINE=embedded: the embedded engine was asked for"
    _, absent = have(ENGINE)
    return f"{', '.join(absent)}: not there. next: make engine" if absent else ""


def environment(home: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """``base`` (the current one) with what `pulumi` needs. Settings that are there already win, so another
    backend is a matter of PULUMI_BACKEND_URL; state goes below ``home`` otherwise."""
    env = dict(os.environ if base is None else base)
    paths, _ = have(ENGINE)
    folders = dict.fromkeys([str(HOSTS), *(str(p.parent) for p in paths.values())])
    env["PATH"] = os.pathsep.join([*folders, env.get("PATH", os.defpath)])
    env.setdefault("RACKWRIGHT_PYTHON", sys.executable)
    # The host of dynamic providers starts in the program's folder, whose platform.py would hide Python's own.
    env.setdefault("PYTHONSAFEPATH", "1")
    given = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    env["PYTHONPATH"] = os.pathsep.join(
        [str(HERE.parents[1]), *(str(Path(entry).absolute()) for entry in given)]
    )  # a relative entry would mean another folder there
    for name, value in _settings(home, env).items():
        env.setdefault(name, value)
    return env


def for_command(arguments: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """``env`` for `pulumi ARGUMENTS`.

    The engine serializes the whole state after each resource. A preview throws every one of those away, at a
    cost that grows with the square of the resources, so it is told to do so once, at the end. What changes
    something keeps every one: they are what a killed `up` recovers from.
    """
    made = dict(env)
    if arguments and arguments[0] == "preview":
        made.setdefault("PULUMI_SKIP_CHECKPOINTS", "true")
    return made


def _settings(home: Path, base: Mapping[str, str]) -> dict[str, str]:
    state = home / "state"
    state.mkdir(parents=True, exist_ok=True)
    passphrase = {} if "PULUMI_CONFIG_PASSPHRASE_FILE" in base else {"PULUMI_CONFIG_PASSPHRASE": ""}
    return {
        **passphrase,
        "PULUMI_HOME": str(home / "home"),
        "PULUMI_BACKEND_URL": state.resolve().as_uri(),
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
