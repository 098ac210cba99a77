"""The summary at the end of a run: compact, and readable by somebody who was woken for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

from checks.registry import Check
from checks.report.causes import Cause
from checks.report.findings import SYMBOLS, UNREACHABLE, WORDS, Finding, Group, Report, Verdict, examine
from checks.report.text import clean, display_width, duration, folded, is_prose, plural, wrap
from rackwright.verdict import Results, Status

COLUMNS = 100
_INDENT = "    "
_LABEL = 10
_GROUPS = 6
_NOTES = 8
_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "1;31",
    "yellow": "33",
    "green": "1;32",
    "magenta": "35",
    "cyan": "36",
}
_COLOURS: dict[str, str] = {
    Verdict.READY: "green", Verdict.NOT_READY: "red", Verdict.INCOMPLETE: "yellow",
    Status.FAIL: "red", Status.ERROR: "magenta", Status.WARN: "yellow", "open": "cyan",
    "waived": "yellow",
    UNREACHABLE: "magenta",
}  # fmt: skip


def use_colour(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal that wants colour (NO_COLOR and TERM=dumb say that it does not)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def summary(
    results: Results,
    *,
    registry: Mapping[str, Check],
    width: int | None = None,
    colour: bool = False,
    file: str = "",
) -> str:
    """The whole summary. ``file``: where the results were written, for the last hint.

    Lines fit ``width`` columns, by default the terminal's and at most 100.
    """
    columns = max(60, width or min(shutil.get_terminal_size((COLUMNS, 24)).columns, COLUMNS))
    lines = _Writer(columns, colour).report(examine(results, registry, file=file))
    return "\n".join(lines) + "\n"


class _Writer:
    """Lines of one summary."""

    def __init__(self, columns: int, colour: bool) -> None:
        self.columns = columns
        self.colour = colour

    def report(self, report: Report) -> Iterator[str]:
        yield from self._header(report)
        yield from self._unreachable(report)
        for finding in report.failures:
            yield ""
            yield from self._block(finding)
        for cause in report.causes:
            yield ""
            yield from self._cause(cause)
        for finding in report.lone:
            yield ""
            yield from self._block(finding)
        yield from self._section("Waived", report.waived, self._waived)
        yield from self._section("Warnings (they do not block)", report.warned, self._warning)
        yield from self._alike(report)
        yield from self._section("Open until full load", report.open, self._open)
        yield from self._notes(report)
        yield from self._totals(report)
        yield from self._next(report)

    def _paint(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.colour and style and text else text

    def _header(self, report: Report) -> Iterator[str]:
        parts = [report.started] if report.started else []
        parts.append(f"plan {report.plan}" + (f" ({report.digest})" if report.digest else ""))
        parts += [plural(len(report.hosts), "host"), plural(report.checks, "check"), duration(report.seconds)]
        yield from (
            self._paint(line, "dim") for line in wrap("Preflight · " + " · ".join(parts), self.columns)
        )
        yield ""
        verdict = str(report.verdict)
        first, *rest = wrap(f"{verdict}  {report.sentence}", self.columns)
        yield self._paint(verdict, _COLOURS[verdict]) + first.removeprefix(verdict)
        yield from rest

    def _heading(self, finding: Finding, state: str) -> Iterator[str]:
        mark = (
            f"{SYMBOLS[state]} {WORDS[state].split()[0].upper() if state == 'open' else WORDS[state].upper()}"
        )
        reach = folded_count(finding)
        title = f"{finding.title} ({finding.severity}, {reach})"
        first, *rest = wrap(f"{mark}  {finding.check}  {title}", self.columns)
        painted = first.replace(mark, self._paint(mark, _COLOURS[state]), 1)
        yield painted.replace(finding.check, self._paint(finding.check, "bold"), 1)
        yield from (_INDENT + line for text in rest for line in wrap(text, self.columns - len(_INDENT)))

    def _block(self, finding: Finding) -> Iterator[str]:
        yield from self._heading(finding, finding.status)
        if finding.expected:
            yield from self._field("expected", finding.expected)
        for group in finding.groups[:_GROUPS]:
            yield from self._group(group, expected=not finding.expected)
        left = [s for g in finding.groups[_GROUPS:] for s in g.subjects]
        if left:
            yield from self._field("and", f"{plural(len(left), finding.scope)} more: {folded(left)}")
        if finding.why:
            yield from self._field("why", finding.why)
        if finding.status == Status.ERROR and finding.command:
            yield from self._commands("try", finding.command)
        yield from self._remedy(finding)

    def _cause(self, cause: Cause) -> Iterator[str]:
        """What one cause kept from being measured, in one block."""
        mark = f"{SYMBOLS[Status.ERROR]} {WORDS[Status.ERROR].upper()}"
        reach = ", ".join(plural(len(names), scope) for scope, names in cause.subjects.items())
        checks = plural(len(cause.checks), "check")
        first, *rest = wrap(f"{mark}  {cause.text} ({cause.severity}, {checks}, {reach})", self.columns)
        yield first.replace(mark, self._paint(mark, _COLOURS[Status.ERROR]), 1)
        yield from (_INDENT + line for text in rest for line in wrap(text, self.columns - len(_INDENT)))
        names = [folded(names) if scope == "host" else f"{scope} {folded(names)}"
                 for scope, names in cause.subjects.items()]  # fmt: skip
        yield from self._field("on", "; ".join(names), "cyan")
        yield from self._field("checks", ", ".join(cause.checks))
        if cause.see:
            yield from self._field("see", f"{cause.see} above: its remedy mends this too")
        if cause.command:
            yield from self._commands("try", cause.command)
        yield from self._commands("remedy", cause.remedy)
        if cause.note:
            yield from self._field("", cause.note)

    def _waived(self, finding: Finding) -> Iterator[str]:
        for group in finding.groups:
            text = f"~ WAIVED  {finding.check}  {folded(group.subjects, 60)}  found {group.found}"
            yield from self._one_line(f"{text} · {group.waiver}", "waived")

    def _group(self, group: Group, *, expected: bool) -> Iterator[str]:
        yield from self._field("on", folded(group.subjects), "cyan")
        if expected and group.expected:
            yield from self._field("  expected", group.expected)
        yield from self._field("  found", group.found, "bold")
        if group.detail:
            yield from self._field("", group.detail)
        yield from self._commands("  remedy", group.remedy)

    def _remedy(self, finding: Finding) -> Iterator[str]:
        yield from self._commands("remedy", finding.remedy)
        if finding.note:
            yield from self._field("", finding.note)
        if finding.remedy and finding.reversible is False:
            yield from self._field("", "this is not reversible", "yellow")

    def _field(self, label: str, text: str, style: str = "") -> Iterator[str]:
        room = self.columns - len(_INDENT) - _LABEL - 1
        for number, line in enumerate(wrap(text, room)):
            shown = "" if number else label
            pad = " " * (_LABEL - len(shown) + 1)
            yield f"{_INDENT}{self._paint(shown, 'dim')}{pad}{self._paint(line, style)}".rstrip()

    def _commands(self, label: str, text: str) -> Iterator[str]:
        for number, line in enumerate(clean(text).splitlines()):
            yield from self._command("" if number else label, line)

    def _command(self, label: str, command: str) -> Iterator[str]:
        """A command to copy: whole where it fits, else continued so that pasting all lines still works."""
        room = self.columns - len(_INDENT) - _LABEL - 1
        if display_width(command) <= room or is_prose(command):
            yield from self._field(label, command)
        elif display_width(command) + len(_INDENT) <= self.columns:
            yield from self._field(label, "")
            yield _INDENT + command
        else:
            yield from self._field(label, "")
            yield from (_INDENT + line for line in continued(command, self.columns - len(_INDENT)))

    def _unreachable(self, report: Report) -> Iterator[str]:
        if report.unreachable or report.not_checked:
            yield from ("", self._paint("Not reached", "bold"))
        for item in report.unreachable:
            text = f"{SYMBOLS[UNREACHABLE]} UNREACHABLE  {folded(item.hosts)}  {item.reason}"
            yield from self._one_line(text, UNREACHABLE, f"next  {item.next}")
        if report.not_checked:
            text = (
                f"{SYMBOLS[UNREACHABLE]} NOT CHECKED  {folded(report.not_checked)}  no verdict in the results"
            )
            yield from self._one_line(text, UNREACHABLE)

    def _notes(self, report: Report) -> Iterator[str]:
        if report.notes:
            yield from ("", self._paint("Notes", "bold"))
        for note in report.notes[:_NOTES]:
            first, *rest = wrap(note, self.columns - 4)
            yield from ("  · " + first, *(_INDENT + line for line in rest))
        if len(report.notes) > _NOTES:
            yield f"  · and {plural(len(report.notes) - _NOTES, 'note')} more in the results"

    def _section(
        self, title: str, findings: tuple[Finding, ...], line: Callable[[Finding], Iterator[str]]
    ) -> Iterator[str]:
        if findings:
            yield from ("", self._paint(title, "bold"))
        for finding in findings:
            yield from line(finding)

    def _warning(self, finding: Finding) -> Iterator[str]:
        for group in finding.groups[:3]:
            expected = f" · expected {group.expected}" if group.expected else ""
            detail = f" · {group.detail}" if group.detail else ""
            text = f"! WARN  {finding.check}  {folded(group.subjects, 60)}  found {group.found}"
            text += detail + expected
            yield from self._one_line(text, Status.WARN)
        left = [s for g in finding.groups[3:] for s in g.subjects]
        if left:
            yield from self._one_line(f"! WARN  {finding.check}  and on {folded(left, 60)}", Status.WARN)

    def _alike(self, report: Report) -> Iterator[str]:
        if report.alike and not report.warned:
            yield from ("", self._paint("Warnings (they do not block)", "bold"))
        for item in report.alike:
            text = f"! WARN  {plural(len(item.checks), 'check')}  {folded(item.subjects, 60)}  {item.text}"
            yield from self._one_line(text, Status.WARN, ", ".join(item.checks))

    def _open(self, finding: Finding) -> Iterator[str]:
        loads = sorted({g.load for g in finding.groups})
        found = finding.groups[0].actual if len(finding.groups) == 1 else ""
        text = f"○ OPEN  {finding.check}  {folded(finding.subjects, 60)}  taken {' and '.join(loads)}"
        text += f" · found {found}" if found else ""
        text += f" · expected {finding.expected}" if finding.expected else ""
        yield from self._one_line(text, "open")

    def _one_line(self, text: str, state: str, after: str = "") -> Iterator[str]:
        """One line, the mark in colour; ``after`` beside it where it fits, else below."""
        if after and display_width(text) + display_width(after) + 4 <= self.columns - 2:
            text, after = f"{text}  {after}", ""
        mark = text[: text.index("  ")]
        first, *rest = wrap(text, self.columns - 2)
        yield "  " + first.replace(mark, self._paint(mark, _COLOURS[state]), 1)
        for line in [" ".join(rest)] * bool(rest) + [after] * bool(after):
            yield from (_INDENT + "  " + part for part in wrap(line, self.columns - 6))

    def _totals(self, report: Report) -> Iterator[str]:
        yield ""
        line, used = f"{plural(report.total, 'verdict')}: ", 0
        used = display_width(line)
        for state, count in report.counts:
            if not count and state not in (Status.PASS, Status.FAIL):
                continue
            item = f"{SYMBOLS[state]} {count:,} {WORDS[state]}"
            if used + display_width(item) + 2 > self.columns:
                yield line.rstrip()
                line, used = " ", 1
            line += " " + self._paint(item, _COLOURS.get(state, "") if count else "") + " "
            used += display_width(item) + 2
        yield line.rstrip()

    def _next(self, report: Report) -> Iterator[str]:
        if report.next:
            yield from ("", self._paint("Next", "bold"))
        for number, step in enumerate(report.next, 1):
            yield from (
                ("  " if part else f"{number}.").rjust(4) + " " + line
                for part, line in enumerate(wrap(step.text, self.columns - 5))
            )
            yield from ("       " + line for line in continued(step.command, self.columns - 7))


def folded_count(finding: Finding) -> str:
    return plural(len(finding.subjects), finding.scope)


def continued(command: str, columns: int) -> list[str]:
    """A shell command on lines of at most ``columns``, each but the last ending in a backslash.

    It is broken outside quotes only.
    """
    lines, quote = [""], ""
    for word in command.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if display_width(joined) > columns - 2 and lines[-1] and not quote:
            lines.append(word)
        else:
            lines[-1] = joined
        quote = _open_quote(word, quote)
    return [line + " \\" for line in lines[:-1]] + lines[-1:]


def _open_quote(word: str, quote: str) -> str:
    """The quote that is open after ``word``, when ``quote`` was open before it."""
    escaped = False
    for char in word:
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
    return quote
