"""Proves a plan again: that its workload still gives it, that its red lines hold, that its flags exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rackwright.catalog import Catalog
from rackwright.engines import vllm
from rackwright.errors import HandEditedPlan, Problem, RackwrightError
from rackwright.plan import Plan, migrate, plan_from_document
from rackwright.sizing.estimate import RED_LINE_BANDWIDTH, RED_LINE_MEMORY
from rackwright.sizing.size import size
from rackwright.yamlio import Document, load_yaml, validated

AGAIN = "put the change under overrides: in the workload, then: rackwright size WORKLOAD.yaml -o plan.yaml"


def load_for_check(path: Path) -> Plan:
    """The plan at ``path``, also where its digest does not match: the check says what differs.

    Raises:
        CannotRun, InputErrors: as ``load_plan``, but never HandEditedPlan.
    """
    document = load_yaml(path, next_command=f"rackwright size WORKLOAD.yaml -o {path}")
    try:
        return plan_from_document(document)
    except HandEditedPlan:
        data = migrate(dict(document.data), document.source)
        data.pop("digest", None)
        return validated(
            Plan,
            Document(document.source, data, document.lines),
            why="everything downstream reads it",
            next_command=AGAIN,
        )


def check(plan: Plan, catalog: Catalog) -> list[Problem]:
    """Everything wrong with ``plan``; empty where it is as its workload gives it and keeps the rules."""
    return [*_differences(plan, catalog), *_red_lines(plan), *_flags(plan), *_refusals(plan)]


def _differences(plan: Plan, catalog: Catalog) -> Iterator[Problem]:
    try:
        fresh = size(plan.workload, catalog)
    except RackwrightError as error:
        yield from error.problems
        return
    if plan.header.catalog_digest != fresh.header.catalog_digest:
        yield Problem(
            "header.catalog_digest",
            "must be the digest of the catalog entries that were read",
            plan.header.catalog_digest[:12],
            "the catalog has changed since, or the value was edited",
            "size again and review what changes",
        )
    for path, was, now in differences(fresh.as_dict(), plan.as_dict()):
        if path.startswith("header.") or path.startswith("explanations"):
            continue
        yield Problem(
            path,
            f"must be {_short(was)}, as the workload gives it",
            _short(now),
            "a value that was edited by hand is lost at the next sizing",
            AGAIN,
        )


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
    if isinstance(value, (list, dict)):
        return f"{len(value)} entries"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 90 else text[:87] + "…"


def _red_lines(plan: Plan) -> Iterator[Problem]:
    for index, deployment in enumerate(plan.deployments):
        held, where = deployment.memory, f"deployments[{index}]"
        used = held.weights_gib + held.kv_gib + held.activations_gib
        if used > RED_LINE_MEMORY * held.total_gib + 0.05:
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
        yield from vllm.flag_problems(engine.version, engine.roles, f"deployments[{index}].engine")


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
