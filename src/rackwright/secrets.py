"""What looks like a secret is never printed and never written into a plan."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "a value that is not shown"
_NAME = re.compile(
    r"(^|[-_.])((?<!per[-_])token|secret|password|passwd|passphrase|credentials?)$"
    r"|api[-_]?key$|(access|private|secret|auth)[-_]?key$",
    re.IGNORECASE,
)
_FLAG = re.compile(r"(--?[A-Za-z][-\w]*)=(.*)", re.DOTALL)


def is_secret(name: str) -> bool:
    """Whether a field, flag or variable of this name holds a secret."""
    return bool(_NAME.search(name))


def redacted(node: Any, name: str = "") -> Any:
    """``node`` with :data:`HIDDEN` in place of every secret in it, also on command lines."""
    if isinstance(node, dict):
        return {key: redacted(value, str(key)) for key, value in node.items()}
    if isinstance(node, list):
        before = ["", *node][: len(node)]
        return [
            redacted(item, str(flag).lstrip("-") if str(flag).startswith("-") else name)
            for flag, item in zip(before, node, strict=True)
        ]
    if not isinstance(node, str):
        return node
    flag = _FLAG.fullmatch(node)
    if flag and is_secret(flag.group(1).lstrip("-")):
        return f"{flag.group(1)}={HIDDEN}"
    return HIDDEN if is_secret(name) else node
