"""Judging and the run: nothing that could not be measured passes, nothing that was measured is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks import registry
from checks.bench import Bench, Context
from checks.capture import Capture, CommandOutput
from checks.explain import explain
from checks.journal import read as read_journal
from checks.registry import Check, Command, Scope
from checks.report.findings import Verdict, examine
from checks.runner import (
    InterruptedRunError,
    Options,
    require_hosts,
    run,
    select,
)
from checks.view import HostView
from rackwright.errors import CannotRun
from rackwright.inventory import Host, Inventory
from rackwright.plan import NotApplicable, Plan
from rackwright.verdict import Results, Severity, Status, could_not_measure, failed, passed
from tests.preflight.plans import small_plan
from tests.preflight.shells import a_check

NAMES = ("gpu-01", "gpu-02", "gpu-03")


def plan() -> Plan:
    return small_plan(NAMES)


def inventory(*names: str) -> Inventory:
    hosts = [Host(n, n, pool="h200", rack="r01") for n in names or NAMES]
    return Inventory(tuple(hosts), Path("plan.yaml"), "hosts.ini")


def thp(host: str, word: str = "never", **fields: Any) -> Capture:
    out = CommandOutput(key="thp", command="cat", state="done", rc=0, stdout=f"always madvise [{word}]\n")
    return Capture(host=host, outputs={"thp": out}, **fields)


def keep(directory: Path, *captures: Capture) -> Options:
    for capture in captures:
        capture.write(directory)
    return Options(captures=directory)


def os_thp() -> Check:
    return registry.load()["os-thp"]


def judge(item: Check, capture: Capture, the_plan: Plan | None = None) -> Any:
    bench = Bench.for_checks(the_plan or plan(), inventory(), [item])
    return bench.judge_host(item, bench.view(capture))


def test_a_good_host_and_a_bad_one(tmp_path: Path) -> None:
    options = keep(tmp_path, thp("gpu-01"), thp("gpu-02", "always"))
    results = run(plan(), inventory("gpu-01", "gpu-02"), [os_thp()], options)
    assert [(r.subject, r.status) for r in results.results] == [("gpu-01", "pass"), ("gpu-02", "fail")]
    assert results.results[1].plan_path == "expectations.h200.os.thp"
    assert results.results[1].evidence[0].excerpt == "always madvise [always]"
    assert results.exit_code == 1


def test_a_missing_expectation_is_an_error_that_names_the_path() -> None:
    result = judge(os_thp(), thp("gpu-01"), small_plan(NAMES, thp=None))
    assert (result.status, result.message) == ("error", "missing expectation expectations.h200.os.thp")


def test_a_pool_without_expectations_is_an_error() -> None:
    bare = plan().model_copy(update={"expectations": {}})
    assert judge(os_thp(), thp("gpu-01"), bare).status is Status.ERROR


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("missing", "is not installed on the host"),
        ("denied", "needs root"),
        ("timeout", "did not finish within 20 s"),
        ("capped", "printed more than"),
        ("incomplete", "came back incomplete"),
        ("skipped", "was not started: no time"),
    ],
)
def test_what_did_not_run_is_an_error(state: Any, words: str) -> None:
    out = CommandOutput(key="thp", command="cat", state=state, stderr="not started: no time")
    result = judge(os_thp(), Capture(host="gpu-01", outputs={"thp": out}))
    assert result.status is Status.ERROR and words in result.message


def test_a_judge_that_fails_is_a_bug_and_never_a_pass() -> None:
    def broken(_view: HostView, _want: Any) -> Any:
        return {}["gpus"]

    result = judge(a_check("x-broken", judge=broken), thp("gpu-01"))
    assert result.status is Status.ERROR
    assert result.message.startswith("the check x-broken itself failed (KeyError: 'gpus'): a bug in it")
    assert judge(a_check("x-none", judge=lambda _v, _w: None), thp("gpu-01")).status is Status.ERROR


def test_a_host_that_was_not_reached_has_one_error_and_a_count(tmp_path: Path) -> None:
    options = keep(tmp_path, thp("gpu-01"), Capture(host="gpu-02", problem="refused", problem_next="look"))
    checks = select(registry.load(), only=("os", "net-reachable"))
    results = run(plan(), inventory("gpu-01", "gpu-02"), checks, options)
    dead = [r for r in results.results if r.subject == "gpu-02" and r.scope == "host"]
    assert [(r.check, r.status, r.message) for r in dead] == [("net-reachable", "error", "refused; look")]
    per_host = sum(c.scope is Scope.HOST for c in checks) - 1
    assert (results.unreachable, results.not_measured) == ({"gpu-02": "refused"}, {"gpu-02": per_host})
    assert results.exit_code == 1


def test_a_host_without_a_capture_was_not_reached(tmp_path: Path) -> None:
    results = run(plan(), inventory("gpu-01"), [os_thp()], Options(captures=tmp_path))
    assert "no capture of this host" in results.unreachable["gpu-01"]
    assert results.exit_code == 2


def test_a_collection_that_was_cut_is_judged_and_noted(tmp_path: Path) -> None:
    options = keep(tmp_path, thp("gpu-01", cut="collection ended early"))
    checks = [os_thp(), registry.load()["net-reachable"]]
    results = run(plan(), inventory("gpu-01"), checks, options)
    assert {r.check: r.status for r in results.results} == {"os-thp": "pass", "net-reachable": "error"}
    assert results.notes == ("gpu-01: collection ended early",)


seen: dict[str, Any] = {}


def uniform(views: Sequence[HostView], _want: Any, context: Context) -> Any:
    seen["context"], seen["views"] = context, [v.name for v in views]
    return passed("same")


@pytest.mark.parametrize(("scope", "subject"), [(Scope.POOL, "h200"), (Scope.RACK, "r01")])
def test_pools_and_racks_see_the_hosts_that_were_reached(tmp_path: Path, scope: Scope, subject: str) -> None:
    options = keep(tmp_path, thp("gpu-01"), Capture(host="gpu-02", problem="refused"))
    item = a_check("x-group", scope=scope, judge=uniform)
    results = run(plan(), inventory("gpu-01", "gpu-02"), [item], options)
    context = seen["context"]
    assert seen["views"] == ["gpu-01"]
    assert (context.unreachable, context.absent, context.pool.name) == (("gpu-02",), ("gpu-03",), "h200")
    assert (context.rack.name if context.rack else "") == ("r01" if scope is Scope.RACK else "")
    assert [(r.subject, r.scope) for r in results.results if r.check == "x-group"] == [(subject, scope.value)]


def test_a_pool_of_which_no_host_was_reached_is_an_error(tmp_path: Path) -> None:
    options = keep(tmp_path, Capture(host="gpu-01", problem="refused"))
    results = run(plan(), inventory("gpu-01"), [a_check("x-group", scope=Scope.POOL, judge=uniform)], options)
    group = next(r for r in results.results if r.check == "x-group")
    assert (group.status, group.message) == ("error", "no host of pool h200 was reached")


def test_a_judge_with_a_third_parameter_gets_the_context() -> None:
    def asks(view: HostView, _want: Any, context: Context) -> Any:
        return passed(f"{context.host} {context.pool.name} {context.plan.header.name} {view.name}")

    assert judge(a_check("x-asks", judge=asks), thp("gpu-01")).actual == "gpu-01 h200 t gpu-01"


def test_results_stream_and_a_killed_run_loses_nothing(tmp_path: Path) -> None:
    options = keep(tmp_path / "captures", thp("gpu-01"), thp("gpu-02"), thp("gpu-03"))
    options = replace(options, results_dir=tmp_path / "out")
    stream = tmp_path / "out" / "results.jsonl"
    grown: list[int] = []
    run(
        plan(),
        inventory(),
        [os_thp()],
        options,
        on_result=lambda _r: grown.append(len(stream.read_text().splitlines())),
    )
    assert grown == [2, 4, 6]  # the header, then a line a result and a line a finished host
    text = stream.read_text()
    stream.write_text(text[: text.index('"subject":"gpu-03"')])
    rescued = read_journal(stream).results
    assert [r.subject for r in rescued.results] == ["gpu-01", "gpu-02"]
    assert rescued.hosts == NAMES and "did not end by itself" in rescued.notes[-1]
    assert (rescued.complete, rescued.exit_code) == (False, 2)


def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path) -> None:
    options = keep(tmp_path, thp("gpu-01"), thp("gpu-02"))

    def stop(_capture: Capture, _results: Sequence[Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError) as caught:
        run(plan(), inventory("gpu-01", "gpu-02"), [os_thp()], options, on_host=stop)
    kept = caught.value.results
    assert [r.subject for r in kept.results] == ["gpu-01"]
    assert (kept.complete, kept.exit_code) == (False, 2)
    assert examine(kept, registry.load()).verdict is Verdict.INCOMPLETE


def test_judging_kept_captures_changes_none_of_them(tmp_path: Path) -> None:
    options = keep(tmp_path / "captures", thp("gpu-01"), thp("gpu-02", "always"))
    (tmp_path / "captures" / "gpu-03.json").write_text("not a capture")
    before = {p.name: p.read_bytes() for p in (tmp_path / "captures").iterdir()}
    first = run(plan(), inventory(), [os_thp()], replace(options, results_dir=tmp_path))
    again = run(plan(), inventory(), [os_thp()], options)
    assert again.results == first.results
    assert {p.name: p.read_bytes() for p in (tmp_path / "captures").iterdir()} == before


def test_a_capture_of_another_host_is_no_capture_of_this_one(tmp_path: Path) -> None:
    options = keep(tmp_path, thp("gpu-01"))
    (tmp_path / "gpu-02.json").write_bytes((tmp_path / "gpu-01.json").read_bytes())
    results = run(plan(), inventory("gpu-01", "gpu-02"), [os_thp()], options)
    assert "is a capture of 'gpu-01'" in results.unreachable["gpu-02"]
    assert results.exit_code == 1


def test_results_survive_a_round_trip(tmp_path: Path) -> None:
    options = keep(tmp_path, thp("gpu-01"), Capture(host="gpu-02", problem="refused"))
    results = run(plan(), inventory("gpu-01", "gpu-02"), [os_thp()], options, notes=["a note"])
    assert Results.from_json(results.to_json()) == results
    assert json.loads(results.to_json())["schema"] == "rackwright/results/v1"


def test_a_host_with_a_critical_finding_is_left_out_of_later_tiers(tmp_path: Path) -> None:
    def bad_on_2(view: HostView, _want: Any) -> Any:
        return failed("a", "b") if view.name == "gpu-02" else passed("a")

    first = a_check("x-early", severity=Severity.CRITICAL, judge=bad_on_2)
    later = a_check("x-late", tier=1)
    options = keep(tmp_path, thp("gpu-01"), thp("gpu-02"))
    results = run(plan(), inventory("gpu-01", "gpu-02"), [first, later], options)
    assert [(r.check, r.subject) for r in results.results] == [
        ("x-early", "gpu-01"),
        ("x-early", "gpu-02"),
        ("x-late", "gpu-01"),
    ]
    assert results.not_measured == {"gpu-02": 1}
    assert results.notes == ("gpu-02: a critical finding in tier 0 (x-early); later tiers were not run",)


REGISTRY: Mapping[str, Check] = {
    c.id: c for c in (a_check("os-thp"), a_check("os-swap"), a_check("gpu-ecc"), a_check("gpu-soak", tier=3))
}


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ({}, "os-thp os-swap gpu-ecc"),
        ({"tier": 3}, "os-thp os-swap gpu-ecc gpu-soak"),
        ({"only": ("os",)}, "os-thp os-swap"),
        ({"only": ("*-ecc", "os-thp")}, "os-thp gpu-ecc"),
        ({"skip": ("os-*",)}, "gpu-ecc"),
    ],
)
def test_selection(arguments: dict[str, Any], ids: str) -> None:
    assert [c.id for c in select(REGISTRY, **arguments)] == ids.split()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"only": ("os-tph",)}, 'did you mean "os-thp"'),
        ({"skip": ("nope",)}, "--skip"),
        ({"only": ("gpu-soak",)}, "at least one check"),
    ],
)
def test_a_selection_that_checks_nothing_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(CannotRun, match=words):
        select(REGISTRY, **arguments)


def test_no_host_or_no_check_is_refused() -> None:
    with pytest.raises(CannotRun):
        require_hosts(Inventory((), Path("p")))
    with pytest.raises(CannotRun):
        run(plan(), inventory(), [], Options())
    with pytest.raises(CannotRun):
        run(plan(), Inventory((), Path("p")), [os_thp()], Options())


def test_every_registered_judge_takes_what_it_is_given() -> None:
    """A judge of the wrong shape would be an error on every host; here it is one failed test."""
    for item in registry.load().values():
        bench = Bench.for_checks(plan(), inventory(), [item])
        if item.scope is Scope.HOST:
            result = bench.judge_host(item, bench.view(thp("gpu-01")))
        else:
            subject = "h200" if item.scope is Scope.POOL else "r01"
            result = bench.judge_group(item, subject, {n: thp(n) for n in NAMES})
        assert "itself failed" not in result.message, result


def test_errors_of_judges_are_not_lost() -> None:
    item = a_check("x-error", severity=Severity.INFO, judge=lambda _v, _w: could_not_measure("why"))
    assert judge(item, thp("gpu-01")).status is Status.ERROR


def test_a_command_key_is_one_command() -> None:
    keys: dict[str, Command] = {}
    for item in registry.load().values():
        for command in item.commands:
            assert keys.setdefault(command.key, command) == command


def test_what_a_run_leaves_out_is_carried(tmp_path: Path) -> None:
    options = replace(
        keep(tmp_path, thp("gpu-01", started="2026-01-02T03:04:05+00:00")), left_out=("gpu-ecc",)
    )
    results = run(plan(), inventory("gpu-01"), [os_thp()], options)
    assert results.left_out_checks == ("gpu-ecc",)
    assert "gpu-01" not in results.left_out_hosts
    assert (results.started, results.captures) == ("2026-01-02T03:04:05+00:00", str(options.captures))


def test_what_was_not_read_has_no_remedy_and_no_escape_sequence() -> None:
    check = os_thp()
    unread = {"status": Status.ERROR, "message": "\x1b[2J\x00"}
    result = judge(check, thp("gpu-01")).model_copy(update=unread)
    text = explain(result, check)
    assert check.remedy not in text
    assert "  try      " in text
    assert "\x1b" not in text
    assert "\x00" not in text


def test_results_are_written_in_pieces_that_are_the_whole() -> None:
    """As one text they would be the largest thing of a large run. 1,201 are two full pieces and one more."""
    one = judge(os_thp(), thp("gpu-01", "always"))
    for count in (0, 1, 500, 501, 1201):
        results = Results(plan="t", plan_digest="0", results=(one,) * count)
        assert results.to_json() == results.model_dump_json(by_alias=True, indent=1) + "\n"
        assert max(map(len, results.pieces())) < 500 * 2_000
        assert len(Results.from_json(results.to_json()).results) == count


def test_what_no_pool_or_rack_is_judged_by_is_let_go_of(tmp_path: Path) -> None:
    """A check that the plan calls not applicable keeps nothing either."""
    kept: dict[str, Any] = {}

    def look(views: Sequence[HostView], _want: Any) -> Any:
        kept.update({v.name: sorted(v.capture.outputs) for v in views})
        return passed("same")

    outputs = {
        key: CommandOutput(key=key, command=key, state="done", rc=0, stdout="x") for key in ("a", "b", "c")
    }
    options = keep(tmp_path, Capture(host="gpu-01", outputs=outputs))
    made = plan()
    expected = made.expectations["h200"]
    os_part = expected.os.model_copy(update={"swap": NotApplicable(not_applicable="diskless")})
    made = made.model_copy(update={"expectations": {"h200": expected.model_copy(update={"os": os_part})}})
    checks = [
        a_check("x-host", Command("a", "a"), judge=lambda _v, _w: passed("a")),
        a_check("x-pool", Command("b", "b"), scope=Scope.POOL, judge=look),
        a_check("x-none", Command("c", "c"), scope=Scope.POOL, judge=look, expects="os.swap"),
    ]
    run(made, inventory("gpu-01"), checks, options)
    assert kept == {"gpu-01": ["b"]}
