"""One verdict in words, the same in pytest, in progress lines and in logs."""

from __future__ import annotations

from collections.abc import Iterable

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
    if result.status is not Status.ERROR or result.remedy != check.remedy:
        lines.append(f"  remedy   {result.remedy}")
    elif check.commands:
        sudo = "sudo " if check.commands[0].root else ""
        lines.append(f"  try      {sudo}{check.commands[0].shell}")
    if result.plan_path:
        lines.append(f"  plan     {result.plan_path}")
    for item in [e for e in result.evidence if e.excerpt][:2]:
        lines.append(f"  evidence $ {item.command}" + (f"   [status {item.rc}]" if item.rc else ""))
        lines += [f"           {line}" for line in item.excerpt.splitlines()[:4]]
    return clean("\n".join(lines))


def warnings(results: Iterable[Result]) -> list[str]:
    """One line a check and finding, with all the subjects that show it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for result in results:
        groups.setdefault((result.check, result.message or result.actual), []).append(result.subject)
    return [f"WARN {check} on {listing(names)}: {one_line(text)}" for (check, text), names in groups.items()]
