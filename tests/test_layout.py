"""The repository keeps its shape: nothing uncollected, documents that name real things, no machine paths."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.golden import REPOSITORY

LARGEST_SOURCE_LINES = 900


def tracked(*patterns: str) -> list[Path]:
    out = subprocess.run(
        ["git", "ls-files", "--", *patterns], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    return [REPOSITORY / line for line in out.splitlines() if (REPOSITORY / line).is_file()]


def test_every_test_function_is_collected() -> None:
    """A file with tests that pytest would not look at is a test that cannot fail."""
    missed = []
    for path in tracked("tests/*.py", "tests/**/*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        has_tests = any(isinstance(n, ast.FunctionDef) and n.name.startswith("test_") for n in ast.walk(tree))
        if has_tests and not path.name.startswith("test_"):
            missed.append(str(path.relative_to(REPOSITORY)))
    assert missed == []


def test_no_source_file_outgrows_a_reader() -> None:
    sizes = {
        str(p.relative_to(REPOSITORY)): len(p.read_text(encoding="utf-8").splitlines())
        for p in tracked("src/**/*.py", "checks/**/*.py", "stacks/**/*.py", "tools/**/*.py")
    }
    assert {name: n for name, n in sizes.items() if n > LARGEST_SOURCE_LINES} == {}


def test_documents_name_files_that_exist() -> None:
    """Paths in backticks of the README, CONTRIBUTING and docs exist in the checkout."""
    named = re.compile(r"`((?:src|checks|stacks|templates|inventory|tests|tools|benchmarks|docs)/[\w./-]+)`")
    missing = [
        f"{page.relative_to(REPOSITORY)}: {name}"
        for page in tracked("*.md", "docs/**/*.md", "tools/**/*.md", "inventory/**/*.md")
        for name in named.findall(page.read_text(encoding="utf-8"))
        if not (REPOSITORY / name).exists()
    ]
    assert missing == []


@pytest.mark.parametrize(
    "pattern",
    [r"/work/", r"/root/\.", r"bash_jobs", r"files\.python[h]osted", r"pypi\.[o]rg", r"proxy\.[g]olang"],
)
def test_nothing_of_a_machine_or_a_registry(pattern: str) -> None:
    found = []
    for path in tracked():
        if path.suffix in {".lock", ".sum"} or path == Path(__file__).resolve():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if re.search(pattern, text):
            found.append(str(path.relative_to(REPOSITORY)))
    assert found == []


def test_the_lock_file_names_every_declared_dependency() -> None:
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = set()
    for group in [project["dependencies"], *project["optional-dependencies"].values()]:
        declared |= {re.split(r"[\[<>=]", item)[0].lower() for item in group}
    declared.discard("rackwright")
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (REPOSITORY / "requirements.lock").read_text(), re.M))
    assert declared - locked == set()
