"""What a judge sees of a host: outputs and parsed facts, or ``NotMeasured``.

A judge never handles a missing tool, a timeout or an unreadable output: asking for it raises, and the
runner turns that into an *error* verdict with the offending line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from checks.capture import Capture, CommandOutput
from checks.registry import Command

_REASONS = {
    "timeout": "did not finish within {limit} s",
    "capped": "printed more than {cap} bytes; the rest was not kept",
    "denied": "needs root, and sudo -n was refused",
    "missing": "is not installed on the host",
    "skipped": "was {note}",
    "incomplete": "came back incomplete: the connection ended before its last byte",
}


class NotMeasured(Exception):
    """The value could not be read. Never a pass."""

    def __init__(self, message: str, *, evidence: str = "") -> None:
        super().__init__(message)
        self.evidence = evidence


class HostView:
    """One host's capture, read through the parsers, each output parsed once."""

    def __init__(
        self,
        capture: Capture,
        *,
        pool: str,
        rack: str,
        parse: Callable[[str, str], Any],
        commands: Mapping[str, Command],
    ) -> None:
        self.name = capture.host
        self.pool = pool
        self.rack = rack
        self.capture = capture
        self._parse = parse
        self._commands = commands
        self._parsed: dict[str, Any] = {}

    def keep_only(self, keys: Iterable[str]) -> None:
        """Let go of what nobody will ask for: thousands of hosts would not fit otherwise."""
        wanted = set(keys)
        outputs = {key: out for key, out in self.capture.outputs.items() if key in wanted}
        self.capture = self.capture.model_copy(update={"outputs": outputs})
        self._parsed = {key: parsed for key, parsed in self._parsed.items() if key in wanted}

    def output(self, command: Command) -> CommandOutput:
        """The raw result, whatever its state.

        Raises:
            NotMeasured: the command was not part of this collection, or the host was not reached.
        """
        if self.capture.problem:
            raise NotMeasured(self.capture.problem)
        try:
            return self.capture.outputs[command.key]
        except KeyError:
            raise NotMeasured(f"`{command.title}` was not collected") from None

    def text(self, command: Command) -> str:
        """Standard output of a command that did its work.

        Raises:
            NotMeasured: it is missing, was refused, timed out, was cut, or failed.
        """
        out = self.output(command)
        name = f"`{command.title.split(' 2>')[0][:80]}`"
        if out.state != "done":
            reason = _REASONS[out.state].format(
                limit=command.timeout_s, cap=command.cap_bytes, note=out.stderr
            )
            raise NotMeasured(f"{name} {reason}", evidence=_first_lines(out))
        if out.rc not in command.ok_rcs:
            raise NotMeasured(
                f"{name} ended with status {out.rc}: {_first_lines(out)}", evidence=_first_lines(out)
            )
        return out.stdout

    def facts(self, command: Command) -> dict[str, Any]:
        """The facts that the command's parser read.

        Raises:
            NotMeasured: as :meth:`text`, or the parser did not understand the output.
        """
        parsed = self.parsed(command)
        if not parsed.understood:
            lines = "; ".join(str(p.text) for p in parsed.problems[:2]) or "no line of it was recognised"
            raise NotMeasured(
                f"the output of `{command.title[:60]}` was not understood: {lines}", evidence=lines
            )
        facts: dict[str, Any] = parsed.facts
        return facts

    def parsed(self, command: Command) -> Any:
        """Facts, problems and whether the output was understood, parsed once however often it is asked for.

        Raises:
            NotMeasured: as :meth:`text`.
        """
        if command.key not in self._parsed:
            self._parsed[command.key] = self._parse(command.parser, self.text(command))
        return self._parsed[command.key]


def _first_lines(out: CommandOutput) -> str:
    for text in (out.stderr, out.stdout):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines:
            return " / ".join(lines[:2])[:200]
    return "it printed nothing"
