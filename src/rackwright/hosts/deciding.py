"""From a plan to the files of each of its hosts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from rackwright.errors import InputErrors, Problem
from rackwright.hosts import engine, front, placing
from rackwright.hosts.families import family_of
from rackwright.hosts.model import SECRETS, HostFile, HostSet, Replica, Settings, Standing
from rackwright.plan import Deployment, Plan, Pool
from rackwright.render import render
from rackwright.secrets import holds_credential, secret_flags

CHECK_S = 1800
"""Seconds for the checks before anything is switched: a terabyte of weights is hashed in that time."""
PULL_S = 3600
SWITCH_S = 60
"""Seconds for what is neither loading nor draining: links, reloads, stops of idle units."""
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]*")
_AGAIN = engine.AGAIN


def decide(plan: Plan, settings: Settings | None = None) -> tuple[HostSet, ...]:
    """What stands on each host of ``plan`` that is no spare, in the plan's order.

    Raises:
        InputErrors: every reason why the plan cannot stand on hosts.
        CannotRun: a template is not there.
    """
    chosen = settings or Settings()
    problems = [*_plan_problems(plan), *_settings_problems(chosen)]
    if problems:
        raise InputErrors(problems)
    return tuple(
        _host(plan, pool, node.name, chosen) for pool in plan.pools for node in pool.nodes if not node.spare
    )


def _host(plan: Plan, pool: Pool, name: str, settings: Settings) -> HostSet:
    family = family_of(pool)
    assert family is not None
    on = Standing(plan, pool, family, f"{family.root}/{plan.header.name}")
    replicas = placing.replicas(plan, pool, name, family)
    by_name = {deployment.name: deployment for deployment in plan.deployments}
    variables = tuple(dict.fromkeys(engine.key_variable(by_name[r.deployment]) for r in replicas))
    made: list[HostFile] = []
    for replica in replicas:
        made += engine.files(on, by_name[replica.deployment], replica)
    made += front.files(plan, replicas, on.root, settings)
    made.append(HostFile("replicas", "".join(_line(by_name[r.deployment], r) for r in replicas)))
    made.append(
        HostFile(
            "host.sh", _script(on, variables, [by_name[r.deployment] for r in replicas], settings), "0755"
        )
    )
    refuse_secrets(name, made)
    return HostSet(
        host=name,
        pool=pool.name,
        plan=plan.header.name,
        family=family,
        root=on.root,
        files=tuple(sorted(made, key=lambda file: file.path)),
        replicas=replicas,
        key_variables=variables,
        deadline_s=_deadline(by_name, replicas),
    )


def _line(deployment: Deployment, replica: Replica) -> str:
    """One replica for the script on the host, which reads it as words."""
    blue, green = replica.slots
    words = (
        replica.name,
        deployment.name,
        "beside" if replica.side_by_side else "instead",
        str(engine.startup_seconds(deployment)),
        str(deployment.rollout.drain_s),
        blue.unit,
        green.unit,
    )
    assert all(_WORD.fullmatch(word) for word in words), words
    return " ".join(words) + "\n"


def _script(
    on: Standing, variables: tuple[str, ...], deployments: Iterable[Deployment], settings: Settings
) -> str:
    used = list({deployment.name: deployment for deployment in deployments}.values())
    family, plan = on.family, on.plan
    docker = family.runtime == "docker"
    return render(
        "hosts/host.sh.j2",
        {
            "root": shlex.quote(on.root),
            "plan": shlex.quote(plan.header.name),
            "unit_dir": shlex.quote(family.unit_dir),
            "front_link": shlex.quote(f"{family.front_dir}/rackwright-{plan.header.name}.conf"),
            "secrets": SECRETS,
            "launchd": family.init == "launchd",
            "images": [shlex.quote(deployment.engine.image) for deployment in used] if docker else [],
            "programs": [] if docker else [shlex.quote(engine.program(family, d)) for d in used],
            "readable": [shlex.quote(p) for p in (settings.certificate, settings.certificate_key)]
            if settings.tls
            else [],
            "key_variable": variables[0] if variables else "API_KEY",
        },
    )


def _deadline(by_name: dict[str, Deployment], replicas: Iterable[Replica]) -> int:
    """Forward and back again, each replica loading and draining in turn."""
    total = CHECK_S + PULL_S
    for replica in replicas:
        deployment = by_name[replica.deployment]
        once = (
            engine.startup_seconds(deployment) + deployment.rollout.drain_s + engine.stop_seconds(deployment)
        )
        total += 2 * (once + SWITCH_S)
    return total


def refuse_secrets(host: str, files: Iterable[HostFile]) -> None:
    """Raises InputErrors: a file holds a secret in clear."""
    found = []
    for file in files:
        exposed = sorted({flag for line in file.content.splitlines() for flag in secret_flags(line.split())})
        exposed = [flag for flag in exposed if not file.path.endswith(".sh")]
        if exposed or holds_credential(file.content):
            found.append(
                Problem(
                    f"{host}/{file.path}", "must not hold a secret", ", ".join(exposed) or "a credential",
                    "files are reviewed, rendered and kept in states where others read them",
                    "take it out of the workload; the API key is given by rackwright:apiKey",
                )
            )  # fmt: skip
    if found:
        raise InputErrors(found)


def _plan_problems(plan: Plan) -> Iterator[Problem]:
    for site in plan.sites:
        if site.target != "hosts":
            yield Problem(
                f"sites.{site.name}.target", 'must be "hosts" like the others', f'"{site.target}"',
                "one program changes either a cluster or hosts", "give each target a plan of its own",
            )  # fmt: skip
    if plan.platform is not None and plan.platform.driver_owner != "host":
        yield Problem(
            "hardware.driver_owner", 'must be "host" where there is no Kubernetes',
            f'"{plan.platform.driver_owner}"', "nobody would install or update the driver",
            "set hardware.driver_owner: host and size again",
        )  # fmt: skip
    if not plan.deployments:
        yield Problem("deployments", "must have an entry", "none", "there is nothing to start", _AGAIN)
    yield from placing.problems(plan)
    for index, deployment in enumerate(plan.deployments):
        yield from _deployment_problems(plan, deployment, f"deployments[{index}]")


def _deployment_problems(plan: Plan, deployment: Deployment, where: str) -> Iterator[Problem]:
    pool = plan.pool(deployment.pool)
    if deployment.layout.nodes_per_replica > 1:
        yield Problem(
            f"{where}.layout.nodes_per_replica", "must be 1 on hosts",
            str(deployment.layout.nodes_per_replica),
            "groups of nodes are started and restarted together by LeaderWorkerSet",
            "set site.target: kubernetes, or choose a model that fits one node",
        )  # fmt: skip
        return
    family = family_of(pool)
    if family is None:
        yield Problem(
            f"pools.{pool.name}.accelerator", "must be of NVIDIA, a Jetson or a Mac on hosts",
            f'"{pool.accelerator}"', "how its engine is started is not written yet",
            "set site.target: kubernetes",
        )  # fmt: skip
        return
    yield from engine.problems(plan, family, deployment, where)


def _settings_problems(settings: Settings) -> Iterator[Problem]:
    for name in ("certificate", "certificate_key") if settings.tls else ():
        path = getattr(settings, name)
        if not re.fullmatch(r"(/[A-Za-z0-9_.-]+)+", path):
            yield Problem(
                f"rackwright:{name}", "must be an absolute path of letters, digits and . _ -", repr(path),
                "nginx reads it on every host", f"pulumi config set rackwright:{name} /etc/…",
            )  # fmt: skip
