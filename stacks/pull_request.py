"""A preview of the real engine as a comment on a pull request, in Markdown.

What a reviewer needs first: what restarts and what serves meanwhile; then every object. Secrets are hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackwright.plan import Plan
from rackwright.secrets import HIDDEN, redacted
from stacks.comparison import TEMPLATES, Difference, Restart, differences, restarts

COLUMNS = ("create", "update", "replace", "delete")
MARKER = "<!-- rackwright preview -->"
"""First line, by which a bot finds the comment to replace."""
SHOWN_PATHS = 8
SHOWN_VALUE = 60
SIZE_LIMIT = 60_000
"""Characters; code hosts refuse longer comments (65,536 at GitHub)."""
_QUIET = {"same", "read", "refresh", "read-discard", "discard-replaced"}
_PARTS = {"create-replacement": "replace", "delete-replaced": "replace"}


@dataclass(frozen=True)
class Step:
    """What is done to one object. ``old`` and ``new``: what is declared of it; empty where it is not."""

    verb: str
    urn: str
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    reasons: tuple[str, ...] = ()

    @property
    def content(self) -> Mapping[str, Any]:
        return self.new or self.old

    @property
    def kind(self) -> str:
        return str(self.content.get("kind") or self.urn.split("::")[2].rpartition(":")[2])

    @property
    def name(self) -> str:
        metadata = self.content.get("metadata") or {}
        return str(metadata.get("name") or self.urn.rpartition("::")[2])

    @property
    def identity(self) -> str:
        """``Deployment llm/chat``."""
        namespace = (self.content.get("metadata") or {}).get("namespace")
        return f"{self.kind} {namespace}/{self.name}" if namespace else f"{self.kind} {self.name}"


def steps(preview: Mapping[str, Any]) -> list[Step]:
    """Changes of `pulumi preview --json`; an object that is replaced is one of them, though three steps."""
    found: dict[str, Step] = {}
    for raw in preview.get("steps") or ():
        old, new = raw.get("oldState") or {}, raw.get("newState") or {}
        if raw["op"] in _QUIET or not (new or old).get("custom"):
            continue
        if (new or old).get("type", "").startswith("pulumi:"):
            continue
        verb = _PARTS.get(raw["op"], raw["op"])
        step = Step(
            verb,
            raw["urn"],
            old.get("inputs") or {},
            new.get("inputs") or {},
            tuple(raw.get("replaceReasons") or ()),
        )
        if verb == "replace" or raw["urn"] not in found:
            found[raw["urn"]] = _merged(found.get(raw["urn"]), step)
    return list(found.values())


def _merged(before: Step | None, step: Step) -> Step:
    if before is None:
        return step
    return Step(
        "replace", step.urn, step.old or before.old, step.new or before.new, step.reasons or before.reasons
    )


def comment(preview: Mapping[str, Any], plan: Plan, environment: str) -> str:
    """The comment; one line where nothing changes."""
    found = steps(preview)
    same = (preview.get("changeSummary") or {}).get("same", 0)
    title = f"{MARKER}\n### Preview of `{_line(environment, 80)}`: {_total(found)}"
    errors = [d["message"].strip() for d in preview.get("diagnostics") or () if d.get("severity") == "error"]
    if errors:
        title = f"{MARKER}\n### Preview of `{_line(environment, 80)}`: failed"
    parts = [title, f"Plan `{plan.header.name}`, digest `{plan.digest[:12]}`; {same} unchanged."]
    parts += [f"> **Error**: {_line(redacted(message), 400)}" for message in errors]
    if found:
        parts += [_table(found), _serving(found, plan), _objects(found, sum(map(len, parts)))]
    return "\n\n".join(parts) + "\n"


def _total(found: Sequence[Step]) -> str:
    counts = Counter(step.verb for step in found)
    return ", ".join(f"{counts[verb]} to {verb}" for verb in _columns(found)) or "nothing changes"


def _columns(found: Sequence[Step]) -> list[str]:
    verbs = {step.verb for step in found}
    return [*(v for v in COLUMNS if v in verbs), *sorted(verbs - set(COLUMNS))]


def _table(found: Sequence[Step]) -> str:
    columns = [*COLUMNS, *(c for c in _columns(found) if c not in COLUMNS)]
    counts = Counter((step.kind, step.verb) for step in found)
    rows = [f"| kind | {' | '.join(columns)} |", f"|---|{'--:|' * len(columns)}"]
    for kind in sorted({step.kind for step in found}):
        cells = " | ".join(str(counts[kind, verb] or "") for verb in columns)
        rows.append(f"| {kind} | {cells} |")
    return "\n".join(rows)


def _serving(found: Sequence[Step], plan: Plan) -> str:
    """What restarts or goes, and what serves meanwhile."""
    updated = {step.urn: step for step in found if step.verb == "update"}
    paths = {urn: tuple(d.path for d in differences(s.old, s.new)) for urn, s in updated.items()}
    rows = [_restart_row(restart) for restart in restarts(plan, updated, paths)]
    replicas = {d.name: d.layout.replicas for d in plan.deployments}
    for step in found:
        if step.kind not in TEMPLATES or step.verb not in {"replace", "delete"}:
            continue
        why = (
            ", ".join(f"`{_line(r, SHOWN_VALUE)}`" for r in step.reasons) or "it is not in the plan any more"
        )
        what = "replaced: **0**" if step.verb == "replace" else "deleted: **0** from then on"
        if step.name in replicas and step.verb == "replace":
            what += f" of {replicas[step.name]}"
        rows.append(f"| {step.kind} `{step.name}` | all its pods | {what} | {why} |")
    if not rows:
        return "**Nothing restarts.**"
    head = "| restarts | where | replicas that serve meanwhile | because of |\n|---|---|---|---|"
    return "\n".join([head, *rows])


def _restart_row(restart: Restart) -> str:
    why = ", ".join(f"`{_line(path, 90)}`" for path in restart.why[:3])
    why += f" and {len(restart.why) - 3} more" if len(restart.why) > 3 else ""
    if not restart.pool:
        return f"| {restart.kind} `{restart.name}` | beside the engines | its own only | {why} |"
    where = f"{restart.nodes} nodes of pool `{restart.pool}`"
    kept = f"at least **{restart.kept}** of {restart.replicas}"
    return f"| {restart.kind} `{restart.name}` | {where} | {kept} | {why} |"


def _objects(found: Sequence[Step], used: int) -> str:
    lines: list[str] = []
    left = SIZE_LIMIT - used
    for done, step in enumerate(found):
        block = "\n".join(_object(step))
        left -= len(block) + 1
        if left < 0:
            lines.append(f"- … and {len(found) - done} more: `make preview` shows them")
            break
        lines.append(block)
    return "\n".join(["<details><summary>Every object</summary>", "", *lines, "", "</details>"])


def _object(step: Step) -> Iterator[str]:
    yield f"- {step.verb} `{_line(step.identity, 200)}`"
    if not (step.old and step.new):
        return
    changes = list(_changes(step))
    yield from (f"  - {_change(change)}" for change in changes[:SHOWN_PATHS])
    if len(changes) > SHOWN_PATHS:
        yield f"  - … and {len(changes) - SHOWN_PATHS} more"


def _changes(step: Step) -> Iterator[Difference]:
    """Differences as they may be shown: a secret that changed is a change, without its values."""
    shown = {d.path: d for d in differences(redacted(dict(step.old)), redacted(dict(step.new)))}
    for difference in differences(step.old, step.new):
        yield shown.get(difference.path) or Difference(difference.path, HIDDEN, HIDDEN)


def _change(change: Difference) -> str:
    old, new = (_value(value) for value in (change.old, change.new))
    if isinstance(change.old, list) and isinstance(change.new, list):
        removed, added = _only(change.old, change.new), _only(change.new, change.old)
        words = [*(f"− {_value(v)}" for v in removed[:4]), *(f"+ {_value(v)}" for v in added[:4])]
        more = max(0, len(removed) - 4) + max(0, len(added) - 4)
        return f"`{_line(change.path, 120)}`: {', '.join(words) or 'in another order'}" + (
            f" and {more} more" if more else ""
        )
    return f"`{_line(change.path, 120)}`: {old} → {new}"


def _only(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    return [item for item in one if item not in other]


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    if value == HIDDEN:
        return HIDDEN
    return f"`{_line(value, SHOWN_VALUE)}`"


def _line(value: Any, limit: int) -> str:
    """One line that ends no code span and no table cell."""
    text = " ".join(str(value).split()).replace("`", "'").replace("|", "¦")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
