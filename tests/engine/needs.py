"""Whether the real engine, and the lab, can run here; why not otherwise."""

from __future__ import annotations

import pytest

from tools.engine import env
from tools.engine.build import have
from tools.engine.families import LAB


def engine() -> pytest.MarkDecorator:
    reason = env.usable()
    return pytest.mark.skipif(bool(reason), reason=reason or "the real engine")


def lab() -> pytest.MarkDecorator:
    _, absent = have(LAB)
    reason = env.usable() or (f"{', '.join(absent)}: not there. next: make engine" if absent else "")
    return pytest.mark.skipif(bool(reason), reason=reason or "the lab")
