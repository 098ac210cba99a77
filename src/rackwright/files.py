"""Output that arrives whole or not at all: files by rename, standard output by one flushed write."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from rackwright.errors import CannotRun, Problem

MODE = 0o666


def write_whole(path: Path, text: str | Iterable[str]) -> None:
    """``text``, or its pieces, at ``path``; a failure leaves what was there before and nothing beside it.

    Raises:
        CannotRun: the place cannot be written.
    """
    try:
        target = path.resolve() if path.is_symlink() else path
        if target.exists() and not target.is_file():
            _directly(target, text)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        _replaced(target, text)
    except (OSError, ValueError, RuntimeError) as error:
        raise CannotRun(_unwritable(str(path), _reason(error))) from None


def say(text: str, *, newline: bool = True) -> None:
    """``text`` on standard output, flushed, so that a full disk is noticed here.

    Raises:
        CannotRun: it cannot be written, or its encoding lacks a character.
    """
    try:
        click.echo(text, nl=newline)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except UnicodeEncodeError as error:
        raise CannotRun(
            Problem(
                "standard output",
                "must take UTF-8",
                f"{error.encoding}, which has no {error.object[error.start]!a}",
                "the output would be mangled",
                "set PYTHONIOENCODING=utf-8, or write into a file",
            )
        ) from None
    except OSError as error:
        _drop_standard_output()
        raise CannotRun(_unwritable("standard output", _reason(error))) from None


def _pieces(text: str | Iterable[str]) -> Iterable[str]:
    return (text,) if isinstance(text, str) else text


def _directly(target: Path, text: str | Iterable[str]) -> None:
    """Into a device or a pipe, which cannot be replaced."""
    if target.is_dir():
        raise IsADirectoryError(21, "a directory")
    with target.open("w", encoding="utf-8") as stream:
        stream.writelines(_pieces(text))


def _replaced(target: Path, text: str | Iterable[str]) -> None:
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(13, "no permission to write it")
    temporary = target.parent / f".{os.getpid()}.part"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.writelines(_pieces(text))
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _drop_standard_output() -> None:
    """What is still buffered would fail again when the interpreter ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error)


def _unwritable(where: str, found: str) -> Problem:
    return Problem(
        where,
        "must be a place that can be written",
        found,
        "nothing was written; what was there is untouched",
        "choose another place, or make room or permission there",
    )
