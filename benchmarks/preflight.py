"""Preflight against its floor and against other ways to ask the same questions of the same hosts.

    python -m benchmarks.preflight [--hosts 50] [--peers 20] [--runs 3] [--pytest] [-o FILE]

Every figure is the median of the runs, interleaved, with CPU seconds of the client beside the wall seconds.
The hosts are a simulated rack on this machine, so their own cost is part of every wall figure.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.measure import Cost, cost_of, medians
from checks.registry import Check, load
from checks.runner import scripts, select
from rackwright.catalog import load_catalog
from rackwright.inventory import bound, load_inventory
from rackwright.plan import Plan, load_plan
from rackwright.sizing.size import size
from rackwright.verdict import Results
from rackwright.workload import load_workload
from tools.rack.run import Rack

REPOSITORY = Path(__file__).resolve().parent.parent
WORKLOAD = REPOSITORY / "inventory/roce-100k/workload.yaml"
FLOOR, OWN = "floor", "rackwright preflight"
SUITE, ITEMS = "pytest checks", "pytest items that do nothing"
PEERS = "ansible-core==2.19.14"


def plan_with(nodes: int) -> Plan:
    """The 100,000-user plan, on at least ``nodes`` nodes."""
    workload, catalog = load_workload(WORKLOAD), load_catalog()
    plan = size(workload, catalog)
    lacking = nodes - sum(len(pool.nodes) for pool in plan.pools)
    if lacking <= 0:
        return plan
    spares = workload.hardware.spares + lacking + lacking % 2
    hardware = workload.hardware.model_copy(update={"spares": spares})
    return size(workload.model_copy(update={"hardware": hardware}), catalog)


def interleaved(runs: int, subjects: dict[str, Callable[[int], Cost]]) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {name: [] for name in subjects}
    for number in range(runs):
        for name, measure in subjects.items():
            cost = measure(number)
            costs[name].append(cost)
            print(
                f"  run {number + 1}: {name}: {cost.wall:.2f} s wall, {cost.cpu:.2f} s CPU, "
                f"{cost.peak_mib:.0f} MiB",
                flush=True,
            )
    return costs


def own_and_floor(rack: Rack, scratch: Path) -> dict[str, Callable[[int], Cost]]:
    hosts = str(rack.inventory)

    def own(number: int) -> Cost:
        argv = [
            sys.executable,
            "-m",
            "rackwright",
            "preflight",
            "--hosts",
            hosts,
            "--results",
            str(scratch / "own"),
        ]
        # Status 1 is no failure here: an idle rack leaves what is asked of it under full load open.
        cost = cost_of(argv, cwd=REPOSITORY, log=scratch / f"own-{number}.log", ok=(0, 1))
        _require_whole(Results.from_json((scratch / "own" / "results.json").read_text()), len(rack.hosts))
        return cost

    def floor(number: int) -> Cost:
        argv = [sys.executable, "-m", "benchmarks.floor", "--hosts", hosts]
        return cost_of(argv, cwd=REPOSITORY, log=scratch / f"floor-{number}.log")

    return {FLOOR: floor, OWN: own}


def suite_and_items(rack: Rack, scratch: Path, checks: int) -> dict[str, Callable[[int], Cost]]:
    """``pytest checks``, and as many pytest items that do nothing."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    empty = scratch / "test_nothing.py"
    empty.write_text(
        "import pytest\n"
        f"@pytest.mark.parametrize('host', [f'h{{n}}' for n in range({len(rack.hosts)})])\n"
        f"@pytest.mark.parametrize('check', [f'c{{n}}' for n in range({checks})])\n"
        "def test_nothing(host, check):\n"
        "    pass\n"
    )

    def suite(number: int) -> Cost:
        argv = [*pytest, "checks", "--hosts", str(rack.inventory), "--results", str(scratch / "suite")]
        return cost_of(argv, cwd=REPOSITORY, log=scratch / f"suite-{number}.log", ok=(0, 1))

    def items(number: int) -> Cost:
        argv = [*pytest, "-p", "no:testinfra", "--rootdir", str(scratch), "-c", "/dev/null", str(empty)]
        return cost_of(argv, cwd=scratch, log=scratch / f"items-{number}.log")

    return {SUITE: suite, ITEMS: items}


def _require_whole(results: Results, hosts: int) -> None:
    """That a run is worth timing: every host was collected to the end and judged."""
    cut = [note for note in results.notes if "ended early" in note]
    if results.unreachable or cut or not results.complete or len(results.hosts) != hosts:
        raise RuntimeError(f"the run was not whole: {dict(results.unreachable)} {cut[:3]}")


def commands_on(rack: Rack, checks: Sequence[Check]) -> list[str]:
    """What the collector asks a host of the rack, each as a command of its own."""
    inventory = load_inventory(rack.inventory)
    plan = load_plan(inventory.plan_path)
    (_, script), *_ = scripts(plan, bound(inventory, plan).inventory, checks)
    return [f"sudo -n sh -c {shlex.quote(c.shell)}" if c.root else c.shell for c in script.commands]


def peers(rack: Rack, scratch: Path, commands: Sequence[str]) -> dict[str, Callable[[int], Cost]]:
    """ansible raw (forks 50) and plain testinfra over paramiko, running the same commands."""
    ansible = _ansible(scratch)
    playbook = scratch / "raw.yml"
    tasks = [{"ansible.builtin.raw": text, "failed_when": False, "changed_when": False} for text in commands]
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    (scratch / "commands.json").write_text(json.dumps(list(commands)))
    test = scratch / "test_commands.py"
    test.write_text(
        "import json, pathlib, pytest\n"
        f"COMMANDS = json.loads(pathlib.Path({str(scratch / 'commands.json')!r}).read_text())\n"
        "@pytest.mark.parametrize('command', COMMANDS)\n"
        "def test_command(host, command):\n"
        "    assert host.run(command).rc is not None\n"
    )
    config = scratch / "ssh_config"
    config.write_text("".join(
        f"Host {h.name}\n  HostName {h.address}\n  Port {rack.spec.port}\n  User {_user(rack)}\n"
        f"  IdentityFile {rack.key}\n  UserKnownHostsFile {rack.known_hosts}\n" for h in rack.hosts.values()
    ))  # fmt: skip
    names = ",".join(f"paramiko://{name}" for name in rack.hosts)

    def run_ansible(number: int) -> Cost:
        return cost_of(
            [str(ansible), "-i", str(rack.inventory), "-f", "50", str(playbook)],
            cwd=scratch,
            log=scratch / f"ansible-{number}.log",
            env={"ANSIBLE_HOST_KEY_CHECKING": "True", "ANSIBLE_HOME": str(scratch / "ansible")},
        )

    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    pytest += ["--rootdir", str(scratch), "-c", "/dev/null"]

    def run_testinfra(number: int) -> Cost:
        return cost_of(
            [*pytest, str(test), f"--hosts={names}", f"--ssh-config={config}"],
            cwd=scratch,
            log=scratch / f"testinfra-{number}.log",
        )

    return {"ansible raw, forks 50": run_ansible, "testinfra over paramiko": run_testinfra}


def _user(rack: Rack) -> str:
    for word in rack.inventory.read_text().split():
        if word.startswith("ansible_user="):
            return word.partition("=")[2]
    raise RuntimeError("the rack's inventory names no user")


def _ansible(scratch: Path) -> Path:
    """ansible-core in an environment of its own, made on first use; it is no dependency of the product."""
    venv = REPOSITORY / "build" / "bench-venv"
    program = venv / "bin" / "ansible-playbook"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin/pip"), "install", "-q", PEERS], check=True)
    return program


def table(costs: dict[str, list[Cost]], hosts: int, base: str) -> list[str]:
    middle = {name: medians(found) for name, found in costs.items()}
    lines = [
        f"| {hosts} hosts | wall s | client CPU s | peak MiB | wall ms a host "
        f"| wall ÷ {base} | CPU ÷ {base} |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, cost in middle.items():
        lines.append(
            f"| {name} | {cost.wall:.2f} | {cost.cpu:.2f} | {cost.peak_mib:.0f} "
            f"| {cost.wall / hosts * 1000:.0f} "
            f"| {cost.wall / middle[base].wall:.2f} | {cost.cpu / middle[base].cpu:.2f} |"
        )
    if FLOOR in middle:
        beyond = (middle[OWN].cpu - middle[FLOOR].cpu) / hosts * 1000
        lines += ["", f"{OWN}: {beyond:.1f} ms of client CPU a host beyond the floor"]
    if ITEMS in middle:
        wall, cpu = (getattr(middle[FLOOR], of) + getattr(middle[ITEMS], of) for of in ("wall", "cpu"))
        lines += [
            f"{SUITE}: {middle[SUITE].wall / wall:.2f} × wall, {middle[SUITE].cpu / cpu:.2f} × CPU "
            "of the floor and as many items that do nothing"
        ]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument(
        "--peers", type=int, default=20, help="hosts for the comparison with other tools; 0 leaves it out"
    )
    parser.add_argument("--pytest", action="store_true", help="also pytest checks, and items that do nothing")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=REPOSITORY / "results/bench/preflight.md")
    options = parser.parse_args()
    scratch = options.output.resolve().parent / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    lines: list[str] = []
    checks = select(load())
    with Rack.temporary(plan_with(options.hosts), nodes=options.hosts) as rack:
        commands = commands_on(rack, checks)
        print(f"{options.hosts} hosts, {len(checks)} checks, {len(commands)} commands")
        subjects = own_and_floor(rack, scratch)
        subjects |= suite_and_items(rack, scratch, len(checks)) if options.pytest else {}
        lines += table(interleaved(options.runs, subjects), options.hosts, FLOOR)
    if options.peers:
        with Rack.temporary(plan_with(options.peers), nodes=options.peers) as rack:
            subjects = {OWN: own_and_floor(rack, scratch)[OWN]}
            subjects |= peers(rack, scratch, commands)
            lines += ["", *table(interleaved(options.runs, subjects), options.peers, OWN)]
    load_average = "/".join(f"{value:.1f}" for value in os.getloadavg())
    head = f"{len(checks)} checks from {len(commands)} commands; medians of {options.runs} runs"
    text = "\n".join([f"{head}; load average at the end {load_average}", "", *lines]) + "\n"
    options.output.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
