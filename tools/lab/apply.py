"""``pulumi up`` of a plan in a lab, told step by step, and what then runs where."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rackwright.errors import CannotRun, Problem
from rackwright.placement import exclusive_domain
from rackwright.plan import Plan, load_plan
from tools.engine.build import have, printed
from tools.engine.env import environment, usable
from tools.engine.families import CLI, PULUMI_KUBERNETES
from tools.engine.stack import Stack
from tools.lab import claims, groups, project
from tools.lab.lab import Lab

STACK = "lab"
SETTLE_TIMEOUT_S = 120
STEP = 10
INDEX = "leaderworkerset.sigs.k8s.io/group-index"
_DONE = re.compile(r"^ [+~\-*]*\s+(?P<type>\S+:\S+) \S+ (created|updated|replaced|deleted)\b")
_WORTH = re.compile(r"^\s*(error:|warning: (?!using ))")
Say = Callable[[str], None]


def apply(lab: Lab, path: Path, say: Say, result: Say) -> int:
    """The exit status of `pulumi`; 1 where pods do not become ready. Progress goes to ``say``.

    Raises:
        CannotRun: no engine is there, or the stack cannot be used.
    """
    stack, plan = open_stack(lab, path), load_plan(path)
    stack.ensure()
    for line in stack.recover():
        say(line)
    result(f"engine: {engine()}, on a real API server")
    code = _up(stack, say)
    if code:
        return code
    _play_driver(lab, plan)
    ready = _settled(lab, plan)
    for line in standing(plan, lab.api().items(_pods(plan)), lab.api().items("/api/v1/nodes")):
        result(line)
    return 0 if ready else 1


def _play_driver(lab: Lab, plan: Plan) -> None:
    """What the DRA driver does once it sees a compute domain."""
    namespace = plan.platform.namespace if plan.platform else ""
    path = f"{claims.API}/namespaces/{namespace}/resourceclaimtemplates"
    for template in claims.channels(plan):
        if not lab.api().exists(f"{path}/{template['metadata']['name']}"):
            lab.api().create(path, template)


def engine() -> str:
    """``pulumi v3.274.1 with kubernetes provider 4.25.0``."""
    program = have([CLI])[0]["pulumi"]
    return (
        f"pulumi {printed(program, CLI.binaries[0]).split()[0]} with kubernetes provider {PULUMI_KUBERNETES}"
    )


def open_stack(lab: Lab, path: Path) -> Stack:
    """The stack of the plan at ``path`` in ``lab``; its state and project are in the lab's directory.

    Raises:
        CannotRun: no engine is there.
    """
    reason = usable()
    if reason:
        raise CannotRun(
            Problem(
                "engine", "must be there", reason, "nothing is applied by the embedded engine", "make engine"
            )
        )  # fmt: skip
    settings = project.settings(lab, path, project.nodes(load_plan(path)))
    folder = project.write(lab.directory / "project", STACK, settings)
    return Stack(STACK, folder, {**environment(lab.directory / "pulumi"), "KUBECONFIG": str(lab.kubeconfig)})


def _up(stack: Stack, say: Say) -> int:
    argv = ["pulumi", "up", "--yes", "--skip-preview", "--stack", stack.name, "--non-interactive"]
    with subprocess.Popen(
        [*argv, "--color", "never", "--suppress-outputs"], cwd=stack.project, env=dict(stack.env), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout
        for line in told(process.stdout):
            say(line)
    return process.returncode


def told(lines: Iterable[str]) -> Iterable[str]:
    """What is worth a line: errors, warnings that are not of this toolchain, and progress."""
    done: Counter[str] = Counter()
    began = time.monotonic()
    for line in lines:
        match = _DONE.match(line)
        if match and not match["type"].startswith("pulumi:"):
            done[match["type"].rpartition(":")[2]] += 1
            if done.total() % STEP == 0:
                yield f"  {time.monotonic() - began:4.0f} s  {done.total()} resources, last {match['type']}"
        elif _WORTH.match(line):
            yield line.strip()
    kinds = ", ".join(f"{kind} ×{n}" if n > 1 else kind for kind, n in done.most_common())
    yield f"  {time.monotonic() - began:4.0f} s  {done.total()} resources: {kinds or 'nothing changed'}"


def _pods(plan: Plan) -> str:
    assert plan.platform is not None
    return f"/api/v1/namespaces/{plan.platform.namespace}/pods"


def _settled(lab: Lab, plan: Plan) -> bool:
    """Whether as many engine pods as planned are ready, within the time."""
    wanted = sum(d.layout.replicas * d.layout.nodes_per_replica for d in plan.deployments)
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while time.monotonic() < deadline:
        pods = lab.api().items(_pods(plan))
        if all(map(is_ready, pods)) and sum(map(_engine, pods)) >= wanted:
            return True
        time.sleep(0.5)
    return False


def standing(plan: Plan, pods: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> Iterable[str]:
    """A line for each deployment: its pods, their nodes, and the domains of its groups."""
    labels = {n["metadata"]["name"]: n["metadata"]["labels"] for n in nodes}
    for deployment in plan.deployments:
        mine = [p for p in pods if _engine(p) and _of(p) == deployment.name]
        wanted = deployment.layout.replicas * deployment.layout.nodes_per_replica
        used = {p["spec"].get("nodeName") for p in mine} - {None}
        yield (
            f"  {deployment.name}: {sum(map(is_ready, mine))} of {wanted} pods ready, "
            f"on {len(used)} nodes of pool {deployment.pool}"
        )
        label = exclusive_domain(plan, deployment)
        if label is None:
            continue
        domains: dict[str, set[str]] = {}
        for pod in mine:
            place = labels.get(pod["spec"].get("nodeName", ""), {}).get(label, "none")
            domains.setdefault(pod["metadata"]["labels"].get(INDEX, "none"), set()).add(place)
        whole = sum(len(places) == 1 for places in domains.values())
        yield f"  {deployment.name}: {whole} of {len(domains)} groups in one {label.rpartition('/')[2]} each"


def _engine(pod: Mapping[str, Any]) -> bool:
    return bool(pod["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "engine")


def _of(pod: Mapping[str, Any]) -> str:
    labels = pod["metadata"]["labels"]
    return str(labels.get(groups.MEMBER) or labels.get("app.kubernetes.io/instance"))


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
