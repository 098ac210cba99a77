"""Extract what LMCache reads and exports, into the product's engine matrix.

    python tools/engine_matrix/extract_lmcache.py 0.5.6 --work DIR [--check]

LMCache runs inside an engine and has no command line there: its settings are variables (the keys of its
configuration and every other name with its prefix in the source), and its metrics come with the engine's.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import release  # a sibling of this script, which is not an installed package
import source_ast

ENGINE = "lmcache"
EXTRACTOR_VERSION = 1
METRIC_PREFIX = "lmcache:"
CONFIGURATION = "lmcache.v1.config"
NAME = re.compile(r"LMCACHE_[A-Z0-9_]*[A-Z0-9]")


def settings(tree: source_ast.Tree) -> Iterator[dict[str, Any]]:
    """Keys of the configuration as variables, with type and default where they are literal."""
    module = tree.module(CONFIGURATION)
    tables = module.constants.get("_CONFIG_DEFINITIONS", []) if module else []
    if not tables:
        raise release.ExtractionError(f"{CONFIGURATION} has no _CONFIG_DEFINITIONS")
    for table in tables:
        assert isinstance(table, ast.Dict)
        for key, value in zip(table.keys, table.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(value, ast.Dict):
                continue
            said = {ast.literal_eval(k): v for k, v in zip(value.keys, value.values, strict=True) if k}
            entry: dict[str, Any] = {"name": f"LMCACHE_{str(key.value).upper()}", "type": None}
            if "type" in said:
                entry["type"] = ast.unparse(said["type"])
            if isinstance(said.get("default"), ast.Constant):
                entry["default"] = ast.literal_eval(said["default"])
            yield entry


def named(tree: source_ast.Tree) -> Iterator[str]:
    for module in tree.modules(("LMCACHE_",)):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                yield node.value


def extract(version: str, work: Path) -> dict[str, Any]:
    """Obtain, verify and read one version."""
    package = release.obtain(ENGINE, version, work)
    root = release.unpack(package, work / "source" / f"{ENGINE}-{version}")
    tree = source_ast.Tree(root, ENGINE)
    variables = {name: {"name": name, "type": None} for name in named(tree)}
    variables |= {entry["name"]: entry for entry in settings(tree)}
    metrics = source_ast.read_metrics(root, ENGINE, METRIC_PREFIX, [])
    return {
        "header": {
            "engine": ENGINE,
            "version": version,
            "flags_method": "none",
            "metrics_method": "ast",
            "env_method": "ast",
            "package": dict(release.pinned(ENGINE, version)),
            "extractor_version": EXTRACTOR_VERSION,
        },
        "dialect": "argparse",
        "command": [],
        "metric_prefix": METRIC_PREFIX,
        "env_prefix": "LMCACHE_",
        "entrypoints": [],
        "positionals": [],
        "rewrites": {},
        "flags": [],
        "env": [variables[name] for name in sorted(variables)],
        "metrics": [metric.as_entry() for metric in metrics.found],
        "unresolved_metrics": metrics.unresolved,
    }


if __name__ == "__main__":
    sys.exit(release.run(ENGINE, extract))
