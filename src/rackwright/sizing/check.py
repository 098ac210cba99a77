"""Proves a plan again: that its workload still gives it, that its red lines hold, that its flags exist."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rackwright.catalog import Catalog
from rackwright.engines import registry
from rackwright.errors import InputErrors, Problem, RackwrightError
from rackwright.plan import Plan, digest_problem, link_problems, plan_from_document, read_plan
from rackwright.secrets import redacted
from rackwright.sizing import drift
from rackwright.sizing.estimate import RED_LINE_BANDWIDTH, RED_LINE_MEMORY
from rackwright.sizing.joint import plan_of
from rackwright.yamlio import load_yaml, quoted

AGAIN = "put the change under overrides: in the workload, then: rackwright size WORKLOAD.yaml -o plan.yaml"


def read_for_check(path: Path) -> tuple[Plan, tuple[Problem, ...]]:
    """The plan at ``path`` as it stands, and what is wrong with the digest it states.

    Raises:
        CannotRun, InputErrors: as ``load_plan``, but neither for a digest nor for a broken link.
    """
    document = load_yaml(path, next_command=f"rackwright size WORKLOAD.yaml -o {shlex.quote(str(path))}")
    try:
        return plan_from_document(document), ()
    except InputErrors:
        if not isinstance(document.data, dict) or "header" not in document.data:
            raise
        plan = read_plan(document)
        edited = digest_problem(plan, document)
        return plan, (edited,) if edited else ()


def load_for_check(path: Path) -> Plan:
    """The plan at ``path``, also where its digest does not match: the check says what differs."""
    return read_for_check(path)[0]


def check(plan: Plan, catalog: Catalog) -> list[Problem]:
    """Everything wrong with ``plan``; empty where it is as its workload gives it and keeps the rules."""
    return [
        *_differences(plan, catalog),
        *link_problems(plan),
        *_red_lines(plan),
        *_flags(plan),
        *_refusals(plan),
    ]


def notes(plan: Plan, catalog: Catalog) -> Iterator[str]:
    """What is worth knowing and no finding."""
    try:
        fresh = plan_of(plan.workload, catalog)
    except RackwrightError:
        return
    if plan.header.catalog_digest != fresh.header.catalog_digest:
        yield (
            "header.catalog_digest: the catalog entries that were read have changed since; a value that "
            "follows from the change is a finding"
        )


EXEMPT = "header.catalog_digest"


def _differences(plan: Plan, catalog: Catalog) -> Iterator[Problem]:
    try:
        fresh = plan_of(plan.workload, catalog)
    except RackwrightError as error:
        yield from (replace(p, where=f"workload.{p.where}") for p in error.problems)
        return
    fresh = _as_searched(fresh, plan)
    drifted = list(drift.problems(plan, fresh, catalog))
    yield from drifted
    for path, was, now in differences(fresh.as_dict(), redacted(plan.as_dict())):
        if path == EXEMPT or (drifted and not drift.typed(path)):
            continue
        yield Problem(
            path,
            f"must be {_short(was)}, as the workload gives it",
            _short(now),
            "a value that was edited by hand is lost at the next sizing",
            AGAIN,
        )


def _as_searched(fresh: Plan, plan: Plan) -> Plan:
    """``fresh`` with what ``plan`` says of its search, which names machines and is not repeated."""
    shares = fresh.shares
    if shares is not None and plan.shares is not None and len(shares) == len(plan.shares):
        shares = tuple(
            share.model_copy(update={"alternatives": old.alternatives})
            for share, old in zip(shares, plan.shares, strict=True)
        )
    return fresh.model_copy(update={"alternatives": plan.alternatives, "shares": shares})


def differences(expected: Any, found: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Leaves that differ: path, expected, found. ``…`` stands for a value that is not there."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*expected, *found)):
            below = f"{path}.{key}" if path else str(key)
            yield from differences(expected.get(key, ...), found.get(key, ...), below)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (was, now) in enumerate(zip(expected, found, strict=True)):
            yield from differences(was, now, f"{path}[{index}]")
    elif expected != found:
        yield path, expected, found


def _short(value: Any) -> str:
    if value is ...:
        return "nothing"
    if value is None:
        return "null"
    if isinstance(value, (list, dict)):
        return f"{len(value)} entries"
    return quoted(value)


def _red_lines(plan: Plan) -> Iterator[Problem]:
    for index, deployment in enumerate(plan.deployments):
        held, where = deployment.memory, f"deployments[{index}]"
        used = held.weights_gib + held.kv_gib + held.activations_gib
        if held.total_gib > 0 and used > RED_LINE_MEMORY * held.total_gib + 0.05:
            yield Problem(
                f"{where}.memory",
                f"must keep weights + KV cache + activations within {RED_LINE_MEMORY * 100:.0f} % (red line "
                "1)",
                f"{100 * used / held.total_gib:.1f} % of {held.total_gib:g} GiB",
                "above it the engine has no room for peaks and preempts or dies",
                "lower overrides.gpu_memory_utilization, or use more GPUs",
            )
        if deployment.estimate.bandwidth_share > RED_LINE_BANDWIDTH:
            yield Problem(
                f"{where}.estimate.bandwidth_share",
                f"must stay within {RED_LINE_BANDWIDTH * 100:.0f} % of bandwidth (red line 2)",
                f"{deployment.estimate.bandwidth_share * 100:.1f} %",
                "a stream cannot read its parameters that fast",
                "raise slo.tpot_p50, or use hardware with more bandwidth",
            )
    for rack in plan.racks():
        if rack.planned_full_load_w * rack.power_factor >= rack.rating_w:
            yield Problem(
                f"sites rack {rack.name}",
                f"must draw less than its rating with {rack.power_factor} in hand",
                f"{rack.planned_full_load_w:,.0f} W × {rack.power_factor} of {rack.rating_w:,.0f} W",
                "it trips when every GPU runs at once",
                "place fewer nodes in it, or raise site.rack.rating",
            )


def _flags(plan: Plan) -> Iterator[Problem]:
    for index, deployment in enumerate(plan.deployments):
        engine = deployment.engine
        where = f"deployments[{index}].engine"
        try:
            yield from list(registry.flag_problems(engine.name, engine.version, engine.roles, where))
        except InputErrors as error:
            yield from (replace(p, where=where) for p in error.problems)


def _refusals(plan: Plan) -> Iterator[Problem]:
    for caution in plan.cautions:
        if caution.severity == "refuse":
            yield Problem(
                f"cautions {caution.id}",
                "must not be crossed",
                "crossed",
                caution.text,
                "change the workload",
            )
