"""paramiko, without what it imports for one line of an ssh configuration that hardly anyone writes.

``Match exec`` is all that paramiko runs through invoke, whose import (with asyncio and unittest.mock) costs
half as much as paramiko's own. Every module of ours takes paramiko from here.
"""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

__all__ = ["MATCH_EXEC_S", "paramiko", "run"]

MATCH_EXEC_S = 10.0
"""Seconds that the command of a ``Match exec`` may take; then it does not match."""


def run(command: str, **_: Any) -> SimpleNamespace:
    """What paramiko asks of ``invoke.run``: output hidden, errors shown, and whether it ended well."""
    try:
        done = subprocess.run(  # noqa: S602 - a shell command by definition of ssh_config(5)
            command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False,
            timeout=MATCH_EXEC_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return SimpleNamespace(ok=False)
    return SimpleNamespace(ok=done.returncode == 0)


def _stand_in() -> ModuleType:
    module = ModuleType("invoke")
    module.__dict__["run"] = run
    return module


_before = sys.modules.get("invoke")
sys.modules["invoke"] = _stand_in()
try:
    import paramiko
finally:
    if _before is None:
        del sys.modules["invoke"]
    else:
        sys.modules["invoke"] = _before
