"""Extract what vLLM releases accept and export, into the product's engine matrix.

    python tools/engine_matrix/extract_vllm.py 0.33.0 --work DIR [--check]

Flags come from the engine's own parser, run in a throw-away environment (`parser_dump.py`, method "parser").
Metrics, environment variables and deprecation messages are read from the source (`source_ast.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import release  # a sibling of this script, which is not an installed package
import source_ast

ENGINE = "vllm"
EXTRACTOR_VERSION = 2
METRIC_PREFIX = "vllm:"
FLAG_FILES = (
    "vllm/engine/arg_utils.py",
    "vllm/entrypoints/common/cli_args.py",
    "vllm/entrypoints/launchers/cli_args.py",
    "vllm/entrypoints/openai/cli_args.py",
)


def assemble(
    version: str, package: Mapping[str, str], method: str, parsed: Mapping[str, Any], root: Path
) -> dict[str, Any]:
    """The matrix of one version from the parser's dump and the source tree."""
    flags = [dict(flag) for flag in parsed["flags"]]
    deprecations = source_ast.read_deprecations(root, FLAG_FILES)
    for flag in flags:
        if flag["name"] in deprecations:
            flag["deprecated"] = deprecations[flag["name"]]
    metrics = source_ast.read_metrics(root, ENGINE, METRIC_PREFIX)
    return {
        "header": {
            "engine": ENGINE,
            "version": version,
            "flags_method": method,
            "metrics_method": "ast",
            "env_method": "ast",
            "package": dict(package),
            "extractor_version": EXTRACTOR_VERSION,
        },
        "dialect": "flexible",
        "command": ["vllm", "serve"],
        "metric_prefix": METRIC_PREFIX,
        "env_prefix": "VLLM_",
        "entrypoints": source_ast.read_entrypoints(root, ENGINE),
        "positionals": parsed["positionals"],
        "rewrites": parsed["rewrites"],
        "flags": flags,
        "env": source_ast.read_environment(root, ENGINE),
        "metrics": [metric.as_entry() for metric in metrics.found],
        "unresolved_metrics": metrics.unresolved,
    }


def extract(version: str, work: Path) -> dict[str, Any]:
    """Obtain, verify and read one version."""
    package = release.obtain(ENGINE, version, work)
    root = release.unpack(package, work / "source" / version)
    python = release.environment(work, ENGINE)
    parsed = release.run_parser(python, "parser_dump.py", root, work)
    return assemble(version, release.pinned(ENGINE, version), "parser", parsed, root)


if __name__ == "__main__":
    sys.exit(release.run(ENGINE, extract))
