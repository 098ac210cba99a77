"""``pytest checks --hosts hosts.ini`` behaves as somebody who knows pytest expects."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checks.conftest import asked_tier
from rackwright.verdict import Results
from tests.golden import REPOSITORY
from tests.preflight.lab import Lab, outcomes
from tests.preflight.servers import Farm, needs_sshd

FAKES = [
    ("os-one", "pass", "major", "-"),
    ("os-two", "fail", "major", "-"),
    ("gpu-err", "not measured", "major", "-"),
    ("gpu-meh", "fail", "warn", "-"),
    ("gpu-na", "not-applicable", "major", "-"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"), ["gpu-01", "gpu-02"], {"gpu-03": "connection refused at x:22"})


def test_the_whole_picture(lab: Lab, tmp_path: Path) -> None:
    junit, out = tmp_path / "j.xml", tmp_path / "out"
    done = lab.pytest(*lab.judged, "-q", f"--junitxml={junit}", f"--results={out}", fakes=FAKES)
    got = outcomes(junit)
    assert {k.removeprefix("gpu-01-"): v for k, v in got.items() if k.startswith("gpu-01-")} == {
        "net-reachable": "passed",
        "os-one": "passed",
        "os-two": "failed",
        "gpu-err": "error",
        "gpu-meh": "passed",
        "gpu-na": "skipped",
    }
    assert "Traceback" not in done.stdout and "conftest.py:" not in done.stdout.replace("SKIPPED", "")
    failure = done.stdout.partition("test_check[gpu-01-os-two]")[2]
    assert "os-two on gpu-01: expected five, found four" in failure
    assert "remedy   mend it" in failure and "why      because" in failure
    assert "WARN gpu-meh on gpu-01" in done.stdout
    results = Results.from_json((out / "results.json").read_text())
    assert len(results.results) == 2 * 6 + 1
    assert results.unreachable.keys() == {"gpu-03"} and results.not_measured == {"gpu-03": 5}


def test_a_dead_host_is_one_error_and_the_rest_is_skipped(lab: Lab, tmp_path: Path) -> None:
    junit = tmp_path / "j.xml"
    done = lab.pytest(*lab.judged, "-q", f"--junitxml={junit}", "-k", "gpu-03", fakes=FAKES)
    assert sorted(outcomes(junit).values()) == ["error", *["skipped"] * 5]
    assert outcomes(junit)["gpu-03-net-reachable"] == "error"
    assert "gpu-03 not reached: connection refused at x:22; next: look" in done.stdout
    assert "not measured: host unreachable, see test_check[gpu-03-net-reachable]" in done.stdout


def test_the_first_selected_item_of_a_dead_host_errs(lab: Lab, tmp_path: Path) -> None:
    junit = tmp_path / "j.xml"
    lab.pytest(*lab.judged, f"--junitxml={junit}", "-k", "gpu-03 and os", fakes=FAKES)
    assert outcomes(junit) == {"gpu-03-os-one": "error", "gpu-03-os-two": "skipped"}


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (["-k", "two"], ["gpu-01-os-two", "gpu-02-os-two"]),
        (["-m", "gpu and tier0", "-k", "gpu-02 and err"], ["gpu-02-gpu-err"]),
        (["-m", "tier1"], []),
        (["-k", "one and not gpu-01"], ["gpu-02-os-one"]),
    ],
)
def test_selection(lab: Lab, arguments: list[str], ids: list[str]) -> None:
    done = lab.pytest(*lab.judged, "--collect-only", "-q", *arguments, fakes=FAKES)
    found = re.findall(r"::test_check\[(.*)\]", done.stdout)
    assert [f for f in found if not f.startswith("gpu-03")] == ids
    assert done.returncode == (0 if ids else 5)


@pytest.mark.parametrize(
    ("given", "marks", "tier"),
    [(None, "", 0), (None, "tier1", 1), (None, "tier1 or tier2", 2), (None, "gpu and tier2", 2),
     (0, "tier2", 0), (2, "", 2), (None, "not_tier3x", 0)],
)  # fmt: skip
def test_marks_ask_for_their_tier(given: int | None, marks: str, tier: int) -> None:
    assert asked_tier(given, marks) == tier


def test_node_ids_of_real_checks(lab: Lab) -> None:
    done = lab.pytest("--hosts", str(lab.inventory), "--collect-only", "-q")
    lines = done.stdout.splitlines()
    assert "checks/test_preflight.py::test_check[gpu-01-os-thp]" in lines
    assert any(line.startswith("checks/test_preflight.py::test_check[pool-h200-") for line in lines)
    assert any(line.startswith("checks/test_preflight.py::test_check[rack-r01-") for line in lines)


def test_one_item_by_its_node_id(lab: Lab) -> None:
    done = lab.pytest(*lab.judged, "-q", suite="checks/test_preflight.py::test_check[gpu-01-os-thp]")
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


def test_the_first_failure_ends_the_run_with_x(lab: Lab) -> None:
    done = lab.pytest(*lab.judged, "-q", "-x", "-k", "gpu-01 or gpu-02", fakes=FAKES)
    assert done.returncode == 1 and "stopping after 1 failures" in done.stdout


def test_last_failed(lab: Lab, tmp_path: Path) -> None:
    cache = ["-o", f"cache_dir={tmp_path}/cache", "-p", "cacheprovider", "-k", "gpu-01 and os"]
    lab.pytest(*lab.judged, *cache, fakes=FAKES)
    again = lab.pytest(*lab.judged, *cache, "--lf", "-q", fakes=FAKES)
    assert "1 failed" in again.stdout and "passed" not in again.stdout


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "two workers"])
def test_last_failed_after_a_dead_host_is_all_of_it(tmp_path: Path, workers: list[str]) -> None:
    lab = Lab(tmp_path, ["gpu-01"], {"gpu-02": "refused"})
    cache = ["-o", f"cache_dir={tmp_path}/cache", "-p", "cacheprovider", *workers]
    good = [("os-one", "pass", "major", "-"), ("os-two", "pass", "major", "-")]
    lab.pytest(*lab.judged, *cache, fakes=good)
    still, back = tmp_path / "still.xml", tmp_path / "back.xml"
    lab.pytest(*lab.judged, *cache, "--lf", f"--junitxml={still}", fakes=good)
    mine = {"gpu-02-net-reachable", "gpu-02-os-one", "gpu-02-os-two"}
    assert set(outcomes(still)) == mine and sorted(outcomes(still).values()) == [
        "error",
        "skipped",
        "skipped",
    ]
    lab.capture("gpu-02")
    done = lab.pytest(*lab.judged, *cache, "--lf", f"--junitxml={back}", fakes=good)
    assert outcomes(back) == dict.fromkeys(mine, "passed") and done.returncode == 0


def test_a_waived_finding_is_an_expected_failure(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "waivers.yaml"
    file.write_text(
        "waivers:\n- {check: os-two, subjects: [gpu-01], owner: jane, reason: a while, expires: 2999-01-01}\n"
    )
    done = lab.pytest(
        *lab.judged, "-q", "-rx", "-k", "os-two and not gpu-03", "--waivers", str(file), fakes=FAKES
    )
    assert "1 failed, " in done.stdout and "1 xfailed" in done.stdout and done.returncode == 1
    assert "waived by jane until 2999-01-01: a while" in done.stdout


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ("gpu-01,gpu-02", "'gpu-01,gpu-02' is a list of hosts"),
        ("no-such.ini", "'no-such.ini' does not exist"),
        ("checks", "'checks' is a directory"),
    ],
)
def test_what_is_no_inventory_is_a_usage_error(lab: Lab, hosts: str, words: str) -> None:
    done = lab.pytest("--hosts", hosts)
    assert done.returncode == 4
    assert words in done.stderr and "--hosts ssh://gpu-01,ssh://gpu-02" in done.stderr


def test_no_inventory_is_a_usage_error(lab: Lab) -> None:
    done = lab.pytest()
    assert done.returncode == 4
    assert "rackwright inventory plan.yaml -o hosts.ini" in done.stderr


def test_every_mistake_of_an_inventory_is_told(lab: Lab, tmp_path: Path) -> None:
    bad = tmp_path / "bad.ini"
    bad.write_text("[h200]\ngpu-01 ansible_port=x\ngpu-02 y\n")
    done = lab.pytest("--hosts", str(bad))
    assert done.returncode == 4
    assert "bad.ini:2" in done.stderr and "bad.ini:3" in done.stderr and "must name the plan" in done.stderr


@pytest.fixture
def own_test(tmp_path: Path) -> Path:
    """A user's own test. It stands outside checks/ here, so that no other run meets it."""
    path = tmp_path / "test_own.py"
    path.write_text(
        "def test_root(host):\n"
        "    assert host.file('/').is_directory\n"
        "    assert host.run('exit 3').rc == 3\n"
    )
    return path


def test_values_of_testinfra_are_left_to_testinfra(lab: Lab, own_test: Path) -> None:
    done = lab.pytest("--hosts", "local://", "-v", str(own_test), suite="checks")
    assert "::test_root[local] PASSED" in done.stdout, done.stdout
    assert "test_preflight" not in done.stdout


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    farm = Farm(tmp_path_factory.mktemp("farm"))
    yield farm
    farm.stop()


@pytest.fixture(scope="module")
def real(farm: Farm, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Two real servers that log each login, and one that is not there."""
    lab = Lab(tmp_path_factory.mktemp("real"), ["gpu-01", "gpu-02"], {"gpu-03": "x"})
    lines = ["[h200]"]
    for name in ("gpu-01", "gpu-02"):
        host = farm.start(
            name, force=f'echo x >>{farm.directory}/{name}.logins\nexec sh -c "$SSH_ORIGINAL_COMMAND"'
        )
        lines.append(f"{name} ansible_host=127.0.0.1 ansible_port={host.port}")
    lines += ["gpu-03 ansible_host=127.0.0.1 ansible_port=9", "[all:vars]", "plan=plan.yaml"]
    lines += ["ansible_user=root", f"ansible_ssh_private_key_file={farm.key}"]
    lines += [f"ansible_ssh_common_args='-o UserKnownHostsFile={farm.known_hosts}'", ""]
    lab.inventory.write_text("\n".join(lines))
    return lab


def logins(farm: Farm) -> list[int]:
    files = [farm.directory / f"{n}.logins" for n in ("gpu-01", "gpu-02")]
    counts = [len(f.read_text().splitlines()) if f.exists() else 0 for f in files]
    for file in files:
        file.unlink(missing_ok=True)
    return counts


@pytest.mark.rack
@needs_sshd
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "two workers"])
def test_each_host_is_collected_once(farm: Farm, real: Lab, workers: list[str], tmp_path: Path) -> None:
    logins(farm)
    done = real.pytest(
        "--hosts", str(real.inventory), *workers, "-q", f"--results={tmp_path}", "-k", "os-thp or reach"
    )
    assert logins(farm) == [1, 1], done.stdout
    results = json.loads((tmp_path / "results.json").read_text())
    assert sorted((r["subject"], r["check"], r["status"]) for r in results["results"]) == [
        ("gpu-01", "net-reachable", "pass"),
        ("gpu-01", "os-thp", "pass"),
        ("gpu-02", "net-reachable", "pass"),
        ("gpu-02", "os-thp", "pass"),
        ("gpu-03", "net-reachable", "error"),
    ]
    assert results["hosts"] == ["gpu-01", "gpu-02", "gpu-03"] and results["not_measured"] == {"gpu-03": 1}
    assert done.returncode == 1


@pytest.mark.rack
@needs_sshd
def test_only_selected_hosts_are_contacted_and_none_by_collect_only(farm: Farm, real: Lab) -> None:
    logins(farm)
    real.pytest("--hosts", str(real.inventory), "--collect-only", "-q")
    assert logins(farm) == [0, 0]
    done = real.pytest("--hosts", str(real.inventory), "-q", "-k", "gpu-02-os-thp")
    assert logins(farm) == [0, 1] and done.returncode == 0


@pytest.mark.rack
@needs_sshd
def test_own_tests_run_over_the_same_connections(real: Lab, own_test: Path) -> None:
    done = real.pytest("--hosts", str(real.inventory), "-v", "-p", "checks.conftest", suite=str(own_test))
    assert re.search(r"test_root\[gpu-01\] PASSED", done.stdout), done.stdout
    assert re.search(r"test_root\[gpu-02\] PASSED", done.stdout)
    assert "gpu-03 not reached: connection refused" in done.stdout
    assert done.returncode == 1


OWN = '''
import pytest

def test_root_is_there(host):
    """The root directory is there."""
    assert host.file("/").is_directory

def test_nothing_runs(host):
    assert host.run("echo 3 --api-token hunter2-hunter2; exit 3").stdout == "0"

@pytest.mark.severity("warn")
def test_who(host):
    assert host.check_output("echo jane") == ""

def test_elsewhere():
    pytest.skip("no proxy here")
'''


@pytest.mark.rack
@needs_sshd
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "two workers"])
def test_own_tests_land_in_the_same_report(real: Lab, workers: list[str], tmp_path: Path) -> None:
    """A file that is dropped into checks/local/, of a copy: no other run meets it there."""
    for name in ("checks", "remote"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    own = tmp_path / "checks" / "local" / "test_own.py"
    own.write_text(OWN)
    argv = ["checks", "--hosts", str(real.inventory), *workers, "-q", f"--results={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *argv, "-k", "os-thp or reach or own"],
        cwd=tmp_path, env={**real.environment(), "PYTHONPATH": f"{tmp_path}:{REPOSITORY / 'src'}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    text = (tmp_path / "results.json").read_text()
    results = json.loads(text)
    name = f"local-{own.stem.removeprefix('test_').replace('_', '-')}"
    found = {(r["check"].removeprefix(name), r["subject"]): r for r in results["results"]}
    assert {key: r["status"] for key, r in found.items() if key[0].startswith("-")} == {
        ("-root-is-there", "gpu-01"): "pass", ("-root-is-there", "gpu-02"): "pass",
        ("-root-is-there", "gpu-03"): "error", ("-nothing-runs", "gpu-01"): "fail",
        ("-nothing-runs", "gpu-02"): "fail", ("-nothing-runs", "gpu-03"): "error",
        ("-who", "gpu-01"): "warn", ("-who", "gpu-02"): "warn", ("-who", "gpu-03"): "error",
        ("-elsewhere", "local"): "not-applicable",
    }  # fmt: skip
    assert found["os-thp", "gpu-01"]["status"] == "pass"
    assert found["-root-is-there", "gpu-01"]["title"] == "The root directory is there."
    assert found["-who", "gpu-01"]["severity"] == "warn"
    assert "not reached: connection refused" in found["-root-is-there", "gpu-03"]["message"]
    failure = found["-nothing-runs", "gpu-02"]
    assert "assert" in failure["message"] and "== '0'" in failure["evidence"][0]["excerpt"]
    page = (tmp_path / "report.html").read_text()
    assert f"{name}-nothing-runs" in page and "The root directory is there." in page
    assert "hunter2-hunter2" not in text + page
