"""One verdict in words, the same in pytest, in progress lines and in logs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from checks.evidence import runnable
from checks.registry import Check
from checks.report.text import clean, one_line
from rackwright.errors import listing
from rackwright.verdict import Result, Status


def headline(result: Result) -> str:
    """``os-thp on gpu-01: expected never, found always``; an error says why it could not be measured."""
    head = f"{result.check} on {result.subject}: "
    if result.status is Status.ERROR:
        return head + (result.message or "could not be measured")
    found = f"expected {result.expected or 'another value'}, found {result.actual or 'nothing'}"
    load = f" (at {result.load.value} load)" if result.load else ""
    return head + found + load


def explain(result: Result, check: Check) -> str:
    """What was found, why it matters, what to do. No traceback: the host is wrong, not a test.

    Where nothing was read no remedy is named, which might reboot a healthy host, but what to try.
    """
    lines = [headline(result)]
    if result.status is not Status.ERROR and result.message:
        lines.append(f"  found    {result.message}")
    if result.where:
        lines.append(f"  where    {', '.join(result.where)}")
    lines.append(f"  why      {check.why}")
    if result.remedy and result.status is not Status.ERROR:
        lines.append(f"  remedy   {result.remedy}")
    elif check.commands:
        lines.append(f"  try      {to_try(result, check)}")
    if result.plan_path:
        lines.append(f"  plan     {result.plan_path}")
    for item in [e for e in result.evidence if e.excerpt][:2]:
        where = f"{item.host}: " if item.host else ""
        lines.append(f"  evidence {where}$ {item.command}" + (f"   [status {item.rc}]" if item.rc else ""))
        lines += [f"           {line}" for line in item.excerpt.splitlines()[:4]]
    return clean("\n".join(lines))


def to_try(result: Result, check: Check | None) -> str:
    """The command to run by hand where something was not read: the one that the message is about."""
    about = re.match(r"(?:[\w.-]+: )?`([^`]{1,40})", result.message)
    for item in result.evidence:
        if about and about[1] in item.command:
            return item.command
    for command in check.commands if check else ():
        if about and about[1] in command.title:
            return runnable(command)
    if result.evidence:
        return result.evidence[0].command
    return runnable(check.commands[0]) if check and check.commands else ""


def warnings(results: Iterable[Result]) -> list[str]:
    """One line a check and finding, with all the subjects that show it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for result in results:
        groups.setdefault((result.check, result.message or result.actual), []).append(result.subject)
    return [f"WARN {check} on {listing(names)}: {one_line(text)}" for (check, text), names in groups.items()]
