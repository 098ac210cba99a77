"""One replica's files: a unit a slot, its environment, the check of its weights."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from rackwright.engines.registry import LAUNCHERS
from rackwright.errors import Problem
from rackwright.hosts import words
from rackwright.hosts.families import Family
from rackwright.hosts.model import SECRETS, HostFile, Replica, Slot, Standing
from rackwright.plan import Deployment, Plan
from rackwright.render import render

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
"""An engine that cannot find its weights must fail, not download others."""
MOUNT = "/models"
RESTART_S = 10
STOP_MARGIN_S = 15
"""Seconds between the end of an engine's own shutdown and its unit being killed."""
QUICK_SHARE = 0.98
"""Least share of the planned bytes that a directory of weights holds; a manifest says more."""
AGAIN = "size the workload again: rackwright size WORKLOAD.yaml -o plan.yaml"


def key_variable(deployment: Deployment) -> str:
    """The variable by which the engine of ``deployment`` is told its API key."""
    launcher = LAUNCHERS.get(deployment.engine.name)
    return launcher.TRAITS.key_variable if launcher is not None else "API_KEY"


def stop_seconds(deployment: Deployment) -> int:
    """Seconds that a stopping engine is given: the pod's grace without its wait for routers, which nginx
    needs none of."""
    return max(deployment.rollout.termination_grace_s - deployment.rollout.drain_s, 1)


def startup_seconds(deployment: Deployment) -> int:
    return deployment.probes.startup_period_s * deployment.probes.startup_failures


def problems(plan: Plan, family: Family, deployment: Deployment, where: str) -> Iterator[Problem]:
    """What of a command line could not be started on such a host."""
    if deployment.engine.name not in LAUNCHERS:
        yield Problem(
            f"{where}.engine.name", "must be an engine that plans start", f'"{deployment.engine.name}"',
            "its key, its address and its weights are given in ways that are not known", AGAIN,
        )  # fmt: skip
        return
    role = deployment.engine.roles[0]
    if family.runtime == "native":
        for option in ("--port", "--host"):
            if words.with_option(role.args, option, "x") is None:
                yield Problem(
                    f"{where}.engine.roles[0].args", f"must hold {option}", "none",
                    "two versions of an engine on one host need ports of their own, on the loopback", AGAIN,
                )  # fmt: skip
    known = {key_variable(deployment), *role.env}
    for name in sorted(words.references(role.args) - known):
        yield Problem(
            f"{where}.engine.roles[0].args", "must refer to variables that the host has", f"$({name})",
            "it would be empty", AGAIN,
        )  # fmt: skip
    for name, value in role.env.items():
        if not words.env_fits(value):
            yield Problem(
                f"{where}.engine.roles[0].env.{name}", "must need no quotes", "characters that do",
                "docker, systemd and shells read quotes in environment files differently", AGAIN,
            )  # fmt: skip


def files(on: Standing, deployment: Deployment, replica: Replica) -> Iterator[HostFile]:
    """Files of ``replica``, relative to a release."""
    role = deployment.engine.roles[0]
    yield HostFile(f"env/{replica.name}.env", words.env_lines({**OFFLINE, **role.env}))
    yield HostFile(
        f"weights/{replica.name}.sh",
        render("hosts/weights.sh.j2", _weights(on, deployment)),
        "0755",
    )
    for slot in replica.slots:
        view = _unit(on, deployment, replica, slot)
        template = "engine.plist.j2" if on.family.init == "launchd" else "engine.service.j2"
        yield HostFile(f"units/{slot.unit}", render(f"hosts/{template}", view))
        if on.family.init == "launchd":
            yield HostFile(f"run/{slot.unit}.sh", render("hosts/run.sh.j2", view), "0755")


def _weights(on: Standing, deployment: Deployment) -> Mapping[str, Any]:
    weights, directory = deployment.weights, on.plan.workload.site.model_dir
    (path, manifest) = words.below((weights.path, weights.manifest_path), MOUNT, directory)
    return {
        "path": shlex.quote(path),
        "manifest": shlex.quote(manifest),
        "sha256": weights.manifest_sha256 or "",
        "least_kib": int(weights.bytes * QUICK_SHARE) // 1024,
        "du": "du -skLA" if on.family.init == "launchd" else "du -skL --apparent-size",
        "sum": "shasum -a 256" if on.family.init == "launchd" else "sha256sum",
        "source": f"{weights.source}@{weights.revision}" if weights.revision else weights.source,
    }


def _unit(on: Standing, deployment: Deployment, replica: Replica, slot: Slot) -> Mapping[str, Any]:
    at, plan, family = on.slot(replica, slot), on.plan, on.family
    name = slot.unit.rpartition(".")[0]
    if family.runtime == "docker":
        argv = _docker(on, deployment, replica, slot)
    else:
        argv = _native(on, deployment, slot)
    return {
        "name": name,
        "title": f"{deployment.served_name} on {deployment.engine.name} {deployment.engine.version} "
        f"({plan.header.name}, {replica.name}, {slot.colour})",
        "docker": family.runtime == "docker",
        "argv": argv,
        "exec_start": " \\\n    ".join(words.systemd(word) for word in argv),
        "shell": " ".join(words.shell(word) for word in argv),
        "at": at,
        "secrets": f"{at}/{SECRETS}",
        "env": f"{at}/env/{replica.name}.env",
        "weights": f"{at}/weights/{replica.name}.sh",
        "run": f"{at}/run/{slot.unit}.sh",
        "groups": family.groups,
        "models": plan.workload.site.model_dir,
        "restart_s": RESTART_S,
        "stop_s": stop_seconds(deployment),
        "kill_s": stop_seconds(deployment) + STOP_MARGIN_S,
        "log": f"/var/log/{name}.log",
    }


def _docker(on: Standing, deployment: Deployment, replica: Replica, slot: Slot) -> list[str]:
    """The plan's command line in the plan's image; only the port that the host sees differs between slots."""
    role, engine, resources = deployment.engine.roles[0], deployment.engine, deployment.resources
    at, pool, name = on.slot(replica, slot), on.pool, slot.unit.rpartition(".")[0]
    gpus = ",".join(str(gpu) for gpu in slot.gpus)
    limits = [f"--cpus={resources.cpus}"] if resources.cpus <= pool.cpus_per_node else []
    if 0 < resources.memory_gib <= pool.memory_gib_per_node:
        limits.append(f"--memory={resources.memory_gib}g")
    return [
        "docker", "run", "--rm", "--pull=never", f"--name={name}",
        f'--gpus="device={gpus}"',
        f"--publish=127.0.0.1:{slot.port}:{engine.port}",
        f"--volume={on.plan.workload.site.model_dir}:{MOUNT}:ro",
        f"--shm-size={resources.shm_gib}g", "--ulimit=memlock=-1",
        *limits,
        "--cap-drop=ALL", "--security-opt=no-new-privileges",
        f"--env-file={at}/env/{replica.name}.env", f"--env-file={at}/{SECRETS}",
        f"--entrypoint={role.command[0]}",
        engine.image, *role.command[1:], *role.args,
    ]  # fmt: skip


def _native(on: Standing, deployment: Deployment, slot: Slot) -> list[str]:
    """The plan's command line by a program on the host, on the slot's own port of the loopback interface."""
    role = deployment.engine.roles[0]
    args = words.below(role.args, MOUNT, on.plan.workload.site.model_dir)
    args = words.with_option(args, "--port", str(slot.port)) or args
    args = words.with_option(args, "--host", "127.0.0.1") or args
    return [program(on.family, deployment), *role.command[1:], *args]


def program(family: Family, deployment: Deployment) -> str:
    """Where the engine's program stands on a host that runs it natively."""
    engine = deployment.engine
    name = PurePosixPath(engine.roles[0].command[0]).name
    return f"{family.programs}/{engine.name}-{engine.version}/bin/{name}"
