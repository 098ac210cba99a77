"""The terminal summary and the Markdown ticket: what they say, and what must never get through."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from checks.report import markdown, terminal
from checks.report.findings import Verdict, examine
from checks.report.text import display_width, fold, folded, remedy_parts, wrap
from rackwright.verdict import Load, Result, Results, Severity, Status
from tests.golden import assert_golden
from tests.report.build import HOSTILE, REGISTRY, hosts_of, plan, results, thousand

GOLDEN = Path(__file__).parent / "golden"


def _one(status: Status = Status.PASS, *, load: Load | None = None, check: str = "gpu-temperature") -> Result:
    return Result(
        check=check, subject="gpu-01", severity=Severity.CRITICAL, status=status, actual="61 °C",
        expected="below 85 °C", load=load,
    )  # fmt: skip


def _run(*found: Result, **more: object) -> Results:
    return Results.model_validate(
        {"plan": "p", "plan_digest": "d", "hosts": ["gpu-01"], "results": list(found), **more}
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["gpu-01", "gpu-02", "gpu-03", "gpu-04", "gpu-07"], ["gpu-[01-04,07]"]),
        (["gpu-9", "gpu-10", "gpu-11"], ["gpu-[9-11]"]),
        (["gpu-1.dc1.lan", "gpu-2.dc1.lan"], ["gpu-[1,2].dc1.lan"]),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], ["10.0.0.[1-3]"]),
        ([h for h, _ in hosts_of(125, 8)], ["r[001-125]-gpu-[01-08]"]),
        (["gpu", "gpu1", "mac"], ["gpu", "gpu1", "mac"]),
        (["01", "1"], ["[1,01]"]),
        ([], []),
    ],
)
def test_hosts_are_folded(names: list[str], expected: list[str]) -> None:
    assert fold(names) == expected


def test_a_long_list_of_hosts_is_counted_not_cut() -> None:
    text = folded([f"r{r}-x{r * 7 % 13}" for r in range(200)], 80)
    assert len(text) < 110
    assert text.endswith("more")


def test_wrapping_keeps_to_the_columns_of_wide_characters() -> None:
    lines = wrap("中文 " * 30 + "x" * 90, 20)
    assert max(map(display_width, lines)) <= 20


def test_a_remedy_is_a_command_and_a_remark() -> None:
    assert remedy_parts("sudo fix  # then reboot") == ("sudo fix", "then reboot")
    assert remedy_parts("echo '#' | tee x") == ("echo '#' | tee x", "")


def test_summary_golden() -> None:
    text = terminal.summary(results(), registry=REGISTRY, width=100, file="results/results.json")
    assert_golden(GOLDEN / "summary.txt", text)


def test_markdown_golden() -> None:
    assert_golden(GOLDEN / "summary.md", markdown.summary(results(), REGISTRY))


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_lines_fit(columns: int) -> None:
    run, registry = thousand()
    text = terminal.summary(run, registry=registry, width=columns)
    too_long = [line for line in text.splitlines() if display_width(line) > columns]
    assert [line for line in too_long if "sudo" not in line] == []
    assert len(text.splitlines()) < 120


def test_colour_adds_only_colour() -> None:
    import re

    plain = terminal.summary(results(), registry=REGISTRY, width=90)
    painted = terminal.summary(results(), registry=REGISTRY, width=90, colour=True)
    assert "\x1b[" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", painted) == plain


def test_colour_only_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal.use_colour(Terminal())
    assert not terminal.use_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.use_colour(Terminal())


def test_a_host_cannot_drive_the_terminal() -> None:
    found = _one(Status.FAIL).model_copy(update={"actual": "\x1b]0;owned\x07\x1b[2J" + HOSTILE})
    text = terminal.summary(_run(found), registry={}, width=100)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b]0;owned" in text


def test_a_host_cannot_write_markdown() -> None:
    evil = "`](http://x) | <img src=x onerror=alert(1)> | @everyone\n# Heading"
    found = _one(Status.FAIL).model_copy(update={"actual": evil})
    text = markdown.summary(_run(found), {})
    row = next(line for line in text.splitlines() if line.startswith("| `gpu-01`"))
    assert "\n# Heading" not in text
    assert row.replace("\\|", "").count("|") == 4
    assert "`` `](http://x)" in row


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (_run(_one()), Verdict.READY),
        (_run(_one(load=Load.FULL)), Verdict.READY),
        (_run(_one(load=Load.IDLE)), Verdict.INCOMPLETE),
        (_run(_one(Status.WARN, load=Load.PARTIAL)), Verdict.INCOMPLETE),
        (_run(_one(load=Load.IDLE), _one(load=Load.FULL)), Verdict.READY),
        (_run(_one(Status.WARN)), Verdict.READY),
        (_run(_one(Status.ERROR)), Verdict.INCOMPLETE),
        (_run(_one(Status.FAIL), _one(Status.ERROR, check="gpu-ecc")), Verdict.NOT_READY),
        (_run(_one(), hosts=["gpu-01", "gpu-02"]), Verdict.INCOMPLETE),
        (_run(_one(), hosts=["gpu-01", "gpu-02"], unreachable={"gpu-02": "no route"}), Verdict.INCOMPLETE),
        (_run(), Verdict.INCOMPLETE),
    ],
)
def test_headline(run: Results, expected: Verdict) -> None:
    assert examine(run, REGISTRY).verdict is expected


def test_ready_never_stands_over_a_finding() -> None:
    for run in (results(), results(faults=False), _run()):
        report = examine(run, REGISTRY)
        assert report.verdict is not Verdict.READY or run.exit_code == 0


def test_hosts_that_fail_alike_are_one_line() -> None:
    names = [f"gpu-{n:02}" for n in (1, 2, 3, 4, 7)]
    found = [_one(Status.FAIL).model_copy(update={"subject": n}) for n in names]
    text = terminal.summary(_run(*found, hosts=names), registry=REGISTRY, width=100)
    assert text.count("gpu-[01-04,07]") == 1
    assert text.count("61 °C") == 1


def test_the_next_command_for_an_unreachable_host_is_the_collectors() -> None:
    reason = "the host key of 10.0.0.9:22 is not known"
    unreachable = {f"gpu-0{n}": reason.replace(".9", f".{n}") for n in (1, 2)}
    said = [
        _one(Status.ERROR, check="net-reachable").model_copy(
            update={"subject": host, "message": f"{text}; rackwright enrol --hosts hosts.ini"}
        )
        for host, text in unreachable.items()
    ]
    (group,) = examine(_run(*said, unreachable=unreachable), REGISTRY).unreachable
    assert group.hosts == ("gpu-01", "gpu-02")
    assert group.reason == "the host key of its address is not known"
    assert group.next == "rackwright enrol --hosts hosts.ini"


def test_check_names_from_a_file_never_reach_a_command() -> None:
    found = _one(Status.FAIL, check="x;rm -rf ~")
    commands = [step.command for step in examine(_run(found), {}).next]
    assert not any("rm -rf" in command for command in commands)


def test_the_plan_of_the_builder_is_the_one_of_the_results() -> None:
    assert results().plan_digest == plan().digest


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        ({"left_out_checks": ("os-thp", "gpu-ecc")}, "nothing failed; 2 checks left out of this run"),
        ({"left_out_hosts": ("gpu-07",)}, "nothing failed; 1 node of the plan left out: gpu-07"),
    ],
)
def test_a_part_of_the_plan_is_never_ready(left_out: dict[str, tuple[str, ...]], words: str) -> None:
    run = _run(_one(load=Load.FULL)).model_copy(update=left_out)
    text = " ".join(terminal.summary(run, registry=REGISTRY).split())
    assert examine(run, REGISTRY).verdict is Verdict.INCOMPLETE
    assert words in text
    assert "pulumi up" not in text
    assert run.exit_code == 0


def test_kept_captures_are_named_with_their_time() -> None:
    run = _run(_one(load=Load.FULL)).model_copy(update={"captures": "old", "started": "2026-01-02"})
    text = " ".join(terminal.summary(run, registry=REGISTRY).split())
    assert "judged from captures taken at 2026-01-02 in old" in text


def test_what_follows_from_an_unreachable_host_is_one_line() -> None:
    base = _one(Status.ERROR)
    lost = [
        base.model_copy(
            update={
                "check": name,
                "scope": "pool",
                "subject": "hot",
                "message": "no host of pool hot was reached",
            }
        )
        for name in ("gpu-ecc", "os-thp")
    ]
    report = examine(_run(*lost), REGISTRY)
    assert report.errors == ()
    assert report.notes == ("2 checks of pool hot not measured: no host of them was reached",)
    assert report.verdict is Verdict.INCOMPLETE


def _unread(check: str, message: str, subject: str = "gpu-01") -> Result:
    return _one(Status.ERROR, check=check).model_copy(update={"message": message, "subject": subject})


SMI = "`nvidia-smi -q -x` "
SUDO = "needs root, and sudo -n was refused"


@pytest.mark.parametrize(
    ("messages", "text", "command"),
    [
        ([SMI + "is not installed on the host", "`nvidia-smi -L` is not installed on the host"],
         "nvidia-smi is not installed", "command -v nvidia-smi"),
        ([f"`dmesg -T` {SUDO}", f"`ipmitool sel elist` {SUDO}"],
         "sudo -n was refused, and these commands need root", "sudo -n true"),
        ([SMI + "was not started: nvidia-smi did not answer an earlier call",
          "`nvidia-smi -L` did not finish within 30 s"], "nvidia-smi did not answer", None),
        ([SMI + "ended with status 9: No devices were found", "`nvidia-smi -L` ended with status 9: No "
          "devices were found / more"], "nvidia-smi ended with status 9: No devices were found", None),
        (["missing expectation expectations.h.os.thp", "missing expectation expectations.h.gpu.ecc"],
         "the plan has no expected value for these checks", None),
        (["something else", "something else"], "something else", None),
    ],
)  # fmt: skip
def test_one_cause_is_one_block(messages: list[str], text: str, command: str | None) -> None:
    run = _run(*(_unread(f"gpu-{i}", m) for i, m in enumerate(messages)))
    (cause,) = examine(run, REGISTRY).causes
    assert (cause.text, cause.checks, cause.subjects) == (text, ("gpu-0", "gpu-1"), {"host": ("gpu-01",)})
    assert command is None or cause.command == command
    assert examine(run, REGISTRY).lone == ()
    for shown in (terminal.summary(run, registry=REGISTRY), markdown.summary(run, REGISTRY)):
        assert " ".join(shown.split()).count(text) == 1
        assert shown.lower().count("not measured") <= 3


def test_a_cause_of_one_check_stays_with_its_check() -> None:
    report = examine(_run(_unread("gpu-ecc", SMI + "is not installed on the host")), REGISTRY)
    assert report.causes == () and [f.check for f in report.lone] == ["gpu-ecc"]


def test_a_cause_names_the_failure_that_mends_it() -> None:
    failed_privilege = _one(Status.FAIL, check="host-privilege")
    run = _run(_unread("log-xid", f"`dmesg -T` {SUDO}"), _unread("bmc-sel", f"`x` {SUDO}"), failed_privilege)
    (cause,) = examine(run, REGISTRY).causes
    assert cause.see == "host-privilege"
    assert "see        host-privilege above" in terminal.summary(run, registry=REGISTRY)


def test_pools_alone_leave_no_host_unchecked() -> None:
    pool = _one().model_copy(update={"check": "uniform-driver", "scope": "pool", "subject": "hot"})
    run = _run(pool, hosts=["gpu-01", "gpu-02"])
    report = examine(run, REGISTRY)
    assert (report.not_checked, report.verdict) == ((), Verdict.READY)
    assert "not checked" not in terminal.summary(run, registry=REGISTRY)


def test_remedies_that_differ_stand_with_their_hosts() -> None:
    found = [
        _one(Status.FAIL, check="roce-qos").model_copy(
            update={
                "subject": f"gpu-0{n}",
                "remedy": f"sudo mlnx_qos -i enp{n}s0",
                "message": f"enp{n}s0: off",
            }
        )
        for n in (1, 2)
    ]
    run = _run(*found, hosts=["gpu-01", "gpu-02"])
    (finding,) = examine(run, REGISTRY).failures
    assert finding.remedy == "" and [g.remedy for g in finding.groups] == [r.remedy for r in found]
    for shown in (terminal.summary(run, registry=REGISTRY), markdown.summary(run, REGISTRY)):
        assert all(r.remedy in shown for r in found)


def test_warnings_that_say_the_same_are_one_line() -> None:
    warned = [
        _one(Status.WARN, check=f"uniform-{n}").model_copy(update={"message": "not compared: gpu-02"})
        for n in ("a", "b", "c")
    ]
    text = terminal.summary(_run(*warned), registry={})
    assert text.count("not compared: gpu-02") == 1 and "uniform-a, uniform-b, uniform-c" in text


def test_a_waived_finding_blocks_nothing_and_is_shown() -> None:
    mark = {"owner": "jane", "reason": "until the kernel", "expires": "2030-01-31", "ticket": "OPS-1"}
    run = _run(_one(Status.FAIL, check="os-swap"))
    waived = Result.model_validate({**run.results[0].model_dump(), "waived": mark})
    run = run.model_copy(update={"results": (waived, _one(load=Load.FULL))})
    assert (run.exit_code, examine(run, REGISTRY).verdict) == (0, Verdict.READY)
    for shown in (terminal.summary(run, registry=REGISTRY, width=200), markdown.summary(run, REGISTRY)):
        assert "jane until 2030-01-31: until the kernel, OPS-1" in shown
        assert "1 finding waived, the first until 2030-01-31" in " ".join(shown.split())
