"""Arithmetic without branches, so that one formula serves a float and an array of floats alike.

The fit evaluates thousands of measurements at once with the very functions that size a plan.
"""

from __future__ import annotations

OVERLAP = 1.5
"""Exponent of ``joined``: 1 adds (nothing overlaps), infinity takes the larger (all overlaps)."""


def least(a: float, b: float) -> float:
    """The smaller of the two."""
    return (a + b - abs(a - b)) / 2


def most(a: float, b: float) -> float:
    """The larger of the two."""
    return (a + b + abs(a - b)) / 2


def joined(a: float, b: float) -> float:
    """Time of two activities that overlap partly: ``(a^p + b^p)^(1/p)``."""
    total: float = (a**OVERLAP + b**OVERLAP) ** (1 / OVERLAP)
    return total


def touched(count: float, share: float, tokens: float) -> float:
    """How many of ``count`` experts are chosen at least once: ``E × (1 − (1 − k/E)^B)``, share = k/E."""
    left: float = (1 - share) ** tokens
    return count * (1 - left)
