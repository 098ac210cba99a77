"""The fleet matrix as compact data: strings once, equal verdicts once, one number a cell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from checks.remedy import marked
from checks.report.findings import (
    LOADS,
    NOT_CHECKED,
    SYMBOLS,
    UNREACHABLE,
    WORDS,
    Registry,
    display_state,
    open_readings,
    waiver_text,
)
from checks.report.text import clean, natural, one_line, shorten
from rackwright.plan import Plan
from rackwright.verdict import Result, Results, Status

EXCERPTS = {True: (400, 0), False: (4_000, 600)}
"""Characters of one output that a page carries, of passed checks and of the others: usually, and where they
are too many for a browser. The results file keeps them whole."""
BUDGET = 4_000_000
"""Characters of outputs in a page, for each of both kinds."""

Row = tuple[str, str, str, str]
"""Kind (pool, rack, host), name, pool, rack."""

_STATES = list(SYMBOLS)


class Table:
    """Values kept once, in order of first use."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._known: dict[Any, int] = {}

    def add(self, value: Any) -> int:
        index = self._known.setdefault(value, len(self.values))
        if index == len(self.values):
            self.values.append(value)
        return index


def matrix(results: Results, registry: Registry, plan: Plan | None) -> dict[str, Any]:
    """What the page's script reads; the layout is described where it is read, in the template."""
    cells: dict[tuple[str, str, str], Result] = {(r.scope, r.subject, r.check): r for r in results.results}
    checks = sorted({r.check for r in results.results})
    rows = list(_rows(results, plan))
    judged = {r.subject for r in results.results}
    per_host = {r.check for r in results.results if r.scope == "host"}
    strings, records = Table(), Table()
    encode = _encoder(results, strings)

    def line(kind: str, name: str) -> list[int]:
        found = (cells.get((kind, name, check)) for check in checks)
        return [-1 if cell is None else records.add(encode(cell)) for cell in found]

    return {
        "states": [[state, SYMBOLS[state], WORDS[state]] for state in _STATES],
        "checks": [_column(check, check in per_host, results, registry) for check in checks],
        "rows": [_row(row, results, judged) for row in rows],
        "strings": strings.values,
        "records": records.values,
        "cells": [line(kind, name) for kind, name, _, _ in rows],
    }


def as_script_data(data: dict[str, Any]) -> str:
    """JSON that can stand inside a script element whatever it holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _rows(results: Results, plan: Plan | None) -> Iterator[Row]:
    """Pools, in each its racks, in each its hosts; then subjects that stand in no pool."""
    pool_of, rack_of = _places(results, plan)
    groups: dict[str, dict[str, list[str]]] = {}
    for host in sorted({*results.hosts, *results.unreachable, *_subjects(results, "host")}, key=natural):
        groups.setdefault(pool_of.get(host, ""), {}).setdefault(rack_of.get(host, ""), []).append(host)
    for pool in _subjects(results, "pool"):
        groups.setdefault(pool, {})
    shown = set()
    for pool, racks in sorted(groups.items(), key=lambda item: (not item[0], natural(item[0]))):
        yield ("pool", pool, pool, "")
        for rack, hosts in sorted(racks.items(), key=lambda item: natural(item[0])):
            if rack:
                shown.add(rack)
                yield ("rack", rack, pool, rack)
            yield from (("host", host, pool, rack) for host in hosts)
    yield from (("rack", rack, "", rack) for rack in _subjects(results, "rack") if rack not in shown)


def _places(results: Results, plan: Plan | None) -> tuple[dict[str, str], dict[str, str]]:
    pools = {r.subject: r.pool for r in results.results if r.scope == "host" and r.pool}
    racks: dict[str, str] = {}
    for pool in plan.pools if plan else ():
        for node in pool.nodes:
            pools.setdefault(node.name, pool.name)
            racks[node.name] = node.rack
    return pools, racks


def _subjects(results: Results, scope: str) -> list[str]:
    return sorted({r.subject for r in results.results if r.scope == scope}, key=natural)


def _row(row: Row, results: Results, judged: set[str]) -> list[str]:
    kind, name, pool, rack = row
    reason, state = "", ""
    if kind == "host" and name in results.unreachable:
        reason, state = one_line(results.unreachable[name]), UNREACHABLE
    elif kind == "host" and name not in judged:
        reason, state = "no verdict in the results", NOT_CHECKED
    return [kind, one_line(name), one_line(pool), one_line(rack), reason, state]


def _column(name: str, on_hosts: bool, results: Results, registry: Registry) -> dict[str, Any]:
    check = registry.get(name)
    if check is None:
        title = next(r.title for r in results.results if r.check == name)
        area = name.partition("-")[0]
        return {"id": name, "host": on_hosts, "area": area, "title": one_line(title), "why": "", "source": ""}
    return {
        "id": name,
        "host": on_hosts,
        "area": check.area,
        "title": one_line(check.title),
        "why": one_line(check.why),
        "source": one_line(check.source),
        "remedy": clean(marked(check)),
        "reversible": check.reversible,
    }


def _limit(results: Results, passed: bool) -> int:
    usual, small = EXCERPTS[passed]
    outputs = {e.excerpt for r in results.results if (r.status is Status.PASS) is passed for e in r.evidence}
    return usual if sum(min(len(text), usual) for text in outputs) <= BUDGET else small


def _encoder(results: Results, strings: Table) -> Callable[[Result], tuple[Any, ...]]:
    waiting = open_readings(results.results)
    limits = {passed: _limit(results, passed) for passed in EXCERPTS}

    known: dict[str, int] = {}

    def text(value: str) -> int:
        index = known.get(value)
        if index is None:
            index = known[value] = strings.add(clean(value))
        return index

    def encode(result: Result) -> tuple[Any, ...]:
        state = UNREACHABLE if result.subject in results.unreachable else display_state(result, waiting)
        limit = limits[result.status is Status.PASS]
        evidence = tuple(
            (
                text(e.command),
                -1 if e.rc is None else e.rc,
                text(shorten(e.excerpt, limit) if limit else ""),
                text(e.host),
            )
            for e in result.evidence
        )
        return (
            _STATES.index(state),
            text(str(result.severity)),
            text(result.expected),
            text(result.actual),
            text(result.message),
            text(LOADS[result.load] if result.load else ""),
            text(", ".join(result.where)),
            text(result.remedy),
            text(result.plan_path),
            evidence,
            text(waiver_text(result)),
        )

    return encode
