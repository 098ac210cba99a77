"""How an explanation is written: its row, its values as text, the evidence of a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rackwright.catalog import Figure
from rackwright.plan.cost import Explanation

Evidence = Literal["measured", "same-family", "extrapolated", "vendor", "assumed", "input"]
GUIDE = "hardware-selection guide, May 2026"
OWN = "design of this program"


def entry(  # noqa: PLR0917 - a row of a table
    path: str,
    value: object,
    formula: str,
    inputs: Mapping[str, object],
    source: str,
    evidence: Evidence = "input",
) -> Explanation:
    """One row. ``inputs``: by name; figures show their unit and whether their source was read."""
    return Explanation(
        path=path,
        value=text(value),
        formula=formula,
        inputs={name: text(item) for name, item in inputs.items()},
        source=source,
        evidence=evidence,
    )


def text(value: object) -> str:
    """A value as explanations show it."""
    if isinstance(value, Figure):
        return f"{value.value:.10g} {value.unit}" + ("" if value.verified else " (unverified)")
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value)


def cited(figure: Figure) -> tuple[str, Evidence]:
    """Source and evidence class of a figure of the catalog."""
    return figure.source, "vendor" if figure.verified else "assumed"
