"""Both ends of every cable: host and switch configuration from a plan, and proof that they agree."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackwright.errors import Problem, listing

if TYPE_CHECKING:
    from rackwright.fabric.checking import Result
    from rackwright.fabric.topology import Topology

SHOWN = 20


@click.group(name="fabric", help=__doc__)
def command() -> None:
    pass


@command.command(name="render", epilog="Exit status: 0 good, 2 bad input.")
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--inventory",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A cluster-config.yaml of NVIDIA's k8s-launch-kit: the NICs as they are.",
)
def render_(plan: Path, output: Path, inventory: Path | None) -> None:
    """Write switch and host files, the cable map and each rack's ports."""
    from rackwright.cli.messages import visible
    from rackwright.fabric import launch_kit, rendering
    from rackwright.files import say
    from rackwright.plan import load_plan

    read = load_plan(plan)
    if inventory is not None:
        launch_kit.agree(launch_kit.read(inventory), read)
    fabric, files = rendering.render(read)
    others = rendering.write(files, output)
    say(visible("\n".join(_rendered(fabric, files, others, plan, output))))


def _rendered(
    fabric: Topology, files: dict[str, str], others: list[str], plan: Path, output: Path
) -> list[str]:
    switching, qos = fabric.fabric.switching, fabric.fabric.qos
    rails = len(fabric.fabric.rails)
    lines = [f"hosts      {len(fabric.hosts)}, {rails} rails of {fabric.fabric.rate_gbps} Gb/s"]
    if switching is not None:
        leaves = sum(s.role == "leaf" for s in fabric.switches)
        lines.append(
            f"switches   {leaves} leaves, {len(fabric.switches) - leaves} spines: "
            f"{fabric.switches[0].entry.name}, {switching.os}"
        )
        hosts = sum(c.kind == "host" for c in fabric.cables)
        lines.append(f"cables     {hosts} to hosts, {len(fabric.cables) - hosts} between switches")
    if qos is not None and qos.ecn_min_bytes is not None and qos.ecn_max_bytes is not None:
        lines.append(
            f"lossless   priority {qos.lossless_priority}, DSCP {qos.dscp}; marking from "
            f"{qos.ecn_min_bytes / 1024:,.0f} to {qos.ecn_max_bytes / 1024:,.0f} KiB; headroom "
            f"{(qos.xoff_host_bytes or 0) / 1024:,.0f} KiB to hosts ({qos.host_cable_m} m), "
            f"{(qos.xoff_uplink_bytes or 0) / 1024:,.0f} KiB between switches ({qos.uplink_cable_m} m)"
        )
    if fabric.fabric.subnet is not None:
        net = fabric.fabric.subnet
        lines.append(
            f"subnet     partition {net.partition} 0x{net.pkey:04x}, {net.rate} {net.width}X, {net.routing}"
        )
    lines.append(f"files      {len(files)} in {output}")
    if others:
        lines.append(f"left       {len(others)} of an earlier rendering: {listing(others, 3)}")
    lines.append(f"next       rackwright fabric check {output} --plan {plan}")
    return lines


@command.command(name="check", epilog="Exit status: 0 all agree, 1 something differs, 2 bad input.")
@click.argument("places", nargs=-1, required=True, metavar="DIR|FILES", type=click.Path(path_type=Path))
@click.option("--plan", "plan_file", required=True, metavar="PLAN", type=click.Path(path_type=Path))
@click.option(
    "--inventory",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A cluster-config.yaml of NVIDIA's k8s-launch-kit: the NICs as they are.",
)
def check_(places: tuple[Path, ...], plan_file: Path, inventory: Path | None) -> None:
    """Prove that host and switch files, also edited ones, agree with each other and with the plan."""
    from rackwright.cli.messages import visible
    from rackwright.fabric import checking, launch_kit
    from rackwright.files import say
    from rackwright.plan import load_plan

    plan = load_plan(plan_file)
    if inventory is not None:
        launch_kit.agree(launch_kit.read(inventory), plan)
    result = checking.check(plan, checking.read(places), whole=any(place.is_dir() for place in places))
    say(visible("\n".join(_checked(result))))
    sys.exit(1 if result.problems else 0)


def _checked(result: Result) -> list[str]:
    groups: dict[tuple[str, str], list[Problem]] = {}
    for problem in result.problems:
        groups.setdefault((problem.rule, problem.found), []).append(problem)
    lines = [_told(group) for group in list(groups.values())[:SHOWN]]
    if len(groups) > SHOWN:
        lines.append(f"and {sum(len(g) for g in list(groups.values())[SHOWN:])} more")
    if lines:
        lines.append("")
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(result.checked.items()))
    lines.append(f"checked    {kinds}")
    if result.planned:
        lines.append(f"cables     {result.cables} of {result.planned} read at both ends")
    if result.missing:
        lines.append(f"not given  {len(result.missing)} files of the plan: {listing(result.missing, 3)}")
    if result.ignored:
        lines.append(f"ignored    {len(result.ignored)} other files: {listing(result.ignored, 3)}")
    count = len(result.problems)
    said = f"{count} difference{'s' if count > 1 else ''}" if count else "both ends agree"
    if not count and result.cables < result.planned:
        unread = result.planned - result.cables
        said = f"as the plan gives it; {unread:,} of {result.planned:,} cables were not read at both ends"
    lines.append(f"result     {said}")
    return lines


def _told(group: list[Problem]) -> str:
    """The first of problems that differ in nothing but their place, and how many more there are."""
    if len(group) == 1:
        return str(group[0])
    return f"{group[0]}\n    also  {listing([p.where for p in group[1:]], 3)}"
