"""Print the checklist: every check, its source and the plan's value it compares with.

With --markdown the page docs/checks.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from checks.registry import Check

_AREAS = {
    "bmc": "Management controller", "container": "Containers", "gpu": "GPUs", "host": "Host",
    "ib": "RDMA ports", "log": "Kernel log",
    "net": "Network", "nvlink": "NVLink", "nvme": "Local storage", "os": "Operating system", "pcie": "PCIe",
    "power": "Power", "rdma": "GPUDirect", "roce": "Lossless Ethernet", "thermal": "Air", "time": "Time",
    "uniform": "Hosts of a pool alike",
}  # fmt: skip


@click.command(name="checklist", help=__doc__)
@click.option("--markdown", "as_markdown", is_flag=True, help="The page that the documentation holds.")
def command(as_markdown: bool) -> None:
    from checks.registry import load

    registry = load()
    click.echo(markdown(registry) if as_markdown else table(registry), nl=False)


def table(registry: Mapping[str, Check]) -> str:
    """One line a check: id, severity, tier, scope, title, plan path, source."""
    rows = [("CHECK", "SEVERITY", "TIER", "ABOUT", "TITLE", "PLAN PATH", "SOURCE")]
    rows += [
        (c.id, c.severity.value, str(c.tier), c.scope.value, c.title, _path(c), c.source)
        for c in _ordered(registry)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = [
        "  ".join((*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1])) for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def markdown(registry: Mapping[str, Check]) -> str:
    """The checklist as a page: a section an area, why, remedy, source and commands of every check."""
    lines = [
        "# The checks",
        "",
        "Made by `rackwright checklist --markdown`; do not edit. A check compares what a host shows with",
        "the plan's value at `expectations.<pool>.<path>`. What cannot be read is an error, never a pass;",
        "readings of power and temperature stay open until they were taken at full load. While anything of",
        "the plan is open, unread or left out, the headline of a run says INCOMPLETE instead of READY.",
        "Tier 0 only reads. Checks of later tiers load hosts: they are marked active with what they do, and",
        "are never made unless `--tier` asks for them; a host with a critical finding is spared them.",
        "What a remedy shows `<like this>` is filled from the plan and the finding when a host fails.",
        "",
    ]
    for area, items in groupby(_ordered(registry), key=lambda c: c.area):
        lines += [f"## {_AREAS.get(area, area)}", ""]
        for item in items:
            lines += _section(item)
    return "\n".join(lines).rstrip() + "\n"


def _section(item: Check) -> Iterable[str]:
    from checks.remedy import marked

    yield f"### {item.id}: {item.title}"
    yield ""
    yield item.why
    yield ""
    yield f"- Severity {item.severity.value}, tier {item.tier}, about one {item.scope.value}."
    if item.active:
        yield f"- Active, made only with `--tier {item.tier}`: {item.active}."
    if item.expects:
        yield f"- Compares with `{_path(item)}`."
    yield f"- Source: {item.source}."
    if item.ids:
        yield f"- Covers {', '.join(item.ids)} of the deployment checklist."
    keys = ", ".join(f"`{c.key}`" + (" (root)" if c.root else "") for c in item.commands)
    if keys:
        yield f"- Reads {keys}."
    yield f"- Remedy{'' if item.reversible else ' (cannot be undone)'}:"
    yield ""
    yield f"      {marked(item)}"
    yield ""


def _ordered(registry: Mapping[str, Check]) -> list[Check]:
    return sorted(registry.values(), key=lambda c: (c.area, c.id))


def _path(item: Check) -> str:
    return f"expectations.<pool>.{item.expects}" if item.expects else "-"
