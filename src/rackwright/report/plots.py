"""The five charts of a sizing report."""

from __future__ import annotations

from rackwright.plan import Plan
from rackwright.plan.cost import Cost
from rackwright.report import charts, curves
from rackwright.report.charts import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Box, Chart, Dot, Key, Line, Text
from rackwright.report.curves import Basis, Curve
from rackwright.sizing.estimate import RED_LINE_MEMORY

WAYS = {"own": "c0", "on-demand": "c1", "reserved": "c2", "spot": "c3", "api": "c4"}


def frontier(b: Basis) -> Chart:
    """Throughput over the time a token takes, from one request to twice the plan."""
    deployment = b.plan.deployments[0]
    swept, at, objective = curves.frontier(b), b.chosen.candidate.at, deployment.slo.tpot_p50_ms
    chart = Chart(
        "frontier",
        "Throughput against latency, one replica",
        f"Output tokens a second over milliseconds a token. Planned: {at.output_tok_s:,.0f} tok/s at "
        f"{at.tpot_ms:.1f} ms and {at.concurrency:,.0f} requests; objective {objective:g} ms.",
        "Each point is a number of requests running at all times; the band is the 80 % interval. The plan "
        "counts on its lower edge.",
    )
    right = max(*(e.tpot_ms for e in swept), objective) * 1.06
    top = max(e.high for e in swept) * 1.05
    x = charts.linear(0, right, LEFT, WIDTH - RIGHT)
    y = charts.linear(0, top, chart.height - BOTTOM, TOP + 8)
    charts.axes(chart, x, y, (charts.nice(0, right), charts.nice(0, top)), ("ms a token", "tok/s out"))
    band = [(x(e.tpot_ms), y(e.high)) for e in swept] + [(x(e.tpot_ms), y(e.low)) for e in reversed(swept)]
    chart.lines.append(Line(charts.path(band, close=True), "band"))
    chart.lines.append(Line(charts.path([(x(e.tpot_ms), y(e.output_tok_s)) for e in swept]), "line c0"))
    chart.lines.append(
        Line(charts.path([(x(objective), TOP), (x(objective), chart.height - BOTTOM)]), "limit")
    )
    for e in swept:
        said = f"{e.concurrency:,.0f} requests: {e.output_tok_s:,.0f} tok/s, {e.tpot_ms:.1f} ms a token"
        chart.dots.append(Dot(x(e.tpot_ms), y(e.output_tok_s), "c0", 2.5, said))
    chart.dots.append(Dot(x(at.tpot_ms), y(at.output_tok_s), "chosen", 6, "the plan"))
    chart.texts.append(
        Text(x(at.tpot_ms) - 10, y(at.output_tok_s) - 10, f"{at.concurrency:,.0f} requests", "said", "end")
    )
    chart.keys = [
        Key("c0", "estimate"),
        Key("band", "80 % interval"),
        Key("limit", f"objective {objective:g} ms"),
        Key("chosen", "the plan"),
    ]
    return chart


def memory(plan: Plan) -> Chart:
    """What stands in one GPU's memory, against red line 1."""
    held = plan.deployments[0].memory
    parts = [
        ("m0", "weights", held.weights_gib),
        ("m1", "KV cache", held.kv_gib),
        ("m2", "activations", held.activations_gib),
        ("m3", "engine", held.overhead_gib),
    ]
    free = max(0.0, held.total_gib - sum(size for _, _, size in parts))
    used = held.total_gib - free - held.overhead_gib
    chart = Chart(
        "memory",
        "Memory of one GPU",
        ", ".join(f"{name} {size:.1f} GiB" for _, name, size in parts)
        + f", free {free:.1f} of {held.total_gib:.1f} GiB.",
        f"Weights, KV cache and activations take {used / held.total_gib * 100:.1f} %; red line 1 is "
        f"{RED_LINE_MEMORY * 100:.0f} %. The engine's own memory stands above it.",
        height=150,
    )
    x = charts.linear(0, held.total_gib, 14, WIDTH - 14)
    at = 0.0
    for style, name, size in [*parts, ("free", "free", free)]:
        chart.boxes.append(Box(x(at), 40, x(at + size) - x(at), 46, style, f"{name}: {size:.1f} GiB"))
        if x(size) - x(0) > 62:
            chart.texts.append(Text((x(at) + x(at + size)) / 2, 68, f"{size:.1f} GiB", f"on-{style}"))
        at += size
    red = x(RED_LINE_MEMORY * held.total_gib)
    chart.lines.append(Line(charts.path([(red, 30), (red, 96)]), "limit"))
    chart.texts.append(Text(red, 24, f"85 % = {RED_LINE_MEMORY * held.total_gib:.1f} GiB", "said", "end"))
    for value in charts.nice(0, held.total_gib):
        chart.texts.append(Text(x(value), 114, f"{value:g}"))
    chart.texts.append(Text(WIDTH / 2, 140, "GiB", "axis"))
    chart.keys = [Key(style, f"{name} {size:.1f}") for style, name, size in parts]
    chart.keys += [Key("free", f"free {free:.1f}"), Key("limit", "red line 1")]
    return chart


def _shown(found: tuple[Curve, ...]) -> list[Curve]:
    """One curve a kind: of several offers of a kind the cheaper."""
    best: dict[str, Curve] = {}
    for curve in found:
        known = best.get(curve.kind)
        if known is None or curve.points[-1][1] < known.points[-1][1]:
            best[curve.kind] = curve
    return list(best.values())


def over_users(b: Basis, cost: Cost) -> Chart:
    """A month of each way over daily users."""
    shown, users = _shown(curves.cost_over_users(b)), b.costing.users
    least = [f"{w.name}: {w.break_even_users:,}" for w in cost.ways if w.break_even_users]
    chart = Chart(
        "users",
        f"Cost a month over daily users, {cost.currency}",
        f"Cost of a month in {cost.currency} from {shown[0].points[0][0]:,.0f} to "
        f"{shown[0].points[-1][0]:,.0f} daily users. Owning costs no more from: "
        + ("; ".join(least) if least else "no number of users") + ".",
        "Both axes are logarithmic. Owned and rented nodes come whole, engineers in steps.",
    )  # fmt: skip
    every = [p for c in shown for p in c.points]
    x0, x1 = min(p[0] for p in every), max(p[0] for p in every)
    y0, y1 = min(p[1] for p in every) * 0.8, max(p[1] for p in every) * 1.25
    x = charts.logarithmic(x0, x1, LEFT, WIDTH - RIGHT)
    y = charts.logarithmic(y0, y1, chart.height - BOTTOM, TOP + 8)
    names = ("daily users", f"{cost.currency} a month")
    charts.axes(chart, x, y, (charts.decades(x0, x1), charts.decades(y0, y1)), names)
    _curves(chart, shown, x, y)
    chart.lines.append(Line(charts.path([(x(users), TOP), (x(users), chart.height - BOTTOM)]), "mark"))
    chart.texts.append(Text(x(users) - 4, TOP + 10, f"{users:,.0f}", "said", "end"))
    chart.keys.append(Key("mark", "the plan's users"))
    return chart


def over_months(b: Basis, cost: Cost) -> Chart:
    """What was paid by each month."""
    shown = _shown(curves.paid_over_months(b))
    paid = [f"{w.name}: month {w.break_even_month}" for w in cost.ways if w.break_even_month]
    chart = Chart(
        "months",
        f"Paid in sum, {cost.currency}",
        "Sum of all payments by month. Owning has cost no more from: "
        + ("; ".join(paid) if paid else "no month")
        + ".",
        f"At the plan's users. Machines are written off in {cost.depreciation_months} months.",
    )
    every = [p for c in shown for p in c.points]
    months, top = max(p[0] for p in every), max(p[1] for p in every) * 1.06
    x = charts.linear(0, months, LEFT, WIDTH - RIGHT)
    y = charts.linear(0, top, chart.height - BOTTOM, TOP + 8)
    years = range(0, int(months) + 1, 12)
    charts.axes(chart, x, y, (years, charts.nice(0, top)), ("months", cost.currency))
    _curves(chart, shown, x, y)
    own = shown[0].points
    for way in cost.ways:
        month = way.break_even_month
        if month is not None and month <= months and any(c.name == way.name for c in shown):
            said = f"{way.name}: owning has cost no more from month {month}"
            chart.dots.append(Dot(x(month), y(own[month][1]), "chosen", 5, said))
            chart.texts.append(Text(x(month) - 8, y(own[month][1]) - 8, f"{month}", "said", "end"))
    if paid:
        chart.keys.append(Key("chosen", "break-even month"))
    return chart


def _curves(chart: Chart, shown: list[Curve], x: charts.Scale, y: charts.Scale) -> None:
    for curve in shown:
        style = WAYS[curve.kind]
        chart.lines.append(Line(charts.path([(x(a), y(b)) for a, b in curve.points]), f"line {style}"))
        chart.keys.append(Key(style, curve.name))


def tornado(cost: Cost) -> Chart:
    """What moves the total cost most."""
    bars, months = cost.sensitivity, cost.depreciation_months
    row = 46.0
    chart = Chart(
        "sensitivity",
        f"What moves the cost of {months} months, {cost.currency}",
        "; ".join(
            f"{b.name} from {charts.plain(b.low)} to {charts.plain(b.high)} {b.unit}: "
            f"{charts.number(b.at_low.amount)} to {charts.number(b.at_high.amount)}" for b in bars
        ) + ".",
        "One assumption at a time, all others as planned. A bar without length moves nothing: nodes "
        "come whole.",
        height=TOP + 20 + row * len(bars) + 34,
    )  # fmt: skip
    ends = [v for b in bars for v in (b.at_low.amount, b.at_high.amount)] + [cost.tco.amount]
    low, high = min(ends), max(ends)
    spread = max(high - low, abs(high) * 0.02)
    x = charts.linear(low - spread * 0.08, high + spread * 0.08, 16, WIDTH - 16)
    base = TOP + 14
    for value in charts.nice(low - spread * 0.05, high + spread * 0.05, 4):
        chart.lines.append(Line(charts.path([(x(value), base), (x(value), base + row * len(bars))]), "grid"))
        chart.texts.append(Text(x(value), base + row * len(bars) + 16, charts.number(value)))
    for index, bar in enumerate(bars):
        top = base + row * index
        source = "" if bar.from_source else "*"
        chart.texts.append(
            Text(
                16,
                top + 14,
                f"{bar.name}{source}: {charts.plain(bar.low)} – {charts.plain(bar.high)} {bar.unit}".rstrip(),
                "said",
                "start",
            )
        )
        for value, style in ((bar.at_low.amount, "less"), (bar.at_high.amount, "more")):
            a, b = sorted((x(cost.tco.amount), x(value)))
            end = bar.low if style == "less" else bar.high
            said = f"{bar.name} at {charts.plain(end)} {bar.unit}: {value:,.0f} {cost.currency}"
            chart.boxes.append(Box(a, top + 20, b - a, 16, style, said))
    chart.lines.append(
        Line(charts.path([(x(cost.tco.amount), base), (x(cost.tco.amount), base + row * len(bars))]), "mark")
    )
    chart.keys = [
        Key("less", "at the low end"), Key("more", "at the high end"),
        Key("mark", f"the plan, {charts.number(cost.tco.amount)}"),
    ]  # fmt: skip
    if any(not b.from_source for b in bars):
        chart.note += " * a usual spread; the source gives no range."
    return chart
