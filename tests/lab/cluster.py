"""A lab with the plan's stack for tests: where each object lies, and how `pulumi` is started and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackwright.plan import Plan, load_plan, save_plan
from stacks.model import PLAN
from stacks.rendering import manifests_of
from tests.golden import REPOSITORY
from tools.engine.env import environment
from tools.engine.stack import Stack
from tools.lab import project
from tools.lab.api import Api, ApiError
from tools.lab.lab import Lab

PLAN_FILE = REPOSITORY / "inventory" / "roce-100k" / "plan.yaml"
COMMAND_TIMEOUT_S = 240


@dataclass
class Cluster:
    """``plan`` is what the stack's settings name; ``file``: where it is, a copy of its own."""

    lab: Lab
    stack: Stack
    plan: Plan
    file: Path
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
        base = project.settings(self.lab, self.file, project.nodes(self.plan))
        project.configure(self.stack.project, self.stack.name, {**base, **settings})

    def use(self, plan: Plan, path: Path) -> None:
        """The stack is of another plan from now on."""
        save_plan(plan, path)
        self.plan, self.file = plan, path
        self.configure()

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

    def changes(self, *more: str) -> dict[str, str]:
        """What a preview would do, by object: ``apps/v1:Deployment name`` to create, update, delete."""
        shown = self.stack.pulumi("preview", "--json", *more, timeout_s=COMMAND_TIMEOUT_S)
        assert shown.returncode == 0, shown.stdout[-3000:] + shown.stderr[-2000:]
        return {
            f"{step['urn'].split('::')[-2].split('$')[-1]} {step['urn'].split('::')[-1]}": step["op"]
            for step in json.loads(shown.stdout)["steps"]
            if step["op"] not in {"same", "read"} and "$kubernetes:" in step["urn"]
        }

    def labelled(self) -> set[str]:
        """``Kind namespace/name`` of every object in the cluster that carries the plan's name."""
        found = set()
        for manifest in manifests_of(self.plan):
            if manifest.purpose == "object":
                path = self.path(manifest.content).rpartition("/")[0]
                query = f"?labelSelector={PLAN}%3D{self.plan.header.name}"
                for item in self.api.items(path + query):
                    space = item["metadata"].get("namespace", "")
                    found.add(f"{manifest.kind} {space}/{item['metadata']['name']}")
        return found

    def consistent(self) -> None:
        """No object twice and none orphaned: cluster, state and plan hold the same; nodes are as planned."""
        state = self.stack.state()
        urns = Counter(r["urn"] for r in state["resources"])
        assert [urn for urn, count in urns.items() if count > 1] == []
        assert not state.get("pending_operations")
        wanted = {
            f"{m.kind} {m.namespace or ''}/{m.name}" for m in manifests_of(self.plan) if m.purpose == "object"
        }
        assert self.labelled() == wanted
        kinds = [
            r for r in state["resources"] if r["type"].startswith("kubernetes:") and not r.get("external")
        ]
        assert len(kinds) == len(wanted) + len(project.nodes(self.plan))
        for patch in (m.content for m in manifests_of(self.plan) if m.purpose == "node"):
            node = self.read(patch)
            assert node is not None
            assert node["metadata"]["labels"].items() >= patch["metadata"]["labels"].items()
            assert node["spec"]["taints"] == patch["spec"]["taints"]

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


def raise_cluster(directory: Path, file: Path = PLAN_FILE) -> Cluster:
    plan = load_plan(file)
    lab = Lab(directory / "lab")
    lab.raise_up(plan)
    copy = directory / "plan.yaml"
    save_plan(plan, copy)
    folder = project.write(directory / "project", "lab", project.settings(lab, copy, project.nodes(plan)))
    env = {**environment(directory / "pulumi"), "KUBECONFIG": str(lab.kubeconfig)}
    stack = Stack("lab", folder, env)
    stack.ensure()
    return Cluster(lab, stack, plan, copy)


def ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
