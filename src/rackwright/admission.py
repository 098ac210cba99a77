"""Which new nodes may take pods: those on which preflight has passed for this very plan."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rackwright.errors import InputErrors, Problem, nearest
from rackwright.plan import Plan, Provisioned
from rackwright.verdict import Result, Results, Status


@dataclass(frozen=True)
class Admission:
    """``commands`` take the taint off the nodes that passed; ``held``: why each other node keeps it."""

    commands: tuple[str, ...]
    held: Mapping[str, str]


def admitted(
    plan: Plan, results: Results, nodes: Mapping[str, str], *, now: datetime, max_age_h: float
) -> Admission:
    """The nodes of ``plan`` whose taint may go by ``results``. ``nodes``: names in the cluster, by host.

    A node passes where the whole checklist ran for this plan, at most ``max_age_h`` hours ago, every check of
    the host was measured, and none that blocks failed, on it, its rack or its pool.

    Raises:
        InputErrors: no pool of the plan has such a taint; the results are of another plan, are not whole, or
            are too old; a name that is no host of the plan.
    """
    pools = [made for made in plan.provisioning or () if made.gate]
    problems = [*_gated(plan, pools), *_usable(plan, results, now, max_age_h), *_named(plan, nodes)]
    if problems:
        raise InputErrors(problems)
    commands, held = [], {}
    by_host = defaultdict(list)
    for result in results.results:
        if result.scope == "host":
            by_host[result.subject].append(result)
    around = [r for r in results.results if r.scope != "host"]
    for made in pools:
        assert made.gate is not None
        wider = [r for r in around if r.pool in {"", made.pool}]
        taint = f"{made.gate.key}={made.gate.value}:{made.gate.effect}-"
        for host in (node.name for node in plan.pool(made.pool).nodes):
            node = nodes.get(host, host if made.named else None)
            why = _held(host, results, by_host[host], wider) or (
                None if node else f"its name in the cluster is not known: --node {host}=NODE"
            )
            if why:
                held[host] = why
            else:
                commands.append(shlex.join(["kubectl", "taint", "node", str(node), taint]))
    return Admission(tuple(commands), held)


def _held(host: str, results: Results, own: list[Result], around: list[Result]) -> str | None:
    """Why ``host`` keeps its taint, by its ``own`` results and those of its pool and racks."""
    if host not in results.hosts or host in results.left_out_hosts:
        return "it was not part of the run"
    if host in results.unreachable:
        return f"it was not reached: {results.unreachable[host]}"
    if results.not_measured.get(host):
        return f"{results.not_measured[host]} checks gave no result"
    if not any(r.status is Status.PASS for r in own):
        return "no check passed on it"
    blocking = [
        r.check if r.scope == "host" else f"{r.check} ({r.subject})" for r in (*own, *around) if r.blocking
    ]
    return f"blocked by {', '.join(blocking)}" if blocking else None


def _gated(plan: Plan, pools: list[Provisioned]) -> Iterator[Problem]:
    if not pools:
        yield Problem(
            "provisioning",
            "must have a pool whose nodes start with a taint",
            "none",
            "nothing holds pods off its nodes",
            f"run preflight before the plan {plan.header.name} is applied",
        )


def _usable(plan: Plan, results: Results, now: datetime, max_age_h: float) -> Iterator[Problem]:
    again = "rackwright preflight --hosts hosts.ini"
    if results.plan_digest != plan.digest:
        yield Problem(
            "plan_digest",
            "must be the plan's",
            f"{results.plan_digest[:12]} of {results.plan}; the plan is {plan.digest[:12]}",
            "the hosts were judged by other expectations",
            again,
        )
    if not results.complete or results.left_out_checks:
        count = len(results.left_out_checks)
        yield Problem(
            "left_out_checks",
            "must be empty, and the run complete",
            f"{count} checks left out" if count else "a run that did not end",
            "what was not checked is not known to be good",
            again,
        )
    age = _age(results.started, now)
    if age is None or not timedelta(minutes=-5) <= age <= timedelta(hours=max_age_h):
        yield Problem(
            "started",
            f"must be at most {max_age_h:g} hours ago",
            results.started or "nothing",
            "a node may have been made anew under the same name since",
            again,
        )


def _age(started: str, now: datetime) -> timedelta | None:
    try:
        then = datetime.fromisoformat(started)
    except ValueError:
        return None
    return now - (then if then.tzinfo else then.replace(tzinfo=UTC))


def _named(plan: Plan, nodes: Mapping[str, str]) -> Iterator[Problem]:
    known = [node.name for pool in plan.pools for node in pool.nodes]
    for host in nodes:
        if host not in known:
            yield Problem(
                "--node",
                f"must name a host of the plan{nearest(host, known)}",
                f'"{host}"',
                "another node would be let in",
                "rackwright inventory PLAN lists the hosts",
            )
    taken = list(nodes.values())
    for twice in sorted({node for node in taken if taken.count(node) > 1}):
        yield Problem(
            "--node",
            "must name a node once",
            f'"{twice}" for two hosts',
            "one of them was not checked",
            "mend it",
        )
