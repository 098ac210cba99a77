"""Extract what llama.cpp's server accepts and exports, into the product's engine matrix.

    python tools/engine_matrix/extract_llama_cpp.py 11434 --work DIR [--check]

A version is a build number. The source is that of a source distribution which carries llama.cpp's own files.
Flags are the declarations in `common/arg.cpp` that the server's parser takes ("declarations": read, not run);
variables are those that the same declarations name, and metrics what `/metrics` writes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import release  # a sibling of this script, which is not an installed package
import source_text

ENGINE = "llama.cpp"
EXTRACTOR_VERSION = 1
DECLARED = "add_opt(common_arg("
EXAMPLE = "LLAMA_EXAMPLE_SERVER"
COMMON = "LLAMA_EXAMPLE_COMMON"
REMOVED = "the argument has been removed"
KINDS = {"int": "int", "std::string": "str", "bool": "bool"}
_CALL = re.compile(r"\.set_(\w+)\(([^)]*)\)")
_GETENV = re.compile(r'getenv\("(LLAMA_[A-Z0-9_]+)"\)')
_METRIC = re.compile(r'\{\s*(?:\{\s*"name"\s*,\s*)?"(\w+)"\s*\}?\s*,\s*(?:\{\s*"help"|")')
_WRITTEN = re.compile(r"# TYPE llamacpp:(\w+) (\w+)")


def declarations(text: str) -> Iterator[tuple[list[str], str]]:
    """(arguments of the declaration, the calls chained to it)."""
    place = text.find(DECLARED)
    while place >= 0:
        opening = place + len(DECLARED) - 1
        end = source_text.closing(text, opening)
        outer = source_text.closing(text, place + len("add_opt(") - 1)
        yield source_text.arguments(text[opening + 1 : end]), text[end + 1 : outer]
        place = text.find(DECLARED, end)


def _parameters(handler: str) -> list[str]:
    opening = handler.index("(")
    return source_text.arguments(handler[opening + 1 : source_text.closing(handler, opening)])[1:]


def _examples(said: str, text: str) -> list[str]:
    """Programs that a declaration is for, written out or under the name of a list."""
    if re.fullmatch(r"\w+", said.strip()) and not said.startswith("LLAMA_"):
        named = re.search(rf"\b{said.strip()}\s*=\s*\{{([^}}]*)\}}", text)
        if named is None:
            raise release.ExtractionError(f"the list of programs {said} is not in the source")
        said = named[1]
    return re.findall(r"LLAMA_EXAMPLE_\w+", said)


def read_flags(text: str) -> tuple[list[dict[str, Any]], dict[str, str], list[str]]:
    """(flags of the server, removed option -> message, variables)."""
    flags: list[dict[str, Any]] = []
    removed: dict[str, str] = {}
    variables: list[str] = []
    for parts, chain in declarations(text):
        calls = dict(_CALL.findall(chain))
        examples = _examples(calls.get("examples", COMMON), text)
        excluded = EXAMPLE in calls.get("excludes", "")
        if "preset_only" in calls or excluded or not {EXAMPLE, COMMON} & set(examples):
            continue
        options = source_text.strings(parts[0])
        negatives = source_text.strings(parts[1]) if parts[1].startswith("{") else []
        (handler,) = (part for part in parts if part.startswith("["))
        before = " ".join(source_text.strings(" ".join(parts[1 : parts.index(handler)])))
        if REMOVED in before or "arg_removed(" in handler:
            removed |= dict.fromkeys(options, before.partition(". ")[2] or before)
            continue
        values = _parameters(handler)
        kind = next((KINDS[name] for name in KINDS if values and name in values[0]), "str")
        boolean = not values or kind == "bool"
        name = next((option for option in options if option.startswith("--")), options[0])
        entry = source_text.flag(
            name,
            [option for option in options if option != name],
            negatives=negatives,
            takes_value="boolean" if boolean else "valued",
            nargs=2 if len(values) == 2 else None,
            kind="bool" if boolean else kind,
        )
        if "DEPRECATED" in before:
            entry["deprecated"] = "deprecated by the parser, without effect"
        flags.append(entry)
        for variable in source_text.strings(calls.get("env", "")):
            variables.append(variable)
            if negatives:
                variables.append(variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_"))
    return sorted(flags, key=lambda flag: str(flag["name"])), dict(sorted(removed.items())), variables


def read_metrics(root: Path) -> list[dict[str, Any]]:
    """What the server writes under ``llamacpp:``. Its names are written as they are, so none has a type here
    that would add an ending."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted((root / "tools" / "server").glob("*.cpp")):
        text = path.read_text(encoding="utf-8")
        if "llamacpp:" not in text:
            continue
        for group in re.finditer(r"\b(?:counters|gauges)\b[^;{]*=\s*\{|\"(?:counter|gauge)\",\s*\{\{?", text):
            body = text[group.end() - 1 : source_text.closing(text, group.end() - 1)]
            found |= dict.fromkeys(_METRIC.findall(body), ())
        for name, _ in _WRITTEN.findall(text):
            found[name] = ("position",) if f"llamacpp:{name}{{position" in text else ()
    if not found:
        raise release.ExtractionError("no metrics found in tools/server")
    return [
        {
            "name": f"llamacpp:{name}",
            "type": "untyped",
            "labels": list(labels),
            "source": "tools/server",
            "when": ["--metrics"],
        }
        for name, labels in sorted(found.items())
    ]


def extract(version: str, work: Path) -> dict[str, Any]:
    """Obtain, verify and read one build."""
    package = release.obtain(ENGINE, version, work)
    target = release.unpack(package, work / "source" / f"{ENGINE}-{version}", (".cpp", ".h"))
    found = sorted(target.glob("*/llama.cpp/common/arg.cpp"))
    if len(found) != 1:
        raise release.ExtractionError(f"{package.name} holds no llama.cpp/common/arg.cpp")
    root = found[0].parents[1]
    flags, removed, variables = read_flags(found[0].read_text(encoding="utf-8"))
    for path in (*sorted((root / "common").glob("*.cpp")), *sorted((root / "tools/server").glob("*.cpp"))):
        variables += _GETENV.findall(path.read_text(encoding="utf-8"))
    return {
        "header": {
            "engine": ENGINE,
            "version": version,
            "flags_method": "declarations",
            "metrics_method": "declarations",
            "env_method": "declarations",
            "package": dict(release.pinned(ENGINE, version)),
            "extractor_version": EXTRACTOR_VERSION,
        },
        "dialect": "llama.cpp",
        "command": ["llama-server"],
        "metric_prefix": "llamacpp:",
        "env_prefix": "LLAMA_",
        "entrypoints": [],
        "positionals": [],
        "rewrites": {},
        "flags": flags,
        "removed": removed,
        "env": [{"name": name, "type": None} for name in sorted(set(variables))],
        "metrics": read_metrics(root),
        "unresolved_metrics": [],
    }


if __name__ == "__main__":
    sys.exit(release.run(ENGINE, extract))
