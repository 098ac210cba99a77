"""Extract what Text Generation Inference's launcher accepts and exports, into the product's engine matrix.

    python tools/engine_matrix/extract_tgi.py 3.3.7 --work DIR [--check]

No registry has the launcher. Put a clone of the project at DIR/tgi.git; the tag's file is verified against
the pinned sha256. Flags are the fields of the launcher's `Args` ("declarations": read, not run), each of
which is also a variable; metrics are what router and backends record.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import release  # a sibling of this script, which is not an installed package
import source_text

ENGINE = "tgi"
EXTRACTOR_VERSION = 1
_FIELD = re.compile(r"#\[clap\((?P<how>[^\]]*)\)\]\s*(?:pub )?(?P<name>\w+): (?P<type>[^\n]+),\n")
_ENUM = re.compile(r"#\[derive\([^)]*ValueEnum[^)]*\)\][^{]*?enum (\w+) \{")
_VARIANT = re.compile(r'(?:#\[clap\(name = "(?P<as>[^"]+)"\)\]\s*)?^\s*(?P<name>[A-Z]\w*),', re.MULTILINE)
_METRIC = re.compile(r"metrics::(counter|gauge|histogram)!\(")
KINDS = {"usize": "int", "u16": "int", "u32": "int", "u64": "int", "f32": "float", "f64": "float"}


def git(work: Path, *words: str) -> str:
    directory = work / "tgi.git"
    if not directory.exists():
        raise release.ExtractionError(f"needs a clone of the project at {directory}")
    done = subprocess.run(
        ["git", f"--git-dir={directory}", *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise release.ExtractionError(done.stderr.strip())
    return done.stdout


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower().replace("_", "-")


def read_choices(text: str) -> dict[str, list[str]]:
    """Enum -> the values that clap takes for it."""
    found: dict[str, list[str]] = {}
    for match in _ENUM.finditer(text):
        body = text[match.end() : source_text.closing(text, match.end() - 1)]
        body = re.sub(r"^\s*//[^\n]*$", "", body, flags=re.MULTILINE)
        found[match[1]] = sorted(part["as"] or _kebab(part["name"]) for part in _VARIANT.finditer(body))
    return found


def read_flags(text: str) -> list[dict[str, Any]]:
    """Flags of `struct Args`; ``--help`` and ``--version`` are clap's own."""
    start = text.index("struct Args {") + len("struct Args ")
    body = text[start : source_text.closing(text, start)]
    choices = read_choices(text)
    flags = [
        source_text.flag("--help", ["-h"], takes_value="boolean", kind="bool"),
        source_text.flag("--version", ["-V"], takes_value="boolean", kind="bool"),
    ]
    for match in _FIELD.finditer(body):
        kind = match["type"].removeprefix("Option<").removesuffix(">").removeprefix("Vec<")
        boolean = match["type"] == "bool"
        entry = source_text.flag(
            f"--{match['name'].replace('_', '-')}",
            [f"-{match['name'][0]}"] if re.search(r"\bshort\b", match["how"]) else [],
            takes_value="boolean" if boolean else "valued",
            kind="bool" if boolean else KINDS.get(kind, "str"),
        )
        default = re.search(r'default_value = "([^"]*)"', match["how"])
        if default:
            entry["default"] = default[1]
        if kind == "bool" and not boolean:
            entry["choices"] = ["false", "true"]
        elif kind in choices:
            entry["choices"] = choices[kind]
        flags.append(entry)
    return sorted(flags, key=lambda flag: str(flag["name"]))


def read_metrics(work: Path, tag: str) -> list[dict[str, Any]]:
    """Recorded metrics with their literal labels; a counter is exported under the name it has here."""
    found: dict[str, tuple[str, set[str]]] = {}
    for name in sorted(git(work, "ls-tree", "-r", "--name-only", tag, "router", "backends").split()):
        text = git(work, "show", f"{tag}:{name}") if name.endswith(".rs") else ""
        for match in _METRIC.finditer(text):
            parts = source_text.arguments(text[match.end() : source_text.closing(text, match.end() - 1)])
            if not parts or not parts[0].startswith('"tgi_'):
                continue
            labels = {word.partition("=>")[0].strip().strip('"') for word in parts[1:] if "=>" in word}
            kind = "histogram" if match[1] == "histogram" else "gauge" if match[1] == "gauge" else "untyped"
            found.setdefault(parts[0].strip('"'), (kind, set()))[1].update(labels)
    return [
        {"name": name, "type": kind, "labels": sorted(labels), "source": "router, backends", "when": []}
        for name, (kind, labels) in sorted(found.items())
    ]


def extract(version: str, work: Path) -> dict[str, Any]:
    """Verify and read one tag."""
    pin = release.pinned(ENGINE, version)
    text = git(work, "show", f"v{version}:{pin['file']}")
    digest = hashlib.sha256(text.encode()).hexdigest()
    if digest != pin["sha256"]:
        raise release.ExtractionError(f"{pin['file']}: sha256 is {digest}, pinned is {pin['sha256']}")
    flags = read_flags(text)
    variables = [str(flag["name"]).removeprefix("--").replace("-", "_").upper() for flag in flags]
    return {
        "header": {
            "engine": ENGINE,
            "version": version,
            "flags_method": "declarations",
            "metrics_method": "declarations",
            "env_method": "declarations",
            "package": dict(pin),
            "extractor_version": EXTRACTOR_VERSION,
        },
        "dialect": "clap",
        "command": ["text-generation-launcher"],
        "metric_prefix": "tgi_",
        "env_prefix": "TGI_",
        "entrypoints": [],
        "positionals": [],
        "rewrites": {},
        "flags": flags,
        "env": [{"name": name, "type": None} for name in sorted({*variables} - {"HELP", "VERSION"})],
        "metrics": read_metrics(work, f"v{version}"),
        "unresolved_metrics": [],
    }


if __name__ == "__main__":
    sys.exit(release.run(ENGINE, extract))
