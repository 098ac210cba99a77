"""Secrets in what a host printed are dropped before anything is kept, judged or shown."""

from __future__ import annotations

import re
from itertools import islice

from rackwright.secrets import masked

DROPPED = "[dropped]"
_HINTS = (
    "passw", "passphrase", "secret", "token", "api-key", "api_key", "apikey", "credential", "private",
    "community", "bearer", "basic ", "://", "sk-", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_",
    "akia",
)  # fmt: skip
"""One of these stands in every text that holds a secret we know the form of; looking for them is cheap."""
_CLEAN: set[int] = set()
_CLEAN_MAX = 100_000
"""Texts without a hint, by their hash (of a key that no host knows): a pool's hosts print the same."""
_CLEAN_LINES: set[str] = set()
_CLEAN_LINES_MAX = 20_000
_SHORT = 200
"""Lines without a hint. No hint spans lines, and most lines of a report stand in it for each GPU."""
_LABELLED = re.compile(
    r"(?P<label>[\w.-]*(?:pass(?:word|wd|phrase)|secret|token|api[_-]?key|private[_-]?key|community|"
    r"credentials?)[\"']?[ \t]*[:=][ \t]*[\"']?)(?P<value>[^\s\"',;<>]+)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<label>\b(?:bearer|basic)[ \t]+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_IN_URL = re.compile(r"(?P<label>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)", re.IGNORECASE)
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)


def without_secrets(text: str) -> str:
    """``text`` with :data:`DROPPED` in place of passwords, tokens and keys, told by their label or form."""
    number = hash(text)
    if number in _CLEAN:
        return text
    lines = set(text.split("\n")) - _CLEAN_LINES
    low = "\n".join(lines).lower()
    if not any(hint in low for hint in _HINTS):
        if len(_CLEAN) >= _CLEAN_MAX:
            _CLEAN.clear()
        _CLEAN.add(number)
        if len(_CLEAN_LINES) >= _CLEAN_LINES_MAX:
            _CLEAN_LINES.clear()
        _CLEAN_LINES.update(line for line in islice(lines, _CLEAN_LINES_MAX) if len(line) <= _SHORT)
        return text
    return "\n".join(map(_line, _KEY_BLOCK.sub(DROPPED, text).split("\n")))


def _line(line: str) -> str:
    low = line.lower()
    if not any(hint in low for hint in _HINTS):
        return line
    for pattern in (_LABELLED, _BEARER, _IN_URL):
        line = pattern.sub(rf"\g<label>{DROPPED}", line)
    return masked(line, DROPPED)
