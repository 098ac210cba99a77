"""Declaring a plan against declaring as many bare objects: rendered, and previewed by the real engine.

    python -m benchmarks.stacks [--runs 3] [-o results/bench/stacks.md]

Whole processes, medians of interleaved runs, CPU seconds beside wall seconds. The bare program declares
as many ConfigMaps with one key each, without components; both previews see no cluster. The preview is left
out where the real engine is not there. Other numbers of nodes than the plan's are its nodes cut or repeated.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Cost, cost_of, medians
from rackwright.plan import Plan, load_plan, save_plan
from stacks.rendering import manifests_of
from tools.engine.env import environment, usable

REPOSITORY = Path(__file__).resolve().parent.parent
NODES = (10, 30, 100, 300, 1000)
DECLARED = """\
import os
from pathlib import Path
import pulumi_kubernetes as k8s
from rackwright.plan import load_plan
from stacks.model import Environment
from stacks.program import build
plan = load_plan(Path(os.environ["PLAN"]))
nodes = frozenset(node.name for pool in plan.pools for node in pool.nodes)
provider = k8s.Provider("render", render_yaml_to_directory=os.environ["RENDERED"])
build(plan, Environment(joined=nodes), provider)
"""
BARE = """\
import os
import pulumi
import pulumi_kubernetes as k8s
provider = k8s.Provider("render", render_yaml_to_directory=os.environ["RENDERED"])
for number in range(int(os.environ["COUNT"])):
    name = f"bare-{number}"
    k8s.core.v1.ConfigMap(
        name, metadata={"name": name, "namespace": "default"}, data={"key": "value"},
        opts=pulumi.ResourceOptions(provider=provider),
    )
"""
EMBEDDED = """\
import sys
import pulumi_kubernetes as k8s
from stacks.embedded import run
from stacks.manifests import dump
def program():
    for number in range(int(sys.argv[1])):
        name = f"bare-{number}"
        k8s.core.v1.ConfigMap(name, metadata={"name": name, "namespace": "default"}, data={"key": "value"})
for registration in run(program):
    if registration.custom:
        dump(registration.inputs)
"""


class Bench:
    """Runs in ``directory``; costs by what was run."""

    def __init__(self, directory: Path, runs: int) -> None:
        self.directory, self.runs = directory, runs
        self.log = directory / "run.log"

    def render(self, plan: Plan) -> tuple[int, Cost, Cost]:
        """Objects of the plan, the cost of rendering them, and that of as many bare ones."""
        path, count = self.directory / "plan.yaml", len(manifests_of(plan))
        save_plan(plan, path)
        ours = [sys.executable, "-m", "rackwright", "render", str(path), "-o", str(self.directory / "out")]
        bare = [sys.executable, "-c", EMBEDDED, str(count)]
        costs = [(self._cost(ours, {}), self._cost(bare, {})) for _ in range(self.runs)]
        return count, medians([c[0] for c in costs]), medians([c[1] for c in costs])

    def preview(self, plan: Plan) -> tuple[int, Cost, Cost]:
        path, count = self.directory / "plan.yaml", len(manifests_of(plan))
        save_plan(plan, path)
        env = {"PLAN": str(path), "COUNT": str(count), "RENDERED": str(self.directory / "rendered")}
        argv = ["pulumi", "preview", "--non-interactive", "--stack", "bench"]
        folders = [self._project("declared", DECLARED), self._project("bare", BARE)]
        costs = [[self._cost(argv, {**self._engine(), **env}, f) for f in folders] for _ in range(self.runs)]
        return count, medians([c[0] for c in costs]), medians([c[1] for c in costs])

    def _cost(self, argv: list[str], env: dict[str, str], cwd: Path = REPOSITORY) -> Cost:
        return cost_of(argv, cwd=cwd, log=self.log, env=env, ok=(0, 1) if "render" in argv else (0,))

    def _engine(self) -> dict[str, str]:
        base = {**os.environ, "HOME": str(self.directory), "PYTHONPATH": str(REPOSITORY), "KUBECONFIG": ""}
        return environment(self.directory / "pulumi", base)

    def _project(self, name: str, program: str) -> Path:
        folder = self.directory / name
        if not folder.exists():
            folder.mkdir()
            (folder / "Pulumi.yaml").write_text(f"name: {name}\nruntime: python\n", encoding="utf-8")
            (folder / "__main__.py").write_text(program, encoding="utf-8")
            subprocess.run(
                ["pulumi", "stack", "init", "bench"],
                cwd=folder,
                env=self._engine(),
                check=True,
                capture_output=True,
            )
        return folder


def plan_with(nodes: int) -> Plan:
    """The 100,000-user plan with this many nodes in its pool."""
    plan = load_plan(REPOSITORY / "inventory/roce-100k/plan.yaml")
    pool = plan.pools[0]
    copies = [pool.nodes[n % len(pool.nodes)].model_copy(update={"name": f"n-{n:04}"}) for n in range(nodes)]
    return plan.model_copy(update={"pools": (pool.model_copy(update={"nodes": tuple(copies)}),)})


def row(nodes: int, count: int, ours: Cost, bare: Cost) -> str:
    return (
        f"| {nodes} | {count} | {ours.wall:.2f} / {ours.cpu:.2f} | {bare.wall:.2f} / {bare.cpu:.2f} "
        f"| {ours.wall / bare.wall:.2f} / {ours.cpu / bare.cpu:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stacks")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--nodes", type=int, nargs="*", default=NODES)
    parser.add_argument("-o", "--output", type=Path, default=REPOSITORY / "results/bench/stacks.md")
    args = parser.parse_args()
    directory = args.output.parent / "stacks-work"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    bench, lines = Bench(directory, args.runs), []
    parts = [("rackwright render", bench.render)]
    parts += [] if usable() else [("pulumi preview, real engine", bench.preview)]
    for title, measure in parts:
        lines += [
            f"\n{title}: wall / CPU seconds\n",
            "| nodes | objects | plan | bare | ratio |",
            "|---|---|---|---|---|",
        ]
        for nodes in args.nodes:
            lines.append(row(nodes, *measure(plan_with(nodes))))
            print(lines[-1], flush=True)
    args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.rmtree(directory)
    print(args.output)


if __name__ == "__main__":
    main()
