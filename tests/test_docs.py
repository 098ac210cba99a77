"""The documents are true: commands in them run, and pasted sessions are what those commands print.

A ```console block is run line by line (`$ command`), in a copy of the checkout, and its output is compared;
`RACKWRIGHT_GOLDEN=write` writes the new output into the page. A ```sh block may hold `make` targets only,
which must exist.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(console|sh)\n(.*?)^```$", re.M | re.S)
VOLATILE = (
    (re.compile(r"\b\d+\.\d+ ?s\b"), "0.0 s"),
    (re.compile(r"\bin \d+(\.\d+)? ?s(econds)?\b"), "in 0.0 s"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?\S*"), "2026-01-01T00:00:00"),
    (re.compile(r"\bdigest(:?) [0-9a-f]{12}\b"), r"digest\1 000000000000"),
    (re.compile(r"={3,}"), "==="),
    (re.compile(r"[ \t]+$", re.M), ""),
)


def sessions() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        if page.exists():
            for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8"))):
                if match[1] == "console":
                    yield f"{page.name}-{number}", match[2]


def commands(text: str) -> list[str]:
    """The commands of a block; a trailing backslash continues one."""
    joined = text.replace("\\\n", "")
    return [line[2:].strip() for line in joined.splitlines() if line.startswith("$ ")]


def stable(text: str) -> str:
    """``text`` without what differs from run to run: times, and the order in which hosts finish."""
    for pattern, instead in VOLATILE:
        text = pattern.sub(instead, text)
    lines, hosts = [], []
    for line in text.splitlines():
        if finished := re.match(r"\[\d+/\d+\] (.*)", line):
            hosts.append(finished[1])
            continue
        lines += sorted(hosts)
        hosts.clear()
        lines.append(line)
    return "\n".join(lines)


def checkout_copy(target: Path) -> Path:
    names = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in names:
        if not name.startswith("tests/") and (REPOSITORY / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, target / name)
    return target


def run(command: str, directory: Path) -> str:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(directory),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode in (0, 1), f"{command}: exit {done.returncode}\n{done.stdout[-3000:]}"
    return done.stdout.replace(f"{directory}/", "")


@pytest.mark.rack
@pytest.mark.parametrize("page", [p for p in PAGES if p.exists()], ids=lambda p: p.name)
def test_sessions_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = [m for m in BLOCK.finditer(text) if m[1] == "console"]
    if not blocks:
        pytest.skip("the page has no session")
    if any("tools.rack" in m[2] for m in blocks) and os.geteuid() != 0:
        pytest.skip("a simulated rack needs root")
    directory = checkout_copy(tmp_path / "checkout")
    new = text
    try:
        for block in blocks:
            printed = "".join(f"$ {c}\n{run(c, directory)}" for c in commands(block[2]))
            new = new.replace(block[2], printed, 1)
    finally:
        if (directory / "results/rack/rack.json").exists():
            run("python -m tools.rack down --dir results/rack", directory)
    if os.environ.get("RACKWRIGHT_GOLDEN") == "write":
        page.write_text(new, encoding="utf-8")
    else:
        assert stable(text) == stable(new)


def test_make_targets_in_documents_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.M))
    for page in PAGES:
        if not page.exists():
            continue
        for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
            if match[1] == "sh":
                for line in match[2].splitlines():
                    words = line.split("#")[0].split()
                    if words:
                        assert words[0] in ("make", "git", "cd"), f"{page.name}: {line}"
                        assert words[0] != "make" or words[1] in targets, f"{page.name}: {line}"
