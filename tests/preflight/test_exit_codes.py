"""docs/exit-codes.md is true: each line of its tables, in both runners."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from checks.runner import Options, run
from rackwright.inventory import bound, load_inventory
from rackwright.plan import load_plan
from rackwright.verdict import Load, Results, Severity, Status
from tests.golden import REPOSITORY
from tests.preflight.fake_checks import fake
from tests.preflight.lab import Lab, outcomes


def table(heading: str) -> list[list[str]]:
    text = (REPOSITORY / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    section = text.partition(f"## {heading}")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


CHECKS_TABLE = table("One check")
RUNS_TABLE = table("One run")
NAMES = [f"x-line{n}" for n in range(len(CHECKS_TABLE))]


def fakes(demanded: str) -> list[tuple[str, str, str, str]]:
    return [
        (name, row[0], row[1], row[2])
        for name, row in zip(NAMES, CHECKS_TABLE, strict=True)
        if row[3] == demanded
    ]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"), ["gpu-01"])


def run_one(lab: Lab, name: str, row: list[str]) -> Results:
    plan = load_plan(lab.directory / "plan.yaml")
    inventory = bound(load_inventory(lab.inventory), plan).inventory
    options = Options(captures=lab.captures, load=None if row[3] == "-" else Load(row[3]))
    return run(plan, inventory, [fake(name, row[0], row[1], row[2])], options)


def test_the_table_has_every_status_and_severity() -> None:
    assert {s.value for s in Status} <= {row[0] for row in CHECKS_TABLE}
    assert {(row[0], row[1]) for row in CHECKS_TABLE} >= {
        (status, severity.value) for status in ("fail", "error") for severity in Severity
    }
    assert {s.value for s in Load} <= {row[2] for row in CHECKS_TABLE}


@pytest.mark.parametrize(
    ("name", "row"), list(zip(NAMES, CHECKS_TABLE, strict=True)), ids=[" ".join(r[:4]) for r in CHECKS_TABLE]
)
def test_preflight(lab: Lab, name: str, row: list[str]) -> None:
    results = run_one(lab, name, row)
    (result,) = results.results
    assert (result.status.value, results.exit_code) == (row[4], int(row[5]))


@pytest.mark.parametrize("demanded", sorted({row[3] for row in CHECKS_TABLE}))
def test_pytest(lab: Lab, demanded: str, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    load = [] if demanded == "-" else ["--load", demanded]
    done = lab.pytest(*lab.judged, f"--junitxml={junit}", "-q", *load, fakes=fakes(demanded))
    got = outcomes(junit)
    rows = {f"gpu-01-{n}": row for n, row in zip(NAMES, CHECKS_TABLE, strict=True) if row[3] == demanded}
    assert {name: got[name] for name in rows} == {name: row[6] for name, row in rows.items()}
    assert done.returncode == max(int(row[7]) for row in rows.values())
    assert {row[6]: row[7] for row in rows.values()}.items() <= {
        "passed": "0", "skipped": "0", "failed": "1", "error": "1"
    }.items()  # fmt: skip


def test_pytest_is_0_without_a_finding(lab: Lab) -> None:
    harmless = [line for line in fakes("-") if CHECKS_TABLE[NAMES.index(line[0])][7] == "0"]
    assert lab.pytest(*lab.judged, "-q", fakes=harmless).returncode == 0


def _situations(directory: Path) -> dict[str, Callable[[], tuple[int, int]]]:
    good = [
        ("x-good", "pass", "major", "-"),
        ("x-warn", "warn", "major", "-"),
        ("x-na", "not-applicable", "major", "-"),
    ]
    bad = [*good, ("x-bad", "fail", "major", "-")]

    def both(lab: Lab, lines: list[tuple[str, str, str, str]], *args: str) -> tuple[int, int]:
        given = [*lab.judged, *args]
        return lab.preflight(*given, fakes=lines).returncode, lab.pytest(*given, fakes=lines).returncode

    def made(name: str, hosts: list[str], dead: dict[str, str] | None = None) -> Lab:
        (directory / name).mkdir()
        return Lab(directory / name, hosts, dead)

    def absent() -> tuple[int, int]:
        lab = made("absent", ["gpu-01"])
        lab.inventory.unlink()
        return both(lab, good)

    def wrong() -> tuple[int, int]:
        lab = made("wrong", ["gpu-01"])
        lab.inventory.write_text("[h200]\ngpu-01 ansible_port=x\n[all:vars]\nplan=plan.yaml\n")
        return both(lab, good)

    def stranger() -> tuple[int, int]:
        lab = made("stranger", ["gpu-01"])
        lab.inventory.write_text("[h200]\ngpu-77\n[all:vars]\nplan=plan.yaml\n")
        return both(lab, good)

    def edited() -> tuple[int, int]:
        lab = made("edited", ["gpu-01"])
        plan = lab.directory / "plan.yaml"
        plan.write_text(plan.read_text().replace("gpus_per_node: 8", "gpus_per_node: 4"))
        return both(lab, good)

    def nothing() -> tuple[int, int]:
        lab = made("nothing", ["gpu-01"])
        status = lab.preflight(*lab.judged, "--only", "x-good", "--skip", "x-good", fakes=good).returncode
        return status, lab.pytest(*lab.judged, "-k", "no-such-check", fakes=good).returncode

    def no_inventory() -> tuple[int, int]:
        lab = made("no-inventory", ["gpu-01"])
        return lab.preflight(fakes=good).returncode, lab.pytest(fakes=good).returncode

    def waived(check: str = "x-bad", until: str = "2999-01-01") -> tuple[int, int]:
        lab = made("waived", ["gpu-01"])
        file = lab.directory / "waivers.yaml"
        file.write_text(
            f"waivers:\n- {{check: {check}, subjects: [gpu-01], owner: jane, reason: x, expires: {until}}}\n"
        )
        return both(lab, bad, "--waivers", str(file))

    return {
        "a finding that is waived": waived,
        "a finding whose waiver expired": lambda: waived(until="2020-01-01"),
        "a waiver of an unknown check": lambda: waived("x-bda"),
        "every verdict pass, warn or not-applicable": lambda: both(made("good", ["gpu-01", "gpu-02"]), good),
        "a finding on any host": lambda: both(made("bad", ["gpu-01", "gpu-02"]), bad),
        "one of two hosts unreachable": lambda: both(made("one", ["gpu-01"], {"gpu-02": "refused"}), good),
        "every host unreachable": lambda: both(made("all", [], {"gpu-01": "refused", "gpu-02": "cut"}), good),
        "no check selected": nothing,
        "inventory does not exist": absent,
        "inventory is wrong": wrong,
        "host is not in the plan": stranger,
        "plan is edited by hand": edited,
        "no inventory given": no_inventory,
    }


@pytest.mark.parametrize("row", RUNS_TABLE, ids=[row[0] for row in RUNS_TABLE])
def test_a_run(row: list[str], tmp_path: Path) -> None:
    assert _situations(tmp_path)[row[0]]() == (int(row[1]), int(row[2]))
