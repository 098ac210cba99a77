"""Extract what SGLang releases accept and export, into the product's engine matrix.

    python tools/engine_matrix/extract_sglang.py 0.5.23 --work DIR [--check]

Flags come from the release's own `ServerArgs.add_cli_args` (`sglang_dump.py`, method "parser"). Variables are
the fields of `srt/environ.py` and every other name with the engine's prefix that its source asks the
environment for. Most label sets are put together when the engine runs, and are null.
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

ENGINE = "sglang"
EXTRACTOR_VERSION = 2
METRIC_PREFIX = "sglang:"
NAME = re.compile(r"(SGLANG|SGL)_[A-Z0-9_]+")
ENVIRON = "sglang.srt.environ"
SERVER = "sglang/srt/"
"""The language-model server; the rest of the package exports metrics of other programs."""
MODULES = ("sglang.launch_server", "sglang.cli.main", "sglang.bench_serving")
TYPES = {"Bool": "bool", "Int": "int", "Float": "float", "Str": "str", "Tuple": "list", "JSON": "json"}


def declared(tree: source_ast.Tree) -> Iterator[dict[str, Any]]:
    """Fields of the class `Envs`: name, type by the class of the field, default where it is literal."""
    module = tree.module(ENVIRON)
    if module is None or "Envs" not in module.classes:
        raise release.ExtractionError(f"{ENVIRON} has no class Envs")
    for node in module.classes["Envs"].body:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        kind = ast.unparse(node.value.func)
        for target in node.targets:
            if not kind.startswith("Env") or not isinstance(target, ast.Name):
                continue
            entry: dict[str, Any] = {
                "name": target.id,
                "type": TYPES.get(kind.removeprefix("Env").removesuffix("WithAlias")),
            }
            first = node.value.args[0] if node.value.args else None
            if isinstance(first, ast.Constant):
                entry["default"] = first.value
            yield entry


def retired(tree: source_ast.Tree) -> dict[str, str]:
    """Variable -> what the release says of it, from its table of deprecated variables."""
    module = tree.module(ENVIRON)
    found: dict[str, str] = {}
    for table in module.constants.get("_DEPRECATED_ENVS", []) if module else []:
        if not isinstance(table, ast.Dict):
            continue
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(value, ast.Call):
                said = {item.arg: item.value for item in value.keywords}
                text = said.get("replacement", value.args[0] if value.args else said.get("note"))
                words = ast.literal_eval(text) if text is not None else ""
                use = f"use {words}" if "replacement" in said or value.args else words
                found[str(key.value)] = use or "without effect"
    return found


def read_by_name(tree: source_ast.Tree) -> set[str]:
    """Names that the source hands to a call or looks up, such as ``os.environ["SGLANG_X"]``."""
    found: set[str] = set()
    for module in tree.modules(("SGLANG_", "SGL_")):
        for node in ast.walk(module.tree):
            operands: list[ast.expr] = []
            if isinstance(node, ast.Call):
                operands = node.args[:1]
            elif isinstance(node, ast.Subscript):
                operands = [node.slice]
            elif isinstance(node, ast.Compare):
                operands = [node.left]
            for operand in operands:
                if isinstance(operand, ast.Constant) and NAME.fullmatch(str(operand.value)):
                    found.add(operand.value)
    return found


def environment(root: Path) -> list[dict[str, Any]]:
    """Every variable that the release reads, sorted; one that it only warns about carries ``deprecated``."""
    tree = source_ast.Tree(root, ENGINE)
    found: dict[str, dict[str, Any]] = {name: {"name": name, "type": None} for name in read_by_name(tree)}
    found |= {entry["name"]: entry for entry in declared(tree)}
    for name, message in retired(tree).items():
        found.setdefault(name, {"name": name, "type": None})["deprecated"] = message
    return [found[name] for name in sorted(found)]


def extract(version: str, work: Path) -> dict[str, Any]:
    """Obtain, verify and read one version."""
    package = release.obtain(ENGINE, version, work)
    root = release.unpack(package, work / "source" / f"{ENGINE}-{version}")
    parsed = release.run_parser(release.environment(work, "vllm"), "sglang_dump.py", root, work)
    metrics = source_ast.read_metrics(root, ENGINE, METRIC_PREFIX, [])
    tree = source_ast.Tree(root, ENGINE)
    return {
        "header": {
            "engine": ENGINE,
            "version": version,
            "flags_method": "parser",
            "metrics_method": "ast",
            "env_method": "ast",
            "package": dict(release.pinned(ENGINE, version)),
            "extractor_version": EXTRACTOR_VERSION,
        },
        "dialect": "argparse",
        "command": ["sglang", "serve"],
        "metric_prefix": METRIC_PREFIX,
        "env_prefix": "SGLANG_",
        "entrypoints": [name for name in MODULES if tree.module(name) is not None],
        "positionals": parsed["positionals"],
        "rewrites": {},
        "flags": parsed["flags"],
        "env": environment(root),
        "metrics": [metric.as_entry() for metric in metrics.found if metric.source.startswith(SERVER)],
        "unresolved_metrics": metrics.unresolved,
    }


def main(argv: list[str] | None = None) -> int:
    return release.run(ENGINE, extract, argv)


if __name__ == "__main__":
    sys.exit(main())
