"""Quantities as people write them: a number and a unit. A bare number is refused, never guessed."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_QUANTITY = re.compile(r"^\s*([-+]?[0-9][0-9_ ]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*([^\s0-9].*?)?\s*$")

LONGEST = 64
"""Characters of a quantity."""

MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "min": 60e3, "h": 3600e3, "d": 86400e3}
WATTS = {"W": 1.0, "kW": 1e3, "MW": 1e6}
TOKENS = {"tokens": 1.0, "k tokens": 1e3, "ki tokens": 1024.0, "M tokens": 1e6}
RATIO = {"%": 1e-2, "x": 1.0}
CELSIUS = {"C": 1.0, "°C": 1.0}
BYTES = {
    "B": 1.0,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}


DAY_MS = 86400e3


def thousandths(share: float) -> float:
    """``share`` rounded down to a thousandth, as engines are told shares of memory."""
    return math.floor(share * 1000 + 1e-9) / 1000


_PLAIN = 1e30
"""Beyond it, and below its inverse, numbers are not worth exact arithmetic."""


def _scaled(number: str, scale: float) -> float:
    """``number`` × ``scale``, rounded once, so that what is printed reads back as it was."""
    rough = float(number)
    if not 1 / _PLAIN < abs(rough) < _PLAIN:
        return rough * scale
    return float(Fraction(number) * Fraction(str(scale)))


def parse_quantity(
    value: Any,
    units: dict[str, float],
    *,
    example: str,
    minimum: float = 0.0,
    maximum: float = 1e15,
) -> float:
    """``value`` in the base unit of ``units``.

    Raises:
        ValueError: no unit, an unknown unit, not a number, or outside ``minimum`` to ``maximum``.
    """
    names = ", ".join(units)
    if isinstance(value, bool) or not isinstance(value, str):
        raise ValueError(f'must be a quantity with a unit ({names}), such as "{example}"')  # noqa: TRY004
    match = _QUANTITY.match(value) if len(value) <= LONGEST else None
    if match is None:
        raise ValueError(f'must be a number and a unit ({names}), such as "{example}"')
    number, unit = match.group(1).replace("_", "").replace(" ", ""), match.group(2) or ""
    if unit not in units:
        raise ValueError(
            f'must be in one of {names}, such as "{example}"'
            if unit
            else f'must carry a unit ({names}), such as "{example}"'
        )
    result = _scaled(number, units[unit])
    if not minimum <= result <= maximum:
        base = next((name for name, scale in units.items() if scale == 1.0), unit)
        factor = 1.0 if base in units and units[base] == 1.0 else units[unit]
        raise ValueError(f"must be {minimum / factor:.10g} to {maximum / factor:.10g} {base}")
    return result


def exact(value: float) -> str:
    """The short form of ``value`` where it reads back as the same number, else all its digits."""
    short = f"{value:.10g}"
    return short if float(short) == value else repr(value)


def _quantity(
    units: dict[str, float], example: str, base: str, *, minimum: float = 0.0, maximum: float = 1e15
) -> Any:
    def parse(value: Any) -> float:
        return parse_quantity(value, units, example=example, minimum=minimum, maximum=maximum)

    def show(value: float) -> str:
        return f"{exact(value)} {base}"

    return (
        BeforeValidator(parse),
        PlainSerializer(show, return_type=str),
        WithJsonSchema(
            {"type": "string", "examples": [example], "description": f"number and unit: {', '.join(units)}"}
        ),
    )


Milliseconds = Annotated[float, *_quantity(MILLISECONDS, "500 ms", "ms", minimum=1e-3, maximum=DAY_MS)]
Watts = Annotated[float, *_quantity(WATTS, "17 kW", "W", minimum=1.0, maximum=1e9)]
Tokens = Annotated[float, *_quantity(TOKENS, "32 ki tokens", "tokens", minimum=1.0, maximum=1e9)]
Celsius = Annotated[float, *_quantity(CELSIUS, "85 °C", "°C", minimum=0.1, maximum=200.0)]

LEAST_SHARE = 1e-4


def _share(value: Any) -> float:
    return parse_quantity(value, {"%": 1e-2}, example="15 %", minimum=LEAST_SHARE, maximum=1.0)


def _show_share(value: float) -> str:
    short = f"{value * 100:.10g}"
    return f"{short if _scaled(short, 1e-2) == value else format(Decimal(repr(value)) * 100, 'f')} %"


Share = Annotated[
    float,
    BeforeValidator(_share),
    PlainSerializer(_show_share, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["15 %"], "description": "a share in per cent, 0 to 100"}),
]
