"""What every extractor does alike: obtain a pinned release, unpack it, write or compare the data.

A release is fetched by pip, checked against the sha256 in `packages.json`, and only its sources are
unpacked. The output is deterministic: sorted, no time, no host, no path of this machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DEFAULT_OUT = HERE.parent.parent / "src" / "rackwright" / "catalog" / "engines" / "matrix"
PYTHON = "311"
PLATFORMS = ("manylinux1_x86_64", *(f"manylinux_2_{glibc}_x86_64" for glibc in (17, 27, 28, 31, 34, 35)))


class ExtractionError(Exception):
    """The package is not the pinned one, or what it accepts cannot be read out of it."""


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def pinned(engine: str, version: str) -> Mapping[str, str]:
    """Entry of `packages.json`: file name and sha256, and the distribution where it has another name."""
    table = json.loads((HERE / "packages.json").read_text(encoding="utf-8")).get(engine, {})
    if version not in table:
        raise ExtractionError(f"{engine} {version} is not pinned in packages.json; add file and sha256")
    entry: Mapping[str, str] = table[version]
    return entry


def obtain(engine: str, version: str, work: Path) -> Path:
    """The pinned package, fetched if it is not there yet, with its sha256 verified.

    A source distribution (``.tar.gz``) is fetched as such; pip then runs its build backend for metadata.
    """
    pin = pinned(engine, version)
    path = work / "packages" / pin["file"]
    if not path.is_file():
        distribution, _, number = pin.get("distribution", f"{engine}=={version}").partition("==")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        if pin["file"].endswith(".whl"):
            command += ["--only-binary", ":all:", "--python-version", PYTHON]
            for platform in PLATFORMS:
                command += ["--platform", platform]
        else:
            command += ["--no-binary", distribution]
        command += ["--dest", str(path.parent), f"{distribution}=={number}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0 or not path.is_file():
            raise ExtractionError(
                f"the download of {engine} {version} gave no file {pin['file']}\n{done.stderr}"
            )
    found = sha256_of(path)
    if found != pin["sha256"]:
        raise ExtractionError(f"{pin['file']}: sha256 is {found}, pinned is {pin['sha256']}")
    return path


def unpack(package: Path, target: Path, suffixes: tuple[str, ...] = (".py",)) -> Path:
    """Sources and package metadata; no compiled code."""
    if package.name.endswith(".tar.gz"):
        with tarfile.open(package) as archive:
            members = [member for member in archive if member.isfile() and member.name.endswith(suffixes)]
            archive.extractall(target, members, filter="data")
        return target
    with zipfile.ZipFile(package) as wheel:
        for name in wheel.namelist():
            if name.endswith(suffixes) or ".dist-info/" in name:
                wheel.extract(name, target)
    return target


def environment(work: Path, engine: str) -> Path:
    """Python of the throw-away environment with the pinned light dependencies of the parser."""
    requirements = HERE / f"requirements-{engine}.txt"
    directory = work / f"env-{sha256_of(requirements)[:12]}"
    python = directory / "bin" / "python"
    stamp = directory / "complete"
    if not stamp.is_file():
        venv.create(directory, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*command, "--requirement", str(requirements)], check=True)
        stamp.touch()
    return python


def run_parser(python: Path, script: str, root: Path, work: Path) -> dict[str, Any]:
    """Flags as the engine's own parser holds them, from a process with an empty environment."""
    home = work / "home"
    home.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [str(python), "-B", str(HERE / script), str(root)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ExtractionError("the engine's parser could not be built:\n" + done.stderr[-4000:])
    result: dict[str, Any] = json.loads(done.stdout)
    return result


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


def run(
    engine: str, extract: Callable[[str, Path], Mapping[str, Any]], argv: Sequence[str] | None = None
) -> int:
    """The command line of an extractor: 0 written or identical, 1 differs, 2 could not be extracted."""
    parser = argparse.ArgumentParser(
        description=f"Extract what {engine} releases accept and export into the engine matrix."
    )
    parser.add_argument("version", nargs="+")
    parser.add_argument("--work", type=Path, required=True, help="directory for downloads and scratch")
    parser.add_argument("--out", type=Path, help="directory to write to (default: the product's catalog)")
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    options = parser.parse_args(argv)
    options.work.mkdir(parents=True, exist_ok=True)
    directory: Path = options.out or DEFAULT_OUT
    status = 0
    for version in options.version:
        out = directory / f"{engine}-{version}.json"
        try:
            text = render(extract(version, options.work.resolve()))
        except ExtractionError as exc:
            print(f"{engine} {version}: {exc}", file=sys.stderr)
            return 2
        if options.check:
            same = out.is_file() and out.read_text(encoding="utf-8") == text
            print(f"{out.name}: {'identical' if same else 'differs from what the package gives'}")
            status = status or (0 if same else 1)
            continue
        directory.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    return status
