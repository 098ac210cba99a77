"""Waivers: a finding that somebody accepts blocks nothing until a day, and is never hidden."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from checks.runner import Options, run
from rackwright.errors import InputErrors
from rackwright.verdict import Results
from rackwright.waivers import Waivers, load_waivers
from tests.preflight.lab import Lab
from tests.preflight.plans import small_plan
from tests.preflight.test_runner import NAMES, inventory, keep, os_thp, plan, thp

TODAY = date(2026, 6, 15)
CHECKS = ("os-thp", "os-swap", "net-reachable")


def load(tmp_path: Path, text: str, today: date = TODAY) -> Waivers:
    path = tmp_path / "waivers.yaml"
    path.write_text("waivers:\n" + text)
    return load_waivers(path, CHECKS, small_plan(NAMES), today=today)


def entry(check: str = "os-thp", on: str = "gpu-02", expires: str = "2026-06-15", more: str = "") -> str:
    return f"- {{check: {check}, subjects: [{on}], owner: jane, reason: kernel, expires: {expires}{more}}}\n"


def judged(tmp_path: Path, waivers: Waivers, word: str = "always") -> Results:
    options = keep(tmp_path / "captures", thp("gpu-01"), thp("gpu-02", word), thp("gpu-03", word))
    return run(plan(), inventory(), [os_thp()], Options(captures=options.captures, waivers=waivers))


def test_a_finding_is_accepted_to_the_end_of_its_day(tmp_path: Path) -> None:
    results = judged(tmp_path, load(tmp_path, entry(on='"gpu-0[23]"')))
    assert [(r.subject, r.status, bool(r.waived), r.blocking) for r in results.results] == [
        ("gpu-01", "pass", False, False),
        ("gpu-02", "fail", True, False),
        ("gpu-03", "fail", True, False),
    ]
    assert results.exit_code == 0
    assert any("ends on 2026-06-15, in 0 days" in note for note in results.notes)


@pytest.mark.parametrize("on", ["h200", "r01", "gpu-*"])
def test_a_pool_or_rack_is_all_of_it(tmp_path: Path, on: str) -> None:
    assert judged(tmp_path, load(tmp_path, entry(on=f'"{on}"', expires="2027-01-01"))).exit_code == 0


def test_an_expired_waiver_is_a_finding_again_and_a_warning(tmp_path: Path) -> None:
    results = judged(tmp_path, load(tmp_path, entry(expires="2026-06-14")))
    assert results.exit_code == 1 and all(r.waived is None for r in results.results)
    assert results.notes == (
        "warning: the waiver of os-thp on gpu-02 by jane expired on 2026-06-14: a finding again",
    )


def test_a_waiver_that_nothing_needs_is_named(tmp_path: Path) -> None:
    results = judged(tmp_path, load(tmp_path, entry(expires="2027-01-01")), word="never")
    assert results.notes == ("the waiver of os-thp on gpu-02 by jane is not needed any more: remove it",)


def test_what_was_not_measured_is_waived_only_where_it_says_so(tmp_path: Path) -> None:
    bare = plan().model_copy(update={"expectations": {}})
    options = keep(tmp_path / "captures", thp("gpu-02"))
    for more, code in (("", 1), (", not_measured: true", 0)):
        waivers = load(tmp_path, entry(more=more))
        results = run(
            bare, inventory("gpu-02"), [os_thp()], Options(captures=options.captures, waivers=waivers)
        )
        assert (results.results[0].status, results.exit_code) == ("error", code)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            entry(check="os-tph"),
            ['waivers[0].check · must be a check (did you mean "os-thp"?)', "waivers.yaml:2"],
        ),
        (entry(check="net-reachable"), ["must be a check that can be waived"]),
        (entry(on="gpu-99"), ["waivers[0].subjects[0] · must match a host, a pool or a rack of the plan"]),
        ("- {check: os-thp, subjects: [gpu-01], owner: jane, reason: x}\n", ["expires"]),
        ("- {check: os-thp, subjects: [gpu-01], reason: x, expires: 2026-01-01}\n", ["owner"]),
        ("- {check: os-thp, subjects: [gpu-01], owner: '  ', reason: x, expires: 2026-01-01}\n", ["owner"]),
        ("- {check: os-thp, subjects: [], owner: j, reason: x, expires: 2026-01-01}\n", ["subjects"]),
        (entry(expires="soon"), ["expires"]),
        (entry(more=", colour: red"), ["colour"]),
        (entry(check="a-b") + entry(on="nobody"), ["waivers[0].check", "waivers[1].subjects[0]"]),
    ],
)
def test_what_is_wrong_in_the_file_is_said(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(InputErrors) as caught:
        load(tmp_path, text)
    for word in words:
        assert word in str(caught.value)


def test_reason_and_waivers_land_in_every_report(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ["gpu-01"])
    lab.capture("gpu-01", "[always] madvise never\n")
    file = tmp_path / "w.yaml"
    file.write_text(
        "waivers:\n- {check: os-thp, subjects: [gpu-01], owner: jane, reason: until Friday, "
        "expires: 2999-01-01}\n"
    )
    done = lab.preflight(*lab.judged, "--only", "os-thp", "--waivers", str(file), "--reason", "a quick look",
                         "--junit", f"{tmp_path}/j.xml", "--prometheus", f"{tmp_path}/p.prom")  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "jane until 2999-01-01: until Friday" in shown and "left out of this run (a quick look)" in shown
    assert "waived by jane until 2999-01-01" in (tmp_path / "j.xml").read_text()
    assert 'owner="jane",expires="2999-01-01"} 1' in (tmp_path / "p.prom").read_text()
    page = (lab.directory / "results" / "report.html").read_text()
    assert "a quick look" in page and "Waived by jane until 2999-01-01: until Friday" in page
