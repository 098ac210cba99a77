"""A lab with the plan's stack for tests: where each object lies, and how `pulumi` is started and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackwright.plan import Plan, load_plan, save_plan
from tests.golden import REPOSITORY
from tools.engine.env import environment
from tools.engine.stack import Stack
from tools.lab import project
from tools.lab.api import Api, ApiError
from tools.lab.lab import Lab

PLAN = REPOSITORY / "inventory" / "roce-100k" / "plan.yaml"
COMMAND_TIMEOUT_S = 240


@dataclass
class Cluster:
    """``plan`` is what the stack's settings name."""

    lab: Lab
    stack: Stack
    plan: Plan
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def api(self) -> Api:
        return self.lab.api()

    @property
    def namespace(self) -> str:
        assert self.plan.platform is not None
        return self.plan.platform.namespace

    def up(self, *more: str) -> subprocess.CompletedProcess[str]:
        arguments = ("up", "--yes", "--skip-preview", *more)
        return self.stack.pulumi(*arguments, timeout_s=COMMAND_TIMEOUT_S)

    def destroy(self) -> subprocess.CompletedProcess[str]:
        arguments = ("destroy", "--yes", "--skip-preview", "--exclude-protected")
        return self.stack.pulumi(*arguments, timeout_s=COMMAND_TIMEOUT_S)

    def start_up(self) -> subprocess.Popen[str]:
        argv = ["pulumi", "up", "--yes", "--skip-preview", "--stack", self.stack.name, "--non-interactive"]
        return subprocess.Popen(
            argv, cwd=self.stack.project, env=dict(self.stack.env), start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def kill_up_when(self, reached: Callable[[], bool]) -> None:
        """Starts an update and kills it with everything it started, once it has its lock and ``reached``."""
        process = self.start_up()
        deadline = time.monotonic() + COMMAND_TIMEOUT_S
        while time.monotonic() < deadline and not (self.stack.locks() and reached()):
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def configure(self, **settings: Any) -> None:
        base = project.settings(self.lab, PLAN, project.nodes(self.plan))
        project.configure(self.stack.project, self.stack.name, {**base, **settings})

    def use(self, plan: Plan, path: Path) -> None:
        """The stack is of another plan from now on."""
        save_plan(plan, path)
        self.plan = plan
        self.configure(plan=str(path))

    def path(self, content: Mapping[str, Any]) -> str:
        """Where the API keeps this object."""
        version, kind, metadata = str(content["apiVersion"]), str(content["kind"]), content["metadata"]
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if base not in self.resources:
            listed = self.api.get(base)["resources"]
            self.resources[base] = {r["kind"]: r for r in listed if "/" not in r["name"]}
        entry = self.resources[base][kind]
        place = f"/namespaces/{metadata['namespace']}" if entry["namespaced"] else ""
        return f"{base}{place}/{entry['name']}/{metadata['name']}"

    def read(self, content: Mapping[str, Any]) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.api.get(self.path(content))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def pods(self) -> list[dict[str, Any]]:
        return self.api.items(f"/api/v1/namespaces/{self.namespace}/pods")

    def engine_pods(self) -> list[dict[str, Any]]:
        label = "leaderworkerset.sigs.k8s.io/name"
        return [p for p in self.pods() if label in p["metadata"]["labels"]]

    def settled(self, true: Callable[[], bool], timeout_s: float = 60) -> bool:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if true():
                return True
            time.sleep(0.2)
        return true()


def raise_cluster(directory: Path) -> Cluster:
    plan = load_plan(PLAN)
    lab = Lab(directory / "lab")
    lab.raise_up(plan)
    folder = project.write(directory / "project", "lab", project.settings(lab, PLAN, project.nodes(plan)))
    env = {**environment(directory / "pulumi"), "KUBECONFIG": str(lab.kubeconfig)}
    stack = Stack("lab", folder, env)
    stack.ensure()
    return Cluster(lab, stack, plan)


def ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
