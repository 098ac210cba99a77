"""Reading counted fields of a file somebody else wrote: no length is believed before the file has it."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

from rackwright.errors import InputErrors, Problem
from rackwright.yamlio import printable


class Cursor:
    """Little-endian fields of ``stream``, of which at most ``limit`` bytes may be read."""

    def __init__(self, stream: BinaryIO, where: str, size: int, limit: int) -> None:
        self._stream = stream
        self.where = where
        self.left = min(size, limit)
        self._cut = size > limit

    def refuse(self, rule: str, found: str) -> InputErrors:
        """The error that this header cannot be trusted."""
        return InputErrors(
            Problem(
                printable(self.where),
                rule,
                printable(found)[:120],
                "a header like this is damaged or made to exhaust memory; nothing of it is believed",
                "download the file again and compare its SHA-256",
            )
        )

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes.

        Raises:
            InputErrors: the file has fewer, or the header has become longer than any real one.
        """
        if count > self.left:
            what = "more header than any model has" if self._cut else f"{self.left:,} bytes left in the file"
            raise self.refuse(f"must have the {count:,} bytes that its header announces", what)
        data = self._stream.read(count)
        if len(data) != count:
            raise self.refuse("must not end inside its header", f"{len(data):,} of {count:,} bytes")
        self.left -= count
        return data

    def number(self, code: str) -> Any:
        """One number by its ``struct`` code."""
        return struct.unpack(f"<{code}", self.take(struct.calcsize(code)))[0]

    def skip(self, count: int) -> None:
        """Pass over ``count`` bytes without holding them."""
        if count > self.left:
            self.take(count)
        self._stream.seek(count, 1)
        self.left -= count

    def text(self, longest: int) -> str:
        """A string with its length before it."""
        length = self.number("Q")
        if length > longest:
            raise self.refuse(f"must have strings of at most {longest:,} bytes here", f"one of {length:,}")
        return self.take(length).decode("utf-8", errors="replace")
