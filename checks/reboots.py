"""The order in which hosts are taken out, mended, rebooted and put back: one failure domain at a time.

It is a procedure for a person. Nothing here reboots anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from checks.registry import Check
from checks.remedy import filled
from rackwright.inventory import Host
from rackwright.plan import Plan
from rackwright.verdict import Result, Status

_DRAIN_S = 1800
_REBOOT = re.compile(r"\s*(?:&&|;)\s*sudo reboot\b.*$|^sudo reboot\b.*$")


@dataclass(frozen=True)
class Domain:
    """Hosts that may be away together: those of one rack, or of one multi-node replica's block."""

    name: str
    pool: str
    hosts: tuple[str, ...]
    spares: int
    steps: tuple[str, ...]


def domains(
    plan: Plan,
    hosts: Iterable[Host],
    checks: Iterable[Check],
    results: Iterable[Result],
    *,
    inventory: str,
    context: str = "",
) -> list[Domain]:
    """One after another, the smallest first: a fault of the procedure shows where least is lost."""
    by_name = {h.name: h for h in hosts}
    known = {c.id: c for c in checks if c.fix is not None and c.fix.reboot}
    todo: dict[str, list[Result]] = {}
    for result in results:
        bad = result.status in (Status.FAIL, Status.WARN) and result.waived is None
        if bad and result.check in known and result.subject in by_name:
            todo.setdefault(result.subject, []).append(result)
    groups: dict[tuple[str, str], list[str]] = {}
    for name in todo:
        groups.setdefault((by_name[name].pool, _domain(plan, by_name[name])), []).append(name)
    made = []
    for (pool_name, domain), names in groups.items():
        pool = plan.pool(pool_name)
        cluster = next((s.target == "kubernetes" for s in plan.sites if s.name == pool.site), False)
        commands = {n: _commands(plan, by_name[n], known, todo[n]) for n in names}
        ids = sorted({r.check for n in names for r in todo[n]})
        again = (
            f"rackwright preflight --hosts {shlex.quote(inventory)} --limit {shlex.quote(','.join(names))}"
        )
        kubectl = ("kubectl --context " + shlex.quote(context) if context else "kubectl") if cluster else ""
        space = shlex.quote(plan.header.name)
        steps = (
            *_out(names, kubectl),
            *(step for name in names for step in _mend(name, commands[name])),
            f"# once they answer: {again} --only {','.join(ids)} must exit 0, then all of it:",
            f"{again} --reason 're-check after a reboot'",
            *_back(names, kubectl, space),
        )
        made.append(Domain(domain, pool_name, tuple(names), pool.spares, steps))
    return sorted(made, key=lambda d: (len(d.hosts), d.name))


def _domain(plan: Plan, host: Host) -> str:
    node = next((n for n in plan.pool(host.pool).nodes if n.name == host.name), None)
    return f"block {node.block}" if node is not None and node.block else f"rack {host.rack}"


def _commands(plan: Plan, host: Host, known: Mapping[str, Check], results: Sequence[Result]) -> list[str]:
    """What mends the host before its reboot; the reboot itself is a step of its own."""
    found = []
    for result in results:
        said = (*result.where, result.message, result.actual)
        text = filled(known[result.check], plan, plan.expectations.get(host.pool), said)
        command, _, note = text.partition("  # ")
        command = _REBOOT.sub("", command).strip()
        found += [command] if command else []
        found += [f"# {note}"] if note else []
    return list(dict.fromkeys(found))


def _out(names: Sequence[str], kubectl: str) -> tuple[str, ...]:
    if not kubectl:
        return (f"# take {', '.join(names)} out of the load balancer and stop the engine there",)
    nodes = " ".join(map(shlex.quote, names))
    drain = f"{kubectl} drain {nodes} --ignore-daemonsets --delete-emptydir-data --timeout={_DRAIN_S}s"
    return (f"{kubectl} cordon {nodes}", drain)


def _mend(name: str, commands: Sequence[str]) -> tuple[str, ...]:
    host = shlex.quote(name)
    lines = [c if c.startswith("# ") else f"ssh {host} {shlex.quote(c)}" for c in commands]
    return (*lines, f"ssh {host} sudo reboot")


def _back(names: Sequence[str], kubectl: str, space: str) -> tuple[str, ...]:
    if not kubectl:
        return (f"# start the engine on {', '.join(names)} and put them back",)
    ready = f"{kubectl} -n {space} wait pod --all --for=condition=Ready --timeout={_DRAIN_S}s"
    return (f"{kubectl} uncordon {' '.join(map(shlex.quote, names))}", ready)


def procedure(found: Sequence[Domain]) -> list[str]:
    """The whole of it as lines. A step that fails ends it: the next domain stays in service."""
    lines = ["A step that fails ends the procedure: the hosts stay cordoned, the next domain is not touched."]
    for number, domain in enumerate(found, 1):
        count = len(domain.hosts)
        lines += [
            "",
            f"{number} of {len(found)}: {domain.name}, pool {domain.pool} ({', '.join(domain.hosts)})",
        ]
        if count > domain.spares:
            lines.append(
                f"  caution: {count} away, {domain.spares} spare in the pool: replicas are fewer meanwhile"
            )
        lines += [f"  {step}" for step in domain.steps]
    return lines
