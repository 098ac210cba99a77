"""``python -m tools.engine.stack up|preview|drift|down ENV``: the real engine on one environment.

ENV names ``Pulumi.ENV.yaml``. ``lab`` is a control plane on this machine, raised where it does not run yet.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from rackwright.errors import CannotRun, InputErrors, Problem, RackwrightError
from rackwright.plan import Plan, load_plan
from rackwright.yamlio import load_yaml
from stacks.cluster_guard import UNSET, Expected, prove
from stacks.kubeconfig import files
from tools.engine import policy
from tools.engine.env import environment, for_command, usable

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "build"
LAB_PLAN = REPOSITORY / "inventory" / "roce-100k" / "plan.yaml"
ARGUMENTS = {
    "up": ["up"],
    "preview": ["preview", "--diff"],
    "drift": ["preview", "--refresh", "--diff"],
    "down": ["destroy", "--exclude-protected"],
}
ONE_BY_ONE = {"up": ["--parallel", "1", "--continue-on-error"], "down": ["--continue-on-error"]}
"""Hosts are changed one after the other, and one that is down does not keep the next from being changed."""
UNATTENDED = {"up": ["--yes", "--skip-preview"], "down": ["--yes", "--skip-preview"]}


@dataclass(frozen=True)
class Stack:
    """One stack of one project, with the environment in which `pulumi` runs."""

    name: str
    project: Path
    env: Mapping[str, str]

    def pulumi(self, *arguments: str, timeout_s: float | None = None) -> subprocess.CompletedProcess[str]:
        """Runs `pulumi` and keeps what it says."""
        return subprocess.run(
            ["pulumi", *arguments, "--stack", self.name, "--non-interactive", "--color", "never"],
            cwd=self.project,
            env=for_command(arguments, self.env),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def show(self, *arguments: str) -> int:
        """Runs `pulumi` before the user's eyes; it may ask."""
        argv = ["pulumi", *arguments, "--stack", self.name]
        env = for_command(arguments, self.env)
        return subprocess.run(argv, cwd=self.project, env=env, check=False).returncode

    def ensure(self) -> None:
        """The stack exists.

        Raises:
            CannotRun: it does not and cannot be made.
        """
        if self.pulumi("stack").returncode == 0:
            return
        made = subprocess.run(
            ["pulumi", "stack", "init", self.name, "--non-interactive"],
            cwd=self.project, env=dict(self.env), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            raise CannotRun(
                Problem(
                    f"stack {self.name}", "must exist or be made", made.stderr.strip().splitlines()[-1],
                    "its state is kept there", "check PULUMI_BACKEND_URL and PULUMI_CONFIG_PASSPHRASE",
                )
            )  # fmt: skip

    def state(self) -> dict[str, Any]:
        deployment: dict[str, Any] = json.loads(self.pulumi("stack", "export").stdout)["deployment"] or {}
        return deployment

    def resources(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.state().get("resources") or []
        return found

    def protected(self) -> list[str]:
        """Objects that a destroy left on purpose."""
        return [f"{r['type'].rpartition(':')[2]} {r['id']}" for r in self.resources() if r.get("protect")]

    def prove(self) -> None:
        """The cluster is the one that the settings mean: a refresh or a destroy reads no program, and would
        take another cluster for one that lost everything, or empty it.

        Raises:
            InputErrors: it is another, or none is named.
            CannotRun: it does not answer.
        """
        settings = load_yaml(self.project / f"Pulumi.{self.name}.yaml").data or {}
        config = settings.get("config") or {}
        named = [str(config.get(f"rackwright:{key}") or UNSET) for key in ("context", "identity")]
        prove(Expected(self.name, *named), files(self.env))

    def on_hosts(self) -> bool:
        """Whether the settings are for hosts, which an inventory names: there is no cluster to prove."""
        settings = load_yaml(self.project / f"Pulumi.{self.name}.yaml").data or {}
        return bool((settings.get("config") or {}).get("rackwright:inventory"))

    def plan(self) -> Plan:
        """The plan that the stack's settings name.

        Raises:
            InputErrors: there is none, or it is no plan.
        """
        settings = load_yaml(self.project / f"Pulumi.{self.name}.yaml").data or {}
        named = (settings.get("config") or {}).get("rackwright:plan")
        if not named:
            raise InputErrors(
                Problem(
                    f"Pulumi.{self.name}.yaml config.rackwright:plan", "must name a plan", "nothing",
                    "it is what the stack is made from", "pulumi config set rackwright:plan PLAN.yaml",
                )
            )  # fmt: skip
        return load_plan(self.project / str(named))

    def recover(self) -> list[str]:
        """Makes an interrupted stack usable again; gives what was done.

        A lock whose process is dead is removed; operations whose end nobody saw are looked up in the cluster.

        Raises:
            CannotRun: another update holds the lock.
        """
        done = self.unlock()
        if self.state().get("pending_operations"):
            self.pulumi("refresh", "--yes", "--skip-preview", "--clear-pending-creates")
            done.append("operations whose end nobody saw: looked up in the cluster")
        return done

    def unlock(self) -> list[str]:
        done = []
        for path in self.locks():
            held = json.loads(path.read_text(encoding="utf-8") or "{}")
            here = held.get("hostname") == socket.gethostname()
            if here and not _alive(int(held.get("pid", 0))):
                path.unlink(missing_ok=True)
                done.append(f"lock of process {held.get('pid')}, which is dead: removed")
                continue
            raise CannotRun(
                Problem(
                    f"stack {self.name}", "must not be locked",
                    f"a lock of {held.get('username')}@{held.get('hostname')}, process {held.get('pid')}",
                    "two updates at once would overwrite each other's state",
                    f"wait for it; if it has died: pulumi cancel --stack {self.name}",
                )
            )  # fmt: skip
        return done

    def locks(self) -> list[Path]:
        address = urlparse(self.env.get("PULUMI_BACKEND_URL", ""))
        if address.scheme != "file":
            return []
        folder = Path(unquote(address.path)) / ".pulumi" / "locks"
        return sorted(p for p in folder.glob("**/*.json") if p.parent.name == self.name)


def _alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def lab_stack(directory: Path, say: Any) -> Stack:
    """The stack of the lab in ``directory``, which is raised first where it does not run."""
    from tools.lab import project
    from tools.lab.lab import Lab

    plan = load_plan(LAB_PLAN)
    if (directory / "lab.json").exists():
        lab = Lab.open(directory, say)
        ended = [p.name for p in lab.processes if not p.alive]
        if ended:
            raise CannotRun(
                Problem(
                    f"lab {directory}", "must run", f"{', '.join(ended)} ended",
                    "the stack's cluster is not there any more",
                    f"python -m tools.lab down --dir {directory}",
                )
            )  # fmt: skip
    else:
        lab = Lab(directory, say)
        lab.raise_up(plan)
    folder = directory / "project"
    project.write(folder, "lab", project.settings(lab, LAB_PLAN, project.nodes(plan)))
    env = {**environment(directory / "pulumi"), "KUBECONFIG": str(lab.kubeconfig)}
    return Stack("lab", folder, env)


def open_stack(name: str, say: Any) -> Stack:
    """The stack of an environment.

    Raises:
        CannotRun: no engine, or no such environment.
    """
    reason = usable()
    if reason:
        raise CannotRun(
            Problem(
                "engine", "must be there", reason, "nothing is applied by the embedded engine",
                "rackwright render PLAN -o DIR writes the same objects as files",
            )
        )  # fmt: skip
    if name == "lab":
        return lab_stack(BUILD / "lab", say)
    if not (REPOSITORY / f"Pulumi.{name}.yaml").is_file():
        known = sorted(p.name.split(".")[1] for p in REPOSITORY.glob("Pulumi.*.yaml"))
        raise CannotRun(
            Problem(
                f"Pulumi.{name}.yaml", "must be a file", "nothing", "it names the plan and the cluster",
                f"ENV=lab, or one of {', '.join(known)}",
            )
        )  # fmt: skip
    return Stack(name, REPOSITORY, environment(BUILD / "pulumi"))


def run(action: str, name: str, extra: Sequence[str], markdown: Path | None = None) -> int:
    stack = open_stack(name, _say)
    hosts = stack.on_hosts()
    if action in {"up", "preview"}:
        policy.require(stack.plan())
    if not hosts:
        stack.prove()
    stack.ensure()
    for line in stack.recover():
        _say(line)
    more = list(UNATTENDED.get(action, ())) if name == "lab" else []
    more += ONE_BY_ONE.get(action, []) if hosts else []
    if markdown is not None:
        from tools.engine import comment

        return comment.write(stack, stack.plan(), [*ARGUMENTS[action], *extra], markdown)
    code = stack.show(*ARGUMENTS[action], *more, *extra)
    if action == "down" and code == 0:
        _after_down(stack)
    return code


def _after_down(stack: Stack) -> None:
    for line in stack.protected():
        _say(f"protected, left in place: {line}")
    if stack.name == "lab":
        from tools.lab.lab import Lab

        Lab.open(BUILD / "lab").down()
        _say("lab taken down")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.engine.stack", description=__doc__)
    parser.add_argument("action", choices=sorted(ARGUMENTS))
    parser.add_argument("env")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="preview and drift: write a comment there"
    )
    args, extra = parser.parse_known_args(argv)
    if args.markdown and ARGUMENTS[args.action][0] != "preview":
        parser.error("--markdown goes with preview and drift")
    try:
        return run(args.action, args.env, extra, args.markdown)
    except RackwrightError as error:
        _say(str(error))
        return error.exit_code


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
