"""What changes between two sets of files, told without secrets."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from rackwright.secrets import HIDDEN, is_secret_variable, masked

_ASSIGNMENT = re.compile(r"^(\s*)([A-Za-z_]\w*)=(.+)$", re.MULTILINE)


def masked_content(text: str) -> str:
    """``text`` with a mark in place of values of secret variables, of secret flags, and of credentials."""

    def assignment(match: re.Match[str]) -> str:
        if is_secret_variable(match[2]):
            return f"{match[1]}{match[2]}={HIDDEN}"
        return match[0]

    return masked(_ASSIGNMENT.sub(assignment, text))


def unified(
    before: Mapping[str, str], after: Mapping[str, str], *, secret: frozenset[str] = frozenset()
) -> str:
    """A unified diff of two sets of files; of the files named ``secret`` only whether they change."""
    parts = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        if path in secret:
            what = "added" if old is None else "removed" if new is None else "changed"
            parts.append(f"{path}: {what}, {HIDDEN}\n")
            continue
        left = "/dev/null" if old is None else f"host/{path}"
        right = "/dev/null" if new is None else f"plan/{path}"
        hidden = masked_content(old or ""), masked_content(new or "")
        if hidden[0] == hidden[1]:
            parts.append(f"{path}: changed, {HIDDEN}\n")
            continue
        parts += difflib.unified_diff(
            hidden[0].splitlines(keepends=True), hidden[1].splitlines(keepends=True), left, right, n=2
        )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in parts)
