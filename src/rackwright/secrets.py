"""What looks like a secret is never printed, never written into a plan and never rendered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

HIDDEN = "a value that is not shown"
_NAME = re.compile(
    r"(^|[-_.])((?<!per[-_])token|secret|password|passwd|passphrase|credentials?)$"
    r"|api[-_]?key$|(access|private|secret|auth)[-_]?key$",
    re.IGNORECASE,
)
_FLAG = re.compile(r"(--?[A-Za-z][-\w]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_KEY = re.compile(r"(password|passwd|token|api_?key|secret_?(access)?_?key)$", re.IGNORECASE)
_FLAG_OF_SECRET = re.compile(
    r"(?:^|[\s'\"])(?P<flag>--?(?:[a-z0-9]+[-_])*(?:api[-_]?key|token|password|passwd|secret))(?:[=\s]+(?P<value>\S+)|$)",
    re.IGNORECASE,
)
_CREDENTIAL = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|nvapi-[\w-]{16,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|(?<=://)[^\s/@:$]+:[^\s/@$]+(?=@)"
)
_REFERENCE = re.compile(r"\$\([A-Za-z_]\w*\)|\$\{?[A-Za-z_]\w*\}?|[\"']\$\{?[A-Za-z_]\w*\}?[\"']")


def is_secret(name: str) -> bool:
    """Whether a field, flag or variable of this name holds a secret."""
    return bool(_NAME.search(name))


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable of this name holds one: wider than fields, ``TLS_KEY`` included."""
    return bool(_VARIABLE.search(name))


def is_secret_key(key: str) -> bool:
    """Whether a text under this key of a chart's values is one. ``existingSecret`` names one and is none."""
    return bool(_KEY.search(key))


def holds_credential(text: str) -> bool:
    """Whether a secret stands in ``text``, by its own form: keys of model hubs, APIs and clouds,
    user and password of an address."""
    return bool(_CREDENTIAL.search(text))


def is_reference(value: str) -> bool:
    """Whether ``value`` is filled in later from a variable: ``$(TOKEN)``, ``${TOKEN}``."""
    return bool(_REFERENCE.fullmatch(value))


def secret_flags(words: Sequence[str]) -> Iterator[str]:
    """Flags that are given a secret, in the same word or the next, also inside a shell's command line."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        for match in _FLAG_OF_SECRET.finditer(word):
            value = match["value"] or following
            if not (is_reference(value) or value.isdigit()):
                yield match["flag"]


def masked(text: str, mark: str = HIDDEN) -> str:
    """``text`` with ``mark`` in place of its secrets: values of flags, and credentials by their form."""

    def flag(match: re.Match[str]) -> str:
        value = match["value"]
        if not value or value.isdigit() or is_reference(value):
            return match[0]
        return match[0][: match.start("value") - match.start()] + mark

    return _CREDENTIAL.sub(mark, _FLAG_OF_SECRET.sub(flag, text))


def redacted(node: Any, name: str = "") -> Any:
    """``node`` with :data:`HIDDEN` in place of every secret in it: by name, by form, on command lines."""
    if isinstance(node, dict):
        variable = str(node.get("name", "")) if isinstance(node.get("value"), str) else ""
        hidden = is_secret_variable(variable) and not is_reference(node["value"])
        return {
            key: HIDDEN if hidden and key == "value" else redacted(value, str(key))
            for key, value in node.items()
        }
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
        return node if is_reference(flag.group(2)) else f"{flag.group(1)}={HIDDEN}"
    return HIDDEN if is_secret(name) and not is_reference(node) else masked(node)
