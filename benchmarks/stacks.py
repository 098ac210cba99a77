"""Declaring a plan against declaring as many bare objects: rendered, and previewed by the real engine.

    python -m benchmarks.stacks [--runs 3] [--nodes 10 30 …] [--plan PLAN …] [-o results/bench/stacks.md]

Plans are sized: the workload of inventory/roce-100k with the fewest daily users that need as many nodes;
after them committed plans, whose growth would say nothing: by default that of a million daily users.
Whole processes, medians of interleaved runs (one from 1,000 nodes on), CPU seconds beside wall seconds.

What is measured against (``benchmarks/bare.py``): a program that declares the plan's own objects, read from
JSON as they would be written by hand, through the same typed constructors, engine and provider, without
components, dependencies, plan or rules; for ``render``, one that also writes them as YAML, a file each. The
ratio is the price of everything that is not declaring: reading and proving the plan, building, judging,
indexing. The last column is harder: as many ConfigMaps with one key each, not written to files.

Both previews see no cluster, write files and keep no checkpoints, as ``make preview`` keeps none
(``tools.engine.env.for_command``); `pulumi preview` as it comes serializes its whole state after each
resource and grows with their square. The preview is left out where the real engine is not there. Growth is
the CPU time of each node more than in the row above: where growth is linear, the same in every row.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bare import Body, one_key_each
from benchmarks.measure import Cost, cost_of, medians
from rackwright.catalog import load_catalog
from rackwright.plan import Plan, load_plan, save_plan
from rackwright.sizing.size import size
from rackwright.workload import load_workload
from stacks.rendering import manifests_of
from tools.engine.env import environment, for_command, usable

REPOSITORY = Path(__file__).resolve().parent.parent
MILLION = REPOSITORY / "inventory/b200-1m/plan.yaml"
NODES = (10, 30, 100, 266, 1_000)
LARGE = 1_000
"""Nodes from which one run is enough: it lasts long beside what the machine adds."""
DECLARED = """\
import gc
gc.disable()
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
from pathlib import Path
import pulumi_kubernetes as k8s
from benchmarks.bare import declare, read
provider = k8s.Provider("render", render_yaml_to_directory=os.environ["RENDERED"])
declare(read(Path(os.environ["BODIES"])), provider)
"""
RENDERED = """\
import sys
from pathlib import Path
import yaml
from benchmarks.bare import declare, read
from stacks.embedded import run
bodies, out = read(Path(sys.argv[1])), sys.argv[2:]
texts = [yaml.dump(r.inputs, Dumper=yaml.CSafeDumper) for r in run(lambda: declare(bodies)) if r.custom]
for number, text in enumerate(texts if out else ()):
    Path(out[0], f"{number}.yaml").write_text(text, encoding="utf-8")
"""


@dataclass(frozen=True)
class Row:
    """``ours`` for a plan of ``objects``, ``bare`` for its own bodies, ``least`` for one key each."""

    nodes: int
    objects: int
    ours: Cost
    bare: Cost
    least: Cost
    name: str

    def text(self, before: Row | None) -> str:
        growth = 1000 * (self.ours.cpu - before.ours.cpu) / (self.nodes - before.nodes) if before else 0.0
        return (
            f"| {self.name} | {self.nodes} | {self.objects} | {_pair(self.ours)} | {_pair(self.bare)} "
            f"| {_ratio(self.ours, self.bare)} | {f'{growth:.1f}' if before else ''} "
            f"| {_ratio(self.ours, self.least)} |"
        )


def _pair(cost: Cost) -> str:
    return f"{cost.wall:.2f} / {cost.cpu:.2f}"


def _ratio(ours: Cost, other: Cost) -> str:
    return f"{ours.wall / other.wall:.2f} / {ours.cpu / other.cpu:.2f}"


class Bench:
    """Runs in ``directory``."""

    def __init__(self, directory: Path, runs: int) -> None:
        self.directory, self.runs = directory, runs
        self.log = directory / "run.log"
        self.plan, self.bodies, self.least = (
            directory / n for n in ("plan.yaml", "bodies.json", "least.json")
        )

    def render(self, plan: Plan) -> Row:
        ours = [sys.executable, "-m", "rackwright", "render", str(self.plan), "-o"]
        bare = [sys.executable, "-c", RENDERED]
        return self._row(
            plan,
            lambda: self._cost([*ours, str(self._folder() / "out")], {}),
            lambda: self._cost([*bare, str(self.bodies), str(self._folder())], {}),
            lambda: self._cost([*bare, str(self.least)], {}),
        )

    def preview(self, plan: Plan) -> Row:
        declared, bare = self._project("declared", DECLARED), self._project("bare", BARE)
        return self._row(
            plan,
            lambda: self._preview(declared, {"PLAN": str(self.plan)}),
            lambda: self._preview(bare, {"BODIES": str(self.bodies)}),
            lambda: self._preview(bare, {"BODIES": str(self.least)}),
        )

    def _row(self, plan: Plan, *measures: Callable[[], Cost]) -> Row:
        declared = [m.registration for m in manifests_of(plan)]
        bodies = [(r.type, r.name, dict(r.inputs)) for r in declared]
        save_plan(plan, self.plan)
        _write(self.bodies, bodies)
        _write(self.least, one_key_each(len(bodies)))
        nodes = node_count(plan)
        costs = [[measure() for measure in measures] for _ in range(self.runs if nodes < LARGE else 1)]
        ours, bare, least = (medians(column) for column in zip(*costs, strict=True))
        return Row(nodes, len(bodies), ours, bare, least, plan.header.name)

    def _folder(self) -> Path:
        """A new folder to write to; removing what an earlier run wrote is not measured."""
        folder = self.directory / "written"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def _preview(self, project: Path, env: Mapping[str, str]) -> Cost:
        argv = ["pulumi", "preview", "--non-interactive", "--stack", "bench"]
        engine = for_command(argv[1:], self._engine())
        return self._cost(argv, {**engine, **env, "RENDERED": str(self._folder())}, project)

    def _cost(self, argv: list[str], env: Mapping[str, str], cwd: Path = REPOSITORY) -> Cost:
        return cost_of(argv, cwd=cwd, log=self.log, env=env, ok=(0, 1) if "render" in argv else (0,))

    def _engine(self) -> dict[str, str]:
        path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "src")])
        base = {**os.environ, "HOME": str(self.directory), "PYTHONPATH": path, "KUBECONFIG": ""}
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


def _write(path: Path, bodies: list[Body]) -> None:
    path.write_text(json.dumps(bodies), encoding="utf-8")


def plan_for(users: int) -> Plan:
    """The 100,000-user workload with other daily users, sized."""
    workload = load_workload(REPOSITORY / "inventory/roce-100k/workload.yaml")
    asked = workload.users.model_copy(update={"dau": users})
    return size(workload.model_copy(update={"users": asked}), load_catalog())


def node_count(plan: Plan) -> int:
    return sum(len(pool.nodes) for pool in plan.pools)


def plan_of(nodes: int) -> Plan:
    """The plan of the fewest users, in thousands, that takes ``nodes`` nodes or a few more."""
    low, high = 0, 1
    while node_count(plan_for(1_000 * high)) < nodes:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if node_count(plan_for(1_000 * middle)) >= nodes else (middle, high)
    return plan_for(1_000 * high)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stacks")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--nodes", type=int, nargs="*", default=NODES)
    parser.add_argument("--plan", type=Path, nargs="*", default=[MILLION])
    parser.add_argument("-o", "--output", type=Path, default=REPOSITORY / "results/bench/stacks.md")
    args = parser.parse_args()
    directory = args.output.parent / "stacks-work"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    bench, lines = Bench(directory.resolve(), args.runs), []
    plans = [plan_of(number) for number in sorted(args.nodes)]
    named = [load_plan(path) for path in args.plan]
    parts = [("rackwright render", bench.render)]
    if not usable():
        parts.append(("pulumi preview, real engine", bench.preview))
    for title, measure in parts:
        lines += [
            f"\n{title}: wall / CPU seconds; growth in CPU milliseconds a node\n",
            "| of | nodes | objects | plan | bare | plan : bare | growth | plan : one key |",
            "|---|---|---|---|---|---|---|---|",
        ]
        print(*lines[-3:], sep="\n", flush=True)
        before = None
        for index, plan in enumerate([*plans, *named]):
            row = measure(plan)
            lines.append(row.text(before if index < len(plans) else None))
            before = row
            print(lines[-1], flush=True)
    args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.rmtree(directory)
    print(args.output)


if __name__ == "__main__":
    main()
