from __future__ import annotations
from typing import Any
FAULTS: dict[str, Any] = {}
def apply_all(state: Any, specs: Any, *, seed: int) -> None:
    pass
