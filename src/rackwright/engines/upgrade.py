"""What another version of an engine would break: of one plan, or between two versions as a whole.

A plan is held against the other version's matrix: command lines and variables as its parser would read them,
alerts, recordings and scaling queries as its /metrics would answer them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from rackwright.engines.arguments import check_args, check_env
from rackwright.engines.matrix_data import (
    ArgProblem,
    EnvProblem,
    Flag,
    Matrix,
    PromqlProblem,
    load_matrix,
    successors,
)
from rackwright.engines.promql import check_promql
from rackwright.engines.registry import matrix_of
from rackwright.errors import CannotRun, InputErrors, Problem, listing
from rackwright.plan import Deployment, Plan

Kind = Literal["flag", "variable", "alert", "recording", "scaling", "file"]
Effect = Literal["breaks", "warns"]
PLACEHOLDERS = {"$(LWS_WORKER_INDEX)": "1", "$(LWS_LEADER_ADDRESS)": "leader.example"}
_UNKNOWN = frozenset({"unknown-flag", "unknown-variable", "unknown-metric"})
_EXPRESSIONS = ("expr", "query", "definition")
"""Keys under which dashboards, rules and scalers hold PromQL."""


@dataclass(frozen=True)
class Effected:
    """One thing of a plan that the other version takes otherwise.

    Attributes:
        kind: what it is in the plan.
        where: dotted path in the plan, or file and path in it.
        subject: the flag, variable, metric or label.
        effect: ``breaks``, or ``warns`` where the version still takes it.
        found: what the other version makes of it.
        fix: what to write instead; empty where nothing is known.
        already: the version that the plan runs now does not take it either.
    """

    kind: Kind
    where: str
    subject: str
    effect: Effect
    found: str
    fix: str
    already: bool = False

    def __str__(self) -> str:
        mark = "also now" if self.already else self.effect
        lines = [f"{mark:8} {self.kind} {self.subject} · {self.found}", f"         {self.where}"]
        return "\n".join([*lines, f"    fix  {self.fix}"] if self.fix else lines)


Found = ArgProblem | EnvProblem | PromqlProblem


def _subject(item: Found) -> str:
    if isinstance(item, ArgProblem):
        return item.flag
    return item.name if isinstance(item, EnvProblem) else item.subject


def _effects(kind: Kind, where: str, now: Sequence[Found], then: Sequence[Found]) -> Iterator[Effected]:
    """What ``then`` holds; a warning that holds now too is no effect of the change."""
    known = {(_subject(item), item.kind): item.severity for item in now}
    for item in then:
        before = known.get((_subject(item), item.kind))
        if item.severity == "warn" and before is not None:
            continue
        yield Effected(
            kind,
            where,
            _subject(item),
            "breaks" if item.severity == "error" else "warns",
            f"{item.rule}, found {item.found}",
            _fix(item, before),
            before == "error",
        )


def _fix(item: Found, before: str | None) -> str:
    """A name that the plan's version knows is no misspelling: a near one may mean another thing."""
    if before is None and item.kind in _UNKNOWN and item.successor_or_hint.startswith("did you mean"):
        return "leave it out: nothing is known that takes its place"
    return item.successor_or_hint


def versions_of(plan: Plan, engine: str, one: str, two: str) -> tuple[str, str]:
    """(the version that ``plan`` runs, the other one of the two).

    Raises:
        InputErrors: an unknown version; no deployment of ``engine``; one that runs neither version.
    """
    load_matrix(engine, one)
    load_matrix(engine, two)
    run = sorted({each.engine.version for each in plan.deployments if matrix_of(each.engine.name) == engine})
    if not run:
        others = sorted({matrix_of(each.engine.name) for each in plan.deployments})
        raise InputErrors(
            Problem(
                "deployments",
                f"one must run {engine}",
                listing(others) or "none",
                "there is nothing of the plan to hold against the versions",
                f"name the plan's engine: {listing(others)}",
            )
        )
    if len(run) > 1 or run[0] not in (one, two):
        raise InputErrors(
            Problem(
                "deployments",
                f"must run {engine} {one} or {two}",
                f"{engine} {listing(run)}",
                "what breaks is told of a change from the version that runs",
                f"rackwright engines diff {engine} {run[0]} {two} --plan PLAN",
            )
        )
    return (one, two) if run[0] == one else (two, one)


def of_plan(plan: Plan, engine: str, old: str, new: str) -> list[Effected]:
    """Everything of ``plan``, which runs ``old``, that ``new`` refuses, ignores or no longer exports."""
    found: list[Effected] = []
    for place, deployment in enumerate(plan.deployments):
        if matrix_of(deployment.engine.name) == engine:
            found += _of_roles(deployment, f"deployments.{place}.engine.roles", old, new)
            found += _of_queries(plan, deployment, old, new)
    return found


def _of_roles(deployment: Deployment, where: str, old: str, new: str) -> Iterator[Effected]:
    engine = matrix_of(deployment.engine.name)
    said: set[tuple[str, str]] = set()
    for place, role in enumerate(deployment.engine.roles):
        words = [_filled(word) for word in role.args]
        here = [
            *_effects(
                "flag",
                f"{where}.{place}.args ({role.role})",
                check_args(engine, old, words),
                check_args(engine, new, words),
            ),
            *_effects(
                "variable",
                f"{where}.{place}.env ({role.role})",
                check_env(engine, old, role.env),
                check_env(engine, new, role.env),
            ),
        ]
        for item in here:  # what roles share is said under the first
            if (item.subject, item.found) not in said:
                said.add((item.subject, item.found))
                yield item


def _filled(word: str) -> str:
    for variable, value in PLACEHOLDERS.items():
        word = word.replace(variable, value)
    return word


def _of_queries(plan: Plan, deployment: Deployment, old: str, new: str) -> Iterator[Effected]:
    engine = matrix_of(deployment.engine.name)
    rules = plan.observability.deployment_rules.get(deployment.name, ()) if plan.observability else ()
    recorded = {rule.record for rule in rules if rule.record}
    queries: list[tuple[Kind, str, str]] = []
    for place, rule in enumerate(rules):
        kind: Kind = "alert" if rule.alert else "recording"
        where = f"observability.deployment_rules.{deployment.name}.{place} ({rule.alert or rule.record})"
        queries.append((kind, where, rule.expr))
    for place, scaling in enumerate(plan.scaling):
        if scaling.deployment == deployment.name:
            queries += [
                ("scaling", f"scaling.{place}.triggers.{index}", trigger.query)
                for index, trigger in enumerate(scaling.triggers)
            ]
    for kind, where, query in queries:
        yield from _effects(
            kind,
            where,
            check_promql(engine, old, query, recorded=recorded),
            check_promql(engine, new, query, recorded=recorded),
        )


def of_file(path: Path, engine: str, old: str, new: str) -> list[Effected]:
    """The same for the PromQL in a Grafana dashboard (JSON) or in manifests (YAML), and for names that
    relabelling of a PodMonitor keeps or drops.

    Raises:
        CannotRun: the file cannot be read or parsed, or holds no expression.
    """
    found: list[Effected] = []
    seen = 0
    documents = _documents(path)
    for where, query in _expressions(documents[0] if len(documents) == 1 else documents):
        seen += 1
        now, then = (check_promql(engine, version, query) for version in (old, new))
        now, then = (_unless_no_query(items) for items in (now, then))
        found += _effects("file", f"{path}: {where}", now, then)
    if not seen:
        raise CannotRun(
            Problem(
                str(path), "must hold PromQL", "no expr, query or relabelling of names",
                "a file in which nothing is looked at proves nothing",
                "give a dashboard's JSON or a manifest",
            )
        )  # fmt: skip
    return found


def _unless_no_query(items: Iterable[PromqlProblem]) -> list[PromqlProblem]:
    """Without text fields that hold no PromQL, and without panels of other engines."""
    return [item for item in items if item.kind not in ("syntax", "foreign-metric")]


def _documents(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
        return [json.loads(text)] if path.suffix == ".json" else list(yaml.safe_load_all(text))
    except (OSError, UnicodeError, ValueError, yaml.YAMLError) as exc:
        detail = str(exc).replace("\n", " ")
        raise CannotRun(
            Problem(
                str(path), "must be readable JSON or YAML", detail,
                "what is not read is not checked", "give a dashboard's JSON or a manifest",
            )
        ) from exc  # fmt: skip


def _expressions(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """(path, PromQL) of every expression below ``value``."""
    if isinstance(value, Mapping):
        names = value.get("sourceLabels")
        regex = value.get("regex")
        if names == ["__name__"] and isinstance(regex, str):
            for part in regex.split("|") if "(" not in regex else [regex]:
                yield f"{where}.regex", "{__name__=~" + json.dumps(part) + "}"
        for key, inner in value.items():
            path = f"{where}.{key}" if where else str(key)
            if key in _EXPRESSIONS and isinstance(inner, str) and inner.strip():
                yield path, _without_grafana(inner)
            else:
                yield from _expressions(inner, path)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for place, inner in enumerate(value):
            yield from _expressions(inner, f"{where}.{place}" if where else str(place))


def _without_grafana(query: str) -> str:
    """The selector inside Grafana's own label_values(selector, label)."""
    match = re.fullmatch(r"\s*label_values\((.*),\s*\w+\s*\)\s*", query, re.DOTALL)
    return match[1] if match else query


def changed_defaults(plan: Plan, engine: str, old: str, new: str) -> list[str]:
    """Flags that no command line of ``plan`` gives and whose default is another in ``new``."""
    before, after = load_matrix(engine, old), load_matrix(engine, new)
    given: set[str] = set()
    for deployment in plan.deployments:
        for word in (word for role in deployment.engine.roles for word in role.args):
            flag = after.options.get(word.partition("=")[0].partition(".")[0])
            if flag is not None:
                given.add(flag.name)
    found = []
    for flag in before.flags:
        now = after.options.get(flag.name)
        if now is not None and now.name not in given and flag.default != now.default:
            found.append(f"{flag.name}: {_short(flag.default)}, now {_short(now.default)}")
    return found


@dataclass(frozen=True)
class Difference:
    """Between two versions: each list holds lines ``name: what``, sorted."""

    flags_gone: tuple[str, ...]
    flags_new: tuple[str, ...]
    flags_changed: tuple[str, ...]
    variables_gone: tuple[str, ...]
    variables_new: tuple[str, ...]
    metrics_gone: tuple[str, ...]
    metrics_new: tuple[str, ...]
    metrics_changed: tuple[str, ...]

    @property
    def breaks(self) -> bool:
        """Whether something that the old version took or exported is gone or taken otherwise."""
        return bool(
            self.flags_gone
            or self.flags_changed
            or self.variables_gone
            or self.metrics_gone
            or self.metrics_changed
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def difference(engine: str, old: str, new: str) -> Difference:
    """Everything in which two versions differ, in what they accept and what they export."""
    before, after = load_matrix(engine, old), load_matrix(engine, new)
    return Difference(
        flags_gone=_gone(engine, "flags", _spellings(before, after), after.options),
        flags_new=tuple(_new_flags(before, after)),
        flags_changed=tuple(_changed_flags(before, after)),
        variables_gone=_gone(engine, "env", before.env, after.env),
        variables_new=tuple(sorted(set(after.env) - set(before.env))),
        metrics_gone=_gone(engine, "metrics", before.samples, after.samples),
        metrics_new=tuple(sorted(set(after.samples) - set(before.samples))),
        metrics_changed=tuple(_changed_metrics(before, after)),
    )


def _spellings(matrix: Matrix, other: Matrix) -> Iterator[str]:
    """Options of a version; of a flag that the other one does not know, without the negative forms."""
    for flag in matrix.flags:
        yield from (flag.name, *flag.aliases)
        if flag.name in other.options:
            yield from flag.negatives


def _new_flags(before: Matrix, after: Matrix) -> Iterator[str]:
    """New spellings; what only adds a way to switch a known flag off is one line."""
    negatives = {option for flag in after.flags if flag.name in before.options for option in flag.negatives}
    new = sorted(set(_spellings(after, before)) - set(before.options))
    yield from (option for option in new if option not in negatives)
    off = [option for option in new if option in negatives]
    if off:
        yield f"negative forms of known flags: {len(off)}, such as {off[0]}"


def _gone(engine: str, table: str, before: Iterable[str], after: Iterable[str]) -> tuple[str, ...]:
    dead = successors(engine, table)
    names = sorted(set(before) - set(after))
    return tuple(f"{name}: {dead[name]}" if name in dead else name for name in names)


def _changed_flags(before: Matrix, after: Matrix) -> Iterator[str]:
    for flag in before.flags:
        now = after.options.get(flag.name)
        if now is not None:
            changes = list(_flag_changes(flag, now))
            if changes:
                yield f"{flag.name}: {'; '.join(changes)}"


def _flag_changes(flag: Flag, now: Flag) -> Iterator[str]:
    if flag.takes_value != now.takes_value:
        yield f"{flag.takes_value}, now {now.takes_value}"
    if flag.kind != now.kind:
        yield f"type {flag.kind}, now {now.kind}"
    if flag.default != now.default:
        yield f"default {_short(flag.default)}, now {_short(now.default)}"
    if flag.choices is not None and now.choices is not None:
        lost = sorted(set(flag.choices) - set(now.choices))
        if lost:
            yield f"no longer {listing(lost, 6)}"
    lost_keys = sorted(set(flag.keys or ()) - set(now.keys or ())) if now.keys is not None else []
    if lost_keys:
        yield f"keys gone: {listing(lost_keys, 6)}"
    if now.deprecated and not flag.deprecated:
        yield f"deprecated: {now.deprecated}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _changed_metrics(before: Matrix, after: Matrix) -> Iterator[str]:
    now = {metric.name: metric for metric in after.metrics}
    for metric in before.metrics:
        other = now.get(metric.name)
        if other is None:
            continue
        if metric.type != other.type:
            yield f"{metric.name}: {metric.type}, now {other.type}"
        if metric.labels is not None and other.labels is not None and metric.labels - other.labels:
            yield f"{metric.name}: labels gone: {listing(sorted(metric.labels - other.labels))}"
