"""Plans for hosts, derived from the example: with room for a second version, and without docker."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from rackwright.catalog import load_catalog
from rackwright.plan import Plan, load_plan, save_plan
from rackwright.sizing.size import size
from rackwright.workload import load_workload
from tests.golden import REPOSITORY
from tests.stacks.plans import changed

EXAMPLE = REPOSITORY / "inventory" / "pro6000-hosts" / "plan.yaml"
KEY = "a-key-of-a-simulated-rack"


@cache
def example() -> Plan:
    """Two hosts with two cards and two replicas each."""
    return load_plan(EXAMPLE)


def fast(plan: Plan, **values: Any) -> Plan:
    """``plan`` with short waits: a simulated engine starts within a second."""
    return changed(
        plan,
        deployments__0__probes__startup_period_s=1,
        deployments__0__probes__startup_failures=4,
        deployments__0__rollout__drain_s=1,
        **values,
    )


def beside() -> Plan:
    """One replica a host: the second card is where the next version starts."""
    return changed(example(), deployments__0__layout__replicas=2)


def with_sequences(plan: Plan, count: int) -> Plan:
    """Another version: another command line."""
    args = plan.deployments[0].engine.roles[0].args
    others = [arg for arg in args if not arg.startswith("--max-num-seqs=")]
    return changed(plan, deployments__0__engine__roles__0__args=[*others, f"--max-num-seqs={count}"])


@cache
def sized(name: str) -> Plan:
    """One machine with llama.cpp, sized from ``workloads/``: spark, mac or jetson."""
    return size(load_workload(Path(__file__).parent / "workloads" / f"{name}.yaml"), load_catalog())


def write(plan: Plan, path: Path) -> Path:
    save_plan(plan, path)
    return path
