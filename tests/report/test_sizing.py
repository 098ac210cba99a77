"""The sizing report: one self-contained page, its charts through the plan's own figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackwright.catalog import load_catalog
from rackwright.cli import group
from rackwright.errors import InputErrors
from rackwright.plan import Plan, load_plan
from rackwright.report import charts, curves
from rackwright.report.sizing import page
from rackwright.sizing.size import size
from tests.golden import REPOSITORY, assert_golden
from tests.report.browser import CHROMIUM, browser
from tests.sizing.build import workload

CATALOG = load_catalog()
PLOTS = ("frontier", "memory", "users", "months", "sensitivity")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return size(workload(name="report", hardware__spares=1), CATALOG)


@pytest.fixture(scope="module")
def html(plan: Plan) -> str:
    return page(plan, CATALOG)


def test_nothing_is_fetched(html: str) -> None:
    assert not re.search(r"https?://|//[a-z]|@import|<script|url\(", html)


def test_all_plots_are_there_and_say_what_they_show(html: str) -> None:
    for name in PLOTS:
        figure = re.search(rf'<figure class="card" id="{name}">.*?</figure>', html, re.S)
        assert figure, name
        assert len(re.search(r'aria-label="([^"]+)"', figure[0])[1]) > 40  # type: ignore[index]
        assert re.search(r"<(path|rect)", figure[0])


def test_the_same_plan_gives_the_same_page(plan: Plan, html: str) -> None:
    assert page(plan, CATALOG) == html


def test_the_memory_chart_is_as_drawn_before(html: str) -> None:
    figure = re.search(r'<figure class="card" id="memory">.*?</figure>\n', html, re.S)
    assert figure
    assert_golden(REPOSITORY / "tests" / "report" / "golden" / "sizing-memory.svg.txt", figure[0])


def test_the_frontier_passes_through_the_plan(plan: Plan) -> None:
    swept = curves.frontier(curves.basis(plan, CATALOG))
    at = plan.deployments[0].estimate
    met = next(e for e in swept if e.concurrency == at.concurrency)
    assert (round(met.output_tok_s), round(met.tpot_ms, 2)) == (at.output_tok_s, at.tpot_ms)
    assert [e.concurrency for e in swept] == sorted(e.concurrency for e in swept)
    assert swept[-1].concurrency == 2 * at.concurrency


def test_curves_meet_at_the_break_even_month(plan: Plan) -> None:
    assert plan.cost is not None
    found = {c.name: c for c in curves.paid_over_months(curves.basis(plan, CATALOG))}
    own = found["own"].points
    assert own[0] == (0, plan.cost.capex.amount)
    way = next(w for w in plan.cost.ways if w.kind == "on-demand")
    month = way.break_even_month
    assert month is not None
    assert own[month][1] <= found[way.name].points[month][1]
    assert own[month - 1][1] > found[way.name].points[month - 1][1]


def test_cost_at_the_plans_users_is_the_plans(plan: Plan) -> None:
    assert plan.cost is not None
    b = curves.basis(plan, CATALOG)
    assert round(b.costing.own_month(10_000)) == plan.cost.month.amount
    for way in plan.cost.ways[1:]:
        if way.break_even_users is not None:
            offer = next(o for o in b.costing.offers if o.name == way.name)
            assert b.costing.own_month(way.break_even_users) <= b.costing.other_month(
                offer, way.break_even_users
            )


def test_a_plan_of_another_catalog_is_refused(plan: Plan) -> None:
    deployment = plan.deployments[0]
    other = deployment.model_copy(
        update={"estimate": deployment.estimate.model_copy(update={"output_tok_s": 1.0})}
    )
    with pytest.raises(InputErrors, match="must be what its workload gives"):
        page(plan.model_copy(update={"deployments": (other,)}), CATALOG)


@pytest.mark.parametrize(
    ("low", "high", "ticks"), [(0, 10, [0, 2, 4, 6, 8, 10]), (0, 0.9, [0, 0.2, 0.4, 0.6, 0.8])]
)
def test_ticks_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert charts.nice(low, high) == ticks


def test_commands_write_it(tmp_path: Path) -> None:
    out, plan = tmp_path / "s.html", REPOSITORY / "inventory" / "h200-10k" / "plan.yaml"
    ran = CliRunner().invoke(group, ["report", "--sizing", str(plan), "-o", str(out)])
    assert ran.exit_code == 0, ran.output
    assert load_plan(plan).digest in out.read_text(encoding="utf-8")
    again = tmp_path / "again.html"
    asked = REPOSITORY / "inventory" / "h200-10k" / "workload.yaml"
    assert CliRunner().invoke(group, ["size", str(asked), "--html", str(again)]).exit_code == 0
    assert again.read_text(encoding="utf-8") == out.read_text(encoding="utf-8")
    assert CliRunner().invoke(group, ["report"]).exit_code == 2


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_in_a_browser(html: str, tmp_path: Path) -> None:
    file = tmp_path / "s.html"
    file.write_text(html, encoding="utf-8")
    with browser() as tab:
        for width, phone, dark in ((1200, False, False), (390, True, True)):
            tab.show(file.as_uri(), size=(width, 844), phone=phone, dark=dark)
            assert tab.run("document.documentElement.scrollWidth") <= width
            assert tab.run("document.querySelectorAll('figure svg').length") == len(PLOTS)
            assert tab.run(
                "[...document.querySelectorAll('svg')].every(s => s.getBoundingClientRect().height > 80)"
            )
        assert tab.problems == []
        assert [u for u in tab.requests if not u.startswith(("file:", "about:", "data:"))] == []
