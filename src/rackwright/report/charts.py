"""Charts as shapes: positions in a box of fixed size, which the template writes as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

WIDTH, HEIGHT = 420.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 20.0, 14.0, 40.0

Scale = Callable[[float], float]


@dataclass(frozen=True)
class Text:
    x: float
    y: float
    text: str
    style: str = "tick"
    anchor: str = "middle"


@dataclass(frozen=True)
class Line:
    """``points``: an SVG path's ``d``."""

    d: str
    style: str


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    style: str
    title: str = ""


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    style: str
    radius: float = 3.0
    title: str = ""


@dataclass(frozen=True)
class Key:
    """One row of the legend."""

    style: str
    text: str


@dataclass
class Chart:
    """One chart. ``label``: what it shows, in words, for those who do not see it."""

    id: str
    title: str
    label: str
    note: str = ""
    height: float = HEIGHT
    texts: list[Text] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)


def number(value: float) -> str:
    """``950``, ``9.5k``, ``1.2M``: three digits at most."""
    for scale, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g}{sign}"
    return f"{value:.3g}"


def nice(low: float, high: float, count: int = 5) -> list[float]:
    """Round values from ``low`` to ``high``, about ``count`` of them."""
    raw = max(high - low, 1e-9) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten inside the range."""
    return [10.0**e for e in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high)) + 1)]


def linear(low: float, high: float, start: float, end: float) -> Scale:
    return lambda v: start + (v - low) / (high - low) * (end - start)


def logarithmic(low: float, high: float, start: float, end: float) -> Scale:
    a, b = math.log10(low), math.log10(high)
    return lambda v: start + (math.log10(max(v, low)) - a) / (b - a) * (end - start)


def path(points: Sequence[tuple[float, float]], *, close: bool = False) -> str:
    """An SVG path through ``points``."""
    d = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
    return d + (" Z" if close else "")


def plain(value: float) -> str:
    """Up to four digits as they are; thousands marked."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def axes(
    chart: Chart, x: Scale, y: Scale, ticks: tuple[Sequence[float], Sequence[float]], names: tuple[str, str]
) -> None:
    """Grid, ticks and the names of both axes."""
    x_ticks, y_ticks = ticks
    bottom = chart.height - BOTTOM
    for value in y_ticks:
        chart.lines.append(Line(path([(LEFT, y(value)), (WIDTH - RIGHT, y(value))]), "grid"))
        chart.texts.append(Text(LEFT - 6, y(value) + 4, number(value), anchor="end"))
    for value in x_ticks:
        chart.lines.append(Line(path([(x(value), TOP), (x(value), bottom)]), "grid"))
        chart.texts.append(Text(x(value), bottom + 15, number(value)))
    chart.texts.append(Text((LEFT + WIDTH - RIGHT) / 2, chart.height - 6, names[0], "axis"))
    chart.texts.append(Text(4, 10, names[1], "axis", "start"))
