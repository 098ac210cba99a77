"""``make preview ARGS="--markdown FILE"``: the preview as a comment on a pull request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rackwright.errors import CannotRun, Problem
from rackwright.files import write_whole
from rackwright.plan import Plan
from rackwright.secrets import masked
from stacks.pull_request import comment
from tools.engine.stack import Stack

NO_SHOW = "--diff"
"""For a person's eyes; the JSON has it all."""


def write(stack: Stack, plan: Plan, arguments: Sequence[str], file: Path) -> int:
    """Previews ``stack`` and writes ``file``; gives the exit status of `pulumi`.

    Raises:
        CannotRun: the preview says nothing that can be read; ``file`` is left as it was.
    """
    shown = stack.pulumi(*(a for a in arguments if a != NO_SHOW), "--json")
    write_whole(file, comment(_read(stack, shown.stdout, shown.stderr), plan, stack.name))
    return shown.returncode


def _read(stack: Stack, out: str, err: str) -> dict[str, Any]:
    try:
        preview = json.loads(out)
    except ValueError:
        preview = None
    if not isinstance(preview, dict):
        said = [line for line in (err or out).strip().splitlines() if line.strip()]
        raise CannotRun(
            Problem(
                f"stack {stack.name}", "must be previewed", masked(said[-1]) if said else "no output",
                "there is nothing to comment", f"make preview ENV={stack.name}",
            )
        )  # fmt: skip
    return preview
