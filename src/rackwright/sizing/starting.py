"""A first workload file from a few answers, with what else can be said as comments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rackwright.catalog import Catalog, find, unknown_entry
from rackwright.errors import InputErrors, Problem
from rackwright.workload import Workload

SEARCH = "search"


@dataclass(frozen=True)
class Answers:
    """``machine``: an entry's id, or ``search``."""

    name: str = "my-service"
    users: int = 1000
    scenario: str = "chat"
    model: str = "qwen3-32b"
    machine: str = SEARCH
    country: str = "CN"


def workload_text(answers: Answers, catalog: Catalog) -> str:
    """The file's text.

    Raises:
        InputErrors: every answer that no workload may hold.
    """
    known: tuple[tuple[str, str, Any, str], ...] = (
        ("--scenario", answers.scenario, catalog.scenarios, "scenario"),
        ("--model", answers.model, catalog.models, "model"),
        ("--machine", answers.machine, catalog.machines, "machine"),
    )
    problems = [
        unknown_entry(entries, name, path, what)
        for path, name, entries, what in known
        if find(entries, name) is None and not (path == "--machine" and name == SEARCH)
    ]
    if not problems:
        problems = list(_problems(answers))
    if problems:
        raise InputErrors(problems)
    machine = find(catalog.machines, answers.machine)
    fabric = machine.fabric if machine is not None else None
    kind = {"Ethernet": "roce", "InfiniBand": "infiniband"}.get(
        fabric.layer if fabric is not None else "", ""
    )
    hardware = f"\n  machine: {machine.id}" if machine is not None else ""
    hardware += f"\n  fabric: {kind}" if kind else ""
    return f"""\
# What is to be served, to whom and where. Everything left out has a default that the plan shows.
schema: rackwright/workload/v1
name: {answers.name}
users:
  dau: {answers.users}
  scenario: {answers.scenario}
  # preset: scenario        # the scenario's published lengths instead of the guide's arithmetic
  # sessions_per_day: 20    # of a user; from a log: rackwright trace LOG.csv --users {answers.users}
model:
  id: {answers.model}
# engine: auto              # searched by its objective; left out, vllm
slo:
  ttft_p95: 1 s             # time to first token
  tpot_p50: 50 ms           # time a token after it
hardware:                   # without a machine, rackwright size searches the catalog{hardware}
  spares: 1
site:
  name: dc1
  country: {quoted(answers.country)}
  # region: west            # of the price list, for its tariff: rackwright catalog show cn
  rack:
    rating: 17 kW           # what one cabinet may draw
"""


def quoted(country: str) -> str:
    """NO is no in YAML."""
    return f'"{country}"'


def _problems(answers: Answers) -> list[Problem]:
    try:
        Workload.model_validate(
            {
                "name": answers.name,
                "users": {"dau": answers.users, "scenario": answers.scenario},
                "model": {"id": answers.model},
                "site": {"country": answers.country},
            }
        )
    except ValidationError as error:
        flags = {"name": "--name", "users": "--users", "site": "--country"}
        return [
            Problem(
                flags.get(str(e["loc"][0]), str(e["loc"][0])),
                e["msg"][:1].lower() + e["msg"][1:],
                repr(e.get("input")),
                "the workload would be refused",
                "rackwright init --help",
            )
            for e in error.errors()
        ]
    return []
