"""Golden files: expected outputs and expected errors, reviewed by diff.

``RACKWRIGHT_GOLDEN=write pytest`` rewrites them; without it a difference fails with the diff.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"


def assert_golden(path: Path, text: str) -> None:
    """``text`` equals the file at ``path``, byte for byte."""
    if os.environ.get("RACKWRIGHT_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), f"{path} is missing; make it with: make golden"
    expected = path.read_text(encoding="utf-8")
    if text != expected:
        diff = "".join(
            difflib.unified_diff(
                expected.splitlines(keepends=True), text.splitlines(keepends=True), str(path), "now", n=2
            )
        )
        raise AssertionError(f"differs from the golden file (make golden rewrites it):\n{diff[:8000]}")
