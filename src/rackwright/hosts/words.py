"""Words of a command line in the spelling of systemd, of a shell and of a property list."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

_REFERENCE = re.compile(r"\$\(([A-Za-z_]\w*)\)")
"""A variable as a plan writes it: the kubelet's spelling."""
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")


def systemd(word: str) -> str:
    """``word`` as one argument of ``ExecStart=``: specifiers and variables are escaped, but the plan's own
    references, which become systemd's."""
    if _PLAIN.fullmatch(word):
        return word
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    kept = "".join(
        f"${{{part}}}" if number % 2 else part.replace("$", "$$")
        for number, part in enumerate(_REFERENCE.split(text))
    )
    return f'"{kept}"'


def shell(word: str) -> str:
    """``word`` as one word of a POSIX shell, the plan's references as variables of it."""
    parts = [
        f'"${{{part}}}"' if number % 2 else shlex.quote(part) if part else ""
        for number, part in enumerate(_REFERENCE.split(word))
    ]
    return "".join(parts) or "''"


def references(words: Iterable[str]) -> set[str]:
    """Names of the variables that ``words`` refer to."""
    return {name for word in words for name in _REFERENCE.findall(word)}


def with_option(args: tuple[str, ...], option: str, value: str) -> tuple[str, ...] | None:
    """``args`` with another value of ``option``, in the spelling it has there; None: it is not there."""
    made, found, skip = [], False, False
    for index, word in enumerate(args):
        if skip:
            skip = False
        elif word.startswith(f"{option}="):
            made.append(f"{option}={value}")
            found = True
        elif word == option and index + 1 < len(args):
            made += [option, value]
            found = skip = True
        else:
            made.append(word)
    return tuple(made) if found else None


def below(args: tuple[str, ...], mount: str, directory: str) -> tuple[str, ...]:
    """``args`` with paths below ``mount``, where a container has the weights, below ``directory``."""
    at = re.compile(rf"(^|=){re.escape(mount)}(?=/|$)")
    return tuple(at.sub(lambda match: match[1] + directory, word) for word in args)


def env_lines(variables: Mapping[str, str]) -> str:
    """``NAME=value`` lines: read alike by docker's ``--env-file``, systemd and a shell, since values that
    need quotes are refused before."""
    return "".join(f"{name}={value}\n" for name, value in variables.items())


def env_fits(value: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9_@%+=:,./-]*", value))
