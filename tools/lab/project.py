"""A Pulumi project for one lab: the product's program with the lab's own settings, outside the checkout."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from rackwright.plan import Plan
from tools.lab import world
from tools.lab.lab import Lab

REPOSITORY = Path(__file__).resolve().parents[2]


def write(directory: Path, stack: str, config: Mapping[str, Any]) -> Path:
    """A project in ``directory`` whose program is the checkout's; gives its path."""
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy2(REPOSITORY / "Pulumi.yaml", directory / "Pulumi.yaml")
    program = directory / "stacks"
    if not program.exists():
        program.symlink_to(REPOSITORY / "stacks")
    configure(directory, stack, config)
    return directory


def configure(directory: Path, stack: str, config: Mapping[str, Any]) -> None:
    """Sets the stack's settings; what Pulumi wrote into the file itself stays."""
    path = directory / f"Pulumi.{stack}.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    content["config"] = {f"rackwright:{key}": value for key, value in config.items()}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")


def settings(lab: Lab, plan: Path, joined: Iterable[str]) -> dict[str, Any]:
    return {
        "plan": str(plan.resolve()),
        "context": lab.context,
        "identity": lab.identity,
        "joined": sorted(joined),
        # Older than plans ask for, and enough for what they use: its module is what there is.
        "operators": dict(world.RUNNING),
    }


def nodes(plan: Plan) -> list[str]:
    return [node.name for pool in plan.pools for node in pool.nodes]
