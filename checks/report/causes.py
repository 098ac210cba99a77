"""What could not be measured, by its cause: one missing tool is one thing to mend, not thirty."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from checks.explain import to_try
from checks.registry import Check
from checks.report.text import first_sentence, natural, one_line, remedy_parts, shorten
from rackwright.verdict import Result, Severity, Status

LEAST = 2
"""Checks that one cause must keep from being measured to stand as a cause of its own."""
_WEIGHT = {Severity.CRITICAL: 0, Severity.MAJOR: 1, Severity.WARN: 2, Severity.INFO: 3}


@dataclass(frozen=True)
class Cause:
    """One cause of several checks' not being measured.

    Attributes:
        text: the cause, in one line.
        subjects: hosts, pools and racks that it touches, by scope.
        command: what to run to look closer.
        see: a check that failed on the same hosts and whose remedy mends this.
        verdicts: how many verdicts it cost.
    """

    text: str
    severity: Severity
    checks: tuple[str, ...]
    subjects: dict[str, tuple[str, ...]]
    command: str
    remedy: str
    note: str
    why: str
    see: str
    verdicts: int


@dataclass(frozen=True)
class _Kind:
    """A form of message. ``text`` and ``key`` are filled from its groups."""

    pattern: re.Pattern[str]
    key: str
    text: str
    mended_by: str = ""


_CMD = r"`(?P<cmd>[^`]*)` "
_KINDS = (
    _Kind(re.compile(_CMD + "is not installed on the host"), "missing {tool}",
          "{tool} is not installed", "host-tools"),
    _Kind(re.compile(_CMD + "needs root"), "root",
          "sudo -n was refused, and these commands need root", "host-privilege"),
    _Kind(re.compile(_CMD + r"was not started: (?P<tool>\S+) did not answer an earlier call"), "hang {tool}",
          "{tool} did not answer", "host-responsive"),
    _Kind(re.compile(_CMD + r"did not finish within (?P<limit>\d+) s"), "hang {tool}",
          "{tool} did not answer", "host-responsive"),
    _Kind(re.compile(_CMD + "was (?P<note>not started: .+)"), "{note}", "commands were {note}"),
    _Kind(re.compile(_CMD + r"ended with status (?P<rc>\d+): (?P<said>.+)"), "{tool} {rc} {short}",
          "{tool} ended with status {rc}: {short}", "host-responsive"),
    _Kind(re.compile(_CMD + "came back incomplete"), "incomplete",
          "outputs came back incomplete: the connection ended before their last byte"),
    _Kind(re.compile("missing expectation "), "expectation",
          "the plan has no expected value for these checks"),
)  # fmt: skip
_OF_THE_DRIVER = ("nvidia-smi", "nv-fabricmanager")
"""Tools that come with the driver, not with a package of tools."""
_TOOL = re.compile(r"^(?:command -v )?([\w./+-]+)")


def causes(results: Iterable[Result], registry: Mapping[str, Check]) -> tuple[tuple[Cause, ...], set[int]]:
    """The causes of what ``results`` could not measure, and which of them (by ``id``) they explain."""
    results = list(results)
    groups: dict[str, list[Result]] = {}
    texts: dict[str, tuple[str, str]] = {}
    for result in results:
        if result.status is Status.ERROR:
            key, text, mended_by = _classify(result)
            groups.setdefault(key, []).append(result)
            texts.setdefault(key, (text, mended_by))
    failed = {(r.check, r.subject) for r in results if r.status is Status.FAIL}
    made, explained = [], set()
    for key, same in groups.items():
        if len({r.check for r in same}) < LEAST:
            continue
        text, mended_by = texts[key]
        made.append(_cause(text, same, mended_by, failed, registry))
        explained |= {id(r) for r in same}
    made.sort(key=lambda c: (_WEIGHT[c.severity], -c.verdicts, c.text))
    return tuple(made), explained


def _classify(result: Result) -> tuple[str, str, str]:
    """Key, text and the check that mends it, of a message that says why something was not measured."""
    message = re.sub(rf"^{re.escape(result.subject)}: |^[\w.-]+: (?=`)", "", one_line(result.message))
    for kind in _KINDS:
        found = kind.pattern.match(message)
        if found is None:
            continue
        words = {k: v for k, v in found.groupdict().items() if v is not None}
        tool = _TOOL.match(words.get("cmd", ""))
        words.setdefault("tool", tool[1] if tool else words.get("cmd", ""))
        words["short"] = shorten(re.split(r" / |\. ", words.get("said", ""))[0].rstrip(), 90)
        mended_by = "" if words["tool"] in _OF_THE_DRIVER and "missing" in kind.key else kind.mended_by
        return kind.key.format(**words), kind.text.format(**words), mended_by
    return message, message or "could not be measured", ""


def _cause(
    text: str, same: list[Result], mended_by: str, failed: set[tuple[str, str]], registry: Mapping[str, Check]
) -> Cause:
    subjects: dict[str, set[str]] = {}
    for result in same:
        subjects.setdefault(result.scope, set()).add(one_line(result.subject))
    hosts = subjects.get("host", set())
    see = mended_by if mended_by and any((mended_by, host) in failed for host in hosts) else ""
    check = registry.get(mended_by)
    remedy, note = (
        remedy_parts(check.remedy) if check and mended_by == "host-privilege" and not see else ("", "")
    )
    if text.removesuffix(" is not installed") in _OF_THE_DRIVER:
        note = "it comes with the driver: install that as the plan pins it, or let its owner do it"
    first = min(same, key=lambda r: (r.scope != "host", natural(r.subject), r.check))
    return Cause(
        text=text,
        severity=min((r.severity for r in same), key=lambda s: _WEIGHT[s]),
        checks=tuple(sorted({r.check for r in same})),
        subjects={
            scope: tuple(sorted(subjects[scope], key=natural))
            for scope in ("host", "rack", "pool")
            if scope in subjects
        },
        command=_try(text, first, registry),
        remedy=remedy,
        note=note,
        why=first_sentence(check.why) if check else "",
        see=see,
        verdicts=len(same),
    )


def _try(text: str, first: Result, registry: Mapping[str, Check]) -> str:
    if text.endswith(" is not installed"):
        return f"command -v {text.removesuffix(' is not installed')}"
    if text.startswith("sudo -n was refused"):
        return "sudo -n true"
    return to_try(first, registry.get(first.check))
