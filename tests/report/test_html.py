"""The page: self-contained, harmless whatever a host printed, the same every time, and small."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from checks.report import html
from checks.report.racks import rack_views, watts_in
from rackwright.verdict import Evidence
from tests.report.browser import CHROMIUM, browser
from tests.report.build import HOSTILE, REGISTRY, plan, results, thousand


class _Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def _outline(text: str) -> _Outline:
    outline = _Outline()
    outline.feed(text)
    return outline


def _data(text: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found
    return dict(json.loads(found.group(1)))


def _hostile() -> str:
    """A page in which every text that a host or a file could write is hostile."""
    run = results()
    found = tuple(
        r.model_copy(
            update={
                "actual": HOSTILE, "expected": HOSTILE, "message": HOSTILE, "remedy": HOSTILE,
                "where": (HOSTILE,),
                "evidence": (Evidence(command=HOSTILE, rc=1, excerpt=HOSTILE + "\ud800"),),
            }
        )
        for r in run.results
    )  # fmt: skip
    more = {"results": found, "plan": HOSTILE, "inventory": HOSTILE, "started": HOSTILE, "notes": (HOSTILE,)}
    evil = run.model_copy(update={**more, "unreachable": {HOSTILE: HOSTILE}, "hosts": (*run.hosts, HOSTILE)})
    return html.page(evil, REGISTRY, plan())


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = html.page(results(), REGISTRY, plan())
    outline = _outline(text)
    assert not {"link", "img", "iframe", "object", "embed", "base", "video", "audio"} & set(outline.tags)
    sources = [a for a in outline.attributes if a[0] in ("src", "href", "srcset", "action", "data")]
    assert all(value.startswith("#") for _, value in sources)
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "@import" not in text


def test_what_a_host_printed_stays_text() -> None:
    clean, evil = _outline(html.page(results(), REGISTRY, plan())), _outline(_hostile())
    assert evil.tags.count("script") == clean.tags.count("script") == 2
    assert not [a for a in evil.attributes if a[0].startswith("on")]
    text = _hostile()
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert text.encode("utf-8")
    assert any("<script>alert('x')</script></script>" in str(s) for s in _data(text)["strings"])  # type: ignore[attr-defined]


def test_only_the_pages_own_script_may_run() -> None:
    import base64
    import hashlib

    text = html.page(results(), REGISTRY, plan())
    script = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        html.write(results(), REGISTRY, plan(), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "b.html"]


def test_every_verdict_is_in_the_matrix() -> None:
    run = results()
    data = _data(html.page(run, REGISTRY, plan()))
    cells = [index for row in data["cells"] for index in row]  # type: ignore[attr-defined]
    assert sum(index >= 0 for index in cells) == len(run.results)
    assert [row[:2] for row in data["rows"]][:3] == [  # type: ignore[attr-defined]
        ["pool", "hot"], ["rack", "r01"], ["host", "r01-gpu-01"],
    ]  # fmt: skip


def test_without_a_plan_nothing_is_lost() -> None:
    run = results()
    data = _data(html.page(run, REGISTRY))
    cells = [index for row in data["cells"] for index in row]  # type: ignore[attr-defined]
    assert sum(index >= 0 for index in cells) == len(run.results)


def test_checks_of_another_registry_are_still_shown() -> None:
    text = html.page(results(), {})
    assert "gpu-ecc" in text
    assert "ECC is on for every GPU" in text


def test_a_thousand_hosts_stay_small() -> None:
    run, registry = thousand()
    assert len(html.page(run, registry, plan(125, 8)).encode()) < 1_500_000


def test_a_thousand_hosts_with_nothing_in_common_stay_usable() -> None:
    run, registry = thousand()
    found = tuple(
        r.model_copy(
            update={
                "actual": f"{n} °C",
                "evidence": (Evidence(command="cat x", rc=0, excerpt=f"line {n} " + "x" * 2000),),
            }
        )
        for n, r in enumerate(run.results)
    )
    size = len(html.page(run.model_copy(update={"results": found}), registry, plan(125, 8)).encode())
    assert size < 9_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [("14.6 kW", 14600.0), ("14,600 W", 14600.0), ("7300 Watts", 7300.0), ("off", None), ("3 W/kg", 3.0)],
)
def test_watts_are_read(text: str, expected: float | None) -> None:
    assert watts_in(text) == expected


def test_a_planned_sum_is_no_measurement() -> None:
    run = results()
    planned = tuple(
        r.model_copy(update={"load": None, "actual": "13.0 kW planned"}) if r.scope == "rack" else r
        for r in run.results
    )
    views = rack_views(run.model_copy(update={"results": planned}), REGISTRY, plan())
    assert [v.measured for v in views] == [None, None]
    assert all(v.measured for v in rack_views(run, REGISTRY, plan()))


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_in_a_browser(tmp_path: Path) -> None:
    """It opens without a console error or a request, runs no host's script, and works by keyboard."""
    (tmp_path / "page.html").write_text(html.page(results(), REGISTRY, plan()), encoding="utf-8")
    (tmp_path / "evil.html").write_text(_hostile(), encoding="utf-8")
    with browser() as tab:
        for name in ("page.html", "evil.html"):
            for size in ((1280, 900), (390, 844)):
                tab.show((tmp_path / name).as_uri(), size=size, phone=size[0] < 600)
                assert tab.run("document.documentElement.scrollWidth <= innerWidth")
        assert {Path(url).name for url in tab.requests} == {"page.html", "evil.html"}
        tab.show((tmp_path / "page.html").as_uri())
        tab.run("document.querySelector('#grid td[tabindex=\"0\"]').focus()")
        for key, code in (("ArrowDown", 40), ("ArrowDown", 40), ("n", 78), ("Enter", 13)):
            tab.press(key, code)
        assert "gpu-ecc" in tab.run("document.getElementById('panel').textContent")
        tab.press("Escape", 27)
        assert tab.run("document.getElementById('panel').hidden")
        tab.run("document.querySelector('.chip[data-state=\"fail\"]').click()")
        assert tab.run("document.getElementById('note').textContent").startswith("2 of 4 hosts")
        assert tab.problems == []
