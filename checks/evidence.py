"""What a verdict rests on: commands as a person would run them, and the lines of their output that matter."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from checks.capture import CommandOutput
from checks.collect import variables_for
from checks.registry import Check, Command
from checks.view import HostView
from rackwright.verdict import Evidence, Outcome, Status

LIMIT = 600
"""Characters of one output that a verdict carries."""
_LINES = 12
_HOSTS = 8
"""Hosts of a pool or rack whose outputs are carried when its verdict is not good."""
_PLAIN = re.compile(r"[\w./:,@%+=-]+( [\w./:,@%+='-]+)*")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_GPU = re.compile(r"\bgpus? (\d+)(?:-(\d+))?\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")
_COMMON = frozenset(("max", "min", "allowed", "count", "required", "expected"))
"""Parts of expectations' names that say nothing about a line."""


def runnable(command: Command, expected: Any = None) -> str:
    """The command as it can be pasted on the host: under sudo where it needs root, with the plan's values."""
    values = variables_for([command], expected) if expected is not None else {}
    shell = "".join(f"{name}={shlex.quote(value)}; " for name, value in values.items()) + command.title
    if not command.root:
        return shell
    return f"sudo {shell}" if _PLAIN.fullmatch(shell) else f"sudo sh -c {shlex.quote(shell)}"


def evidence(item: Check, views: Sequence[HostView], outcome: Outcome, expected: Any) -> tuple[Evidence, ...]:
    """The commands of ``item`` on each of ``views``; of a pass only the first, without its output."""
    detailed = outcome.status is not Status.PASS and not (outcome.status is Status.WARN and outcome.load)
    several = len(views) > 1
    unread = outcome.status is Status.ERROR
    found = []
    for view in _that_matter(views, outcome) if detailed else views[:1]:
        for command in item.commands:
            out = view.capture.outputs.get(command.key)
            if out is None:
                continue
            telling = detailed and not (unread and _was_read(command, out, outcome))
            text = (out.stdout if out.stdout.strip() else out.stderr).strip() if telling else ""
            found.append(
                _same(
                    host=view.name if several else "",
                    command=runnable(command, expected),
                    rc=out.rc,
                    excerpt=excerpt(text, item, outcome),
                )
            )
        if not detailed and found:
            break
    return tuple(found)


@lru_cache(maxsize=4096)
def _same(host: str, command: str, rc: int | None, excerpt: str) -> Evidence:
    """Hosts that pass alike share one object: a large fleet would not fit otherwise."""
    return Evidence(host=host, command=command, rc=rc, excerpt=excerpt)


def _was_read(command: Command, out: CommandOutput, outcome: Outcome) -> bool:
    """Whether an output has no part in it that something could not be measured."""
    fine = out.state == "done" and out.rc in command.ok_rcs
    return fine and "`" in outcome.message and command.title[:40] not in outcome.message


def _that_matter(views: Sequence[HostView], outcome: Outcome) -> list[HostView]:
    """Of a pool the hosts that the verdict names, else the first."""
    if len(views) <= _HOSTS:
        return list(views)
    said = set(re.split(r"[\s,;:]+", " ".join((*outcome.where, outcome.message, outcome.actual))))
    named = [view for view in views if view.name in said]
    return (named or list(views))[:_HOSTS]


def excerpt(text: str, item: Check, outcome: Outcome) -> str:
    """At most :data:`LIMIT` characters of ``text``: all of it, or the lines that the verdict is about."""
    if text.startswith("<?xml"):
        flat = _flat_xml(text)
        return _cut("\n".join(_leaves_about(flat, item, outcome)))
    if len(text) <= LIMIT:
        return text
    lines = text.splitlines()
    picked = _section(lines, outcome) or _lines_about(lines, item, outcome)
    return _cut(_joined(lines, picked) if picked else text)


def _cut(text: str) -> str:
    return text if len(text) <= LIMIT else text[:LIMIT].rstrip() + " …"


def _joined(lines: Sequence[str], picked: Sequence[int]) -> str:
    """The picked lines in their order, with a mark where others were left out between them."""
    out: list[str] = []
    last = picked[0] - 1 if picked else 0
    for index in picked:
        if index != last + 1:
            out.append("…")
        out.append(lines[index].rstrip())
        last = index
    return "\n".join(out)


def _said(outcome: Outcome) -> str:
    return " ".join((*outcome.where, outcome.message, outcome.actual))


def _subject(item: Check) -> frozenset[str]:
    """What a check is about, by the words of its id and of its expectation."""
    return _stems(f"{item.id.partition('-')[2]} {item.expects.rpartition('.')[2]}")


def _leaves_about(leaves: Iterable[tuple[str, str, str]], item: Check, outcome: Outcome) -> list[str]:
    """Of the values of an XML output those named most like the check, on the GPUs that the verdict names."""
    about, said = _subject(item), _said(outcome)
    gpus, numbers = _gpus(said), set(_NUMBER.findall(said))
    scored = []
    for head, path, value in leaves:
        if gpus and (own := re.match(r"gpu (\d+) ", head)) and int(own[1]) not in gpus:
            continue
        name = path or head
        score = 2 * len(about & _stems(name.rpartition(".")[2])) + len(about & _stems(name))
        if score:
            number = _NUMBER.search(value)
            score += 1 if number and number[0] in numbers else 0
            scored.append((score, f"{head} {path} = {value}" if path else f"{head} = {value}"))
    best = max((score for score, _ in scored), default=0)
    return [line for score, line in scored if score == best][:_LINES]


def _section(lines: Sequence[str], outcome: Outcome) -> list[int]:
    """Where an output has ``== name`` headers: the sections of what the verdict names."""
    named = set(outcome.where)
    picked: list[int] = []
    inside = False
    for index, line in enumerate(lines):
        if line.startswith("== "):
            inside = bool(named & set(line.split()))
        if inside:
            picked.append(index)
    return picked


def _lines_about(lines: Sequence[str], item: Check, outcome: Outcome) -> list[int]:
    """Indexes of the lines that say most about the verdict, in their order."""
    about, said = _subject(item), _said(outcome)
    named = [w.lower() for w in outcome.where] or re.findall(
        r"[\w.:/-]*[a-z][\w.:/-]*\d[\w.:/-]*", said.lower()
    )
    numbers = set(_NUMBER.findall(said))
    scored = []
    for index, line in enumerate(lines):
        low = line.lower()
        score = len(about & _stems(low)) + 2 * sum(word in low for word in named)
        score += bool(numbers & set(_NUMBER.findall(line)))
        scored.append((score, index))
    best = max((score for score, _ in scored), default=0)
    return [index for score, index in scored if best and score >= max(1, best - 1)][:_LINES]


@lru_cache(maxsize=8192)
def _stems(text: str) -> frozenset[str]:
    """Words by their first four letters, so that ``temperature`` meets ``gpu_temp``."""
    words = (w.lower() for w in _WORD.findall(text.replace("_", " ")))
    return frozenset(w[:4] for w in words if len(w) > 2 and w not in _COMMON)


def _gpus(text: str) -> set[int]:
    """Indexes of the GPUs that a verdict names."""
    found: set[int] = set()
    for first, last in _GPU.findall(text):
        found.update(range(int(first), min(int(last or first), int(first) + 63) + 1))
    return found


@lru_cache(maxsize=2)
def _flat_xml(text: str) -> list[tuple[str, str, str]]:
    """Head, path and value of every leaf, GPUs by index and bus address; none where it is cut or damaged."""
    if "<!ENTITY" in text:  # whoever wrote this is no tool of ours
        return []
    try:
        root = ET.fromstring(text)  # noqa: S314 - no entities, see above
    except ET.ParseError:
        return []
    leaves: list[tuple[str, str, str]] = []
    number = -1
    for child in root:
        head = child.tag
        if child.tag == "gpu":
            number += 1
            head = f"gpu {number} {child.get('id', '')}".rstrip()
        leaves += _leaves(child, head, "")
    return leaves


def _leaves(node: ET.Element, head: str, path: str) -> Iterable[tuple[str, str, str]]:
    children = list(node)
    if not children:
        value = " ".join((node.text or "").split())
        if value:
            yield head, path, value
        return
    for child in children:
        yield from _leaves(child, head, f"{path}.{child.tag}" if path else child.tag)
