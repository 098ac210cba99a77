"""Reads what a collector sends: frames of results, each followed by exactly the bytes it announces.

The format is described in :mod:`checks.collect`, which writes the script.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from checks.capture import CommandOutput
from checks.collect import Script, tool_of
from checks.hidden import without_secrets
from checks.registry import Command

State = Literal["done", "timeout", "capped", "denied", "missing", "incomplete", "skipped"]

_NOTES = {
    "late": "not started: the time allowed for the host was used up",
    "hung": "not started: {tool} did not answer an earlier call",
    "full": "not kept whole: no space is left where the host keeps outputs (/dev/shm or /tmp)",
}


_KEPT_BYTES = 64_000
"""What is kept of an output beyond its cap: nobody judges it, it only shows what the tool was doing."""


@dataclass
class Reader:
    """Reads frames as they arrive; what is complete stays complete whatever happens next."""

    script: Script
    nonce: str
    outputs: dict[str, CommandOutput] = field(default_factory=dict)
    ended: bool = False
    fatal: str = ""
    _pending: bytearray = field(default_factory=bytearray)
    _full: bool = False

    def __post_init__(self) -> None:
        self._mark = f"\n@rw {self.nonce} ".encode()

    def feed(self, data: bytes) -> None:
        self._pending += data
        while not self.ended and self._step():
            pass

    def finish(self) -> dict[str, CommandOutput]:
        """All outputs: a command whose last byte did not come is ``incomplete``."""
        for command in self.script.commands:
            if command.key not in self.outputs:
                self.outputs[command.key] = CommandOutput(
                    key=command.key, command=command.shell, state="incomplete"
                )
        return {c.key: self.outputs[c.key] for c in self.script.commands}

    @property
    def missing(self) -> int:
        return len(self.script.commands) - len(self.outputs)

    def _step(self) -> bool:
        start = self._pending.find(self._mark)
        if start < 0:
            del self._pending[: max(len(self._pending) - len(self._mark), 0)]
            return False
        if start:
            del self._pending[:start]
        line_end = self._pending.find(b"\n", len(self._mark))
        if line_end < 0:
            return False
        words = self._pending[len(self._mark) : line_end].decode("utf-8", "replace").split()
        kind = words[0] if words else ""
        if kind == "end":
            self.ended = int(words[1]) == len(self.script.commands) == len(self.outputs)
            return False
        if kind == "fatal":
            self.fatal = " ".join(words[1:])
            return False
        if kind != "frame":
            self._full = kind == "full"
            del self._pending[: line_end + 1]
            return True
        try:
            return self._frame(int(words[1]), int(words[2]), line_end + 1)
        except (ValueError, IndexError):  # a header nobody would send: a tool of the host is not what it says
            del self._pending[: line_end + 1]
            return True

    def _frame(self, commands: int, files: int, at: int) -> bool:
        count = commands + files + (files > 1)
        lines = []
        for _ in range(count):
            end = self._pending.find(b"\n", at)
            if end < 0:
                return False
            lines.append(self._pending[at:end].decode("ascii", "replace").split())
            at = end + 1
        sizes = {words[1]: int(words[0]) for words in lines[commands : commands + files]}
        total = sum(sizes.values())
        following = bytes(self._pending[at + total : at + total + len(self._mark)])
        if len(following) < len(self._mark):
            return False
        if following != self._mark:
            # A stray process grew a file after it was counted: nothing of this frame can be trusted.
            del self._pending[:at]
            return True
        contents = {}
        for name, size in sizes.items():
            contents[name] = bytes(self._pending[at : at + size])
            at += size
        for words in lines[:commands]:
            self._keep(words, contents)
        del self._pending[:at]
        return True

    def _keep(self, words: list[str], contents: Mapping[str, bytes]) -> None:
        index, word, rc, ms = words
        command = self.script.commands[int(index)]
        out, err = contents.get(f"{index}.o", b""), contents.get(f"{index}.e", b"")
        word = "full" if word == "done" and self._full else word
        note = _NOTES.get(word, "").format(tool=tool_of(command))
        state = _state(word, rc, max(len(out), len(err)), command)
        kept = min(command.cap_bytes, _KEPT_BYTES) if state == "capped" else command.cap_bytes
        self.outputs[command.key] = CommandOutput(
            key=command.key,
            command=command.shell,
            state=state,
            rc=int(rc) if rc != "-" else None,
            seconds=int(ms) / 1000,
            stdout=without_secrets(out[:kept].decode("utf-8", "replace")),
            stderr=note or without_secrets(err[:kept].decode("utf-8", "replace")),
        )


def _state(word: str, rc: str, size: int, command: Command) -> State:
    if word in ("late", "hung", "full"):
        return "skipped"
    if word in ("timeout", "denied", "missing"):
        return word  # type: ignore[return-value]
    if size >= max(command.cap_bytes // 512, 1) * 512:
        return "capped"
    return "missing" if rc == "127" else "done"
