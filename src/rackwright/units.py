"""Quantities as people write them: a number and a unit. A bare number is refused, never guessed."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_QUANTITY = re.compile(r"^\s*([-+]?[0-9][0-9_ ]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*([^\s0-9].*?)?\s*$")

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


def parse_quantity(value: Any, units: dict[str, float], *, example: str, minimum: float = 0.0) -> float:
    """``value`` in the base unit of ``units``.

    Raises:
        ValueError: no unit, an unknown unit, not a number, or below ``minimum``.
    """
    names = ", ".join(units)
    if isinstance(value, bool) or not isinstance(value, str):
        raise ValueError(f'must be a quantity with a unit ({names}), such as "{example}"')  # noqa: TRY004
    match = _QUANTITY.match(value)
    if match is None:
        raise ValueError(f'must be a number and a unit ({names}), such as "{example}"')
    number, unit = float(match.group(1).replace("_", "").replace(" ", "")), match.group(2) or ""
    if unit not in units:
        raise ValueError(
            f'must be in one of {names}, such as "{example}"'
            if unit
            else f'must carry a unit ({names}), such as "{example}"'
        )
    result = number * units[unit]
    if not minimum <= result < float("inf"):
        raise ValueError(f"must be at least {minimum:g} and finite")
    return result


def _quantity(units: dict[str, float], example: str, base: str, minimum: float = 0.0) -> Any:
    def parse(value: Any) -> float:
        return parse_quantity(value, units, example=example, minimum=minimum)

    def show(value: float) -> str:
        return f"{value:.10g} {base}"

    return (
        BeforeValidator(parse),
        PlainSerializer(show, return_type=str),
        WithJsonSchema(
            {"type": "string", "examples": [example], "description": f"number and unit: {', '.join(units)}"}
        ),
    )


Milliseconds = Annotated[float, *_quantity(MILLISECONDS, "500 ms", "ms", minimum=1e-3)]
Watts = Annotated[float, *_quantity(WATTS, "17 kW", "W", minimum=1.0)]
Tokens = Annotated[float, *_quantity(TOKENS, "32 ki tokens", "tokens", minimum=1.0)]
Celsius = Annotated[float, *_quantity(CELSIUS, "85 °C", "°C")]


def _share(value: Any) -> float:
    result = parse_quantity(value, {"%": 1e-2}, example="15 %")
    if result > 1:
        raise ValueError("must be at most 100 %")
    return result


Share = Annotated[
    float,
    BeforeValidator(_share),
    PlainSerializer(lambda v: f"{v * 100:.10g} %", return_type=str),
    WithJsonSchema({"type": "string", "examples": ["15 %"], "description": "a share in per cent, 0 to 100"}),
]
