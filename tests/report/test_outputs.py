"""JUnit, CTRF, Prometheus, GitHub and Slack: each agrees with the results, and no host can break its form."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest

from checks.report.outputs import OUTPUTS
from rackwright.verdict import Results, Status, Waived
from tests.report.build import HOSTILE, REGISTRY, results, thousand

EVIL = HOSTILE + '\x00\x1b]0;x\x07 ]]> & <!here> @channel "} 1\n# HELP'


def _hostile() -> Results:
    run = results()
    mark = Waived(owner=EVIL, reason=EVIL, expires="2030-01-31")
    changed = [r.model_copy(update={"actual": EVIL, "message": EVIL, "remedy": EVIL}) for r in run.results]
    changed[0] = changed[0].model_copy(update={"status": Status.FAIL, "waived": mark})
    unreachable = dict.fromkeys(run.unreachable, EVIL)
    return run.model_copy(update={"results": tuple(changed), "unreachable": unreachable, "plan": EVIL})


def _write(kind: str, run: Results) -> str:
    return OUTPUTS[kind].write(run, REGISTRY)


def test_junit_counts_every_verdict() -> None:
    run = results()
    root = ET.fromstring(_write("junit", run))
    cases = list(root.iter("testcase"))
    assert int(root.get("tests", "0")) == len(cases) == len(run.results) + len(run.unreachable)
    assert int(root.get("failures", "0")) == sum(r.status is Status.FAIL and r.blocking for r in run.results)
    assert int(root.get("errors", "0")) == 1 + sum(r.status is Status.ERROR for r in run.results)
    (lost,) = [c for c in cases if c.get("name") == "not-checked"]
    assert "no route to host" in (lost[0].get("message") or "")
    for suite in root:
        assert int(suite.get("tests", "0")) == len(list(suite))


def test_ctrf_counts_every_verdict() -> None:
    body = json.loads(_write("ctrf", results()))["results"]
    summary = body["summary"]
    assert summary["tests"] == len(body["tests"]) == sum(
        summary[k] for k in ("passed", "failed", "skipped", "pending", "other")
    )  # fmt: skip
    assert summary["failed"] == len(results().findings()) + 1
    assert summary["stop"] - summary["start"] == 41_200
    assert {"name", "status", "duration"} <= set.intersection(*(set(t) for t in body["tests"]))


_SAMPLE = re.compile(
    r'[a-z][a-z0-9_]*(?:\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? '
    r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
)


def _samples(text: str) -> dict[str, float]:
    """Every series of a textfile, read strictly: HELP, TYPE, then only samples of that name, none twice."""
    assert text.endswith("\n") and "\r" not in text
    name, state, found = "", "", {}
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, state = line.split(" ")[2], "help"
        elif line.startswith("# TYPE "):
            assert (state, line) == ("help", f"# TYPE {name} gauge")
            state = "type"
        else:
            assert state == "type" and _SAMPLE.fullmatch(line), line
            series, _, value = line.rpartition(" ")
            assert series.partition("{")[0] == name and series not in found
            found[series] = float(value)
    return found


def test_the_textfile_is_valid_and_true() -> None:
    run = results()
    found = _samples(_write("prometheus", run))
    plan = 'plan="chat-50k"'
    assert found[f"rackwright_preflight_ready{{{plan}}}"] == 0
    assert found[f"rackwright_preflight_exit_code{{{plan}}}"] == run.exit_code == 1
    assert found[f'rackwright_preflight_host_reached{{{plan},host="r02-gpu-02"}}'] == 0
    assert found[f'rackwright_preflight_host_reached{{{plan},host="r01-gpu-01"}}'] == 1
    verdicts = {k: v for k, v in found.items() if k.startswith("rackwright_preflight_verdicts")}
    assert sum(verdicts.values()) == len(run.results)
    findings = [k for k in found if k.startswith("rackwright_preflight_finding{")]
    assert len(findings) == len(run.findings())
    assert found[f"rackwright_preflight_duration_seconds{{{plan}}}"] == 41.2


@pytest.mark.parametrize("kind", sorted(OUTPUTS))
def test_hosts_cannot_break_a_form(kind: str) -> None:
    text = _write(kind, _hostile())
    assert "\x1b" not in text and "\x00" not in text
    if kind == "junit":
        ET.fromstring(text)
    elif kind == "prometheus":
        _samples(text)
    elif kind in ("ctrf", "json"):
        json.loads(text)
    elif kind == "slack":
        body = json.loads(text)["blocks"][0]["text"]["text"]
        assert "<!here>" not in body and "@channel" not in body and "<script>" not in body
        assert len(body) <= 3_000
    elif kind == "github":
        rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
        assert all(len(re.sub(r"\\\|", "", row).split("|")) == 5 for row in rows)
        assert "\n# HELP" not in text


def test_an_empty_run_is_no_good_one() -> None:
    empty = results().model_copy(update={"results": (), "unreachable": {}, "complete": False})
    root = ET.fromstring(_write("junit", empty))
    assert root.get("errors") == root.get("tests") == "4"
    assert json.loads(_write("ctrf", empty))["results"]["summary"]["failed"] == 4
    assert _samples(_write("prometheus", empty))['rackwright_preflight_exit_code{plan="chat-50k"}'] == 2
    assert "INCOMPLETE" in _write("github", empty) and "INCOMPLETE" in _write("slack", empty)


def test_waived_findings_are_skipped_with_their_owner() -> None:
    run = results()
    bad = next(r for r in run.results if r.status is Status.FAIL)
    waived = bad.model_copy(update={"waived": Waived(owner="jane", reason="x", expires="2030-01-31")})
    others = tuple(r for r in run.results if r is not bad)
    root = ET.fromstring(_write("junit", run.model_copy(update={"results": (waived, *others)})))
    (skipped,) = [
        s for s in root.iter("skipped") if (s.get("message") or "").startswith("waived by jane until")
    ]
    assert bad.check in (skipped.get("message") or "")


def test_a_thousand_hosts_are_short_for_people() -> None:
    run, registry = thousand()
    for kind in ("github", "slack"):
        assert len(OUTPUTS[kind].write(run, registry)) < 8_000
    series = _samples(OUTPUTS["prometheus"].write(run, registry))
    assert len(series) < 2_500 + len(run.findings())


def test_every_form_is_an_option() -> None:
    from rackwright.cli import cmd_preflight, cmd_report

    assert {"json", *cmd_preflight.OUTPUT_OPTIONS} == set(OUTPUTS)
    (form,) = [o for o in cmd_report.command.params if o.name == "form"]
    assert set(form.type.choices) == {"html", *OUTPUTS}  # type: ignore[attr-defined]
